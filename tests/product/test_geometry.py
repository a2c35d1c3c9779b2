"""The geometry of the array decides no bit: one network, trained on several, ends in one hash.

``pytest bench -k geometry`` trains longer, on more machines.
"""

from functools import cache

import pytest

from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.train import run_task
from support.draw_bias import defined, measured
from support.host_perceptron import digits_by_host
from support.products import MACHINES
from support.sweep import sweep

STEPS = 4
LIKE = {"pico": ("pico", "turning", "wide", "ports"), "esru": ("esru", "esru_2x2", "esru_4x2")}
"""Machines of the same numbers, by the first of them."""
RUNS = [("pico", None), ("pico", 1), sweep("turning", 1), ("ports", 3)]
RUNS += [sweep("wide", None), sweep("wide", 2)]
RUNS += [sweep("esru_2x2", None), sweep("esru_2x2", 2)]
RUNS += [sweep(name, 1) for name in ("esru", "esru_4x2")]


@pytest.fixture(scope="module")
def expected(goldens):
    """``expected(name)``: what the golden model makes of the numbers of that machine."""
    return cache(lambda name: train(goldens(name)))


def train(device):
    result = run_task(digits_by_host(), device, backend="any", steps=STEPS, seed=0)
    return result.weights_sha256, result.loss, result.accuracy, result.saturated


@pytest.mark.parametrize("name, stalls", RUNS)
@pytest.mark.sampled(2)
def test_one_result(name, stalls, devices, expected):
    """1 x 1, 3 x 2, 2 x 4 behind two ports, and 2 x 1 cells that transpose at the edge. And 1 x 1,
    2 x 2 and 4 x 2 that draw by rows, behind buses of 32, 128 and 64 bits. With and without
    stalls."""
    (first,) = (first for first, names in LIKE.items() if name in names)
    assert MACHINES[name].numerics == MACHINES[first].numerics
    assert train(devices(name, stalls)) == expected(first)


@pytest.mark.parametrize("name", LIKE)
def test_another_seed_has_another_result(name, goldens, expected):
    golden = goldens(name)
    golden.seed += 1
    assert train(golden)[0] != expected(name)[0]


@pytest.mark.sweep
def test_bias_of_the_draws(devices):
    """Of what the hardware stores, over whole periods: by C, A and B, what the definition says."""
    device = devices("esru_2x2", 2)
    for name in CLASS_NAMES:
        rule = device.numerics.tensor_class(name).rounding
        got = measured(device, device.numerics, name)
        assert got == defined(device.numerics, rule), rule
