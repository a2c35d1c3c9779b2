"""Names for those who program in C: fields at the places that they name, codes by their meaning."""

import pytest

from diastole_sim.spec.limits import Limits
from diastole_sim.spec.micro import Instruction
from diastole_sim.spec.publish_programs import instruction_names

LIMITS = Limits.__new__(Limits)


def value_at(word, names, field):
    """A field of 64 bits, read as a C program does."""
    at = {name: names[f"INSTRUCTION_{field}_{name}"] for name in ("WORD", "LOW", "BITS")}
    return word >> 32 * at["WORD"] >> at["LOW"] & (1 << at["BITS"]) - 1


def test_an_instruction_is_read_by_its_names():
    names = {name: value for name, value, _ in instruction_names()}
    made = Instruction(
        op=names["MICRO_MAD"], a=3, b=names["FROM_S0"], c=names["FROM_ONE"], d=7,
        negate_b=1, turn_rows=3, when=names["WHEN_LAST"], k=200,
    )  # fmt: skip
    word = made.encode()
    fields = {"OP": made.op, "A": 3, "B": made.b, "C": made.c, "D": 7, "NEGATE_B": 1, "NEGATE_A": 0}
    fields |= {"TURN_ROWS": 3, "WHEN": made.when, "K": 200, "O": names["NO_OUTPUT"]}
    assert {field: value_at(word, names, field) for field in fields} == fields
    assert names["INSTRUCTION_BYTES"] == 8


@pytest.mark.parametrize("names", [instruction_names])
def test_names_are_different_and_identifiers(names):
    found = [name for name, _, _ in names()]
    assert len(found) == len(set(found))
    assert all(name.isidentifier() and name.isupper() for name in found)
