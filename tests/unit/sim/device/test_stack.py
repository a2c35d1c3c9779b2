"""Stacks of matrices: their shapes, who meets whom, and what is said of all together."""

from types import SimpleNamespace

import numpy as np
import pytest

from diastole_sim.device.interface import CommandCounters
from diastole_sim.device.stack import Stack, broadcast, stacked, sum_counters, uses


def tensor(number, **changes):
    known = {
        "shape": (2, 3),
        "tensor_class": "w",
        "nan": False,
        "inf": False,
        "saturated": number,
        "underflowed": 10 * number,
        "stored": 100 * number,
        "values": lambda copy: np.full((2, 3), 10 * number + copy, np.float32),
        "copy_values": lambda: {name: np.full((2, 3), number, np.float32) for name in "nk"},
    }
    return SimpleNamespace(**known | changes)


def test_what_a_stack_says():
    stack = Stack(leading=(2, 2), tensors=tuple(map(tensor, range(4))))
    assert (stack.shape, stack.tensor_class) == ((2, 2, 2, 3), "w")
    assert (stack.saturated, stack.underflowed, stack.stored) == (6, 60, 600)
    assert (stack.nan, stack.inf) == (False, False)
    assert stack.values(1)[:, :, 1, 2].tolist() == [[1, 11], [21, 31]]
    assert stack.values()[:, :, 0, 0].tolist() == [[0, 10], [20, 30]]
    assert list(stack.copy_values()) == ["n", "k"]
    assert stack.copy_values()["k"][:, :, 0, 0].tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("name", ["nan", "inf"])
def test_one_is_enough(name):
    stack = Stack(leading=(2,), tensors=(tensor(0), tensor(1, **{name: True})))
    assert getattr(stack, name)
    assert not getattr(stack, "inf" if name == "nan" else "nan")


def test_stacked():
    rows = [np.full((1, 2), number, np.float32) for number in range(6)]
    together = stacked(rows, (2, 3))
    assert together.shape == (2, 3, 1, 2)
    assert together[1, 0].tolist() == [[3, 3]]


AXES = [
    ((), ()),
    ((3,), ()),
    ((), (3,)),
    ((3,), (3,)),
    ((4, 1), (5,)),
    ((1, 3), (2, 1)),
    ((1,), ()),
]


@pytest.mark.parametrize("first, second", AXES)
def test_axes_are_those_of_matmul(first, second):
    """So is the matrix that every product takes."""
    a = np.arange(np.prod(first, dtype=int), dtype=float).reshape(*first, 1, 1)
    b = 100.0 ** np.arange(np.prod(second, dtype=int)).reshape(*second, 1, 1)
    whole = broadcast({"X": first, "W": second})
    assert whole == np.matmul(a, b).shape[:-2]
    used = [uses(own, whole) for own in (first, second)]
    flat = [each.ravel() for each in (a, b)]
    got = [flat[0][i] * flat[1][j] for i, j in zip(used[0][0], used[1][0], strict=True)]
    assert got == np.matmul(a, b).ravel().tolist()
    for numbers, places in used:
        assert places == [numbers.index(number) for number in range(len(places))]
        assert sorted(set(numbers)) == list(range(len(places)))


def counters(unit):
    return CommandCounters(
        cycles=unit,
        total_cycles=2 * unit,
        convert_cycles=3 * unit,
        read_bytes=4 * unit,
        write_bytes=5 * unit,
        busy_slots=6 * unit,
        waits={"load": 7 * unit, "store": 8 * unit},
    )


def test_counters_are_added():
    assert sum_counters([counters(1), counters(10), counters(100)]) == counters(111)
    assert sum_counters([None, None]) is None
