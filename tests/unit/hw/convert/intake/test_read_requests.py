# amaranth: UnusedElaboratable=no
"""Requests for the rows of tiles, against loops over rows and columns."""

import pytest

from diastole_hw.convert.intake.read_requests import ReadRequests
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from support.bench import design
from support.sweep import alternating
from support.tiles import MACHINES, machine, piece_cols, tile_items
from support.unit_bench import Unit

ASKED = ("address", "rows", "cols")
SHAPES = [(1, 1), (3, 5), (17, 70), (40, 9), (1, 257), (130, 3)]
NAMES = list(MACHINES)


def requested(item):
    """Of what describes a tile, that with which its data are asked for."""
    return {name: item[name] for name in ASKED}


def requests_of(item, pitch, beat, piece):
    """The beats that have a float of each row of each piece: the first, and how many."""
    for left in range(0, item["cols"], piece):
        for row in range(item["rows"]):
            first = item["address"] + row * pitch
            cols = range(left, min(left + piece, item["cols"]))
            beats = sorted({(first + 4 * col) // beat for col in cols})
            assert beats == list(range(beats[0], beats[-1] + 1))
            yield beats[0] * beat, len(beats)


@pytest.mark.parametrize(
    "name, p_tile, p_ready", alternating(NAMES, {"free": (1.0, 1.0), "stalled": (0.5, 0.4)})
)
def test_requests(name, p_tile, p_ready, rng):
    numerics, data_width = machine(name)
    beat = data_width // 8
    unit = Unit(design(ReadRequests, ConverterSizes(numerics=numerics, data_width=data_width)), rng)
    tiles, taken = unit.give(unit.dut.i, pace=p_tile), unit.take(unit.dut.o, pace=p_ready)

    async def script(ctx):
        for number, shape in enumerate(SHAPES):
            cls, source = number % 3, rng.randrange(2**20) * beat
            items, pitch = tile_items(numerics, data_width, cls, shape, source)
            piece = piece_cols(numerics, data_width, cls)
            unit.set(ctx, pitch=pitch, cls=cls)
            tiles.add(map(requested, items))
            for item in items:
                requests = requests_of(item, pitch, beat, piece)
                taken.add({"addr": addr, "beats": beats} for addr, beats in requests)
            await unit.settled(ctx)

    unit.run(script)


def test_timing_of_requests():
    """In the cycle of the tile already, and one per cycle; the tile is taken with its last."""
    numerics, data_width = machine("squares")
    dut = design(ReadRequests, ConverterSizes(numerics=numerics, data_width=data_width))
    (item, *_), pitch = tile_items(numerics, data_width, 0, (3, 5), 64)
    unit = Unit(dut)
    unit.hold(pitch=pitch)
    tiles = unit.give(dut.i, [requested(item)] * 2, pace=lambda: unit.cycle > 0)
    requests = [*requests_of(item, pitch, data_width // 8, 16)] * 2
    taken = unit.take(dut.o, [{"addr": addr, "beats": beats} for addr, beats in requests])
    unit.run()
    assert taken.cycles == [1, 2, 3, 4, 5, 6]
    assert tiles.cycles == [3, 6]
