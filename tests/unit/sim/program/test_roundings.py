"""Weights and gradients in few bits: a program without a vector unit beside a host's training."""

from dataclasses import replace

import numpy as np
import pytest

from diastole.backend import program_limits
from diastole.config.presets import PRODUCTS_ONLY
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.program.run import ProgramRun, golden_machine
from diastole_sim.train.gradient import round_gradient
from diastole_sim.train.job import run_task
from diastole_sim.train.loss_scaling import LossScaling
from diastole_sim.train.master import Master, weight_tag
from diastole_sim.train.tasks import find_task
from diastole_sim.trainer.job import weights_sha256
from diastole_sim.trainer.options import ProgramOptions
from support.host_perceptron import Perceptron, digits_by_host

CONFIG = PRODUCTS_ONLY["nano"]
LIMITS = program_limits(CONFIG)
STEPS, SEED = 6, 3


def trained(*, steps=STEPS, parts=1, **options):
    """By a program, in one run or in several."""
    made = ProgramOptions(limits=LIMITS, **options).program(
        find_task("digits"), CONFIG.numerics, steps=steps, seed=SEED
    )
    machine = golden_machine(made.program, CONFIG.numerics, LIMITS, seed=SEED)
    run = ProgramRun(program=made.program, machine=machine)
    for _ in range(parts):
        run.train(steps // parts)
    return made, run


@pytest.fixture
def by_host(monkeypatch):
    """Weights and biases by layer of a training by a host, and its loss."""
    seen, real = [], Perceptron.sha256

    def spied(self):
        seen.append([*zip(self.weights, self.biases, strict=True)])
        return real(self)

    monkeypatch.setattr(Perceptron, "sha256", spied)

    def train(**options):
        device = NumpyDevice(CONFIG.numerics, SEED)
        result = run_task(
            digits_by_host(), device, backend="any", steps=STEPS, seed=SEED, **options
        )
        return seen[0], result.loss

    return train


@pytest.mark.parametrize(
    "options",
    [
        {"master": Master(kind="bf16")},
        {"master": Master(kind="e6m9", rounding="stochastic-a", bits=5)},
        {"master": Master(kind="fp16", rounding="nearest")},
        {"gradient": "fp8_e5m2"},
        {"master": Master(kind="fp16", rounding="nearest"), "gradient": "fp8_e5m2", "scale": 9},
    ],
    ids=["bf16", "e6m9", "fp16", "gradient", "all"],
)
def test_as_a_host_trains(options, by_host):
    """A host computes in another order, so biases differ in their last bits, if they are float32.
    The held-out loss shows that no other tensor is rounded."""
    given = dict(options)
    scale = given.pop("scale", None)
    scaling = None if scale is None else LossScaling(exponent=scale)
    layers, loss = by_host(loss_scaling=scaling, **given)
    made, run = trained(loss_scale=scale, **given)
    for number, (weight, bias) in enumerate(layers):
        found = run.floats(f"{2 * number}.weight")
        np.testing.assert_allclose(found, weight.value, rtol=0, atol=2e-6)
        np.testing.assert_allclose(run.floats(f"{2 * number}.bias").ravel(), bias.value, atol=2e-6)
        master = given.get("master", Master())
        assert np.array_equal(found, master.start(found)), "all numbers have the format"
    assert made.measures(run.evaluate())[0] == pytest.approx(loss, rel=1e-4)


def test_a_gradient_is_rounded_once():
    """Of the first step: that of a training whose gradients wait, and are not rounded."""
    _, rounded = trained(steps=1, gradient="fp8_e5m2")
    _, plain = trained(steps=1, clip=1e9)
    for layer, name in enumerate(("0.weight", "2.weight")):
        gradient = plain.floats(f"{name} gradient")
        expected = round_gradient(gradient, "fp8_e5m2", seed=SEED, tag=weight_tag(layer), step=0)
        assert np.array_equal(rounded.floats(f"{name} gradient"), expected)
        assert not np.array_equal(gradient, expected)


def test_a_gradient_that_rounds_to_inf_is_an_overflow():
    _, run = trained(gradient="fp8_e5m2", loss_scale=24)
    assert run.machine.loss.exponent < 24
    assert all(np.isfinite(values).all() for values in run.parameters().values())


@pytest.mark.parametrize(
    "options",
    [
        {"hidden": (20, 9), "optimizer": "adam", "rate": 0.01, "clip": 1.0},
        {"accumulate": 4, "weight_decay": 0.01},
        {"loss_scale": 5, "optimizer": "lars", "rate": 0.1},
    ],
    ids=["adam", "microbatches", "lars"],
)
def test_every_recipe_keeps_the_format(options):
    """And a run in parts has the bits of a whole one."""
    master = Master(kind="bf16")
    _, run = trained(master=master, **options)
    _, parts = trained(master=master, parts=3, **options)
    assert weights_sha256(run, master) == weights_sha256(parts, master)
    for name, values in run.parameters().items():
        assert np.array_equal(values, master.start(values)), name
    other = trained(master=replace(master, bits=4), **options)[1]
    assert weights_sha256(run, master) != weights_sha256(other, master)
