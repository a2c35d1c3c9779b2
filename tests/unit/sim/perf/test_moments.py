"""Moments of units, by hand."""

from diastole_sim.perf.moments import Moment, combined, since


def test_near_is_in_times_alone():
    here = Moment((1, 2), (10, -3))
    assert here.near(Moment((1, 2), (10, -3)), 0)
    assert not here.near(Moment((1, 2), (11, -3)), 0)
    assert here.near(Moment((1, 2), (11, -5)), 2)
    assert not here.near(Moment((1, 2), (11, -6)), 2)
    assert not here.near(Moment((1, 3), (10, -3)), 9)
    assert not here.near(Moment((1, 2), (10, -3, 0)), 9)


def test_several_units_are_one():
    assert combined([Moment((1,), (2, 3)), Moment((), ()), Moment((4, 5), (6,))]) == Moment(
        (1, 4, 5), (2, 3, 6)
    )
    assert combined([]) == Moment((), ())


def test_times_long_past_are_alike():
    assert since(100, 90, [95, 90, 80, 3, 120]) == (-5, -10, -10, -10, 20)
