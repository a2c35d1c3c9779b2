"""Tables of the vector unit as Markdown have every field, operation and kind."""

import re
from dataclasses import replace

from diastole_sim.spec.limits import Limits, VectorLimits
from diastole_sim.spec.micro import FIELDS, Instruction, MicroOp, Source
from diastole_sim.spec.program_reference import RESULTS, program_lines
from diastole_sim.spec.stream_table import CHOICE_FIELDS, Descriptor, Kind
from diastole_sim.spec.stream_table import FIELDS as STREAM_FIELDS

LIMITS = Limits(block=4, headroom=14, data_width=32, vector=VectorLimits(panel_vectors=64))
CHOOSING = Limits(
    block=4,
    headroom=14,
    data_width=32,
    planes=((1, 2), (1, 2), (1, 2)),
    vector=VectorLimits(panel_vectors=64),
)


def rows(limits, head):
    text = "\n".join(program_lines(limits))
    (found,) = re.findall(rf"^\| {head} .*\n\|.*\n((?:\|.*\n?)+)", text, re.MULTILINE)
    return [line.strip("| ").split(" | ") for line in found.splitlines()]


def test_an_instruction_taken_apart_by_the_table():
    word = Instruction(op=MicroOp.SEL, a=3, b=17, c=20, d=5, o=2, fresh=1, when=2, k=77).encode()
    found = {}
    for bits, name, _ in rows(LIMITS, r"bits \| field \|"):
        high, low = map(int, bits.split(":"))
        found[name] = word >> low & (1 << high - low + 1) - 1
    assert list(found) == [field.name for field in FIELDS]
    kept = {name: value for name, value in found.items() if value}
    assert kept == {
        "op": 8,
        "a": 3,
        "b": 17,
        "c": 20,
        "d": 5,
        "o": 2,
        "fresh": 1,
        "when": 2,
        "k": 77,
    }


def test_a_stream_taken_apart_by_the_table():
    encoded = Descriptor(kind=Kind.IMAGE, address=0x1_0000_0040, aux=9, pitch=5, offset=6).encode()
    found = {}
    for bits, name, _ in rows(LIMITS, r"bits \| field of a stream"):
        high, low = map(int, bits.split(":"))
        found[name] = int.from_bytes(encoded, "little") >> low & (1 << high - low + 1) - 1
    assert found["address"] == 0x1_0000_0040
    assert [found[name] for name in ("kind", "aux", "pitch", "offset")] == [12, 9, 5, 6]
    assert list(found) == [f.name for f in STREAM_FIELDS if f.name not in CHOICE_FIELDS]


def test_operations_sources_and_kinds():
    operations = rows(LIMITS, "op")
    assert [(int(row[0]), row[1]) for row in operations] == [
        (op, op.name.lower()) for op in MicroOp
    ]
    assert set(RESULTS) == set(MicroOp)
    assert [row[0] for row in rows(LIMITS, "operand")][1:] == [str(int(each)) for each in Source]
    kinds = rows(LIMITS, "kind")
    assert [int(row[0]) for row in kinds] == list(Kind)
    directions = {row[1]: (row[2], row[3]) for row in kinds}
    assert directions["panel"] == ("yes", "yes")
    assert directions["product"] == ("yes", "no")
    assert directions["image"] == ("no", "yes")
    assert not [row for row in kinds if row[4].startswith("in")]
    assert len(rows(LIMITS, "aux")) == 4


def test_tables_have_the_entries_of_the_machine():
    assert [row[:5] for row in rows(LIMITS, "which")] == [
        ["0", "instructions", "256", "2", "no"],
        ["1", "constants", "256", "1", "yes"],
        ["2", "amax", "255", "1", "yes"],
        ["3", "panel", "64", "4", "yes"],
        ["4", "descriptors", "128", "4", "no"],
    ]
    (slots,) = (row for row in rows(replace(LIMITS, slot_words=6), "which") if row[1] == "amax")
    assert slots[2:5] == ["1530", "1", "yes"]
    assert slots[5].startswith("6 words for each scale slot")
    assert slots[5].count("4 steps before") == 1
    assert [row[1] for row in rows(CHOOSING, "which")][5:] == ["eps", "widths"]
    names = [row[1] for row in rows(CHOOSING, r"bits \| field of a stream")]
    assert set(CHOICE_FIELDS) < set(names)
