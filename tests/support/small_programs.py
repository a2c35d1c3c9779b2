"""Programs of small perceptrons, and machines to run them on."""

import numpy as np

from diastole_sim.graph.perceptron import perceptron_graph
from diastole_sim.lowering.program import training_program
from diastole_sim.lowering.recipe import TrainingRecipe
from diastole_sim.lowering.samples import StoredSamples
from diastole_sim.program.recipe import Adagrad, Adam, RmsProp, Sgd
from diastole_sim.program.run import ProgramRun, golden_machine
from diastole_sim.spec.limits import Limits, VectorLimits
from diastole_sim.spec.nest import ProductNests
from support.golden_machines import NESTS
from support.numerics import make_numerics

BATCH, SAMPLES, HELD_OUT = 9, 40, 14
WIDTHS = (13, 11, 7)


def make_limits(numerics, *, panel_vectors=1024, data_width=64, nests=NESTS, draws=True):
    """Of a machine with a vector unit. ``draws``: and with random numbers."""
    every = ProductNests(forward=nests, dx=nests, dw=nests)
    vector = VectorLimits(panel_vectors=panel_vectors, draws=draws)
    return Limits.of(numerics, data_width=data_width, nests=every, vector=vector)


def samples(rng, count, features, classes, *, as_bytes=True, scale=1 / 16):
    """Random ones."""
    labels = rng.integers(0, classes, size=count)
    if as_bytes:
        inputs = rng.integers(0, 17, size=(count, features)).astype(np.uint8)
        return StoredSamples(inputs=inputs, targets=labels, scale=scale)
    inputs = rng.normal(size=(count, features)).astype(np.float32)
    return StoredSamples(inputs=inputs, targets=labels)


def optimiser_of(setting):
    """That of ``support.optimisers``, for a recipe."""
    common = {"rate": lambda step: setting.rate}
    if setting.torch == "SGD":
        nesterov = bool(setting.options.get("nesterov"))
        return Sgd(
            momentum=setting.momentum, nesterov=nesterov, weight_decay=setting.decay, **common
        )
    if setting.torch == "RMSprop":
        return RmsProp(
            alpha=setting.alpha,
            eps=setting.eps,
            momentum=setting.momentum,
            weight_decay=setting.decay,
            **common,
        )
    if setting.torch == "Adagrad":
        return Adagrad(eps=setting.eps, weight_decay=setting.decay, **common)
    return Adam(
        betas=setting.betas,
        eps=setting.eps,
        weight_decay=setting.decay,
        decoupled=setting.torch == "AdamW",
        **common,
    )


class SmallRun:
    """``widths``, ``numerics``, ``limits``, ``training``, ``held_out``, ``recipe``, ``program``;
    ``start`` gives a machine with the program."""

    def __init__(
        self,
        rng,
        setting,
        *,
        widths=WIDTHS,
        steps=4,
        numerics=None,
        activation="relu",
        as_bytes=True,
        scale=1 / 16,
        limits=None,
        **others,
    ):
        self.numerics = numerics or make_numerics(formats="bf16")
        self.limits = make_limits(self.numerics, **limits or {})
        sizes = widths[0], widths[-1]
        kind = {"as_bytes": as_bytes, "scale": scale}
        self.training = samples(rng, SAMPLES, *sizes, **kind)
        self.held_out = samples(rng, HELD_OUT, *sizes, **kind)
        self.widths = widths
        self.recipe = TrainingRecipe(
            graph=perceptron_graph(widths, batch=BATCH, activation=activation),
            optimiser=optimiser_of(setting),
            batches=rng.integers(0, SAMPLES, size=(steps, BATCH)),
            **others,
        )
        self.program = training_program(
            self.recipe,
            self.training,
            self.held_out,
            numerics=self.numerics,
            limits=self.limits,
        )

    def start(self, seed=0):
        machine = golden_machine(self.program, self.numerics, self.limits, seed=seed)
        return ProgramRun(program=self.program, machine=machine)

    def batch(self, step):
        """Values and labels of a step."""
        rows = self.recipe.batches[step]
        return self.training.values()[rows], self.training.targets[rows]
