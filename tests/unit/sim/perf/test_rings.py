"""The room of the load unit on paper: which chunk waits for what, and until when."""

from dataclasses import replace

import pytest

from diastole_sim.perf.chunk_walk import Chunk
from diastole_sim.perf.modelled_machine import Memory
from diastole_sim.perf.result_store import EAST, NORTH
from diastole_sim.perf.rings import FreeSpace, RingPlaces
from support.modelled import modelled

MACHINE = modelled(rows=2, cols=2, block=8, element_bits=(5, 5, 5), data_width=64, memory=Memory())


class Drains:
    """A store unit that has drained tile n of a direction at ``100 n`` (north: and 7)."""

    def __init__(self):
        self.asked = []
        self.drains = {EAST: self, NORTH: self}
        self.opened = 0  # banks to the north so far

    def drained(self, direction, number):
        self.asked.append((direction, number))
        return 100 * number + 7 * (direction == NORTH)


class Taken:
    """An execute unit that took the last pass of its last chunk in this cycle."""

    def __init__(self, taken):
        self.accepted = taken


def chunk(*, first=False, last=False, loads=(True, True), frees=(True, True), uses=(True, False)):
    return Chunk(
        regions=(), first=first, last=last, loads=loads, frees=frees, slots=1, slices=1, groups=1,
        uses=uses, opens=(first, False), closes=(last, False), spans=((), ()),
    )  # fmt: skip


def room(slabs, fused=False, machine=MACHINE, **options):
    return FreeSpace(machine, Drains(), slabs, fused, **options)


def ran(where, given, taken, freed):
    where.note_chunk(given, Taken(taken), freed)


def test_a_ring():
    """Three places: the fourth is the first again, once that is given back."""
    ring = RingPlaces(3)
    assert [ring.take() for _ in range(3)] == [0, 0, 0]
    ring.freed += [50, 60]
    assert [ring.take(), ring.take()] == [50, 60]


def test_as_many_places_as_slabs_fit():
    """128 blocks of what streams, and 2048 of what is held: of 60 blocks 2, of 500 blocks 4."""
    assert (MACHINE.stream_blocks, MACHINE.stationary_blocks) == (128, 2048)
    found = room((60, 500))
    assert [ring.limit for ring in found.rings] == [2, 4]
    one = replace(MACHINE, max_places=1)
    assert [ring.limit for ring in room((60, 500), machine=one).rings] == [1, 4], "what streams"
    assert [ring.limit for ring in room((40, 500), machine=one, streams=2).rings] == [2, 4]
    assert [ring.limit for ring in room((60, 500), machine=one, streams=3).rings] == [2, 4]


@pytest.mark.parametrize(
    "loads, waits", [((True, True), 40), ((True, False), 40), ((False, True), 0)]
)
def test_a_chunk_waits_for_what_it_loads(loads, waits):
    """Two places of what streams, four of what is held; the first chunk gives its back in 40."""
    found = room((60, 500))
    for _ in range(2):
        assert found.take(chunk()) == 0
    ran(found, chunk(), 5, 40)
    assert found.take(chunk(loads=loads)) == waits


def test_what_is_not_freed_is_not_there():
    """The first chunk keeps what streams; the second one's is given back in 70."""
    found = room((60, 500))
    found.take(chunk())
    found.take(chunk())
    ran(found, chunk(frees=(False, True)), 5, 40)
    ran(found, chunk(), 45, 70)
    assert found.take(chunk()) == 70


def test_tiles_in_flight():
    """The ninth tile waits for the first one's sums, in the direction of the product."""
    for uses, direction in (((True, False), EAST), ((False, True), NORTH)):
        found = room((1, 1))
        for _ in range(8):
            assert found.take(chunk(first=True, uses=uses)) == 0
        assert found.take(chunk(uses=uses)) == 0  # the second of its tile
        assert found.take(chunk(first=True, uses=uses)) == 1 + 7 * (direction == NORTH)
        assert found.take(chunk(first=True, uses=uses)) == 101 + 7 * (direction == NORTH)
        assert found.store.asked == [(direction, 0), (direction, 1)]


def test_the_fused_pass():
    """Two halves of W; to the north every chunk has a bank, and a tile's last one counts."""
    both = {"uses": (True, True)}
    found = room((1, 1), fused=True)
    for number in range(8):
        free = found.take(chunk(first=True, **both))
        assert free == (0 if number < 2 else 30 + number - 2)  # its half was that of two before
        assert found.take(chunk(last=True, **both)) == 0
        found.store.opened += 2
        ran(found, chunk(first=True, **both), -99, 20)
        ran(found, chunk(last=True, **both), -99, 30 + number)
    assert found.take(chunk(first=True, **both)) == 108  # bank 1 to the north; the half in 36
    assert found.store.asked == [(EAST, 0), (NORTH, 1)]


def test_chunks_ahead():
    """The seventh is asked for 6 cycles after the last pass of the first was taken, the next one
    after that of the second."""
    found = room((1, 1))
    for number in range(6):
        assert found.take(chunk()) == 0
        ran(found, chunk(), 200 + number, 300)
    assert found.take(chunk()) == 206
    ran(found, chunk(), 250, 300)
    assert found.take(chunk()) == 207
