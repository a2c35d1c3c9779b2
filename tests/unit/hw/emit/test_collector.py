"""The collector stays out of the way of an emission, and is as it was afterwards."""

import gc

import pytest

from diastole_hw.emit.collector import OBJECTS, collector_seldom


class Ring:
    """Garbage that only the collector finds."""

    def __init__(self, freed: list[int]):
        self.freed, self.ring = freed, self

    def __del__(self):
        self.freed.append(id(self))


def test_nothing_is_collected_inside():
    freed: list[int] = []
    many = 3 * gc.get_threshold()[0]
    gc.freeze()  # what other tests have left need not be looked at
    with collector_seldom():
        rings = [Ring(freed) for _ in range(many)]
        del rings
        assert [[] for _ in range(many)]
        assert not freed
    gc.collect()
    assert len(freed) == many


def test_it_is_as_it_was_after_a_mistake_too():
    def mistake():
        with collector_seldom():
            assert gc.isenabled()  # a design of more objects is no reason to run out of memory
            assert gc.get_threshold()[0] == OBJECTS
            raise ValueError("inside")

    before = gc.get_threshold()
    with pytest.raises(ValueError, match="inside"):
        mistake()
    assert gc.get_threshold() == before
