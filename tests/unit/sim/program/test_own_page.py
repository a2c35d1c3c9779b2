"""Mish, Lion and log-cosh of docs/own.md, against their formulas in numpy float64, alone and in
training."""

import numpy as np
import pytest

from diastole_sim.program.chains.updates import CLIP_FACTOR, Options
from diastole_sim.program.evaluate import in_float64
from diastole_sim.program.own_code import OwnCode
from diastole_sim.program.own_parts import own_activation, own_loss, own_optimizer
from diastole_sim.program.run import ProgramRun, golden_machine
from diastole_sim.spec.stream_table import Kind
from diastole_sim.train.samples import Samples
from diastole_sim.train.tasks import task_of_samples
from diastole_sim.trainer.options import ProgramOptions
from support import reference_training
from support.numerics import make_numerics
from support.own_page import ACTIVATIONS, write_examples
from support.reference_training import Reference
from support.small_programs import make_limits

SHAPE = (11, 7)
RATE, BETAS, DECAY = 0.01, (0.75, 0.875), 0.5
STEPS = 6


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """What the page's files have, by name."""
    folder = tmp_path_factory.mktemp("own files")
    write_examples(folder)
    return {name: OwnCode.read(f"{folder}/{name}.py:{what}")
            for name, what in (("mish", "mish"), ("lion", "Lion"), ("log_cosh", "log_cosh"))
    }  # fmt: skip


def mish(z):
    """As its paper has it (Misra, arXiv:1908.08681)."""
    return z * np.tanh(np.logaddexp(0, z))


def slope_of_mish(z):
    """By the product and chain rules: tanh' = 1 - tanh^2, softplus' is the sigmoid."""
    t = np.tanh(np.logaddexp(0, z))
    return t + z * (1 - t * t) / (1 + np.exp(-z))


class Lion:
    """Algorithm 2 of its paper (Chen et al., arXiv:2302.06675), of one tensor."""

    m = 0.0

    def __init__(self, rate=lambda step: RATE):
        self.rate, self.done = rate, 0

    def update(self, w, g):
        first, second = BETAS
        c = first * self.m + (1 - first) * g
        self.m = second * self.m + (1 - second) * g
        moved = w - self.rate(self.done) * (np.sign(c) + DECAY * w)
        self.done += 1
        return moved


def made_lion(own):
    choice = own_optimizer(own["lion"])
    return choice.make(rate=lambda step: RATE, betas=BETAS, weight_decay=DECAY)


@pytest.mark.parametrize("block", [1, 4, 8])
def test_values_of_mish(own, block, np_rng):
    z = np_rng.normal(size=SHAPE) * np.array([0.05, 0.3, 1, 3, 3, 10, 30])
    chain = own_activation(own["mish"]).forward_chain()
    found = in_float64(chain, {"input": z}, shape=SHAPE, block=block)
    np.testing.assert_allclose(found["value"], mish(z), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["kept"], slope_of_mish(z), rtol=1e-9, atol=1e-9)


def test_mish_where_powers_overflow(own):
    z = np.array([[-800.0, -50.0, 0.0, 50.0, 800.0, 1e30]])
    chain = own_activation(own["mish"]).forward_chain()
    with np.errstate(all="ignore"):
        found = in_float64(chain, {"input": z}, shape=z.shape)
    np.testing.assert_allclose(found["value"], np.where(z > 0, z, mish(z)), rtol=1e-12)
    np.testing.assert_allclose(found["kept"], [[0, 0, 0.6, 1, 1, 1]], atol=1e-15)


def test_the_slope_is_that_of_the_value():
    z, h = np.linspace(-6, 6, 41), 1e-5
    np.testing.assert_allclose(slope_of_mish(z), (mish(z + h) - mish(z - h)) / (2 * h), rtol=1e-8)


