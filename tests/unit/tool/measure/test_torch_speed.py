"""The figure of diastole.torch: asked of it, and without torch."""

import importlib.util
import subprocess

import pytest

from diastole.measure import torch_speed
from diastole.measure.torch_speed import both_seconds, figures

WHAT = "Linear of diastole.torch, 512^3, bfp4, both passes: numpy's time over it"


def test_without_torch_it_says_so(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    (found,) = figures()
    assert (found.what, found.measured, found.met) == (WHAT, "needs diastole[torch]", None)


@pytest.mark.parametrize(
    "times, measured, met", [("[2, 4]", "0.50 x", False), ("[4, 2]", "2.00 x", True)]
)
def test_the_ratio_of_a_process_with_one_thread(times, measured, met, monkeypatch):
    def run(command, *, env, stderr, text):
        assert command[1:] == ["-m", "diastole.measure.torch_speed"]
        assert env["OMP_NUM_THREADS"] == env["OPENBLAS_NUM_THREADS"] == "1"
        return subprocess.CompletedProcess(command, 0, times)

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(torch_speed.children, "run", run)
    (found,) = figures()
    assert (found.asked, found.measured, found.met) == ("at least 1.00 x", measured, met)


def test_both_are_timed():
    pytest.importorskip("torch", reason="torch is not installed: make torch")
    assert all(0 < each < 10 for each in both_seconds(16, 2))
