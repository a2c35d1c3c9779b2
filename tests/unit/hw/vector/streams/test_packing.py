# amaranth: UnusedElaboratable=no
"""Runs of elements in beats."""

import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.wiring import In, Out

from diastole_hw.vector.stream_layouts import stream_layout, visited_layout
from diastole_hw.vector.streams.packing import (
    Packing,
    lowest,
    most_beats,
    one_of,
    segments_layout,
    segments_of,
    shares_beats,
)
from diastole_sim.spec.stream_table import IN_MEMORY, Kind
from support.bench import simulation
from support.pipelines import Built, check_pipeline
from support.vector_streams import vector_shape


@pytest.mark.parametrize("data_width", [32, 64, 128, 256, 512])
@pytest.mark.parametrize("side", [1, 2, 4, 8, 16, 32])
@pytest.mark.sampled(2)
def test_runs_fill_beats(side, data_width):
    shape = vector_shape(side, data_width)
    kinds = [Packing.of_row(shape, bits) for bits in (32, 16, 8)] + [Packing.of_mask(shape)]
    for packing in kinds:
        assert packing.run == side
        run_bits = packing.run * packing.bits
        assert packing.parts == -(-run_bits // data_width)
        assert packing.per_beat * packing.parts == side
        assert 2**packing.place_bits == max(1, data_width // run_bits)
    assert most_beats(shape) == max(1, side * max(32, side) // data_width)


@pytest.mark.parametrize(
    "side, bits, data_width", [(8, 32, 128), (8, 8, 128), (1, 1, 64), (4, 4, 32)]
)
async def test_where_an_element_is(side, bits, data_width):
    packing = Packing(run=side, bits=bits, data_width=data_width)
    number, element, count = Signal(8), Signal(range(side)), Signal(range(side + 1))
    ctx = await simulation(Module())
    for n in range(40):
        ctx.set(number, n)
        start = n * side * bits  # bits before the run
        assert ctx.get(packing.offset(number)) == start // 8
        if packing.place_bits:
            place = start % data_width // (side * bits)
            assert ctx.get(packing.place(number)) == place
        for k in range(side):
            ctx.set(element, k)
            ctx.set(count, k + 1)
            beat = k * bits // data_width
            last = k == side - 1 or (k + 1) * bits // data_width != beat
            assert ctx.get(packing.last_of_beat(element)) == last
            assert ctx.get(Cat(packing.last_part(count), 0)) == beat


async def test_which_kinds_and_the_lowest_bit():
    kind, bits = Signal(4), Signal(4)
    ctx = await simulation(Module())
    for value in range(16):
        ctx.set(kind, value)
        ctx.set(bits, value)
        assert ctx.get(one_of(kind, IN_MEMORY)) == (value in IN_MEMORY)
        assert ctx.get(lowest(bits)[:4]) == value & -value


BITS = {Kind.F32: 32, Kind.GATHERED_F32: 32, Kind.BF16: 16, Kind.U8: 8, Kind.GATHERED_U8: 8}


@pytest.mark.parametrize("side, data_width", [(4, 64), (4, 256), (8, 32), (2, 512), (32, 128)])
def test_pieces_of_a_block(side, data_width, rng):
    """Its rows, or numbers, or bits; and whether the beats of the block before have them."""
    shape, beat = vector_shape(side, data_width), data_width // 8

    def build(m, unit):
        segments_of(m, shape, unit.stream, unit.block, unit.segments)
        m.d.comb += unit.shares.eq(shares_beats(shape, unit.stream.kind, unit.block))

    members = {"stream": In(stream_layout(shape)), "block": In(visited_layout(shape))}
    members |= {"segments": Out(segments_layout(shape)), "shares": Out(1)}
    cases = []
    for kind in [*BITS, Kind.MASK, Kind.COLUMN, Kind.ROW, Kind.LABELS] * 20:
        address, pitch = rng.getrandbits(30) * beat, rng.getrandbits(20)
        i, j = rng.randrange(9), rng.randrange(1, 9)
        rows, cols = rng.randrange(1, side + 1), rng.randrange(1, side + 1)
        width, run, count, first, pieces = {
            Kind.MASK: (side, j, rows, i, 1),
            Kind.COLUMN: (32, j, cols, 0, 1),
            Kind.ROW: (32, i, rows, 0, 1),
            Kind.LABELS: (32, i, rows, 0, 1),
        }.get(kind, (BITS.get(kind), j, cols, i * side, rows))
        before = run * side * width  # bits before the block's
        want = {
            "base": address + before // 8, "pitch": pitch, "count": first, "rows": pieces,
            "beats": -(-(before % data_width + count * width) // data_width),
        }  # fmt: skip
        per_row = kind in (Kind.ROW, Kind.LABELS)
        given = {
            "stream": {"kind": kind, "address": address, "pitch": pitch},
            "block": {"i": i, "j": j, "rows": rows, "cols": cols},
        }
        cases.append((given, {"segments": want, "shares": per_row or before % data_width != 0}))
    check_pipeline(Built(members, build), cases, latency=0)
