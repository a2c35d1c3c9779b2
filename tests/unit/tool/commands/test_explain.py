"""`diastole explain`: what it refuses, and what it says; the page is in tests/product."""

import numpy as np
import pytest

from diastole.commands import explain
from diastole.config.presets import PRODUCTS_ONLY
from diastole.explain.shown_run import Pass, ShownRun, ways_of
from diastole_hw.plan.modes import Mode
from diastole_sim.device.interface import CommandCounters, ProductResult
from diastole_sim.spec.operations import OPERATIONS
from support.pages import random_operands

AXES = {"m": 2, "k": 3, "n": 4}


@pytest.fixture
def observed(monkeypatch):
    """What the command asked a machine for, which is none."""
    asked = {}

    def observe(config, names, axes, seed):
        asked.update(config=config, names=names, axes=axes, seed=seed)
        operands = random_operands(config, axes, seed=seed)
        counters = CommandCounters(
            cycles=40, total_cycles=40, convert_cycles=0, read_bytes=1, write_bytes=1,
            busy_slots=8, waits={},
        )  # fmt: skip
        results, runs = [], []
        for name in names:
            values = dict.fromkeys(OPERATIONS[name].result_names, np.ones((2, 2), np.float32))
            results.append(
                ProductResult(
                    op=name, values=values, operands={}, exact=True, overflow=False,
                    counters=counters,
                )
            )  # fmt: skip
            run = ShownRun(mode=Mode.FORWARD, ways=ways_of(config.plan, Mode.FORWARD), cycles=31)
            run.passes.append(Pass(first=4, loads=0, t0=0, count=1, row=0, col=0, rows=1, cols=1))
            run.sums.append([[1, 2, 3, 4]])
            runs.append(run)
        return operands, results, runs

    monkeypatch.setattr("diastole.explain.observe.observe", observe)
    return asked


def test_a_page_is_written(diastole, observed, tmp_path):
    found = diastole(
        "explain", "--preset", "pico", "--op", "dw", "--sizes", "2,3,4", "--seed", 5, "-o", "p.html"
    )
    assert (found.code, found.err) == (0, [])
    assert observed["axes"] == AXES
    assert (observed["seed"], observed["names"]) == (5, list(OPERATIONS))
    lines = found.out.splitlines()
    assert lines[0] == (
        "forward: 40 cycles, 31 of them from the first request to the last beat written; "
        "1 slots in 1 passes"
    )
    assert lines[-1].startswith("wrote p.html (")
    assert "open the page in a browser" in lines[-1]
    assert '"first":2' in (tmp_path / "p.html").read_text()


def test_a_machine_without_a_fused_pass_shows_both_products(diastole, observed, tmp_path):
    arguments = ("--set", "format.x=nvfp4", "--set", "format.w=nvfp4", "--set", "format.dy=nvfp4")
    found = diastole(
        "explain", "--preset", "pico", *arguments, "--op", "backward", "-o", "p.html"
    )  # fmt: skip
    assert found.code == 0
    assert observed["names"] == ["forward", "dx", "dw"]
    assert found.out.startswith("diastole_pico has no fused pass: the page shows dX, then dW")


def test_the_guess_of_sums_is_not_below(diastole):
    """The limit is known before the work; a page has no more than it says."""
    config = PRODUCTS_ONLY["pico"]
    axes = {"m": 16, "k": 16, "n": 16}
    assert explain.about_sums(config.plan, axes) >= (256 * 3 + 512) * 4
