"""The table of accuracies by the kind of draws, from few steps."""

from diastole.measure import draw_accuracy
from diastole.measure.draw_accuracy import KINDS, figures, train_draws


def test_a_job_is_a_run_of_its_row():
    """Where every class is rounded to nearest but dY, draws of the data are other draws."""
    few = {kind: train_draws(("bfp2", "X, W and dY", kind, 0, 3)) for kind in KINDS}
    assert len(set(few.values())) > 1
    assert all(0 <= accuracy <= 1 for accuracy in few.values())


def test_figures(monkeypatch):
    monkeypatch.setattr(draw_accuracy, "SEEDS", (0, 3))
    monkeypatch.setattr(draw_accuracy, "FORMATS", ("bfp2",))
    monkeypatch.setattr(draw_accuracy, "KINDS", {"lfsr3": KINDS["lfsr3"]})
    gradients, everything = list(figures(2))
    runs = [train_draws(("bfp2", "dY", "lfsr3", seed, 2)) for seed in (0, 3)]
    assert gradients.what == "digits, bfp2, dY by lfsr3"
    assert everything.what == "digits, bfp2, X, W and dY by lfsr3"
    assert gradients.measured == f"{sum(runs) / 2:.2%}"