@pytest.mark.parametrize("block", [1, 4, 8])
def test_values_of_log_cosh(own, block, np_rng):
    z, target = (np_rng.normal(size=SHAPE) * np.array([1e-3, 0.1, 1, 1, 3, 9, 60]) for _ in "zt")
    chain = own_loss(own["log_cosh"]).element_chain()
    found = in_float64(chain, {"z": z, "target": target}, shape=SHAPE, block=block)
    expected = np.logaddexp(z - target, target - z) - np.log(2)
    np.testing.assert_allclose(found["loss"], expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found["derivative"], np.tanh(z - target), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scaled", [False, True])
def test_the_mean_of_log_cosh(own, scaled, np_rng):
    z, target = np_rng.normal(size=(2, *SHAPE))
    chain = own_loss(own["log_cosh"]).chain(z.size, scaled=scaled)
    found = in_float64(chain, {"z": z, "target": target}, shape=SHAPE, loss_scale=8.0)
    rows = (np.logaddexp(z - target, target - z) - np.log(2)).sum(axis=1)
    np.testing.assert_allclose(np.ravel(found["loss"]), rows, rtol=1e-9, atol=1e-9)
    gradient = np.tanh(z - target) / z.size * (8 if scaled else 1)
    np.testing.assert_allclose(found["gradient"], gradient, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("bias", [False, True], ids=["weights", "bias"])
@pytest.mark.parametrize("factor", [None, "scaled", "clipped"])
def test_four_steps_of_lion(own, bias, factor, np_rng):
    optimiser, reference, block = made_lion(own), Lion(), 4
    options = Options(bias=bias, scaled=factor == "scaled", clipped=factor == "clipped")
    chain, shape = optimiser.chain(options), (1, SHAPE[1]) if bias else SHAPE
    w, m = np_rng.normal(size=shape), np.zeros(shape)
    expected = w
    for step in range(4):
        g = np_rng.normal(size=(block, SHAPE[1]) if bias else SHAPE)
        g[:, 0] = 0
        taken = g.sum(axis=0, keepdims=True) if bias else g
        times = {None: 1.0, "scaled": 1 / 16, "clipped": 0.3}[factor]
        expected = reference.update(expected, times * taken)
        constants = {**optimiser.constants(), **optimiser.of_step(step), CLIP_FACTOR: 0.3}
        inputs = {"g": g} | {n: np.ravel(v) if bias else v for n, v in (("w", w), ("m", m))}
        found = in_float64(
            chain, inputs, shape=shape, block=block, constants=constants, loss_scale=16.0
        )
        w, m = found["w"], found["m"]
        np.testing.assert_allclose(np.reshape(w, shape), expected, rtol=1e-12)
        np.testing.assert_allclose(np.reshape(m, shape), reference.m, rtol=1e-12)


@pytest.mark.parametrize("g, sign", [(1e-37, 1), (-1e-37, -1), (1e38, 1), (np.inf, 1), (0, 0)])
def test_the_sign_of_any_number(own, g, sign):
    """Lion takes the sign of small, large and infinite numbers and of 0. A NaN stays a NaN, so that
    the end of a training reports the NaN."""
    chain, optimiser = made_lion(own).chain(Options()), made_lion(own)
    constants = {**optimiser.constants(), **optimiser.of_step(0)}
    zeros = np.zeros((1, 1))
    for value, expected in ((g, -RATE * sign), (np.nan, np.nan)):
        inputs = {"g": zeros + value, "w": zeros, "m": zeros}
        with np.errstate(all="ignore"):
            found = in_float64(chain, inputs, shape=(1, 1), constants=constants)
        np.testing.assert_array_equal(found["w"], [[expected]])


class OwnReference(Reference):
    """A perceptron of Mish and Lion whose products alone are the golden device's."""

    def __init__(self, widths, numerics, rate, seed):
        reference_training.FUNCTIONS["mish"] = reference_training.both(mish, slope_of_mish)
        super().__init__(widths, numerics, None, activation="mish", seed=seed)
        del reference_training.FUNCTIONS["mish"]
        self.updaters = [(Lion(rate), Lion(rate)) for _ in self.updaters]


@pytest.mark.parametrize("formats", ["bf16", "bfp8"])
@pytest.mark.parametrize("hidden", [(20,), (20, 12)])
def test_training_on_golden_is_that_of_numpy(own, formats, hidden, np_rng):
    inputs = np_rng.normal(size=(90, 5)).astype(np.float32)
    task = task_of_samples(Samples(inputs=inputs, labels=np_rng.integers(0, 3, size=90)), "own")
    numerics = make_numerics(block=8, formats=formats, roundings="nearest")
    limits = make_limits(numerics)
    options = ProgramOptions(
        limits=limits, hidden=hidden, activation=own["mish"], optimizer=own["lion"], rate=RATE,
        betas=BETAS, weight_decay=DECAY,
    )  # fmt: skip
    made = options.program(task, numerics, steps=STEPS, seed=3)
    run = ProgramRun(
        program=made.program, machine=golden_machine(made.program, numerics, limits, seed=3)
    )
    run.train(STEPS)
    reference = OwnReference(
        (5, *hidden, 3), numerics, lambda step: RATE * (1 - step / STEPS), seed=3
    )
    losses = []
    for step, rows in enumerate(made.recipe.batches):
        batch = made.training.take(rows)
        losses.append(reference.step(batch.inputs, batch.labels, step))
    np.testing.assert_allclose(run.losses(), losses, rtol=2e-3)
    assert losses[0] - losses[-1] > 0.1


# Other activations that keep what they like.

OTHERS = {
    "softsign": (lambda z: z / (1 + abs(z)), lambda z: 1 / (1 + abs(z)) ** 2),
    "square": (lambda z: z * z / 2, lambda z: z),
    "step": (lambda z: (z > 0) * 1.0, lambda z: 1.0 + 0 * z),
}


@pytest.fixture
def others(tmp_path):
    (tmp_path / "others.py").write_text(ACTIVATIONS)
    return lambda name: OwnCode.read(f"{tmp_path}/others.py:{name}")


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_kept_is_free(others, name, np_rng):
    """The value, the argument, or nothing that is read."""
    activation, (value, slope) = own_activation(others(name)), OTHERS[name]
    z, da = np_rng.normal(size=SHAPE), np_rng.normal(size=SHAPE)
    exact = 2**-8 if activation.kept[0] == Kind.BF16 else 1e-12
    found = in_float64(activation.forward_chain(), {"input": z}, shape=SHAPE)
    np.testing.assert_allclose(found["value"], value(z), rtol=1e-12)
    inputs = {"above": da, "kept": found["kept"]}
    back = in_float64(activation.backward_chain(), inputs, shape=SHAPE)
    np.testing.assert_allclose(back["input"], da * slope(z), rtol=exact)


@pytest.mark.parametrize("name", OTHERS)
def test_they_train_on_golden(others, name, np_rng):
    """As numpy does; what the step function gets is a bit for each element."""
    value, slope = OTHERS[name]
    inputs = np_rng.normal(size=(60, 5)).astype(np.float32)
    task = task_of_samples(Samples(inputs=inputs, labels=np_rng.integers(0, 3, size=60)), "own")
    numerics = make_numerics(block=8, formats="bf16", roundings="nearest")
    limits = make_limits(numerics)
    options = ProgramOptions(
        limits=limits, hidden=(20,), activation=others(name), optimizer="sgd", rate=0.125,
        momentum=0.0,
    )  # fmt: skip
    made = options.program(task, numerics, steps=3, seed=3)
    run = ProgramRun(
        program=made.program, machine=golden_machine(made.program, numerics, limits, seed=3)
    )
    run.train(3)
    reference_training.FUNCTIONS[name] = reference_training.both(value, slope)
    reference = Reference((5, 20, 3), numerics, None, activation=name, seed=3)
    del reference_training.FUNCTIONS[name]
    reference.updaters = [(Descent(), Descent()) for _ in reference.updaters]
    losses = [
        reference.step(batch.inputs, batch.labels, step)
        for step, batch in enumerate(map(made.training.take, made.recipe.batches))
    ]
    np.testing.assert_allclose(run.losses(), losses, rtol=5e-3)
    assert losses[0] != losses[-1]


class Descent:
    """w = w - lr g, a rate that falls."""

    done = 0

    def update(self, w, g):
        self.done += 1
        return w - 0.125 * (1 - (self.done - 1) / 3) * g
