"""An optimiser's fields, constants and state may be called like anything that a program has."""

from dataclasses import dataclass, field, make_dataclass

import numpy as np
import pytest

from diastole_sim.graph.perceptron import perceptron_graph
from diastole_sim.lowering.program import training_program
from diastole_sim.lowering.recipe import TrainingRecipe
from diastole_sim.program.chain import lines
from diastole_sim.program.chains.updates import update_chain
from diastole_sim.program.recipe import Sgd
from diastole_sim.program.run import ProgramRun, golden_machine
from diastole_sim.train.loss_scaling import LossScaling
from diastole_sim.train.samples import Samples
from diastole_sim.trainer.float_run import FloatRun
from support.numerics import make_numerics
from support.small_programs import BATCH, SAMPLES, WIDTHS, make_limits, samples
from support.texts import exactly

NUMERICS = make_numerics(formats="bf16")
LIMITS = make_limits(NUMERICS)
STEPS = 3
OF_PROGRAMS = (
    "rate", "steps", "momentum", "betas", "weight_decay", "decay", "clip", "seed", "loss_scale",
    "loss_scaling", "precision", "hidden", "activation", "optimizer", "batches", "name", "text",
    "options", "bias", "scaled", "clipped", "w", "g", "image", "v", "m", "u", "kept", "dw", "db",
    "x", "dy", "labels", "rows", "squares", "factor", "losses", "tiny", "eps", "s0", "r0", "o0",
)  # fmt: skip
"""Options, fields, streams, areas, constants and operands that there are."""
NO_FIELDS = ("-lr_t", "1", "128", "192", "1-lr_t*decay", "1/samples", "max_norm*")
"""Constants that no field is called."""
STATES = (
    "v", "kept", "dw", "db", "w image", "x image", "dy image", "bias w", "bias g", "state v",
    "rows of steps", "labels of steps", "losses of steps", "result of an evaluation",
    "z of the loss", "m", "constants of steps", "factor", "w, panel", "w, floats", "gradient",
    "0 product", "sums",
)  # fmt: skip
"""What areas and pieces of the panel are called, with and without their layer."""
HOWS = {"plain": {}, "clipped": {"clip": 0.3}, "scaled": {"loss_scaling": LossScaling()}}


@dataclass(kw_only=True)
class Momentum:
    """Gradient descent whose constants and state are called as a test says."""

    beta: str = "beta"
    lr: str = "lr"
    kept: str = "v"

    def chain(self, options):
        _, g = options.gradient()
        text = f"""
            r1 = mad s2 K[{self.beta}] {g} -> o1
            r2 = mad r1 K[{self.lr}] s1 -> o0
        """
        names = {self.beta: None, self.lr: None}
        return update_chain("own", options, lines(text), state=(self.kept,), constants=names)

    def constants(self):
        return {self.beta: 0.75}

    def of_step(self, step):
        return {self.lr: -0.25 / (step + 1)}


SAME = Sgd(rate=lambda step: 0.25 / (step + 1), momentum=0.75)
"""What it is."""


def trained(optimiser, how):
    """Weights and losses after some steps on the golden machine, and in float32."""
    rng = np.random.default_rng(5)
    training, held_out = (samples(rng, count, WIDTHS[0], WIDTHS[-1]) for count in (SAMPLES, 9))
    recipe = TrainingRecipe(
        graph=perceptron_graph(WIDTHS, batch=BATCH),
        optimiser=optimiser,
        batches=rng.integers(0, SAMPLES, size=(STEPS, BATCH)),
        **how,
    )
    program = training_program(recipe, training, held_out, numerics=NUMERICS, limits=LIMITS)
    run = ProgramRun(program=program, machine=golden_machine(program, NUMERICS, LIMITS, seed=0))
    run.train(STEPS)
    alone = FloatRun(recipe, Samples(inputs=training.values(), labels=training.targets))
    losses = [alone.step(step) for step in range(STEPS)]
    return [*run.parameters().values(), run.losses(), *alone.parameters().values(), losses]


@pytest.fixture(scope="module")
def expected():
    return {name: trained(SAME, how) for name, how in HOWS.items()}


def assert_same(optimiser, how, expected):
    for ours, theirs in zip(trained(optimiser, HOWS[how]), expected[how], strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", [*OF_PROGRAMS, *NO_FIELDS])
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.sampled(8)
def test_constants(name, how, expected):
    names = [*OF_PROGRAMS, *NO_FIELDS]
    other = names[names.index(name) - 1]
    assert_same(Momentum(beta=name, lr=other), how, expected)


@pytest.mark.parametrize("value", [0.5, "text", None])
def test_fields(value, expected):
    """None of them is looked at, whatever it holds."""
    names = set(OF_PROGRAMS) - {"kept"}
    fields = [(name, object, field(default=value, kw_only=True)) for name in names]
    own = make_dataclass("Own", fields, bases=(Momentum,))
    assert own().decay is value
    for how in HOWS:
        assert_same(own(), how, expected)


@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.sampled(8)
def test_states(name, how, expected):
    assert_same(Momentum(kept=name), how, expected)


class Unchanging(Momentum):
    """Nothing of it changes from step to step."""

    def constants(self):
        return super().constants() | {"lr": -0.25}

    def of_step(self, step):
        return {}


def test_nothing_changes_from_step_to_step():
    constant = Sgd(rate=lambda step: 0.25, momentum=0.75)
    for how in HOWS.values():
        for ours, theirs in zip(trained(Unchanging(), how), trained(constant, how), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_constant_without_a_value():
    class Own(Momentum):
        def constants(self):
            return {"other": 1.0}

    said = "own uses K[beta], which has no value; the constants are other"
    with pytest.raises(ValueError, match=exactly(said)):
        trained(Own(), {})


class Shuffled(Momentum):
    """The order of its names is another one in every other step."""

    def of_step(self, step):
        found = super().of_step(step) | {"other": 7.0 + step}
        return dict(reversed(found.items())) if step % 2 else found


def test_constants_of_a_step_are_told_by_name(expected):
    assert_same(Shuffled(), "plain", expected)


@pytest.mark.parametrize(
    "found, said",
    [
        (lambda step: {"lr": -1.0} | ({"b": 1.0} if step else {}),

             ("the same constants must change in every step, but step 0 changes lr and step 1 "
             "changes lr, b")),
        (lambda step: {} if step else {"lr": -1.0},

             ("the same constants must change in every step, but step 0 changes lr and step 1 "
             "changes none")),
        (lambda step: {f"c{n}": 1.0 for n in range(65)},
         "65 constants change from step to step, but the machine has room for 64"),
    ],
)  # fmt: skip
def test_constants_of_steps_that_are_none(found, said):
    class Own(Momentum):
        def of_step(self, step):
            return found(step)

    with pytest.raises(ValueError, match=exactly(said)):
        trained(Own(), {})
