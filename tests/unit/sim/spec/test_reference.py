"""Tables of commands and registers as Markdown: every name, and of a machine what it has."""

import pytest

from diastole_sim.spec.command_errors import VECTOR_ERRORS
from diastole_sim.spec.command_table import VECTOR_OPCODES, machine_fields, opcodes_of
from diastole_sim.spec.reference import (
    MachineSet,
    command_tables,
    error_table,
    reference,
    register_table,
    table,
)
from diastole_sim.spec.registers import BY_NAME, REGISTERS, VERSION, registers_of

ONE = MachineSet(planes=False, vector=False, choices=False, config_hash=0xABCD)


def test_reference_has_every_name():
    text = reference()
    for register in REGISTERS:
        assert f"| 0x{register.offset:02X} | {register.bits} | {register.name.upper()} |" in text
    assert "| 4, 5 | 39:0 | address_x |" in text
    assert "| 14, 15 | 39:0 | address_dy_m |" in text
    assert "| 14 | 31:0 | tag |" in text
    assert "| 0 | 31:24 | scale |" in text
    assert "| 0 | 22:22 | ahead |" in text
    assert "| 9 | TOO_LONG | the contraction is longer than the accumulators allow |" in text
    assert "| 2 | forward |" in text


def rows(lines):
    return [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]


def test_commands_of_a_machine_without_what_it_lacks():
    lines = command_tables(ONE)
    text = "\n".join(lines)
    assert [row[1] for row in rows(lines)[2:7]] == [
        op.name.lower() for op in opcodes_of(vector=False)
    ]
    named = {row[2] for row in rows(lines) if len(row) == 5}
    kept = {field.name for field in machine_fields(vector=False, choices=False)}
    assert named - {"field", "---"} == {name for name in kept if not name.startswith("width")}
    assert not any(opcode.name.lower() in text for opcode in VECTOR_OPCODES[:3])
    assert "| 0 | 7:0 | opcode | operation | all |" in lines


def test_errors_of_a_machine():
    lines = error_table(ONE)
    assert lines[1] == "1, 2, 3, 10, 12, 4, 11, 9, 5, 16."
    assert not {row[1] for row in rows(lines)} & {code.name for code in VECTOR_ERRORS}
    assert error_table(MachineSet())[1].endswith("16, 17, 13.")


@pytest.mark.parametrize("planes", [False, True])
@pytest.mark.parametrize("vector", [False, True])
def test_registers_of_a_machine_with_their_reset_values(planes, vector):
    machines = MachineSet(planes=planes, vector=vector, config_hash=0xABCD)
    lines = register_table(machines)
    listed = {row[2]: row for row in rows(lines) if row[0].startswith("0x")}
    assert list(listed) == [r.name.upper() for r in registers_of(planes=planes, vector=vector)]
    assert listed["CONFIG_HASH"][3:5] == ["constant", "0xABCD"]
    assert listed["VERSION"][4] == f"0x{VERSION:X}"
    assert listed["MAGIC"][4] == "0x53414944"
    assert listed["SEED"] == ["0x28", "32", "SEED", "setting", "0x0", BY_NAME["seed"].meaning]
    assert lines[0] == "| offset | bits | name | access | reset | meaning |"


def test_bars_in_cells_are_no_borders():
    assert table("a", rows=[("|x|",)]) == ["| a |", "| --- |", "| \\|x\\| |"]
    assert "\\|k4 - 4 k2\\|" in "\n".join(register_table(MachineSet()))
