"""Figures of `text` and of a comparison, from few steps."""

from dataclasses import replace

import numpy as np

from diastole.config.file import from_document
from diastole.measure import comparing
from diastole_sim.golden.device import GoldenDevice
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.train import TASKS, run_task
from diastole_sim.train.text import split_text

PLAN = """
task = "digits"
steps = 2
seeds = [0, 1]
over = { format = ["bfp2", "bfp4"] }
"""


def few_held_out(samples, *, seed):
    training, held_out = split_text(samples, seed=seed)
    return training, held_out.take(np.arange(2))


def test_figures(monkeypatch, tmp_path):
    """Of one step; after which the loss is that of guessing."""
    losses = comparing.losses
    task = replace(TASKS["text"], split=few_held_out)
    monkeypatch.setattr(comparing, "TASK", task)
    monkeypatch.setattr(comparing, "losses", lambda: losses(1))
    plan = tmp_path / "plan.toml"
    plan.write_text(PLAN)
    cases = {name: comparing.CASES[name] for name in ("bfp4 1x16", "bfp2 1x16")}
    monkeypatch.setattr(comparing, "CASES", cases)
    time, loss, other, compared = list(comparing.figures(plan))
    assert (time.what, time.asked, time.met) == ("text, bfp4 1x16: seconds", "at most 240", True)
    document = {"format": dict.fromkeys(CLASS_NAMES, "bfp4")}
    document["block"] = dict.fromkeys(CLASS_NAMES, "1x16")
    device = GoldenDevice(from_document(document).numerics, 0)
    result = run_task(task, device, backend="golden", steps=1)
    assert loss.measured == f"{result.loss / result.float_loss - 1:.1%}"
    assert (loss.asked, loss.met) == ("at most 3.0%", True)
    assert (other.what, other.asked) == ("text, bfp2 1x16: loss over float32's", "")
    assert compared.what == "compare of 2 configurations, 2 seeds, digits: seconds"
    assert (compared.asked, compared.met) == ("at most 180", True)
