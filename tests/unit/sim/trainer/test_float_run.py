"""A perceptron in float32 against the host's own, and against the program in bf16."""

import numpy as np
import pytest

from diastole_sim.program.chains.activations import ACTIVATIONS
from diastole_sim.program.optimizer_table import OPTIMIZERS
from diastole_sim.program.run import ProgramRun, golden_machine
from diastole_sim.train.float_device import FloatDevice
from diastole_sim.train.job import run_task
from diastole_sim.train.samples import Samples
from diastole_sim.trainer.float_run import FloatRun
from diastole_sim.trainer.options import ProgramOptions
from support.host_perceptron import samples_by_host
from support.numerics import make_numerics
from support.small_programs import make_limits

NUMERICS = make_numerics(block=8, formats="bf16", roundings="nearest")
LIMITS = make_limits(NUMERICS)
STEPS = 6


@pytest.fixture
def task(np_rng):
    inputs = np_rng.normal(size=(90, 5)).astype(np.float32)
    return samples_by_host(Samples(inputs=inputs, labels=np_rng.integers(0, 3, size=90)), "own")


def test_it_is_that_of_the_host(task):
    made = ProgramOptions(limits=LIMITS).program(task, NUMERICS, steps=STEPS, seed=1)
    run = FloatRun(made.recipe, made.training)
    losses = [run.step(step) for step in range(STEPS)]
    host = run_task(task, FloatDevice(), backend="any", steps=STEPS, seed=1, float_run=False)
    np.testing.assert_allclose(losses, host.history.losses, rtol=1e-4)
    loss, accuracy = made.measures(run.result(made.held_out))
    assert loss == pytest.approx(host.loss, rel=1e-4)
    assert accuracy == host.accuracy


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.sampled(6)
def test_programs_follow_it(task, optimizer, activation):
    options = ProgramOptions(
        limits=LIMITS,
        optimizer=optimizer,
        activation=activation,
        hidden=(20, 12),
        loss_scale=4 if activation == "gelu" else None,
        rate=None if optimizer == "sgd" else 0.003,
    )
    both_learn(task, options)


@pytest.mark.parametrize(
    "options",
    [
        {"optimizer": "sgd", "momentum": 0.0, "weight_decay": 0.5},
        {"optimizer": "rmsprop", "momentum": 0.75, "weight_decay": 0.25},
        {"optimizer": "nesterov", "momentum": 0.5, "clip": 0.25},
        {"optimizer": "adam", "betas": (0.5, 0.0), "weight_decay": 0.5},
        {"optimizer": "adamw", "betas": (0.25, 0.75), "weight_decay": 16.0},
    ],
    ids=lambda options: options["optimizer"],
)
@pytest.mark.sampled(2)
def test_programs_follow_what_optimisers_are_told(task, options):
    rate = 0.25 if options["optimizer"] in ("sgd", "nesterov") else 0.01
    common = {"limits": LIMITS, "hidden": (20,), "rate": rate}
    told = both_learn(task, ProgramOptions(**common, **options))
    plain = both_learn(task, ProgramOptions(**common, optimizer=options["optimizer"]))
    assert np.abs(told[1:] / plain[1:] - 1).max() > 0.01


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_an_infinite_norm_clips_to_nothing(optimizer, np_rng):
    """Gradients whose squares overflow in float32 are multiplied by 0, as torch does it."""
    inputs = np.float32(1e21) * np_rng.normal(size=(90, 5)).astype(np.float32)
    task = samples_by_host(Samples(inputs=inputs, labels=np_rng.integers(0, 3, size=90)), "own")
    options = ProgramOptions(limits=LIMITS, optimizer=optimizer, clip=1.0, weight_decay=0.0)
    made = options.program(task, NUMERICS, steps=1, seed=1)
    run = FloatRun(made.recipe, made.training)
    before = run.parameters()
    with np.errstate(over="ignore"):
        run.step(0)
    for name, values in run.parameters().items():
        np.testing.assert_array_equal(values, before[name])


def both_learn(task, options):
    """The losses of the program, which are those in float32, nearly."""
    made = options.program(task, NUMERICS, steps=STEPS, seed=1)
    machine = golden_machine(made.program, NUMERICS, LIMITS, seed=1)
    program = ProgramRun(program=made.program, machine=machine)
    program.train(STEPS)
    run = FloatRun(made.recipe, made.training)
    losses = [run.step(step) for step in range(STEPS)]
    assert losses[-1] != losses[0]
    np.testing.assert_allclose(program.losses(), losses, rtol=0.03)
    return program.losses()
