"""The load unit on one or two regions, cycle by cycle on paper."""

import pytest

from diastole_sim.perf.chunk_walk import NOTHING, Chunk, LoadedRegion, Run
from diastole_sim.perf.load import Load, Loaders
from diastole_sim.perf.modelled_machine import Memory
from support.modelled import modelled

ONE = Run(0, (6,), 1, 1)  # a beat of exponents, then a block of 8 vectors in 5 beats


def machine(**changes):
    """Which fills a vector per cycle, unless it is said to fill more."""
    sizes = {"rows": 2, "cols": 2, "block": 8, "element_bits": (5, 5, 5), "data_width": 64}
    return modelled(**sizes | {"memory": Memory(), "max_filled": 1} | changes)


def chunk(*regions, first=True, loads=(True, True)):
    return Chunk(
        regions=regions,
        first=first,
        last=True,
        loads=loads,
        frees=(True, True),
        slots=1,
        slices=1,
        groups=1,
        uses=(True, False),
        opens=(True, False),
        closes=(True, False),
        spans=((), ()),
    )


def test_maxima():
    """Asked for in 12, they come in 13 to 15; the next region's two in 16 and 17."""
    load = Load(machine(), request=10)
    region = LoadedRegion(rows=0, maxima_beats=3)
    assert load.chunk(chunk(region, LoadedRegion(rows=0, maxima_beats=2)), free=0) == -1
    assert (load.bus, load.beats, load.request) == (18, 5, 15)


def test_a_block():
    """Its address takes until 14; the exponents come in 15, its beats in 16 to 20. It moves on in
    21, and its vectors are written from 22 to 29."""
    load = Load(machine(), request=10)
    assert load.chunk(chunk(LoadedRegion(rows=1, runs=(ONE,))), free=0) == 29
    assert (load.beats, load.bus) == (6, 21)


def test_blocks_of_a_chunk_without_slabs():
    """W of the fused pass has no place in the rings, and is waited for all the same."""
    load = Load(machine(), request=10)
    region = LoadedRegion(rows=1, runs=(ONE,))
    assert load.chunk(chunk(region, first=False, loads=(False, False)), free=0) == 29
    assert load.chunk(chunk(NOTHING, first=False, loads=(False, False)), free=0) == 0


def test_a_block_fills_while_the_one_before_leaves():
    """The second's beats come in 22 to 26; it moves on when the first has left, in 29. The third's
    could come in 28, and wait for that."""
    load = Load(machine(), request=10)
    assert load.chunk(chunk(LoadedRegion(rows=3, runs=(ONE,))), free=0) == 45
    assert (load.beats, load.bus) == (18, 34)


def test_blocks_of_a_group():
    """They move on in 21, 29, 37 and 45. When a block moves on, the next one but one may come: the
    third's beats wait until 26, right after the second's, the fourth's until 37."""
    load = Load(machine(), request=10)
    run = Run(0, (21,), 1, 4)
    assert load.chunk(chunk(LoadedRegion(rows=1, runs=(run,))), free=0) == 53
    assert load.bus == 42


def test_dropped_blocks():
    """The second and third are dropped: they move on in 29 and 31, as soon as they are there."""
    load = Load(machine(), request=10)
    run = Run(0, (16,), 1, 1, 2)
    assert load.chunk(chunk(LoadedRegion(rows=1, runs=(run,))), free=0) == 35


@pytest.mark.parametrize(
    "changes, free, written",
    [
        ({"memory": Memory(read_cycles=10)}, 0, 38),
        ({}, 100, 121),  # there is room later
        ({}, 8, 29),  # in time
        ({"max_filled": 8}, 0, 25),  # two vectors per cycle: a beat has less than two
    ],
)
def test_what_a_block_waits_for(changes, free, written):
    load = Load(machine(**changes), request=10)
    assert load.chunk(chunk(LoadedRegion(rows=1, runs=(ONE,))), free=free) == written


