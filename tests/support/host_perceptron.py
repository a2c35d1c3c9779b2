"""A perceptron that a host trains, with products on a device: the judge of programs.

Everything else is numpy, in :mod:`diastole_sim.train.host`. Only the tests have it: `train` trains
every perceptron by a program.
"""

import hashlib
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from diastole_sim.device.interface import Floats
from diastole_sim.train import host
from diastole_sim.train.draws import initial_weights
from diastole_sim.train.loss_scaling import UNSCALED, HostScale
from diastole_sim.train.master import FLOAT32, Master, bias_tag, weight_tag
from diastole_sim.train.network import LayerShape, Parameter
from diastole_sim.train.samples import Samples
from diastole_sim.train.session import ConvertedOperand, Session
from diastole_sim.train.tasks import HIDDEN, Task, find_task, task_of_samples


@dataclass(frozen=True, kw_only=True)
class LayerState:
    """Values of a layer's forward pass for the backward pass: operands and ``z = X W + bias``."""

    x: ConvertedOperand
    w: ConvertedOperand
    z: Floats


class Perceptron:
    """Perceptron with layers of ``sizes[0] -> sizes[1] -> ...`` units, a ReLU between two layers,
    and no activation after the last layer.

    ``weights`` (inputs, outputs) and ``biases`` (outputs,) are lists of :class:`Parameter`, one per
    layer. Initial weights come from ``seed``, biases start at 0. Layers count from 0. Weights and
    biases have the format ``master``. Updates draw random bits from ``seed``.
    """

    def __init__(self, sizes: tuple[int, ...], *, seed: int, master: Master = FLOAT32):
        pairs = list(itertools.pairwise(sizes))
        self.seed, self.master = seed, master
        self.weights = [
            Parameter.at(master.start(initial_weights(inputs, outputs, seed=seed, layer=layer)))
            for layer, (inputs, outputs) in enumerate(pairs)
        ]
        self.biases = [Parameter.at(np.zeros(outputs, np.float32)) for _, outputs in pairs]
        self._inputs: ConvertedOperand | None = None  # converted inputs of the next step

    @property
    def depth(self) -> int:
        """Number of layers."""
        return len(self.weights)

    @property
    def parameters_by_name(self) -> dict[str, list[Parameter]]:
        """Parameters by the name of the attribute."""
        return {"weights": self.weights, "biases": self.biases}

    def shapes(self, batch: Samples) -> list[LayerShape]:
        """Return the shapes of the products of a step."""
        sizes = [weight.value.shape for weight in self.weights]
        rows = len(batch.inputs)
        return [
            LayerShape(m=rows, k=k, n=n, input_gradient=layer > 0)
            for layer, (k, n) in enumerate(sizes)
        ]

    def forward(
        self,
        session: Session,
        inputs: Floats | ConvertedOperand,
        *,
        step: int,
        first_layer: int = 0,
    ) -> list[LayerState]:
        """Run the forward pass of all layers. ``first_layer``: number added to the layers' numbers
        in the tags of random bits.

        A layer's weights are converted beside the product of the previous layer. ``inputs`` may be
        converted already.
        """
        passed: list[LayerState] = []
        depth = self.depth

        def weights(index: int, *, overlap: bool) -> ConvertedOperand:
            value = self.weights[index].value
            layer = first_layer + index
            return session.convert(value, "w", layer=layer, step=step, overlap=overlap)

        def activations(values: Floats | ConvertedOperand, layer: int) -> ConvertedOperand:
            if isinstance(values, ConvertedOperand):
                return values
            return session.convert(values, "x", layer=layer, step=step)

        w = weights(0, overlap=False)
        for index, bias in enumerate(self.biases):
            layer = first_layer + index
            x = activations(inputs, layer)
            following = weights(index + 1, overlap=True) if index + 1 < depth else None
            y = session.forward(x, w, layer=layer, step=step)
            passed.append(LayerState(x=x, w=w, z=host.add_bias(y, bias.value)))
            inputs = host.relu(passed[-1].z)
            if following is not None:
                w = following
        return passed

    def gradients(
        self,
        session: Session,
        passed: list[LayerState],
        dy: Floats,
        *,
        step: int,
        before_product: Callable[[], None] | None = None,
    ) -> list[tuple[Floats, Floats]]:
        """Return (dW, dbias) of every layer, from the gradient ``dy`` by the last layer's ``z``.

        The operands of the forward pass are used again; only dY is converted. Layer 0 needs no dX.
        ``before_product``: called before the first product, to request a conversion beside it.
        """
        gradients: list[tuple[Floats, Floats]] = []
        for layer in reversed(range(self.depth)):
            converted = session.convert(dy, "dy", layer=layer, step=step)
            dbias = host.sum_rows(dy)
            x, w = passed[layer].x, passed[layer].w
            if layer == self.depth - 1 and before_product is not None:
                before_product()
            if layer == 0:
                dw = session.dw(x, converted, layer=layer, step=step)
            else:
                dx, dw = session.backward(x, w, converted, layer=layer, step=step)
                dy = host.relu_gradient(dx, passed[layer - 1].z)
            gradients.append((dw, dbias))
        return gradients[::-1]

    def train_step(
        self,
        session: Session,
        batch: Samples,
        *,
        step: int,
        rate: np.float32,
        momentum: float,
        following: Samples | None = None,
        scale: HostScale = UNSCALED,
    ) -> tuple[float, float]:
        """Do one step on ``batch``. Return loss and accuracy, both before the update.

        The inputs of ``following``, the batch of the next step, are converted beside the first
        product of the backward pass, which reads little, and kept for the next step.
        """
        inputs, self._inputs = self._inputs, None
        passed = self.forward(session, batch.inputs if inputs is None else inputs, step=step)
        loss, dy = host.softmax_cross_entropy(passed[-1].z, batch.labels)

        def convert_following() -> None:
            if following is not None:
                self._inputs = session.convert(
                    following.inputs, "x", layer=0, step=step + 1, overlap=True
                )

        dy = scale.scaled(dy)
        layer_gradients = self.gradients(
            session, passed, dy, step=step, before_product=convert_following
        )
        every: list[Floats] = []
        for layer, (dw, dbias) in enumerate(layer_gradients):
            every += [scale.of_weights(dw, tag=weight_tag(layer), step=step), dbias]
        gradients = scale.unscaled(every, overflowed=session.overflowed)
        for number, gradient in enumerate(gradients):
            layer, of_bias = divmod(number, 2)
            parameters, tag = self.weights, weight_tag(layer)
            if of_bias:
                parameters, tag = self.biases, bias_tag(layer)
            rounded = partial(self.master.round, seed=self.seed, tag=tag, step=step)
            parameters[layer] = parameters[layer].descend(gradient, rate, momentum, rounded)
        return float(loss), host.accuracy(passed[-1].z, batch.labels)

    def evaluate(self, session: Session, samples: Samples, *, step: int) -> tuple[float, float]:
        """Return loss and accuracy on ``samples``, with one product per layer.

        Layers are numbered after the last layer, so no random bits are shared with training.
        """
        z = self.forward(session, samples.inputs, step=step, first_layer=self.depth)[-1].z
        loss, _ = host.softmax_cross_entropy(z, samples.labels)
        return float(loss), host.accuracy(z, samples.labels)

    def sha256(self) -> str:
        """Return the SHA-256 of the weights, then the bias, of every layer in order, row by row, as
        little-endian bytes of the master format."""
        digest = hashlib.sha256()
        for weight, bias in zip(self.weights, self.biases, strict=True):
            digest.update(self.master.to_bytes(weight.value))
            digest.update(self.master.to_bytes(bias.value))
        return digest.hexdigest()


def perceptron(training, *, seed, master=FLOAT32, hidden=HIDDEN, classes):
    """A perceptron of one hidden layer, for features and classes."""
    return Perceptron((training.inputs.shape[1], hidden, classes), seed=seed, master=master)


def by_host(task: Task, *, classes: int, hidden: int = HIDDEN) -> Task:
    """A task that a host trains."""
    return replace(task, network=partial(perceptron, hidden=hidden, classes=classes))


def digits_by_host() -> Task:
    return by_host(find_task("digits"), classes=10)


def samples_by_host(samples: Samples, name: str) -> Task:
    """As :func:`task_of_samples`."""
    return by_host(task_of_samples(samples, name), classes=int(samples.labels.max()) + 1)
