"""Train a decoder of bytes, with linear layers on a device and all further work on the host in a
stated order.

A block is x + O(attention(QKV(norm x))), then x + Out(ReLU(In(norm x))). The linear layers of each
block, in order, are QKV (queries, keys and values side by side: one product), O, In and Out. The
head follows the blocks. Each linear layer has weights and a bias. To the device, a linear layer is
like a layer of the digits' network. The host computes norms, attention, ReLU, softmax, loss, tables
and the update in float32.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device.interface import Floats
from diastole_sim.train import attention, host, norm
from diastole_sim.train.draws import initial_weights
from diastole_sim.train.loss_scaling import UNSCALED, HostScale
from diastole_sim.train.master import FLOAT32, Master, bias_tag, weight_tag
from diastole_sim.train.network import LayerShape, Parameter
from diastole_sim.train.samples import Samples
from diastole_sim.train.session import ConvertedOperand, Session

TABLE_SCALE = 2.0**-3
"""Factor of initial tables, relative to weights with as many inputs."""

Symbols = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class TransformerSizes:
    """Sizes of a transformer: ``blocks``, ``width`` of a place, ``hidden`` units of the layers In,
    ``heads``, which must divide ``width``, number of places ``context``, number of symbols
    ``symbols``."""

    blocks: int = 2
    width: int = 64
    hidden: int = 256
    heads: int = 4
    context: int = 64
    symbols: int = 256

    @property
    def layers(self) -> list[tuple[int, int]]:
        """Inputs and outputs of each linear layer."""
        width, hidden = self.width, self.hidden
        block = [(width, 3 * width), (width, width), (width, hidden), (hidden, width)]
        return [*(block * self.blocks), (width, self.symbols)]


@dataclass(kw_only=True)
class LinearPass:
    """Passes through the linear layers of one step, forward in order, then backward.
    ``first_layer``: number added to the layers' numbers in the tags of random bits."""

    network: "Transformer"
    session: Session
    step: int
    first_layer: int = 0
    operands: list[tuple[ConvertedOperand, ConvertedOperand]] = field(
        default_factory=list[tuple[ConvertedOperand, ConvertedOperand]]
    )
    gradients: list[tuple[Floats, Floats]] = field(default_factory=list[tuple[Floats, Floats]])
    _weights: ConvertedOperand | None = None

    def forward(self, values: Floats) -> Floats:
        """Compute the next layer. The weights of the following layer are converted beside the
        layer's product."""
        index = len(self.operands)
        layer = self.first_layer + index
        w = self._convert(index, overlap=False) if self._weights is None else self._weights
        x = self.session.convert(values, "x", layer=layer, step=self.step)
        last = index + 1 == self.network.depth
        self._weights = None if last else self._convert(index + 1, overlap=True)
        y = self.session.forward(x, w, layer=layer, step=self.step)
        self.operands.append((x, w))
        return host.add_bias(y, self.network.biases[index].value)

    def backward(self, dy: Floats) -> Floats:
        """Return the gradient by the input of the last remaining layer, and keep (dW, dbias)."""
        x, w = self.operands.pop()
        layer = len(self.operands)
        converted = self.session.convert(dy, "dy", layer=layer, step=self.step)
        dx, dw = self.session.backward(x, w, converted, layer=layer, step=self.step)
        self.gradients.append((dw, host.sum_rows(dy)))
        return dx

    def _convert(self, index: int, *, overlap: bool) -> ConvertedOperand:
        value, layer = self.network.weights[index].value, self.first_layer + index
        return self.session.convert(value, "w", layer=layer, step=self.step, overlap=overlap)


@dataclass(frozen=True, kw_only=True)
class BlockPass:
    """Values of a block's forward pass for the backward pass."""

    first: norm.NormState
    attended: attention.AttentionState
    second: norm.NormState
    z: Floats