def test_the_address_of_a_later_row_takes_longer():
    load = Load(machine(), request=10)
    region = LoadedRegion(rows=1, first_row=9, runs=(ONE,))  # 4 bits
    assert load.chunk(chunk(region), free=0) == 33


def test_a_memory_that_has_so_many_bursts_open():
    """The third row's burst is taken a cycle before the first one's last beat is, and its first
    beat comes 25 cycles later."""
    memory = Memory(read_cycles=25, outstanding=2)
    load = Load(machine(memory=memory, max_filled=8), request=10)
    load.chunk(chunk(LoadedRegion(rows=3, runs=(ONE,))), free=0)
    free = Load(machine(memory=Memory(read_cycles=25), max_filled=8), request=10)
    free.chunk(chunk(LoadedRegion(rows=3, runs=(ONE,))), free=0)
    first_ends = 10 + 1 + 2 + 1 + 25 + 6
    assert load.bus - 6 == first_ends - 1 + 25
    assert free.bus < load.bus


def test_regions_ahead():
    """The tenth region is not asked for before the first one's beats are taken."""
    short = LoadedRegion(rows=0, maxima_beats=1)
    memory = Memory(read_cycles=100)
    load = Load(machine(memory=memory), request=10)
    load.chunk(chunk(*[short] * 9), free=0)
    assert load.request < 40
    load = Load(machine(memory=memory), request=10)
    load.chunk(chunk(*[short] * 10), free=0)
    assert load.request == 12 + 100 + 1 + 1 + 1


def test_a_step_that_asks_for_nothing():
    """It takes no cycle."""
    for count in (1, 2):
        load = Load(machine(), request=10)
        regions = (*[NOTHING] * count, LoadedRegion(rows=1, runs=(ONE,)))
        assert load.chunk(chunk(*regions), free=0) == 29
        assert load.beats == 6


def test_when_all_is_there():
    """Of a chunk that loads no blocks the maxima count, and nothing of one that needs none."""
    load = Load(machine(), request=10)
    maxima = LoadedRegion(rows=0, maxima_beats=3)
    block = LoadedRegion(rows=1, runs=(ONE,))
    assert load.chunk(chunk(block, first=False, loads=(False, True)), free=0) == 29
    asked = load.request
    beats = asked + 1 + 1 + 1  # the chunk is taken, their address is known, they are asked for
    found = load.chunk(chunk(maxima, NOTHING, NOTHING, loads=(False, False)), free=0)
    assert found == load.front == max(beats, 21) + 3
    nothing = chunk(NOTHING, NOTHING, first=False, loads=(False, False))
    assert load.chunk(nothing, free=0) == 0
    assert load.request == asked + 3 + 1


def test_two_loaders():
    """Three rows of a block: the first port has two of them, one after the other, the second one;
    the next chunk begins when both have asked for theirs."""
    rows = LoadedRegion(rows=3, runs=(ONE,))
    alone = [Load(machine(), request=10), Load(machine(), request=10)]
    want = [
        load.chunk(chunk(LoadedRegion(rows=count, first_row=first, runs=(ONE,))), free=0)
        for load, count, first in zip(alone, (2, 1), (0, 1), strict=True)
    ]
    both = Loaders(machine(ports=2), request=10)
    assert both.chunk(chunk(rows), free=0) == max(want)
    assert both.beats == 3 * 6
    assert [port.request for port in both.ports] == [load.request for load in alone]
    begins = max(load.request for load in alone)
    both.chunk(chunk(rows), free=0)
    took = [port.request - begins for port in both.ports]
    assert took == [load.request - 10 for load in alone]


def test_beats_of_others_come_between():
    loaders = Loaders(machine(), request=0)
    for others, bus in ((10, 10), (10, 10), (15, 15)):
        loaders.share(others)
        assert loaders.ports[0].bus == bus
