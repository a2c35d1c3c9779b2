"""Chains at a drain beside their product: small ones, in the Verilog, and what is made of them."""

import pytest

from diastole.measure import drain_chains
from diastole.measure.drain_chains import DrainCycles, DrainedLayer, drain_cycles
from diastole.measure.whole_steps import CASES, configured_step
from diastole_sim.program.chains.activations import gelu, relu
from support.products import STEPS_1X1
from support.sweep import sweep

MACHINES = {"1x1": STEPS_1X1, "nano": configured_step(CASES[0])}


@pytest.mark.parametrize("name, n", [("1x1", 72), sweep("nano", 64), sweep("nano", 72)])
def test_a_layer(name, n):
    """A tile holds whole rows, or the image comes in patches; nothing is converted behind it."""
    config = MACHINES[name]
    small, large = (
        drain_cycles(config, DrainedLayer(activation=each, m=40, n=n, k=16))
        for each in (relu(), gelu())
    )
    assert small.alone == large.alone
    assert small.alone > 40 * n * 16 / config.macs
    assert large.chain > 2 * small.chain > 2 * small.alone
    assert small.conversion == large.conversion == 0


def test_figures(monkeypatch):
    found = iter(
        [
            DrainCycles(alone=526_974, chain=525_500, conversion=16_000),
            DrainCycles(alone=1000, chain=4610, conversion=0),
            DrainCycles(alone=1000, chain=4010, conversion=0),
        ]
    )
    monkeypatch.setattr(drain_chains, "drain_cycles", lambda config, layer: next(found))
    figures = list(drain_chains.figures())
    assert [figure.met for figure in figures] == [False, None, True, False]
    assert figures[0].measured == "96.8%"
    assert figures[-2].measured == "4.61"
