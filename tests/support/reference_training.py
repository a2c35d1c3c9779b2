"""A perceptron whose products are the golden device's, and whose everything else is numpy float64:
what a program must come close to."""

import itertools

import numpy as np

from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.program.chains import activations
from diastole_sim.train.draws import initial_weights
from support.optimisers import Updater


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def both(value, slope):
    return lambda z: (value(z), slope(z))


FUNCTIONS = {
    "relu": both(lambda z: np.maximum(z, 0), lambda z: z > 0),
    "leaky_relu": both(lambda z: np.where(z > 0, z, z / 100), lambda z: np.where(z > 0, 1, 0.01)),
    "sigmoid": both(sigmoid, lambda z: sigmoid(z) * (1 - sigmoid(z))),
    "silu": both(lambda z: z * sigmoid(z), lambda z: sigmoid(z) * (1 + z * (1 - sigmoid(z)))),
    "tanh": both(np.tanh, lambda z: 1 - np.tanh(z) ** 2),
}
"""Value and slope, by the name of the activation."""
MAKERS = {name: getattr(activations, name) for name in FUNCTIONS}


class Reference:
    """``widths``, ``seed``: as of a recipe. ``setting``: of ``support.optimisers``. ``clip``: the
    largest norm. ``rate``: by step, None for that of the setting."""

    def __init__(self, widths, numerics, setting, *, activation="relu", clip=None, seed=0):
        self.device = NumpyDevice(numerics, seed)
        self.f, self.clip = FUNCTIONS[activation], clip
        pairs = list(itertools.pairwise(widths))
        self.w = [
            initial_weights(*pair, seed=seed, layer=layer) for layer, pair in enumerate(pairs)
        ]
        self.b = [np.zeros(outputs, np.float32) for _, outputs in pairs]
        self.updaters = [(Updater(setting), Updater(setting)) for _ in pairs]

    def convert(self, values, name, layer, step):
        tag = 4 * layer + ("x", "w", "dy").index(name)
        return self.device.convert(values.astype(np.float32), name, tag=tag, step=step)

    def forward(self, x, step, first=0):
        """Operands, logits of every layer, and slopes; ``first``: added to the layers' numbers."""
        operands, slopes = [], []
        for layer, (w, b) in enumerate(zip(self.w, self.b, strict=True)):
            pair = (
                self.convert(x, "x", first + layer, step),
                self.convert(w, "w", layer, (step - 1) % 2**32),
            )
            z = self.device.forward(*pair).y.astype(np.float64) + b
            x, slope = self.f(z)
            operands.append(pair)
            slopes.append(slope)
        return operands, z, slopes

    def step(self, x, labels, step):
        """The mean loss before the update."""
        operands, z, slopes = self.forward(x, step)
        rows = np.arange(len(z))
        e = np.exp(z - z.max(axis=1, keepdims=True))
        total = e.sum(axis=1)
        loss = np.log(total) + z.max(axis=1) - z[rows, labels]
        dy = e / total[:, None]
        dy[rows, labels] -= 1
        dy /= len(z)
        found = []
        for layer in reversed(range(len(self.w))):
            held = self.convert(dy, "dy", layer, step)
            x, w = operands[layer]
            found.append((self.device.dw(x, held).dw.astype(np.float64), dy.sum(axis=0)))
            if layer:
                dy = self.device.dx(w, held).dx.astype(np.float64) * slopes[layer - 1]
        self.update(found[::-1])
        return loss.mean()

    def update(self, gradients):
        factor = 1.0
        if self.clip is not None:
            squares = sum((part**2).sum() for pair in gradients for part in pair)
            factor = min(1.0, self.clip / (np.sqrt(squares) + 1e-6))
        for layer, (dw, db) in enumerate(gradients):
            of_w, of_b = self.updaters[layer]
            self.w[layer] = of_w.update(self.w[layer], factor * dw).astype(np.float32)
            self.b[layer] = of_b.update(self.b[layer], factor * db).astype(np.float32)
