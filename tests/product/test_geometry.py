"""The geometry of the array decides no bit: one network, trained on several, ends in one hash.

``scripts/bench_geometry.py`` trains longer, on more machines.
"""

import pytest

from diastole_sim.train import run_task
from support.products import MACHINES
from support.sweep import sweep

STEPS = 4
RUNS = [("pico", None), ("pico", 1), sweep("turning", 1), ("wide", None), ("wide", 2), ("ports", 3)]


@pytest.fixture(scope="module")
def expected(goldens):
    return train(goldens("pico"))


def train(device):
    result = run_task("digits", device, backend="any", steps=STEPS, seed=0)
    return result.weights_sha256, result.loss, result.accuracy, result.saturated


@pytest.mark.parametrize("name, stalls", RUNS)
def test_one_result(name, stalls, devices, expected):
    """1 x 1, 3 x 2, 2 x 4 behind two ports, and 2 x 1 cells that transpose at the edge; with and
    without stalls."""
    assert MACHINES[name].numerics == MACHINES["pico"].numerics
    assert train(devices(name, stalls)) == expected


def test_another_seed_has_another_result(goldens, expected):
    golden = goldens("pico")
    golden.seed += 1
    assert train(golden)[0] != expected[0]
