"""Loops as lengths that are cut into steps, by loops over every block."""

import pytest

from diastole_sim.perf.axes import Axis, exact


@pytest.mark.parametrize("total, step", [(1, 1), (7, 3), (12, 4), (100, 7), (5, 9)])
def test_steps_are_the_whole_length(total, step):
    axis = Axis(total, step)
    covered = [block for n in range(axis.count) for block in range(*_ends(axis.at(n)))]
    assert covered == list(range(total))


def _ends(stretch):
    start, length = stretch
    return start, start + length


@pytest.mark.parametrize("step, rounds", [(1, ()), (3, ((3, 4),)), (8, ((6, 4), (10, 16)))])
def test_what_steps_move_on_comes_round(step, rounds):
    """After a period a step begins at the same place of a group of 8 blocks, and so does all that
    steps move on, where the period is not cut to 16."""
    period = Axis.of(1000, step, *rounds).period
    assert period * step % 8 == 0
    assert all(period * part % whole == 0 for part, whole in rounds)
    assert Axis.of(1000, 1, (1, 1009)).period <= 16


@pytest.mark.parametrize("total, step", [(50, 3), (1000, 16), (9, 1)])
def test_bits_of_starts(total, step):
    axis = Axis(total, step)
    for number in range(1, axis.count):
        bits = (number * step).bit_length()
        later = axis.same_bits(number)
        assert all((n * step).bit_length() == bits for n in range(number, min(later, axis.count)))
        assert (later * step).bit_length() > bits
    mean = sum((n * step).bit_length() for n in range(1, axis.count)) / (axis.count - 1)
    assert abs(axis.usual_row.bit_length() - mean) <= 0.5
    assert axis.rows((0, 5)) == (0, 5)
    assert axis.rows((step, 5)) == (axis.usual_row, 5)


def test_short_loops_count_the_bits_of_addresses():
    outer, middle, inner = Axis(100, 1), Axis(9, 1), Axis(3, 1)
    axes = (outer, middle, inner)
    assert [exact(axis, axes) for axis in axes] == [False, True, True]
    assert exact(outer, (outer, Axis(2, 1), Axis(4, 1)))
    assert not exact(outer, (outer, Axis(3, 1), Axis(3, 1)))
