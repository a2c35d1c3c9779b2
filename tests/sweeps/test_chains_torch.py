"""Programs of the vector unit, in float64, against torch: three steps of training a perceptron
whose products are numpy's and whose everything else is chains; without torch: `make torch` has it.
"""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make torch")

from diastole_sim.program.chains import activations, losses, optimisers, sums  # noqa: E402
from diastole_sim.program.chains.inputs import add_bias_alone  # noqa: E402
from diastole_sim.program.chains.updates import CLIP_FACTOR, Options  # noqa: E402
from diastole_sim.program.evaluate import in_float64  # noqa: E402
from support.optimisers import SETTINGS, constants_of_step  # noqa: E402

SIZES = (9, 13, 6)
SAMPLES = 11
STEPS = 3
MAX_NORM = 0.05
FUNCTIONS = {
    activations.relu: torch.relu,
    activations.leaky_relu: torch.nn.functional.leaky_relu,
    activations.sigmoid: torch.sigmoid,
    activations.silu: torch.nn.functional.silu,
    activations.gelu: lambda z: torch.nn.functional.gelu(z, approximate="tanh"),
    activations.tanh: torch.tanh,
}
LOSSES = ("softmax", "squared_error")


class Chained:
    """A perceptron of two layers, all but products as chains; ``parameters``: w and b of each
    layer. ``clipped``: gradients by their norm."""

    def __init__(self, parameters, activation, loss, setting, clipped):
        self.parameters, self.activation, self.loss = parameters, activation, loss
        self.setting, self.clipped = setting, clipped
        self.state = [{} for _ in parameters]

    def step(self, x, wanted, number):
        """The loss before the update, and the parameters after it."""
        w0, b0, w1, b1 = self.parameters
        z0 = chain(add_bias_alone(), len(b0), y=x @ w0, b=b0)["z"]
        first = chain(self.activation.forward_chain(), len(b0), input=z0)
        loss, dz1 = self.output(first["value"] @ w1, b1, wanted)
        inputs = {"above": dz1 @ w1.T, "kept": first["kept"]}
        dz0 = chain(self.activation.backward_chain(), len(b0), **inputs)["input"]
        db0, db1 = (chain(sums.panel_sums(), len(dz[0]), values=dz)["sums"] for dz in (dz0, dz1))
        found = [x.T @ dz0, db0, first["value"].T @ dz1, db1]
        constants = constants_of_step(self.setting, number) | {CLIP_FACTOR: self.factor(found)}
        self.parameters = [self.update(*each, constants) for each in enumerate(found)]
        return loss

    def output(self, y, b, wanted):
        """Loss and gradient."""
        columns = len(b)
        logits = chain(add_bias_alone(), columns, y=y, b=b)["z"]
        if self.loss == "squared_error":
            found = chain(losses.squared_error(y.size), columns, z=logits, target=wanted)
            total, count = found["loss"], y.size
        else:
            z = chain(losses.softmax_a(), columns, logits=logits)
            e = chain(losses.softmax_b(), columns, z=z["z"], m=z["m"], label=wanted)
            inputs = {"z": e["z"], "m": e["m"], "label": wanted}
            found = chain(losses.softmax_c(len(y)), columns, **inputs)
            total, count = e["loss"], len(y)
        mean = chain(losses.mean_loss(), SAMPLES, {"1/samples": 1 / count}, losses=total[None, :])
        return mean["constant"], found["gradient"]

    def factor(self, gradients):
        """That of the norm of all gradients."""
        if not self.clipped:
            return None
        squares = [chain(sums.column_squares(), g.shape[1], values=whole(g))["sums"]
                   for g in gradients[::2]]  # fmt: skip
        biases = [whole(db.sum(axis=0, keepdims=True)) for db in gradients[1::2]]
        squares += [chain(sums.column_squares(), b.shape[1], values=b)["sums"] for b in biases]
        every = np.concatenate(squares)[None, :]
        constants = {"max_norm": MAX_NORM}
        return chain(sums.clip_factor(), every.size, constants, squares=every)["factor"]

    def update(self, place, gradient, constants):
        before, bias = self.parameters[place], place % 2 == 1
        options = Options(bias=bias, clipped=self.clipped, decay=self.setting.decay_in_gradient)
        made = getattr(optimisers, self.setting.make)(options, **self.setting.options)
        names = [name for name in made.outputs if name not in ("w", "image")]
        state = self.state[place] or {name: np.zeros_like(before) for name in names}
        rows = 1 if bias else len(before)
        inputs = {"g": gradient, "w": before} | state
        found = chain(made, before.shape[-1], constants, rows=rows, **inputs)
        self.state[place] = {name: found[name] for name in names}
        return found["w"]


def whole(values):
    return np.ascontiguousarray(values)


def chain(made, columns, constants=None, *, rows=None, **inputs):
    """A chain's outputs; its tensor has the rows of its first input."""
    first = next(iter(inputs.values()))
    shape = (len(first) if rows is None else rows), columns
    return in_float64(made, inputs, shape=shape, constants=constants)


def parameters(np_rng):
    found = []
    for inputs, outputs in itertools.pairwise(SIZES):
        found += [np_rng.normal(size=(inputs, outputs)), np_rng.normal(size=outputs)]
    return found


def compare(np_rng, make, loss, setting, clipped):
    start = parameters(np_rng)
    chained = Chained([each.copy() for each in start], make(), loss, setting, clipped)
    held = [torch.tensor(each, requires_grad=True) for each in start]
    optimiser = getattr(torch.optim, setting.torch)(held, **setting.torch_arguments())
    for number in range(STEPS):
        x = np_rng.normal(size=(SAMPLES, SIZES[0]))
        if loss == "softmax":
            wanted = np_rng.integers(0, SIZES[2], size=SAMPLES)
            criterion = torch.nn.functional.cross_entropy
        else:
            wanted = np_rng.normal(size=(SAMPLES, SIZES[2]))
            criterion = torch.nn.functional.mse_loss
        optimiser.zero_grad()
        w0, b0, w1, b1 = held
        hidden = FUNCTIONS[make](torch.tensor(x) @ w0 + b0)
        expected = criterion(hidden @ w1 + b1, torch.tensor(wanted))
        expected.backward()
        if clipped:
            torch.nn.utils.clip_grad_norm_(held, MAX_NORM)
        optimiser.step()
        found = chained.step(x, wanted, number)
        np.testing.assert_allclose(found, expected.item(), rtol=1e-9)
        for ours, theirs in zip(chained.parameters, held, strict=True):
            np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("make", FUNCTIONS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("loss", LOSSES)
def test_activations_and_losses(make, loss, np_rng):
    compare(np_rng, make, loss, SETTINGS["momentum"], clipped=False)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("clipped", [False, True], ids=["as they are", "clipped"])
def test_optimisers(name, clipped, np_rng):
    compare(np_rng, activations.silu, "softmax", SETTINGS[name], clipped=clipped)


def test_every_activation_is_compared():
    assert set(FUNCTIONS) == set(activations.ACTIVATIONS.values())
