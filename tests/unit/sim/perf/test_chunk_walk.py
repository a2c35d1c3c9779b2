"""The loops of small products, chunk by chunk, counted by hand."""

import pytest

from diastole_sim.perf.chunk_walk import (
    DY,
    NOTHING,
    LoadedRegion,
    Roles,
    Run,
    Span,
    W,
    WalkedProduct,
    X,
    blocks,
    every_chunk,
    loops_of,
    maxima,
    roles_of,
    steps,
)
from diastole_sim.spec.nest import Nest
from support.modelled import modelled

SIZES = {"rows": 2, "cols": 2, "block": 8, "element_bits": (5, 5, 5), "data_width": 64}
NANO = modelled(**SIZES)
EDGE = modelled(**SIZES, in_place=False)
NARROW = modelled(rows=1, cols=1, block=1, element_bits=(3, 3, 3), data_width=32)


def test_steps():
    assert list(steps(7, 3)) == [(0, 3), (3, 3), (6, 1)]
    assert list(steps(3, 5)) == [(0, 3)]


def test_maxima_are_bytes():
    beats = [
        maxima(NANO, X, first, count).beats for first, count in ((0, 8), (6, 4), (8, 9), (7, 1))
    ]
    assert beats == [1, 2, 2, 1]


def test_blocks_of_two_groups():
    """Blocks 6 to 10 of rows 3 to 5: exponents come apart where the run is not a group's first."""
    region = blocks(NANO, W, (3, 3), (6, 5))
    assert region == LoadedRegion(
        rows=3,
        first_row=3,
        runs=(Run(W, (1, 10), 1, 2), Run(W, (16,), 1, 3)),
    )
    assert region.beats == 3 * (11 + 16)


def test_blocks_that_end_inside_a_beat():
    """Of 3 bits each; the run goes on to where a block starts on a beat, here the whole group."""
    (run,) = blocks(NARROW, X, (0, 1), (0, 3)).runs
    assert run == Run(X, (3,), 2, 3, 5)


def test_roles():
    assert roles_of(NANO, "forward") == Roles(stream=X, stationary=W)
    assert roles_of(NANO, "dw") == Roles(stream=X, stationary=DY, cols_t=True)
    assert roles_of(NANO, "dx") == Roles(stream=DY, stationary=W, lanes_down=True, north=True)
    assert roles_of(EDGE, "dx") == Roles(stream=DY, stationary=W, lanes_down=True)


def test_one_chunk():
    (chunk,) = every_chunk(WalkedProduct(NANO, loops_of(NANO, "forward", 13, 11, 16)))
    assert chunk.regions == (
        maxima(NANO, X, 0, 2),
        maxima(NANO, X, 0, 2),
        *[NOTHING] * 3,
        blocks(NANO, W, (0, 2), (0, 2)),
        blocks(NANO, X, (0, 2), (0, 2)),
    )
    assert (chunk.slots, chunk.slices, chunk.groups) == (13, 1, 1)
    assert chunk.uses == chunk.opens == chunk.closes == (True, False)
    assert chunk.spans == ((Span(rows=13, vectors=2, beats=6, pitch=6),), ())


def test_tiles_and_chunks():
    """25, 10 and 13 blocks in steps of 16, of 4 groups of 2, and of 8."""
    chunks = list(every_chunk(WalkedProduct(NANO, loops_of(NANO, "forward", 200, 80, 100))))
    assert [chunk.slots for chunk in chunks] == [128] * 4 + [72] * 4
    assert [chunk.groups for chunk in chunks] == [4, 4, 1, 1] * 2
    assert [chunk.slices for chunk in chunks] == [4, 3] * 4
    assert [chunk.opens[0] for chunk in chunks] == [True, False] * 4
    assert [chunk.closes[0] for chunk in chunks] == [False, True] * 4
    assert [len(chunk.regions) for chunk in chunks] == [7, 2] * 4
    ends = [chunk.spans[0] for chunk in chunks if chunk.closes[0]]
    assert ends == [
        (Span(128, 8, 32, start=0, pitch=40),),
        (Span(128, 2, 8, start=32, pitch=40),),
        (Span(72, 8, 32, start=128 * 40, pitch=40),),
        (Span(72, 2, 8, start=128 * 40 + 32, pitch=40),),
    ]
    held, streamed = chunks[7].regions
    assert held == blocks(NANO, W, (8, 5), (8, 2))
    assert streamed == blocks(NANO, X, (16, 9), (8, 5))


