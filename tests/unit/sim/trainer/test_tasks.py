"""The digits, every operation on the chip."""

from functools import partial

import numpy as np
import pytest

from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.lowering.samples import StoredSamples
from diastole_sim.program.recipe import Adam, falling
from diastole_sim.program.run import ProgramRun, golden_machine
from diastole_sim.train.job import run_task
from diastole_sim.train.samples import Samples
from diastole_sim.train.tasks import find_task, task_of_samples
from diastole_sim.trainer.tasks import AccumulateError, task_program, task_recipe
from support.host_perceptron import digits_by_host
from support.numerics import make_numerics
from support.small_programs import make_limits
from support.sweep import sweep


@pytest.fixture(scope="module")
def machine():
    numerics = make_numerics(block=8)
    limits = make_limits(numerics, panel_vectors=2048, data_width=128)
    return {"numerics": numerics, "limits": limits}


def start(program, machine, seed=0):
    return ProgramRun(program=program, machine=golden_machine(program, **machine, seed=seed))


@pytest.mark.parametrize(
    "steps, least, most", [(75, 0.9, 0.3), sweep(300, 0.96, 0.05)], ids=["75 steps", "300 steps"]
)
def test_the_digits_are_learnt(machine, steps, least, most):
    """To an accuracy and a loss."""
    made = task_program(find_task("digits"), **machine, steps=steps)
    run = start(made.program, machine)
    run.train(steps)
    accuracy = (run.evaluate().argmax(axis=1) == made.held_out.labels).mean()
    assert accuracy >= least
    assert run.losses()[-25:].mean() < most
    opcodes = [command.opcode.name for command in made.program.training]
    loop = opcodes[opcodes.index("NEXT") - 12 : opcodes.index("NEXT")]
    assert loop == [
        *("LOAD", "CHAIN", "FORWARD_CHAIN", "FORWARD_CHAIN", "CHAIN", "CHAIN", "CHAIN"),
        *("DX_CHAIN", "DW_CHAIN", "DW_CHAIN", "CHAIN", "CHAIN"),
    ]


@pytest.mark.parametrize("seed", [0, 1])
def test_the_first_steps_are_those_of_a_host(machine, seed):
    made = task_program(find_task("digits"), **machine, steps=12, seed=seed)
    run = start(made.program, machine, seed)
    run.train(12)
    device = NumpyDevice(machine["numerics"], seed)
    host = run_task(
        digits_by_host(), device, backend="golden", steps=12, seed=seed, float_run=False
    )
    np.testing.assert_allclose(run.losses(), host.history.losses, rtol=1e-5)
    accuracy = (run.evaluate().argmax(axis=1) == made.held_out.labels).mean()
    assert accuracy == host.accuracy


@pytest.mark.parametrize("steps, share", [(30, 0.8), sweep(100, 0.6)])
def test_other_networks_and_optimisers(machine, np_rng, steps, share):
    samples = Samples(
        inputs=np_rng.normal(size=(60, 5)).astype(np.float32),
        labels=np_rng.integers(0, 3, size=60),
    )
    task = task_of_samples(samples, "own")
    adam = Adam(rate=falling(0.01, steps), decoupled=True, weight_decay=0.01)
    options = {"hidden": (20, 12), "activation": "gelu", "optimiser": adam}
    made = task_program(task, **machine, steps=steps, **options)
    run = start(made.program, machine)
    run.train(steps)
    losses = run.losses()
    assert losses[-10:].mean() < share * losses[:10].mean()


def test_microbatches(machine):
    """A step of microbatches is a step of the whole batch, apart from roundings."""
    task = find_task("digits")
    every = {n: task_program(task, **machine, steps=3, accumulate=n) for n in (1, 4)}
    assert [made.recipe.batch for made in every.values()] == [64, 16]
    runs = {count: start(made.program, machine) for count, made in every.items()}
    for run in runs.values():
        run.train(3)
    np.testing.assert_allclose(runs[4].losses(), runs[1].losses(), rtol=0.02)
    shapes = [made.program.areas["0 gradient image dy"].shape for made in every.values()]
    assert shapes == [(64, 64), (16, 64)]
    areas = every[4].program.areas
    places = {areas[f"0 gradient{n} image dy"].address for n in ("", ", microbatch 2")}
    assert len(places) == 1  # images of two microbatches are never alive together


@pytest.mark.parametrize(
    "accumulate, text", [(3, "as 2 and 4, not 3"), (65, "as 64, not 65"), (48, "as 32 and 64, not")]
)
def test_microbatches_of_different_sizes(accumulate, text):
    with pytest.raises(AccumulateError, match=f"must divide the 64 samples of a step, {text}"):
        task_recipe(find_task("digits"), accumulate=accumulate)


def test_samples_that_are_no_bytes():
    stored = partial(StoredSamples.of, scale=1 / 16)
    labels = np.zeros(1, np.int64)
    samples = Samples(inputs=np.array([[255 / 16, 0]], np.float32), labels=labels)
    assert stored(samples).inputs.tolist() == [[255, 0]]
    assert not StoredSamples.of(samples).are_bytes
