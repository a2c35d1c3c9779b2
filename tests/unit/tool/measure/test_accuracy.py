"""Accuracies beside what is asked of them."""

from types import SimpleNamespace

import pytest

from diastole.config.presets import PRODUCTS_ONLY
from diastole.measure import accuracy
from diastole.measure.accuracy import figures


@pytest.fixture
def runs(monkeypatch):
    """``runs([0.96, 0.97], [0.98, 0.98])``: accuracies by seed, and those in float32."""

    def prepare(found, floats):
        asked = []

        def run_task(task, device, *, backend, seed, steps):
            assert (task, backend, device.numerics) == (
                "digits",
                "golden",
                PRODUCTS_ONLY["nano"].numerics,
            )
            assert device.seed == seed
            asked.append(seed)
            return SimpleNamespace(accuracy=found[seed], float_accuracy=floats[seed])

        monkeypatch.setattr(accuracy, "run_task", run_task)
        return asked

    return prepare


def test_every_seed_and_the_mean(runs):
    asked = runs([0.95, 0.96, 0.97, 0.98, 0.94], [0.97] * 5)
    found = {each.what: each for each in figures()}
    assert asked == [0, 1, 2, 3, 4]
    first = found["accuracy, seed 0"]
    assert (first.asked, first.measured, first.met) == ("at least 95.00%", "95.00%", True)
    assert found["accuracy, seed 4"].met is None
    mean = found["accuracy, mean of the seeds"]
    assert (mean.asked, mean.measured, mean.met) == ("at least 96.00%", "96.00%", True)
    lost = found["accuracy lost to float32, mean"]
    assert (lost.asked, lost.measured, lost.met) == ("at most 1.50%", "1.00%", True)


@pytest.mark.parametrize(
    "found, floats, missed",
    [
        ([0.949, 0.99], [0.97, 0.97], ["accuracy, seed 0"]),
        ([0.955, 0.96], [0.96, 0.96], ["accuracy, mean of the seeds"]),
        ([0.97, 0.97], [0.99, 0.99], ["accuracy lost to float32, mean"]),
    ],
)
def test_each_may_be_missed(runs, found, floats, missed):
    runs(found, floats)
    assert [each.what for each in figures(range(2)) if each.met is False] == missed


def test_a_real_run_of_few_steps():
    (first, *_) = figures([0], steps=2)
    assert first.met is False
    assert 0 < float(first.measured.rstrip("%")) < 95