@pytest.mark.parametrize(
    "outer, keep, loads, frees",
    [  # of what streams, of what is held; T tiles 0, 0, 1, 1 or 0, 1, 0, 1, two chunks each
        ("t", "none", ("1111 1111", "1111 1111"), ("1111 1111", "1111 1111")),
        ("t", "stream", ("1100 1100", "1111 1111"), ("0011 0011", "1111 1111")),
        ("t", "stationary", ("1111 1111", "1111 0000"), ("1111 1111", "0000 1111")),
        ("l", "stream", ("1111 0000", "1111 1111"), ("0000 1111", "1111 1111")),
        ("l", "both", ("1111 0000", "1100 1100"), ("0000 1111", "0011 0011")),
    ],
)
def test_what_is_kept_is_loaded_once(outer, keep, loads, frees):
    """25, 10 and 13 blocks in steps of 16, of 4 groups of 2, and of 8."""
    loops = loops_of(NANO, "forward", 200, 80, 100, Nest(outer=outer, keep=keep))
    assert loops.slabs == (4 * 16, 4 * 4 * 2)
    chunks = list(every_chunk(WalkedProduct(NANO, loops)))
    for said, want in (("loads", loads), ("frees", frees)):
        got = zip(*(getattr(chunk, said) for chunk in chunks), strict=True)
        assert ["".join(map(str, map(int, each))) for each in got] == [
            text.replace(" ", "") for text in want
        ]
    for chunk in chunks:  # a step that asks for nothing is still there
        held, streamed = chunk.regions[-2:]
        assert ((streamed != NOTHING), (held != NOTHING)) == chunk.loads


@pytest.mark.parametrize("machine, uses", [(NANO, (False, True)), (EDGE, (True, False))])
def test_input_gradient(machine, uses):
    """dX = dY W^T: W is held with its rows along the lanes."""
    (chunk,) = every_chunk(WalkedProduct(machine, loops_of(machine, "dx", 8, 24, 40)))
    assert chunk.uses == chunk.opens == chunk.closes == uses
    assert chunk.regions[5:] == (
        blocks(machine, W, (0, 5), (0, 3)),
        blocks(machine, DY, (0, 1), (0, 3)),
    )
    span = (Span(rows=8, vectors=5, beats=20, pitch=20),)
    assert chunk.spans == ((), span) if uses[1] else (span, ())
    assert (chunk.slices, chunk.groups) == (2, 3)


def test_weight_gradient():
    """dW = X^T dY: the columns of X stream, turned."""
    (chunk,) = every_chunk(WalkedProduct(NANO, loops_of(NANO, "dw", 24, 16, 8)))
    assert chunk.regions[5:] == (
        blocks(NANO, DY, (0, 3), (0, 2)),
        blocks(NANO, X, (0, 3), (0, 1)),
    )
    assert chunk.slots == 8


@pytest.mark.parametrize(
    "beats, row, bursts",
    [
        (10, 0, [10]),  # from beat 40
        (24, 0, [24]),
        (25, 0, [24, 1]),
        (10, 1, [4, 6]),  # from beat 60
        (200, 1, [4, 64, 64, 64, 4]),
        (68, 1, [4, 64]),
        (64, 2, [48, 16]),  # from beat 80
    ],
)
def test_bursts_end_at_multiples_of_64_beats(beats, row, bursts):
    span = Span(rows=3, vectors=1, beats=beats, start=40, pitch=20)
    assert span.bursts(row) == bursts


@pytest.mark.parametrize("rows, shares", [(1, (1, 1)), (2, (1, 1)), (5, (3, 2)), (8, (4, 4))])
def test_rows_go_to_two_ports_by_turns(rows, shares):
    region = blocks(NANO, 0, (6, rows), (0, 3))
    parts = [region.of_port(port, 2) for port in range(2)]
    assert tuple(part.rows for part in parts) == shares
    assert [part.first_row for part in parts] == [6, 6 + (rows > 1)]
    assert region.of_port(0, 1) == region
    wanted = [(run.blocks, run.dropped) for run in region.runs]
    assert [(run.blocks, run.dropped) for run in parts[0].runs] == wanted
    if rows == 1:  # it reads the same row, for nothing
        wanted = [(0, sum(run)) for run in wanted]
        assert parts[1].beats == parts[0].beats == region.beats
    assert [(run.blocks, run.dropped) for run in parts[1].runs] == wanted


def test_every_port_reads_the_maxima():
    region = maxima(NANO, 0, 3, 9)
    assert [region.of_port(port, 2) for port in range(2)] == [region] * 2
