"""Passes one after the other, each start and end worked out on paper. Loading held blocks takes
R * B = 16 cycles."""

from dataclasses import replace

import pytest

from diastole_sim.perf.chunk_walk import Chunk, Span
from diastole_sim.perf.execute import Execute
from support.modelled import modelled

MACHINE = modelled(rows=2, cols=2, block=8, element_bits=(5, 5, 5), data_width=64)
SPANS = ((Span(16, 1, 4),), (Span(8, 1, 4),))
CHUNK = Chunk(
    regions=(),
    first=True,
    last=True,
    loads=(True, True),
    frees=(True, True),
    slots=16,
    slices=1,
    groups=1,
    uses=(True, False),
    opens=(True, False),
    closes=(True, False),
    spans=SPANS,
)


class Store:
    """Banks are free in the cycle ``free``; ``tiles``: when which sums were complete; ``added``:
    from when to when to some that were there."""

    def __init__(self):
        self.free, self.tiles, self.asked, self.added = 0, [], [], []

    def bank(self, direction):
        self.asked.append(direction)
        return self.free

    def tile(self, direction, cycle, spans):
        self.tiles.append((direction, cycle, spans))

    def adds(self, direction, start, end):
        self.added.append((direction, start, end))


@pytest.fixture
def execute():
    return Execute(MACHINE, Store())


def test_the_first_pass(execute):
    """Blocks are there in 50: loading starts in 52, the swap is in 68, the last slot in 84; two
    more cycles, and two hops, and the half is free."""
    assert execute.chunk(CHUNK, loaded=50) == 88
    assert execute.end == 84
    assert execute.idle == {"load": 68, "accumulator": 0, "short": 0}
    assert execute.store.tiles == [(0, 84 + 2 + 2 + 2 + 3, SPANS[0])]
    assert execute.store.asked == [0]


def test_sums_come_as_much_later_as_a_cell_takes(execute):
    deeper = replace(execute.machine, cell_cycles=5)
    later = Execute(deeper, Store())
    assert later.chunk(CHUNK, loaded=50) == execute.chunk(CHUNK, loaded=50)
    assert [tile[1] for tile in later.store.tiles] == [84 + 2 + 2 + 5 + 3]


def test_a_second_pass_follows_without_a_gap(execute):
    execute.chunk(CHUNK, loaded=50)
    assert execute.chunk(CHUNK, loaded=50) == 104
    assert execute.end == 84 + 16
    assert execute.idle == {"load": 68, "accumulator": 0, "short": 0}


def test_waiting_for_blocks(execute):
    execute.chunk(CHUNK, loaded=50)
    execute.chunk(CHUNK, loaded=200)  # 202, 218: 134 after the last slot
    assert execute.end == 234
    assert execute.idle == {"load": 68 + 134, "accumulator": 0, "short": 0}


def test_waiting_for_a_bank(execute):
    execute.chunk(CHUNK, loaded=50)
    execute.store.free = 300
    execute.chunk(CHUNK, loaded=50)  # 301, 302, 318
    assert execute.idle == {"load": 68, "accumulator": 318 - 84, "short": 0}


def test_a_chunk_that_opens_no_tile_asks_for_no_bank(execute):
    execute.store.free = 300
    execute.chunk(replace(CHUNK, opens=(False, False)), loaded=50)
    assert execute.end == 84
    assert execute.store.asked == []


def test_passes_shorter_than_loading(execute):
    """Four slots, and sixteen cycles from swap to swap."""
    execute.chunk(replace(CHUNK, slots=4, slices=2), loaded=50)
    assert execute.end == 84 + 4
    assert execute.idle == {"load": 68, "accumulator": 0, "short": 12}


def test_no_pass_is_shorter_than_four_cycles():
    tiny = modelled(rows=1, cols=1, block=1, element_bits=(5, 5, 5), data_width=64)
    execute = Execute(tiny, Store())
    execute.chunk(replace(CHUNK, slots=1, slices=3), loaded=50)
    # Loading starts in 52, swaps in 53, 57 and 61.
    assert execute.end == 62
    assert execute.idle["short"] == 2 * 3


def test_both_directions(execute):
    """Four passes of 2 x 16 slots; in the last, the sums to the east are complete after 16 slots,
    those to the north with the last."""
    both = (True, True)
    chunk = replace(CHUNK, uses=both, opens=both, closes=both, slices=2, groups=2)
    execute.chunk(chunk, loaded=50)
    assert execute.end == 68 + 4 * 32
    assert execute.store.asked == [0, 1]
    last = 68 + 3 * 32
    assert execute.store.tiles == [
        (0, last + 16 + 9, SPANS[0]),
        (1, last + 32 + 9, SPANS[1]),
    ]


@pytest.mark.parametrize(
    "keys, added",
    [
        ({"slices": 1}, []),
        ({"slices": 2}, [(0, 84 + 2, 100 + 6)]),  # the second of two passes, from its swap on
        ({"slices": 5}, [(0, 84 + 2, 148 + 6)]),
        ({"slices": 3, "groups": 2}, [(0, 100 + 2, 164 + 6)]),  # the first two begin sums
        ({"first": False}, [(0, 68 + 2, 84 + 6)]),
        # 9 slots of 16 cycles: sums are read for 13 of these; of 12 slots, all the time.
        ({"slices": 3, "slots": 9}, [(0, 84 + 2, 93 + 6), (0, 100 + 2, 109 + 6)]),
        ({"slices": 3, "slots": 12}, [(0, 84 + 2, 112 + 6)]),
        ({"slices": 5, "uses": (True, True)}, []),  # which go to two memories in turn
    ],
)
def test_what_is_added_to_sums_that_are_there(execute, keys, added):
    execute.chunk(replace(CHUNK, **keys), loaded=50)
    assert execute.store.added == added


def test_float_sums_begin_with_whole_chunks(execute):
    """Of 64 products, 4 slices of 2 cells of 8: the fifth pass is the first that adds, though they
    come in two chunks of what is loaded."""
    floats = Execute(modelled(rows=2, cols=2, data_width=64, float_chunk=64), Store())
    floats.chunk(replace(CHUNK, slices=3, last=False, closes=(False, False)), loaded=50)
    assert floats.store.added == []
    floats.chunk(replace(CHUNK, slices=3, first=False, opens=(False, False)), loaded=50)
    first = 68 + 4 * 16  # the swap of the fifth
    assert floats.store.added == [(0, first + 2, floats.end + 6)]
    assert [floats.machine.overwriting_slices(north=north) for north in (False, True)] == [4, 4]
