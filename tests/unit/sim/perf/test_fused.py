"""The fused backward pass, chunk by chunk, counted by hand."""

import pytest

from diastole_sim.perf.chunk_walk import NOTHING, LoadedRegion, Span, blocks, every_chunk
from diastole_sim.perf.fused import FusedWalk, fused_passes, transposed_spans
from diastole_sim.spec.sizes.uses import DY, W, X
from support.modelled import modelled

NANO = modelled(rows=2, cols=2, block=8, element_bits=(5, 5, 5), data_width=64)


def test_the_fused_pass():
    """20 x 9 x 20: 3, 2 and 3 blocks; k tiles of 2, slices of M of 2 cells."""
    chunks = list(every_chunk(FusedWalk(NANO, (20, 9, 20))))
    t0, t1, c0, c1, n = (0, 2), (2, 1), (0, 2), (2, 1), (0, 2)
    one = LoadedRegion(rows=0, maxima_beats=1)
    assert [chunk.regions for chunk in chunks] == [
        (
            *[one] * 4,
            blocks(NANO, W, t0, n),
            blocks(NANO, DY, c0, n),
            blocks(NANO, X, c0, t0),
        ),
        (blocks(NANO, DY, c1, n), blocks(NANO, X, c1, t0)),
        (one, NOTHING, one, NOTHING, blocks(NANO, W, t1, n), NOTHING, blocks(NANO, X, c0, t1)),
        (NOTHING, blocks(NANO, X, c1, t1)),
    ]
    assert [chunk.loads for chunk in chunks] == [(True, True)] * 2 + [(True, False)] * 2
    assert [chunk.frees for chunk in chunks] == [(True, False)] * 2 + [(True, True)] * 2
    assert [chunk.slots for chunk in chunks] == [16, 16, 4, 4]
    assert [chunk.opens for chunk in chunks] == [(True, True), (False, True)] * 2
    assert [chunk.closes for chunk in chunks] == [(False, True), (True, True)] * 2
    assert {(chunk.slices, chunk.groups, chunk.uses) for chunk in chunks} == {(1, 1, (True, True))}
    east = [chunk.spans[0] for chunk in chunks]
    ends = Span(16, 2, 5, start=0, pitch=5), Span(4, 2, 5, start=80, pitch=5)
    assert east == [(), ends[:1], (), ends[1:]]


def test_turned_rows_of_a_result():
    """Rows of a block, as long as a tile; the last ones are 4, and 4 columns."""
    full = [Span(8, 2, 8, columns=16, start=start, pitch=10) for start in (0, 80)]
    low = Span(4, 2, 8, columns=16, start=160, pitch=10)
    last = Span(4, 1, 2, columns=4, start=168, pitch=10)
    assert transposed_spans(NANO, 20, 20, (0, 2), (0, 2)) == tuple(full)
    assert transposed_spans(NANO, 20, 20, (2, 1), (0, 2)) == (low,)
    assert transposed_spans(NANO, 20, 20, (2, 1), (2, 1)) == (last,)


@pytest.mark.parametrize("cols, step", [(4, 2), (2, 2), (6, 2), (3, 1), (1, 1)])
def test_blocks_turn_together_if_a_slice_is_whole_with_them(cols, step):
    machine = modelled(rows=2, cols=cols, block=8, element_bits=(5, 5, 5), data_width=512)
    assert machine.transposed_blocks == step
    spans = transposed_spans(machine, 100, 64, (0, cols), (0, 2))
    assert {span.rows for span in spans} == {8 * step}
    assert {(span.beats, span.columns, span.vectors) for span in spans} == {(1, 16, 2)}
    assert len(spans) == cols // step


