"""What people choose of a training, as a recipe."""

from dataclasses import replace

import numpy as np
import pytest

from diastole_sim.program.optimizer_table import OPTIMIZERS
from diastole_sim.program.recipe import Adagrad, Adam, Lars, RmsProp, Sgd
from diastole_sim.program.run import ProgramRun, golden_machine
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.train.loss_scaling import LossScaling
from diastole_sim.train.precision import Precision
from diastole_sim.train.samples import Samples
from diastole_sim.train.tasks import task_of_samples
from diastole_sim.trainer.float_run import FloatRun
from diastole_sim.trainer.options import ProgramOptions
from support.numerics import make_numerics
from support.small_programs import make_limits

NUMERICS = make_numerics(block=8)
LIMITS = make_limits(NUMERICS)


def shape_of(recipe):
    """Features and units of the layers, and the operations between layers."""
    between = {node.operation for node in recipe.graph.nodes[:-1]} - {"linear"}
    return [recipe.columns("input"), *(node.shape[1] for node in recipe.linears)], between


@pytest.fixture
def task(np_rng):
    inputs = np_rng.normal(size=(60, 5)).astype(np.float32)
    return task_of_samples(Samples(inputs=inputs, labels=np.arange(60) % 3), "own")


def made(task, **options):
    return ProgramOptions(limits=LIMITS, **options).program(task, NUMERICS, steps=4, seed=1)


def test_defaults_are_those_of_the_task(task):
    recipe = made(task).recipe
    assert shape_of(recipe) == ([5, 64, 3], {"relu"})
    assert recipe.loss_scaling is None
    optimiser = recipe.optimiser
    assert isinstance(optimiser, Sgd)
    assert optimiser.momentum == task.momentum
    assert [optimiser.rate(step) for step in range(4)] == [0.5, 0.375, 0.25, 0.125]


def test_everything_else(task):
    recipe = made(task, hidden=(7, 9), activation="leaky-relu", loss_scale=5, rate=0.25).recipe
    assert shape_of(recipe) == ([5, 7, 9, 3], {"leaky_relu"})
    assert recipe.loss_scaling == LossScaling(exponent=5)
    assert recipe.optimiser.rate(0) == 0.25
    floors = ((2, 7),)
    recipe = made(task, loss_scale=5, loss_scale_floor=floors).recipe
    assert recipe.loss_scaling == LossScaling(exponent=5, floors=floors)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimisers(name, task):
    optimiser = made(task, optimizer=name).recipe.optimiser
    kinds = {
        "sgd": Sgd,
        "nesterov": Sgd,
        "lars": Lars,
        "rmsprop": RmsProp,
        "adam": Adam,
        "adamw": Adam,
        "adagrad": Adagrad,
    }
    assert type(optimiser) is kinds[name]
    if name in ("adam", "adamw"):
        assert (optimiser.decoupled, optimiser.weight_decay) == (
            (True, 0.01) if name == "adamw" else (False, 0.0)
        )
    assert optimiser.rate(0) == np.float32(OPTIMIZERS[name].defaults.get("rate", task.rate))


def test_what_optimisers_are_told(task):
    sgd = made(task, momentum=0.25, weight_decay=0.125).recipe.optimiser
    assert (sgd.momentum, sgd.weight_decay) == (0.25, 0.125)
    nesterov = made(task, optimizer="nesterov", momentum=0.25).recipe.optimiser
    assert (nesterov.momentum, nesterov.nesterov, sgd.nesterov) == (0.25, True, False)
    assert made(task, optimizer="nesterov").recipe.optimiser.momentum == task.momentum
    assert (made(task, clip=0.5).recipe.clip, made(task).recipe.clip) == (0.5, None)
    assert made(task, momentum=0.0).recipe.optimiser.momentum == 0 != task.momentum
    rmsprop = made(task, optimizer="rmsprop", momentum=0.5, weight_decay=0.25).recipe.optimiser
    assert (rmsprop.momentum, rmsprop.weight_decay) == (0.5, 0.25)
    assert made(task, optimizer="rmsprop").recipe.optimiser.momentum == 0
    for name, decay in (("adam", 0.0), ("adamw", 0.01)):
        adam = made(task, optimizer=name, betas=(0.5, 0.75)).recipe.optimiser
        assert (adam.betas, adam.weight_decay) == ((0.5, 0.75), decay)
        adam = made(task, optimizer=name, weight_decay=0.5).recipe.optimiser
        assert (adam.betas, adam.weight_decay) == ((0.9, 0.999), 0.5)
    assert made(task, optimizer="adamw", weight_decay=0.0).recipe.optimiser.weight_decay == 0


def test_what_a_result_says(task):
    options = ProgramOptions(limits=LIMITS, optimizer="adam", hidden=(3,))
    assert options.description(task) == {
        "optimizer": "adam", "rate": 0.01, "momentum": None, "betas": (0.9, 0.999),
        "weight_decay": 0.0, "hidden": (3,), "activation": "relu", "clip": None, "accumulate": 1,
        "loss_scale": None,
        "optimizer_sha256": None, "activation_sha256": None,
        "loss_scale_floor": (), "schedule": "linear", "warmup": 0, "step_size": None, "gamma": None,
        "groups": (), "trust": None,
    }  # fmt: skip
    assert replace(options, rate=2.0).first_rate(task) == 2.0
    sgd = replace(options, optimizer="sgd", weight_decay=0.5).description(task)
    assert (sgd["momentum"], sgd["betas"], sgd["weight_decay"]) == (task.momentum, None, 0.5)
    assert replace(options, optimizer="adamw").description(task)["weight_decay"] == 0.01


# Networks whose tables do not fit at once.

OTHERS = (
    {},
    {"clip": 1.0},
    {"loss_scale": 4},
    {"clip": 1.0, "loss_scale": 4, "weight_decay": 0.5, "activation": "tanh"},
)
MACHINES = {
    "bf16": {"formats": "bf16"},
    "nvfp4": {"formats": "nvfp4", "groupings": "1x16"},
    "fast": {"formats": "fast", "widths": (2, 4)},
}


@pytest.mark.parametrize("depth", [4, 12])
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("others", OTHERS, ids=lambda others: " ".join(others) or "plain")
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.sampled(8)
def test_deep_networks_load_streams_in_parts(name, others, machine, depth, task):
    numerics = make_numerics(block=8, **MACHINES[machine])
    precision = Precision(kind="fast", classes=CLASS_NAMES) if machine == "fast" else None
    limits = make_limits(numerics, panel_vectors=4096)
    options = ProgramOptions(
        limits=limits, optimizer=name, hidden=(9,) * depth, precision=precision, **others
    )
    made = options.program(task, numerics, steps=2, seed=0)
    assert made.recipe.depth == depth + 1
    assert "descriptors of training, part 1" in made.program.areas
    machine = golden_machine(made.program, numerics, limits, seed=0)
    run = ProgramRun(program=made.program, machine=machine)
    run.train(2)
    if numerics.x.format.name == "bf16":
        alone = FloatRun(made.recipe, made.training)
        first, second = run.losses()  # rmsprop's first step is long, whatever the gradient
        assert first == pytest.approx(alone.step(0), rel=0.02)
        assert second == pytest.approx(alone.step(1), rel=0.2)
