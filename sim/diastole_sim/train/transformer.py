"""A decoder of bytes: its linear layers on a device, all else on the host in a stated order.

A block is x + O(attention(QKV(norm x))), then x + Out(ReLU(In(norm x))). The linear layers in their
order are, of each block, QKV (the three side by side: one product), O, In and Out; then the head.
Each has weights and a bias, and is to the device what a layer of the digits' network is. Norms,
attention, ReLU, softmax, loss, tables and the update are the host's, in float32.
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
from diastole_sim.train.session import Held, Session

TABLE_SCALE = 2.0**-3
"""Of initial tables, beside what weights of as many inputs have."""

Symbols = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class TransformerSizes:
    """``width`` of a place, ``hidden`` units of the layers In; ``heads`` must divide ``width``;
    ``context`` places, ``symbols`` that there are."""

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
    """The linear layers of one step, one after the other, and back. ``first_layer`` is added to
    their numbers in the tags of the draws."""

    network: "Transformer"
    session: Session
    step: int
    first_layer: int = 0
    operands: list[tuple[Held, Held]] = field(default_factory=list[tuple[Held, Held]])
    found: list[tuple[Floats, Floats]] = field(default_factory=list[tuple[Floats, Floats]])
    _weights: Held | None = None

    def forward(self, values: Floats) -> Floats:
        """The next layer; the weights of the one after it are converted beside its product."""
        index = len(self.operands)
        layer = self.first_layer + index
        w = self._convert(index, beside=False) if self._weights is None else self._weights
        x = self.session.convert(values, "x", layer=layer, step=self.step)
        last = index + 1 == self.network.depth
        self._weights = None if last else self._convert(index + 1, beside=True)
        y = self.session.forward(x, w, layer=layer, step=self.step)
        self.operands.append((x, w))
        return host.add_bias(y, self.network.biases[index].value)

    def backward(self, dy: Floats) -> Floats:
        """The gradient by what went into the last layer that is left; (dW, dbias) are kept."""
        x, w = self.operands.pop()
        layer = len(self.operands)
        held = self.session.convert(dy, "dy", layer=layer, step=self.step)
        dx, dw = self.session.backward(x, w, held, layer=layer, step=self.step)
        self.found.append((dw, host.sum_rows(dy)))
        return dx

    def _convert(self, index: int, *, beside: bool) -> Held:
        value, layer = self.network.weights[index].value, self.first_layer + index
        return self.session.convert(value, "w", layer=layer, step=self.step, beside=beside)


@dataclass(frozen=True, kw_only=True)
class BlockPass:
    """What a block leaves for the way back."""

    first: norm.Normed
    attended: attention.Attended
    second: norm.Normed
    z: Floats


class Transformer:
    """``tables``: of symbols (symbols, width) and of places (context, width), which are added.
    ``gains`` of the norms, two of each block and the last one. ``weights`` and ``biases`` of the
    linear layers. All are lists of :class:`diastole_sim.train.network.Parameter`; those that are
    random come from ``seed``, gains start at 1, biases at 0. All are kept as ``master`` says; what
    their updates draw comes from ``seed``, with the tags of layers: of tables those of weights of
    the layers behind the last, of gains those of biases there.
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
    def learnt(self) -> dict[str, list[Parameter]]:
        """By the attribute's name."""
        names = ("weights", "biases", "tables", "gains")
        return {name: getattr(self, name) for name in names}

    def shapes(self, batch: Samples) -> list[LayerShape]:
        """Of the products of a step."""
        rows = batch.inputs.size
        return [LayerShape(m=rows, k=k, n=n, input_gradient=True) for k, n in self.sizes.layers]

    def forward(self, linear: LinearPass, symbols: Symbols) -> tuple[Floats, list[Any]]:
        """The scores of each next symbol (sequences * places, symbols), and what each block and the
        last norm leave for the way back. ``symbols`` (sequences, places)."""
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
        """By every parameter, in the order of :meth:`parameters`, from the gradient by the scores.

        What :meth:`forward` left is used up from its end.
        """
        sequences, places = symbols.shape
        dgains: list[Floats] = []

        def back_norm(passed: norm.Normed, number: int, dy: Floats) -> Floats:
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
        layers = [each for pair in linear.found[::-1] for each in pair]
        return [dtable, dplace, *dgains[::-1], *layers]

    def parameters(self) -> list[Parameter]:
        """Both tables, the gains, then weights and bias of every linear layer."""
        layers = [each for pair in zip(self.weights, self.biases, strict=True) for each in pair]
        return [*self.tables, *self.gains, *layers]

    def replace(self, parameters: Sequence[Parameter]) -> None:
        """Takes others, in that order."""
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
        """One step on ``batch``: its loss per symbol and the accuracy of the next one, both before
        the update. What goes into the first layer hangs on it, so nothing of ``following`` is
        converted ahead."""
        linear = LinearPass(network=self, session=session, step=step)
        labels = batch.labels.reshape(-1)
        z, left = self.forward(linear, batch.inputs)
        loss, dz = host.softmax_cross_entropy(z, labels)
        every = self.gradients(linear, left, batch.inputs, scale.scaled(dz))
        first = len(every) - 2 * self.depth
        for layer in range(self.depth):
            at = first + 2 * layer
            every[at] = scale.of_weights(every[at], tag=weight_tag(layer), step=step)
        found = scale.unscaled(every, overflowed=session.overflowed)
        if found:
            updates = zip(self.parameters(), found, self._tags(), strict=True)
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
        """Of the draws of updates, in the order of :meth:`parameters`."""
        behind = self.depth
        tables = [weight_tag(behind + number) for number in range(len(self.tables))]
        gains = [bias_tag(behind + number) for number in range(len(self.gains))]
        layers = [tag(layer) for layer in range(behind) for tag in (weight_tag, bias_tag)]
        return [*tables, *gains, *layers]

    def evaluate(self, session: Session, samples: Samples, *, step: int) -> tuple[float, float]:
        """Loss per symbol and accuracy of the next one, in one product per layer; counted as layers
        behind the last, so that no draw is shared with training."""
        linear = LinearPass(network=self, session=session, step=step, first_layer=self.depth)
        z, _ = self.forward(linear, samples.inputs)
        labels = samples.labels.reshape(-1)
        loss, _ = host.softmax_cross_entropy(z, labels)
        return float(loss), host.accuracy(z, labels)

    def sha256(self) -> str:
        """Over the parameters in their order, row by row, as the little-endian bytes of their
        master format."""
        digest = hashlib.sha256()
        for each in self.parameters():
            digest.update(self.master.to_bytes(each.value))
        return digest.hexdigest()


def _scaled(values: Floats, factor: float) -> Floats:
    return values * np.float32(factor)


def _table(rows: int, columns: int, *, seed: int, layer: int) -> Floats:
    """Random numbers of a size that does not hang on the rows: of weights with ``columns``
    inputs."""
    drawn = initial_weights(columns, rows, seed=seed, layer=layer).T
    return _scaled(np.ascontiguousarray(drawn), TABLE_SCALE)
