"""Figures of the host's choice of loops."""

import pytest

from diastole.config.presets import PRODUCTS_ONLY
from diastole.measure import chooser
from diastole_sim.perf import estimate
from diastole_sim.perf.walk import loops_of


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Layers of which all nests take no time."""
    monkeypatch.setattr(chooser, "SIDES", (2.0, 4.0))


def found(**options):
    return {each.what.split(": ")[1]: each for each in chooser.figures("nano", **options)}


def test_figures():
    figures = found(config=PRODUCTS_ONLY["nano"], layers=2)
    assert figures["over the best, mean"].asked == "at most 1.00%"
    assert figures["ms for one, mean"].asked == "at most 50"
    assert len(figures) == 4


def test_a_bad_choice_is_told(monkeypatch):
    """The slowest of all nests, for larger layers."""

    def slowest(machine, limits, *sizes):
        nests = chooser.all_nests(limits, loops_of(machine, *sizes).blocks)
        return max(nests, key=lambda nest: estimate(machine, *sizes, nest).cycles)

    monkeypatch.setattr(chooser, "SIDES", (4.5, 5.0))
    monkeypatch.setattr(chooser, "choose_nest", slowest)
    each = found(config=PRODUCTS_ONLY["nano"], layers=1)["over the best, mean"]
    assert not each.met


def test_all_nests():
    limits = PRODUCTS_ONLY["nano"].plan.nests.of("forward")
    nests = list(chooser.all_nests(limits, (8, 8, 8)))
    assert len(set(nests)) == len(nests) > 50
    assert all(limits.problem(nest, (8, 8, 8)) is None for nest in nests)
