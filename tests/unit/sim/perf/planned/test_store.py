"""Rings, and rows on the planned write channel, by hand."""

import pytest

from diastole_sim.perf import ModelledMachine
from diastole_sim.perf.planned import PlannedMachine
from diastole_sim.perf.planned.store import EAST, NORTH, PIPELINE, MergedStore, Ring

NANO = PlannedMachine.after(
    ModelledMachine(rows=2, cols=2, block=8, element_bits=(5, 5, 5), data_width=64), data_width=128
)


def test_rows_take_the_bus_or_the_drain():
    """16 floats are 4 beats; two vectors a row, one vector in two cycles."""
    store = MergedStore(NANO)
    tile = store.tile(EAST, 5, rows=3, cols=16, vectors=2)
    assert store.until(tile) == 5 + PIPELINE + 3 * 4
    assert store.beats == 12
    slow = store.tile(EAST, 100, rows=1, cols=1, vectors=9)
    assert store.until(slow) == 100 + PIPELINE + 9
    assert store.finish() == store.time


def test_north_goes_first():
    store = MergedStore(NANO)
    east = store.tile(EAST, 0, rows=4, cols=8, vectors=1)
    north = store.tile(NORTH, 0, rows=4, cols=8, vectors=1)
    assert store.until(north) < store.until(east) == PIPELINE + 16


def test_ring():
    ring = Ring(8, unit=2)
    first, one = ring.take(3)  # 4 of 8
    _, two = ring.take(4)
    one.free, two.free = 50.0, 40.0
    later, _ = ring.take(1)
    assert (first, later) == (0, 50)
    assert ring.take(2)[0] == 0
    assert ring.take(1)[0] == 40, "places come back in their order"


def test_room_of_two_places_is_there_with_the_later():
    ring = Ring(8)
    for free in (50.0, 40.0):
        ring.take(4)[1].free = free
    assert ring.take(8)[0] == 50


def test_ring_of_sums_waits_for_rows():
    store = MergedStore(NANO)
    ring = Ring(4, written=store.until)
    _, place = ring.take(4)
    place.free = store.tile(EAST, 0, rows=2, cols=8, vectors=1)
    assert ring.take(1)[0] == PIPELINE + 4


def test_ring_refuses():
    ring = Ring(4)
    with pytest.raises(ValueError, match="a nest needs 5 blocks of a ring of 4"):
        ring.take(5)
    ring.take(4)
    with pytest.raises(ValueError, match="a nest keeps more than a ring has room for"):
        ring.take(1)
