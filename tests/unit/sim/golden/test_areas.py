"""What commands write, by name."""

import numpy as np
import pytest

from diastole_sim.golden.areas import Area
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.limits import COUNTED_BITS, VectorTable
from diastole_sim.spec.micro import Instruction, MicroOp, Source
from diastole_sim.spec.stream_table import Descriptor, Kind
from support.golden_machines import Bench
from support.numerics import make_numerics

SIZES = {"m": 9, "n": 13, "k": 21}


def names(bench, command):
    return {area.name: area for area in bench.machine.written_areas(command)}


def test_conversions():
    bench = Bench(make_numerics(groupings="1x8"))
    command = Command.convert(
        "dy", rows=9, cols=13, source=0, destination=512, second=1024, tag=0, step=0, slot=3
    )
    sizes = bench.machine.images.sizes("dy", (9, 13), None)
    assert bench.machine.written_areas(command) == [
        Area(name="image dy, copy 0", first=512, length=sizes[0]),
        Area(name="image dy, copy 1", first=1024, length=sizes[1]),
        Area(name="amax", first=3, length=1, table=VectorTable.AMAX),
    ]


@pytest.mark.parametrize("wide", [0, 1])
def test_conversions_by_slots(wide):
    """As many planes as the slot says for its next."""
    bench = Bench(make_numerics(formats="fast"))
    bench.machine.tables.widths[3] = wide << 1
    (size,) = bench.machine.images.sizes("x", (9, 13), 2 + 2 * wide)
    slot = [
        Area(name="amax", first=3, length=1, table=VectorTable.AMAX),
        Area(name="widths", first=3, length=1, table=VectorTable.WIDTHS),
    ]
    command = Command.convert(
        "x", rows=9, cols=13, source=0, destination=512, tag=0, step=0, slot=3, by_slot=True
    )
    image = Area(name="image x", first=512, length=size)
    assert bench.machine.written_areas(command) == [image, *slot]
    streams = {4: Descriptor(kind=Kind.IMAGE, address=512, aux=4, by_slot=1)}
    place = bench.load(moves((0,)), streams=streams)
    assert bench.machine.written_areas(Command.chain(place, m=9, n=13)) == [image, *slot]
    (widest,) = bench.machine.images.sizes("x", (9, 13), None)
    streams = {4: Descriptor(kind=Kind.IMAGE, address=512, aux=4, decides=1)}
    place = bench.load(moves((0,)), streams=streams)
    image = Area(name="image x", first=512, length=widest)
    assert bench.machine.written_areas(Command.chain(place, m=9, n=13)) == [image, *slot]


def test_products():
    bench = Bench(make_numerics())
    places = {"address_x": 0, "address_w": 0, "address_dy": 0, "out_b": 512, "out_a": 4096}
    found = bench.machine.written_areas(Command.product(Opcode.BACKWARD, **SIZES, **places))
    assert found == [
        Area(name="dX", first=512, length=84, count=9, pitch=88),
        Area(name="dW", first=4096, length=52, count=21, pitch=56),
    ]


def moves(outputs):
    return tuple(Instruction(op=MicroOp.MOV, a=Source.ONE, o=number) for number in outputs)


def test_chains():
    bench = Bench(make_numerics(block=8))
    bench.machine.step = 2
    streams = {
        4: Descriptor(kind=Kind.BF16, address=64, pitch=40, per_step=1, offset=8),
        5: Descriptor(kind=Kind.MASK, address=512, pitch=24),
        6: Descriptor(kind=Kind.ROW, address=1024),
        7: Descriptor(kind=Kind.CONSTANT, address=200),
    }
    place = bench.load(moves(range(4)), streams=streams)
    assert bench.machine.written_areas(Command.chain(place, m=9, n=13)) == [
        Area(name="output 0, bf16", first=80, length=26, count=9, pitch=40),
        Area(name="output 1, mask", first=512, length=16, count=2, pitch=24),
        Area(name="output 2, row", first=1024, length=36),
        Area(name="output 3, constant", first=200, length=1, table=VectorTable.CONSTANTS),
    ]


def test_images_panels_and_columns():
    bench = Bench(make_numerics(block=8))
    streams = {
        4: Descriptor(kind=Kind.IMAGE, tensor_class=1, address=64, aux=9),
        5: Descriptor(kind=Kind.PANEL, address=5, pitch=3),
    }
    place = bench.load(moves((0, 1)), streams=streams)
    (size,) = bench.machine.images.sizes("w", (9, 13), None)
    assert bench.machine.written_areas(Command.chain(place, m=9, n=13)) == [
        Area(name="image w", first=64, length=size),
        Area(name="amax", first=8, length=1, table=VectorTable.AMAX),
        Area(name="output 1, panel", first=5, length=8 * 5, table=VectorTable.PANEL),
    ]
    column = {4: Descriptor(kind=Kind.COLUMN, address=64)}
    place = bench.load(moves((0,)), streams=column)
    assert bench.machine.written_areas(Command.chain(place, m=9, n=13, columns=True)) == [
        Area(name="output 0, column", first=64, length=52)
    ]


def test_transfers():
    bench = Bench(make_numerics(block=4))
    bench.machine.step = 3
    load = Command.load(VectorTable.DESCRIPTORS, address=0, first=5, count=7)
    assert bench.machine.written_areas(load) == [
        Area(name="descriptors", first=5, length=7, table=VectorTable.DESCRIPTORS)
    ]
    store = Command.store(VectorTable.PANEL, address=64, first=5, count=7, advance=8)
    assert bench.machine.written_areas(store) == [
        Area(name="stored panel", first=88, length=16 * 7)
    ]
    assert not bench.machine.written_areas(Command.next(0))


@pytest.mark.parametrize("which", VectorTable)
def test_contents(which, np_rng):
    bench = Bench(make_numerics(block=4))
    tables = bench.machine.tables
    data = np_rng.integers(0, 256, size=3 * tables.entry_bytes(which), dtype=np.uint8)
    tables.load(which, 4, data)
    if which in COUNTED_BITS:
        most = (1 << COUNTED_BITS[which]) - 1
        data = (data.view("<u4") & most).view(np.uint8)
    area = Area(name="", first=4, length=3, table=which)
    assert np.array_equal(bench.machine.contents(area), data)


def test_contents_of_memory():
    bench = Bench(make_numerics())
    bench.machine.memory.write(64, np.arange(64, dtype=np.uint8))
    area = Area(name="", first=65, length=2, count=3, pitch=16)
    assert bench.machine.contents(area).tolist() == [1, 2, 17, 18, 33, 34]