class Transformer:
    """Decoder of bytes.

    - ``tables``: tables of symbols (symbols, width) and of places (context, width). The rows of
      symbol and place are added.
    - ``gains``: gains of the norms, two in each block and one in the last norm.
    - ``weights``, ``biases``: parameters of the linear layers.

    All are lists of :class:`diastole_sim.train.network.Parameter` in the format ``master``. Random
    initial values come from ``seed``, gains start at 1, biases at 0. Updates draw random bits from
    ``seed`` with the tags of layers. Tables have the tags of weights of the layers after the last
    layer, gains the tags of biases.
    """

    def __init__(self, sizes: TransformerSizes, *, seed: int, master: Master = FLOAT32):
        self.sizes = sizes
        self.seed, self.master = seed, master
        pairs = sizes.layers
        self.weights = [
            Parameter.at(master.start(_scaled(initial_weights(*pair, seed=seed, layer=layer), 0.5)))
            for layer, pair in enumerate(pairs)
        ]
        self.biases = [Parameter.at(np.zeros(outputs, np.float32)) for _, outputs in pairs]
        rows = (sizes.symbols, sizes.context)
        self.tables = [
            Parameter.at(
                master.start(_table(count, sizes.width, seed=seed, layer=len(pairs) + number))
            )
            for number, count in enumerate(rows)
        ]
        ones = np.ones(sizes.width, np.float32)
        self.gains = [Parameter.at(ones) for _ in range(2 * sizes.blocks + 1)]

    @property
    def depth(self) -> int:
        """Number of linear layers."""
        return len(self.weights)

    @property
    def parameters_by_name(self) -> dict[str, list[Parameter]]:
        """Parameters by the name of the attribute."""
        names = ("weights", "biases", "tables", "gains")
        return {name: getattr(self, name) for name in names}

    def shapes(self, batch: Samples) -> list[LayerShape]:
        """Return the shapes of the products of a step."""
        rows = batch.inputs.size
        return [LayerShape(m=rows, k=k, n=n, input_gradient=True) for k, n in self.sizes.layers]

    def forward(self, linear: LinearPass, symbols: Symbols) -> tuple[Floats, list[Any]]:
        """Return the scores of each next symbol (sequences * places, symbols), and the values of
        each block and the last norm for the backward pass. ``symbols``: (sequences, places)."""
        sequences, places = symbols.shape
        table, place = (each.value for each in self.tables)
        x = (table[symbols] + place[:places]).reshape(sequences * places, -1)
        left: list[Any] = []
        for block in range(self.sizes.blocks):
            first, second = self.gains[2 * block : 2 * block + 2]
            normed, passed_first = norm.normalise(x, first.value)
            parts = attention.split_heads(linear.forward(normed), sequences, self.sizes.heads, 3)
            seen, attended = attention.attend(*parts)
            x = x + linear.forward(attention.join_heads(seen))
            normed, passed_second = norm.normalise(x, second.value)
            z = linear.forward(normed)
            x = x + linear.forward(host.relu(z))
            left.append(BlockPass(first=passed_first, attended=attended, second=passed_second, z=z))
        normed, passed = norm.normalise(x, self.gains[-1].value)
        return linear.forward(normed), [*left, passed]

    def gradients(
        self, linear: LinearPass, left: Sequence[Any], symbols: Symbols, dz: Floats
    ) -> list[Floats]:
        """Return the gradients by all parameters, in the order of :meth:`parameters`, from the
        gradient by the scores.

        The values of :meth:`forward` are consumed from the end.
        """
        sequences, places = symbols.shape
        dgains: list[Floats] = []

        def back_norm(passed: norm.NormState, number: int, dy: Floats) -> Floats:
            dx, dgain = norm.normalise_gradients(passed, self.gains[number].value, dy)
            dgains.append(dgain)
            return dx

        dx = back_norm(left[-1], -1, linear.backward(dz))
        for block in reversed(range(self.sizes.blocks)):
            passed: BlockPass = left[block]
            dh = host.relu_gradient(linear.backward(dx), passed.z)
            dx = dx + back_norm(passed.second, 2 * block + 1, linear.backward(dh))
            (dseen,) = attention.split_heads(linear.backward(dx), sequences, self.sizes.heads, 1)
            dparts = attention.attend_gradients(passed.attended, dseen)
            dqkv = attention.join_heads(*dparts)
            dx = dx + back_norm(passed.first, 2 * block, linear.backward(dqkv))
        by_place = dx.reshape(sequences, places, -1)
        dtable, dplace = (np.zeros_like(each.value) for each in self.tables)
        for symbol, row in zip(symbols.flat, dx, strict=True):
            dtable[symbol] += row
        for sequence in by_place:
            dplace[:places] += sequence
        layers = [each for pair in linear.gradients[::-1] for each in pair]
        return [dtable, dplace, *dgains[::-1], *layers]

    def parameters(self) -> list[Parameter]:
        """Return the two tables, the gains, then weights and bias of every linear layer."""
        layers = [each for pair in zip(self.weights, self.biases, strict=True) for each in pair]
        return [*self.tables, *self.gains, *layers]

    def replace(self, parameters: Sequence[Parameter]) -> None:
        """Replace all parameters, in the order of :meth:`parameters`."""
        tables, gains = len(self.tables), len(self.gains)
        self.tables = list(parameters[:tables])
        self.gains = list(parameters[tables : tables + gains])
        self.weights = list(parameters[tables + gains :: 2])
        self.biases = list(parameters[tables + gains + 1 :: 2])

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
        """Do one step on ``batch``. Return the loss per symbol and the accuracy of the next symbol,
        both before the update. The input of the first layer depends on the update, so nothing of
        ``following`` is converted ahead."""
        linear = LinearPass(network=self, session=session, step=step)
        labels = batch.labels.reshape(-1)
        z, left = self.forward(linear, batch.inputs)
        loss, dz = host.softmax_cross_entropy(z, labels)
        every = self.gradients(linear, left, batch.inputs, scale.scaled(dz))
        first = len(every) - 2 * self.depth
        for layer in range(self.depth):
            at = first + 2 * layer
            every[at] = scale.of_weights(every[at], tag=weight_tag(layer), step=step)
        unscaled = scale.unscaled(every, overflowed=session.overflowed)
        if unscaled:
            updates = zip(self.parameters(), unscaled, self._tags(), strict=True)
            self.replace(
                [
                    each.descend(by, rate, momentum, self._rounding(tag, step))
                    for each, by, tag in updates
                ]
            )
        return float(loss), host.accuracy(z, labels)

    def _rounding(self, tag: int, step: int) -> Callable[[Floats], Floats]:
        return partial(self.master.round, seed=self.seed, tag=tag, step=step)

    def _tags(self) -> list[int]:
        """Return the tags of the random bits of updates, in the order of :meth:`parameters`."""
        behind = self.depth
        tables = [weight_tag(behind + number) for number in range(len(self.tables))]
        gains = [bias_tag(behind + number) for number in range(len(self.gains))]
        layers = [tag(layer) for layer in range(behind) for tag in (weight_tag, bias_tag)]
        return [*tables, *gains, *layers]

    def evaluate(self, session: Session, samples: Samples, *, step: int) -> tuple[float, float]:
        """Return the loss per symbol and the accuracy of the next symbol, with one product per
        layer. Layers are numbered after the last layer, so no random bits are shared with
        training."""
        linear = LinearPass(network=self, session=session, step=step, first_layer=self.depth)
        z, _ = self.forward(linear, samples.inputs)
        labels = samples.labels.reshape(-1)
        loss, _ = host.softmax_cross_entropy(z, labels)
        return float(loss), host.accuracy(z, labels)

    def sha256(self) -> str:
        """Return the SHA-256 of the parameters in order, row by row, as little-endian bytes of the
        master format."""
        digest = hashlib.sha256()
        for each in self.parameters():
            digest.update(self.master.to_bytes(each.value))
        return digest.hexdigest()


def _scaled(values: Floats, factor: float) -> Floats:
    return values * np.float32(factor)


def _table(rows: int, columns: int, *, seed: int, layer: int) -> Floats:
    """Return a random table. The size of the numbers does not depend on ``rows``, but equals the
    size of weights with ``columns`` inputs, times :data:`TABLE_SCALE`."""
    drawn = initial_weights(columns, rows, seed=seed, layer=layer).T
    return _scaled(np.ascontiguousarray(drawn), TABLE_SCALE)