def told(chunks, name):
    """By direction, or by what streams and what is held, of each chunk, k tiles apart."""
    texts = [
        "".join(str(int(of)) for of in each)
        for each in zip(*(getattr(c, name) for c in chunks), strict=True)
    ]
    return tuple(
        " ".join(text[at : at + len(text) // 2] for at in (0, len(text) // 2)) for text in texts
    )


@pytest.mark.parametrize(
    "widths, uses, loads, frees, opens, closes",
    [  # two k tiles, two slices of M; of each two planes of dY by three that stream
        (
            (4, 6, 4),
            ("110110110110 110110110110", "111111111111 111111111111"),
            ("110000110000 110000110000", "100100100100 000000000000"),
            ("000110000110 000110000110", "000000000000 001001001001"),
            ("100000000000 100000000000", "100000100000 100000100000"),
            ("000000000010 000000000010", "000001000001 000001000001"),
        ),
        (
            (6, 2, 4),
            ("111111111111 111111111111", "100100100100 100100100100"),
            ("111000111000 111000111000", "100100100100 000000000000"),
            ("000111000111 000111000111", "000000000000 001001001001"),
            ("100000000000 100000000000", "100000100000 100000100000"),
            ("000000000001 000000000001", "000100000100 000100000100"),
        ),
    ],
)
def test_planes_stream_side_by_side(widths, uses, loads, frees, opens, closes):
    """20 x 9 x 20 again. X goes east, W north."""
    sizes = {"rows": 2, "cols": 2, "element_bits": (3, 3, 3), "data_width": 64}
    machine = modelled(**sizes, widths=(2, 4, 6))
    chunks = list(every_chunk(FusedWalk(machine, (20, 9, 20), widths)))
    found = {name: told(chunks, name) for name in ("uses", "loads", "frees", "opens", "closes")}
    assert found == {"uses": uses, "loads": loads, "frees": frees, "opens": opens, "closes": closes}
    assert [c.first for c in chunks] == ([True] + [False] * 11) * 2
    assert [c.last for c in chunks] == ([False] * 11 + [True]) * 2
    for chunk in chunks:
        for direction in range(2):
            assert bool(chunk.spans[direction]) == chunk.closes[direction]
    of_one = list(every_chunk(FusedWalk(modelled(**sizes), (20, 9, 20))))
    for direction in range(2):
        closed = [c.spans[direction] for c in chunks if c.closes[direction]]
        assert closed == [c.spans[direction] for c in of_one if c.closes[direction]]


def test_what_planes_of_the_fused_pass_load():
    """X of two planes, W of three, dY of two: W with the first chunk of a k tile that has its
    plane, dY in the first k tile, maxima once."""
    sizes = {"rows": 2, "cols": 2, "element_bits": (3, 3, 3), "data_width": 64}
    machine = modelled(**sizes, widths=(2, 4, 6))
    chunks = list(every_chunk(FusedWalk(machine, (20, 9, 20), (4, 6, 4))))
    t0, t1, c0, c1, n = (0, 2), (2, 1), (0, 2), (2, 1), (0, 2)
    one = LoadedRegion(rows=0, maxima_beats=1)
    w0, w1 = blocks(machine, W, t0, n), blocks(machine, W, t1, n)
    dy0, dy1 = blocks(machine, DY, c0, n), blocks(machine, DY, c1, n)
    x00, x10 = blocks(machine, X, c0, t0), blocks(machine, X, c1, t0)
    x01 = blocks(machine, X, c0, t1)
    idle = (NOTHING, NOTHING)
    assert [chunk.regions for chunk in chunks[:12]] == [
        (one, one, one, one, w0, dy0, x00), (w0, NOTHING, x00), (w0, NOTHING, NOTHING),
        (dy0, NOTHING), idle, idle,
        (dy1, x10), (NOTHING, x10), idle,
        (dy1, NOTHING), idle, idle,
    ]  # fmt: skip
    assert [chunk.regions for chunk in chunks[12:18]] == [
        (one, NOTHING, one, NOTHING, w1, NOTHING, x01), (w1, NOTHING, x01), (w1, NOTHING, NOTHING),
        idle, idle, idle,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "widths, passes", [((2, 2, 2), 1), ((4, 2, 2), 1.5), ((4, 2, 6), 4.5), ((4, 4, 4), 4)]
)
def test_passes_of_both_gradients(widths, passes):
    """dX takes those of dY by W, dW those of X by dY."""
    machine = modelled(rows=2, cols=2, data_width=64, widths=(2, 4, 6))
    assert fused_passes(machine, widths) == passes
