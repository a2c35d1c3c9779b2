"""The table of precisions, from few steps."""

import pytest

from diastole.measure import precisions
from diastole.measure.precisions import ROWS, figures, train_precision


def test_a_job_is_a_run_of_its_row():
    switched = train_precision(("low-to-high 250", 1, 2))
    assert (switched["precision"], switched["seed"], switched["steps"]) == ("low-to-high", 1, 2)
    assert switched["mean_passes"] == 1
    assert train_precision(("high", 0, 2))["mean_passes"] == 4
    assert train_precision(("fast .4 .3", 0, 4)) != train_precision(("fast .6 .3", 0, 4))


def test_figures(monkeypatch):
    """Two for each row, of all seeds; accuracies after two steps are far below."""
    monkeypatch.setattr(precisions, "SEEDS", (0, 3))
    monkeypatch.setattr(precisions, "ROWS", {name: ROWS[name] for name in ("high", "low")})
    accuracy, passes, _, low = list(figures(2))
    runs = [train_precision(("high", seed, 2)) for seed in (0, 3)]
    what = "digits, seeds 0 to 3, precision high"
    assert accuracy.what == f"{what}: accuracy"
    assert accuracy.measured == f"{sum(run['accuracy'] for run in runs) / 2:.2%}"
    assert (accuracy.asked, accuracy.met) == ("97.89%, within 0.50%", False)
    assert (passes.what, passes.measured, passes.asked) == (
        f"{what}: passes",
        "4.00",
        "4.00, within 0.15",
    )
    assert (low.measured, low.met) == ("1.00", True)


@pytest.mark.parametrize("name", ROWS)
def test_rows_are_precisions(name):
    assert train_precision((name, 0, 1))["precision"] == name.split()[0]
