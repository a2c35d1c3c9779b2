"""The collector stays out of the way of an emission, and is as it was afterwards."""

import gc

import pytest

from diastole_hw.emit.collector import collector_paused


@pytest.fixture(autouse=True)
def collector_on_again():
    yield
    gc.enable()


class Ring:
    """Garbage that only the collector finds."""

    def __init__(self, freed: list[int]):
        self.freed, self.ring = freed, self

    def __del__(self):
        self.freed.append(id(self))


def test_nothing_is_collected_inside():
    freed: list[int] = []
    gc.collect()
    with collector_paused():
        rings = [Ring(freed) for _ in range(3 * gc.get_threshold()[0])]
        del rings
        assert [[] for _ in range(3 * gc.get_threshold()[0])]
        assert not freed
    gc.collect()
    assert len(freed) == 3 * gc.get_threshold()[0]


@pytest.mark.parametrize("on", [True, False])
def test_it_is_as_it_was_after_a_mistake_too(on):
    def mistake():
        with collector_paused():
            assert not gc.isenabled()
            raise ValueError("inside")

    if not on:
        gc.disable()
    with pytest.raises(ValueError, match="inside"):
        mistake()
    assert gc.isenabled() == on
