"""Place the parameters of a network: in memory, and during a step in the panel if there is room."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from diastole_sim.lowering.recipe import TrainingRecipe
from diastole_sim.program.memory_plan import (
    BoundStream,
    MemoryPlan,
    PlannedArea,
    PlannedImage,
    folded_stream,
    stream_of,
)
from diastole_sim.program.roundings import Rounding
from diastole_sim.spec.image import round_up
from diastole_sim.spec.stream_table import Kind, PanelOrder
from diastole_sim.train.master import bias_tag, weight_tag

if TYPE_CHECKING:
    from diastole_sim.lowering.tensors import NetworkTensors

Streams = Mapping[str, BoundStream]


class PanelTooSmallError(ValueError):
    """Report a panel that is too small for the gradients of the biases: ``available`` vectors of
    ``block`` numbers, where ``needed`` vectors are needed."""

    def __init__(self, needed: int, plan: MemoryPlan):
        self.block, self.available, self.needed = plan.block, plan.panel_vectors, needed
        super().__init__(
            "the panel is too small for the gradients by the biases of the network: the panel has "
            f"{self.available} vectors, but {self.needed} are needed"
        )

    @property
    def kib(self) -> int:
        """Smallest sufficient power of two, in KiB."""
        return 1 << max(0, (self.needed * 4 * self.block - 1) // 1024).bit_length()


@dataclass(frozen=True, kw_only=True)
class PlacedWeight:
    """Weight of ``inputs`` x ``outputs`` numbers.

    - ``image``: W in all products.
    - ``stored``: w and the state of the optimiser in memory, by name. A frozen weight has w alone.
    - ``state``: places of ``stored`` during a step, in the panel or in memory.
    - ``gradient``: place of the gradient, if updates wait or if a step has several microbatches.
    """

    name: str
    inputs: int
    outputs: int
    image: PlannedImage
    stored: Streams
    state: Streams
    gradient: BoundStream | None
    trainable: bool


@dataclass(frozen=True, kw_only=True)
class PlacedBias:
    """Bias of ``outputs`` numbers.

    - ``stored``, ``state``: as in :class:`PlacedWeight`, with a number for every column.
    - ``sums``: gradient, as sums over columns in the panel; None for a frozen bias.
    - ``summed``: gradient with a number for every column, and ``folded``: ``stored`` as tensors of
      whole blocks with ``summed`` as g, if the recipe ``sums_first``.
    """

    name: str
    outputs: int
    stored: Streams
    state: Streams
    sums: BoundStream | None
    summed: BoundStream | None
    folded: Streams

    @property
    def sums_before(self) -> BoundStream:
        """``sums`` as the input of the chain that computes the sums."""
        assert self.sums is not None
        before = replace(self.sums.descriptor, aux=PanelOrder.BLOCK_COLUMN_ZERO_FIRST)
        return BoundStream(name=self.sums.name, descriptor=before)


def in_panel(state: Streams) -> bool:
    """Return whether a step has a parameter in the panel."""
    return state["w"].descriptor.kind == Kind.PANEL


class Parameters:
    """Parameters of a recipe. The constructor places the sums of the biases in the panel, and
    :meth:`place` places weights and biases.

    ``training``: False for an evaluation, which needs the parameters alone.
    """

    def __init__(self, recipe: TrainingRecipe, tensors: "NetworkTensors", *, training: bool = True):
        self.recipe, self.tensors, self.plan = recipe, tensors, tensors.plan
        self.training = training
        self.layers: dict[str, int] = {}
        self._is_bias: dict[str, bool] = {}
        for number, node in enumerate(recipe.linears):
            for name, is_bias in zip(node.operands[1:], (False, True), strict=False):
                self.layers.setdefault(name, number)
                self._is_bias[name] = is_bias
        trained = [name for name in self._names(bias=True) if self.is_trained(name)]
        self.sums = {name: self._sums(name, trained) for name in trained}
        self.weights: dict[str, PlacedWeight] = {}
        self.biases: dict[str, PlacedBias] = {}

    def place(self) -> None:
        """Place weights and biases."""
        self.weights = {name: self._weight(name) for name in self._names(bias=False)}
        biases = {name: self._bias(name) for name in self._names(bias=True)}
        self.biases = {name: self._with_panel(each) for name, each in biases.items()}

    def in_order(self) -> list[PlacedWeight | PlacedBias]:
        """Return all parameters in the order of the layers."""
        return [self.weights.get(name) or self.biases[name] for name in self.layers]

    def roundings(self) -> dict[str, Rounding]:
        """Return the roundings of parameters and gradients, by name of the area."""
        found: dict[str, Rounding] = {}
        for name, layer in self.layers.items():
            if not self.is_trained(name):
                continue
            tag = bias_tag(layer) if self._is_bias[name] else weight_tag(layer)
            if self.recipe.rounds:
                found[_area(name, "w")] = Rounding(master=self.recipe.master, tag=tag)
            if self.recipe.gradient != "float32" and not self._is_bias[name]:
                found[_gradient(name)] = Rounding(gradient=self.recipe.gradient, tag=tag)
        return found

    def _names(self, *, bias: bool) -> list[str]:
        return [name for name in self.layers if self._is_bias[name] == bias]

    def _outputs(self, name: str) -> int:
        return self.recipe.graph.parameters[name].shape[0]

    def is_trained(self, name: str) -> bool:
        """Return whether updates change a parameter."""
        return self.training and self.recipe.graph.parameters[name].trainable

    def _sums(self, name: str, trained: Sequence[str]) -> BoundStream:
        stream = self.plan.panel(f"{name} sums", PanelOrder.BLOCK_COLUMN, 1, self._outputs(name))
        if stream is None:
            needed = sum(round_up(self._outputs(each), self.plan.block) for each in trained)
            raise PanelTooSmallError(needed, self.plan)
        return stream

    def _weight(self, name: str) -> PlacedWeight:
        plan, trained = self.plan, self.is_trained(name)
        outputs, inputs = self.recipe.graph.parameters[name].shape
        stored: dict[str, BoundStream] = {}
        for each in self._stored_names(bias=False, trainable=trained):
            area = plan.tensor(_area(name, each), Kind.F32, inputs, outputs)
            stored[each] = stream_of(area)
            if each == "w":
                self._fill(name, area)
        gradient = None
        if trained and (self.recipe.waits or self.recipe.microbatches > 1):
            gradient = stream_of(plan.tensor(_gradient(name), Kind.F32, inputs, outputs))
        image = self.tensors.image(
            "w", f"{name} image", self.layers[name], inputs, outputs, decides=trained
        )
        state: Streams = stored
        if trained:
            state = self._in_panel(stored, PanelOrder.BLOCK, inputs, outputs)
        return PlacedWeight(
            name=name,
            inputs=inputs,
            outputs=outputs,
            image=image,
            stored=stored,
            state=state,
            gradient=gradient,
            trainable=trained,
        )

    def _bias(self, name: str) -> PlacedBias:
        plan, trained = self.plan, self.is_trained(name)
        outputs = self._outputs(name)
        areas = {
            each: plan.vector(_area(name, each), Kind.COLUMN, outputs)
            for each in self._stored_names(bias=True, trainable=trained)
        }
        self._fill(name, areas["w"])
        streams = {each: stream_of(area) for each, area in areas.items()}
        summed, folded = None, dict[str, BoundStream]()
        if self.recipe.sums_first and trained:
            area = plan.vector(f"{name} gradient", Kind.COLUMN, outputs)
            columns = plan.folded(outputs)[1]
            summed = stream_of(area)
            every = {"g": area} | areas
            folded = {each: folded_stream(area, columns) for each, area in every.items()}
        return PlacedBias(
            name=name,
            outputs=outputs,
            stored=streams,
            state=streams,
            sums=self.sums.get(name),
            summed=summed,
            folded=folded,
        )

    def _with_panel(self, bias: PlacedBias) -> PlacedBias:
        """Return the bias with the state in the panel, if the bias is updated as columns and the
        panel has free vectors after all weights."""
        if bias.summed is not None or bias.sums is None:
            return bias
        placed = self._in_panel(bias.stored, PanelOrder.BLOCK_COLUMN, 1, bias.outputs)
        return replace(bias, state=placed)

    def _fill(self, name: str, area: PlannedArea) -> None:
        """Fill a parameter's area with the initial numbers."""
        first = self.tensors.first[name]
        self.tensors.fill(area, np.atleast_2d(first.T if first.ndim > 1 else first))

    def _stored_names(self, *, bias: bool, trainable: bool) -> list[str]:
        """Return ``w`` and the names of the optimiser's state."""
        if not trainable:
            return ["w"]
        return [name for name in self.recipe.update(bias=bias).outputs if name != "image"]

    def _in_panel(self, stored: Streams, order: PanelOrder, rows: int, cols: int) -> Streams:
        """Return the places of a parameter in the panel, if all of them fit, else in memory."""
        if self.recipe.rounds:
            return stored
        before, streams = self.plan.panel_end, dict[str, BoundStream]()
        for name, stream in stored.items():
            placed = self.plan.panel(f"{stream.name}, panel", order, rows, cols)
            if placed is None:
                self.plan.empty_panel(before)
                return stored
            streams[name] = placed
        return streams


def _gradient(name: str) -> str:
    """Return the name of the area of the gradient by a weight."""
    return f"{name} gradient"


def _area(name: str, stored: str) -> str:
    """Return the name of the area of a parameter, or of a part of the optimiser's state."""
    return name if stored == "w" else f"{name} state {stored}"
