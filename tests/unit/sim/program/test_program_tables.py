"""Tables that chains fill: what is shared, and what is full."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from diastole_sim.program.chain import Chain, Port, lines
from diastole_sim.program.memory_plan import BoundStream
from diastole_sim.program.program_tables import FullTableError, ProgramTables
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.micro import Instruction
from diastole_sim.spec.stream_table import Descriptor, Kind
from support.texts import exactly

CHAIN = Chain(
    name="scaled",
    text=lines("r0 = mul s0 K[a]", "r0 = mul r0 K[b]", "mul r0 K[c] -> o1"),
    inputs={"x": Port(number=0, kinds=(Kind.F32, Kind.GATHERED_F32), meaning="")},
    outputs={"y": Port(number=1, kinds=(Kind.F32,), meaning="")},
    constants={"a": 0.1, "b": None, "c": None},
)


def stream(address, kind=Kind.F32):
    return BoundStream(name="x", descriptor=Descriptor(kind=kind, address=address, pitch=64))


def place(tables, x=0, y=64, b=2.0, **others):
    found = {"values": {"b": b}, "numbers": {"c": 200}} | others
    return tables.place(CHAIN, {"x": stream(x)}, {"y": stream(y)}, **found)


def test_constants_are_kept_once():
    tables = ProgramTables(4)
    place(tables)
    values = np.frombuffer(tables.contents(VectorTable.CONSTANTS), "<f4")
    assert values.tolist() == [np.float32(0.1), 2.0]
    assert [each.k for each in tables.instructions] == [0, 1, 200]
    assert tables.constant(0.1) == 0
    assert tables.constant(-0.0) == 2
    assert tables.constant(0.0) == 3
    for value in range(10, 134):
        tables.constant(value)


def test_programs_are_kept_once():
    tables = ProgramTables(4)
    first, again, other = place(tables), place(tables, x=128), place(tables, b=3.0)
    assert (first.first, again.first, other.first) == (0, 0, 3)
    assert first.length == 3
    assert len(tables.instructions) == 6
    words = np.frombuffer(tables.contents(VectorTable.INSTRUCTIONS), "<u8").tolist()
    assert [Instruction.decode(word) for word in words] == tables.instructions
    for number in range(83):
        place(tables, numbers={"c": 128 + number % 64}, b=2.0 + number // 64)
    assert len(tables.instructions) == 255
    with pytest.raises(FullTableError, match=exactly("the chains need more than 256 instructions")):
        place(tables, numbers={"c": 199})


def test_slots_are_shared_and_filled():
    tables = ProgramTables(4)
    assert place(tables).streams == 0
    assert place(tables).streams == 0
    other = place(tables, x=128)
    assert other.streams == 1
    assert place(tables, x=128, y=192).streams == 2
    slots = tables.descriptors()
    for found, x, y in ((0, 0, 64), (1, 128, 64), (2, 128, 192)):
        assert slots[found] == stream(x).descriptor
        assert slots[found + 5] == stream(y).descriptor
    data = tables.contents(VectorTable.DESCRIPTORS)
    pieces = [Descriptor.decode(data[at : at + 16]) for at in range(0, len(data), 16)]
    assert pieces == slots
    full = exactly("the chains need more than 128 slots of streams")
    for number in range(1, 55):
        place(tables, x=1024 * number, y=1024 * number + 64)
    with pytest.raises(FullTableError, match=full):
        list(map(partial(place, tables), range(1 << 20, (1 << 20) + 64 * 64, 64)))
    assert len(tables.descriptors()) <= 128


def test_lists_of_rows():
    tables = ProgramTables(4)
    listed = BoundStream(name="rows", descriptor=Descriptor(kind=Kind.LABELS, address=512))
    gathered = stream(0, Kind.GATHERED_F32)
    found = tables.place(
        CHAIN,
        {"x": gathered},
        {"y": stream(64)},
        values={"b": 2.0},
        numbers={"c": 200},
        row_list=listed,
    )
    slots = tables.descriptors()
    used = slots[found.streams]
    assert used == replace(gathered.descriptor, aux=used.aux)
    assert slots[used.aux] == listed.descriptor


@pytest.mark.parametrize("kept", [True, False])
def test_later_tables_share_constants(kept):
    first = ProgramTables(4)
    place(first)
    later = ProgramTables(4, first, kept=kept)
    found = place(later, x=128, b=5.0)
    assert found.streams == 0
    assert found.first == (3 if kept else 0)
    assert (later.instructions is first.instructions) == kept
    for tables in (first, later):
        values = np.frombuffer(tables.contents(VectorTable.CONSTANTS), "<f4")
        assert values.tolist() == [np.float32(0.1), 2.0, 5.0]
    assert first.descriptors()[0] != later.descriptors()[0]
