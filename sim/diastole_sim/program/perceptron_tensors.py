"""Place the tensors of a perceptron in training, and fill the initial contents."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device.interface import TAGS_PER_LAYER
from diastole_sim.program.chain import Chain
from diastole_sim.program.chains.activations import Activation, relu
from diastole_sim.program.chains.updates import Options
from diastole_sim.program.memory_plan import (
    INT32,
    BoundStream,
    MemoryPlan,
    PlannedArea,
    PlannedImage,
    folded_stream,
    stream_of,
)
from diastole_sim.program.program_tables import OWN_CONSTANTS, STEP_CONSTANTS
from diastole_sim.program.recipe import Optimiser
from diastole_sim.spec.image import round_up
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.require import require_choice, require_int
from diastole_sim.spec.stream_table import Kind, PanelOrder
from diastole_sim.train.draws import initial_weights
from diastole_sim.train.loss_scaling import LossScaling
from diastole_sim.train.precision import MACHINE_PRECISIONS, Precision
from diastole_sim.train.samples import Samples

STEP_TABLE, LOSSES, LOGITS = "step table", "losses", "logits"
"""Names of areas: constants of every step, losses of every step, and the logits of an
evaluation."""
FLOORS = "floors of the loss scale"
"""Name of the area with the smallest scale of the loss in every step."""
LONGEST_WITH_SUM = 8
"""Most lines of the update of a bias, for an update in one chain with the sum of the gradient."""


class PanelTooSmallError(ValueError):
    """Report a panel that is too small: ``available`` vectors of ``block`` numbers, where a
    perceptron of ``layers`` needs ``needed`` vectors."""

    def __init__(self, widths: tuple[int, ...], plan: MemoryPlan):
        self.block, self.available = plan.block, plan.panel_vectors
        self.needed = sum(round_up(columns, plan.block) for columns in widths[1:])
        self.layers = "-".join(map(str, widths))
        super().__init__(
            f"the panel is too small for the gradients by the biases of {self.layers}: the "
            f"panel has {self.available} vectors, but {self.needed} are needed"
        )

    @property
    def kib(self) -> int:
        """Smallest sufficient power of two, in KiB."""
        return 1 << max(0, (self.needed * 4 * self.block - 1) // 1024).bit_length()


@dataclass(frozen=True, kw_only=True)
class StoredSamples:
    """Samples as memory holds them.

    - ``inputs``: (samples, features), either float32 or bytes. Bytes times ``scale`` are the
      numbers.
    - ``labels``: (samples,), from 0 on.
    """

    inputs: NDArray[np.uint8] | NDArray[np.float32]
    labels: NDArray[np.int64]
    scale: float = 1.0

    @classmethod
    def of(cls, samples: Samples, scale: float | None = None) -> "StoredSamples":
        """Return the samples in the form for memory. ``scale``: scale of bytes, None for floats.
        ValueError if bytes times ``scale`` would change the samples."""
        if scale is None:
            inputs = np.ascontiguousarray(samples.inputs, np.float32)
            return cls(inputs=inputs, labels=samples.labels)
        scaled = samples.inputs / np.float32(scale)
        stored = np.clip(np.nan_to_num(scaled), 0, 255).astype(np.uint8)
        if not np.array_equal(stored, scaled):
            raise ValueError(f"the samples must be bytes times {scale}")
        return cls(inputs=stored, labels=samples.labels, scale=scale)

    @property
    def are_bytes(self) -> bool:
        return self.inputs.dtype == np.uint8


@dataclass(frozen=True, kw_only=True)
class PerceptronRecipe:
    """Recipe for the training of a perceptron.

    - ``widths``: number of features, units of each hidden layer, number of classes.
    - ``batches``: rows of the training samples for each step, (steps, batch).
    - ``clip``: largest norm of all gradients together.
    - ``precision``: rule for the widths of the named classes, which the machine decides; None for
      the widest.
    - ``seed``: seed of the initial weights.

    ValueError without a layer or a step, or for a ``precision`` that no machine has.
    """

    widths: tuple[int, ...]
    optimiser: Optimiser
    batches: NDArray[np.int64]
    activation: Activation = field(default_factory=relu)
    clip: float | None = None
    loss_scaling: LossScaling | None = None
    precision: Precision | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        require_int("layers", self.depth, 1, 2**10)
        require_int("steps", self.steps, 1, 2**32 - 2)
        if self.precision is not None:
            require_choice("precision", self.precision.kind, MACHINE_PRECISIONS)

    @property
    def steps(self) -> int:
        return self.batches.shape[0]

    @property
    def batch(self) -> int:
        return self.batches.shape[1]

    @property
    def depth(self) -> int:
        """Number of layers."""
        return len(self.widths) - 1

    @property
    def decides(self) -> bool:
        """True if the counts of the monitor decide widths."""
        return self.precision is not None and self.precision.kind == "fast"

    @property
    def waits(self) -> bool:
        """True if updates wait for all gradients."""
        return self.clip is not None or self.loss_scaling is not None

    @property
    def sums_first(self) -> bool:
        """True if the gradient of a bias is summed first, and the bias is then updated as a tensor
        of whole blocks.

        An update of one row uses little of a block, so only a short update is done together with
        the sum. Under loss scaling the sum must be known before the first update, since the sum may
        overflow. If gradients are clipped, the sum of all squares shows the overflow.
        """
        if self.loss_scaling is not None and self.clip is None:
            return True
        return self.update(bias=True).text.count("\n") > LONGEST_WITH_SUM

    def update(self, *, bias: bool, image: bool = True) -> Chain:
        """Return the chain of the optimiser."""
        return self.optimiser.chain(
            Options(
                bias=bias,
                image=image,
                clipped=self.clip is not None,
                scaled=self.loss_scaling is not None,
            )
        )


@dataclass(frozen=True, kw_only=True)
class PerceptronLayer:
    """Layer of ``inputs`` x ``outputs`` weights.

    - ``parameters``: w and the state of the optimiser in memory, by name.
    - ``state``: places of ``parameters`` during a step, in the panel or in memory.
    - ``bias``: the bias, named w, and the state of the optimiser, with a number for every column.
    - ``bias_state``: places of ``bias`` during a step.
    - ``folded``: ``bias`` as tensors of whole blocks, if the recipe ``sums_first``, with the sum of
      the gradient as g.
    - ``summed``: sum of the gradient, with a number for every column, if the recipe ``sums_first``.
    - ``db``: sums over columns. ``db_before``: ``db`` as the input of the chain that computes the
      sums.
    - ``kept``: values that the activation after the layer keeps; None in the last layer.
    - ``dw``: gradient, if updates wait.
    """

    number: int
    inputs: int
    outputs: int
    x: PlannedImage
    w: PlannedImage
    dy: PlannedImage
    parameters: Mapping[str, BoundStream]
    state: Mapping[str, BoundStream]
    bias: Mapping[str, BoundStream]
    bias_state: Mapping[str, BoundStream]
    summed: BoundStream | None
    folded: Mapping[str, BoundStream]
    db: BoundStream
    db_before: BoundStream
    kept: BoundStream | None
    dw: BoundStream | None


def in_panel(state: Mapping[str, BoundStream]) -> bool:
    """Return whether a step has the parameters in the panel."""
    return state["w"].descriptor.kind == Kind.PANEL


def _parameter(name: str) -> str:
    """Return the name of a parameter's area in a layer. The prefix allows any name for the state of
    an optimiser."""
    return name if name == "w" else f"state {name}"


class PerceptronTensors:
    """All tensors of a recipe, placed in memory and in the panel.

    - ``initial``: bytes of the areas that do not begin as zeros.
    - ``floors``: smallest scale of the loss in every step, None without a table of floors.
    - ``samples``, ``rows``, ``labels``: samples, and the rows and labels of every step.
    - ``z``, ``m``: tensors of the softmax, in the panel if enough vectors are free.
    - ``step_numbers``: numbers of the constants of a step, by name.
    """

    def __init__(
        self,
        recipe: PerceptronRecipe,
        training: StoredSamples,
        held_out: StoredSamples,
        plan: MemoryPlan,
    ):
        self.recipe, self.plan = recipe, plan
        self.initial: dict[str, bytes] = {}
        self.step_numbers = {
            name: OWN_CONSTANTS + place for place, name in enumerate(recipe.optimiser.of_step(0))
        }
        if len(self.step_numbers) > STEP_CONSTANTS:
            raise ValueError(
                f"{len(self.step_numbers)} constants change from step to step, but the "
                f"machine has room for {STEP_CONSTANTS}"
            )
        self.samples = self._stored("training samples", training)
        self.held_out = self._stored("held-out samples", held_out)
        self.rows = self._lists("rows", recipe.batches)
        self.labels = self._lists("labels", training.labels[recipe.batches])
        self.step_table = self._step_table() if self.step_numbers else None
        self.floors = self._floors()
        batch, classes = recipe.batch, recipe.widths[-1]
        self.row_losses = plan.tensor("losses of rows", Kind.F32, 1, batch)
        self.losses = plan.by_step(LOSSES, "f32", recipe.steps, 1)
        sums = [self._bias_gradient(layer) for layer in range(len(recipe.widths) - 1)]
        self.z = plan.panel("z", PanelOrder.BLOCK, batch, classes) or stream_of(
            plan.tensor("z", Kind.F32, batch, classes)
        )
        self.m = plan.panel("m", PanelOrder.BLOCK_ROW, batch, 1) or stream_of(
            plan.vector("m", Kind.ROW, batch)
        )
        layers = [self._layer(number, db) for number, db in enumerate(sums)]
        self.layers = [self._with_bias_in_panel(layer) for layer in layers]

    def _stored(self, name: str, samples: StoredSamples) -> PlannedArea:
        kind = Kind.U8 if samples.are_bytes else Kind.F32
        area = self.plan.tensor(name, kind, *samples.inputs.shape)
        self._fill(area, samples.inputs)
        return area

    def _fill(self, area: PlannedArea, rows: NDArray[np.generic]) -> None:
        """Fill an area with rows of numbers, ``pitch`` bytes apart."""
        data = np.ascontiguousarray(rows).view(np.uint8)
        padded = np.zeros((len(data), area.pitch), np.uint8)
        padded[:, : data.shape[1]] = data
        self.initial[area.name] = padded.tobytes()

    def _lists(self, name: str, values: NDArray[np.int64]) -> BoundStream:
        """Place the integers of every step and return the stream."""
        area = self.plan.by_step(name, INT32, *values.shape)
        self._fill(area, values.astype("<i4"))
        return stream_of(area, Kind.LABELS, per_step=True)

    def _step_table(self) -> PlannedArea:
        values = [self._of_step(step) for step in range(self.recipe.steps)]
        table = np.array(values, dtype=np.float64).astype("<f4")
        area = self.plan.by_step(STEP_TABLE, "f32", *table.shape)
        self._fill(area, table)
        return area

    def _of_step(self, step: int) -> list[float]:
        """Return the constants of a step in the order of their numbers."""
        numbers = self.recipe.optimiser.of_step(step)
        if set(numbers) != set(self.step_numbers):
            raise ValueError(
                "the same constants must change in every step, but step 0 changes "
                f"{', '.join(self.step_numbers)} and step {step} changes "
                f"{', '.join(numbers) or 'none'}"
            )
        return [numbers[name] for name in self.step_numbers]

    def _floors(self) -> PlannedArea | None:
        """Place the smallest scale of the loss in every step; None without a table of floors."""
        scaling = self.recipe.loss_scaling
        if scaling is None or not scaling.floors:
            return None
        values = [[2.0 ** scaling.floor(step)] for step in range(self.recipe.steps)]
        area = self.plan.by_step(FLOORS, "f32", self.recipe.steps, 1)
        self._fill(area, np.array(values, "<f4"))
        return area

    def _bias_gradient(self, number: int) -> BoundStream:
        outputs = self.recipe.widths[number + 1]
        stream = self.plan.panel(f"layer {number} db", PanelOrder.BLOCK_COLUMN, 1, outputs)
        if stream is None:
            raise PanelTooSmallError(self.recipe.widths, self.plan)
        return stream

    def _layer(self, number: int, db: BoundStream) -> PerceptronLayer:
        plan, batch = self.plan, self.recipe.batch
        inputs, outputs = self.recipe.widths[number : number + 2]
        shapes = {"x": (batch, inputs), "w": (inputs, outputs), "dy": (batch, outputs)}
        images = {
            name: self.image(name, f"layer {number} {name}", number, *shape)
            for name, shape in shapes.items()
        }
        weights = initial_weights(inputs, outputs, seed=self.recipe.seed, layer=number)
        parameters = self._parameters(f"layer {number}", inputs, outputs)
        self._fill(plan.areas[f"layer {number} w"], weights.astype("<f4"))
        kept = dw = None
        if number + 2 < len(self.recipe.widths):
            kind = self.recipe.activation.kept[0]
            kept = stream_of(plan.tensor(f"layer {number} kept", kind, batch, outputs))
        if self.recipe.waits:
            dw = stream_of(plan.tensor(f"layer {number} dw", Kind.F32, inputs, outputs))
        before = BoundStream(
            name=db.name,
            descriptor=replace(db.descriptor, aux=PanelOrder.BLOCK_COLUMN_ZERO_FIRST),
        )
        bias = {
            name: plan.vector(f"layer {number} bias {_parameter(name)}", Kind.COLUMN, outputs)
            for name in self._stored_names(bias=True)
        }
        biases = {name: stream_of(area) for name, area in bias.items()}
        summed = folded = None
        if self.recipe.sums_first:
            summed = plan.vector(f"layer {number} bias g", Kind.COLUMN, outputs)
            columns = plan.folded(outputs)[1]
            every = {"g": summed} | bias
            folded = {name: folded_stream(area, columns) for name, area in every.items()}
        return PerceptronLayer(
            number=number,
            inputs=inputs,
            outputs=outputs,
            **images,
            parameters=parameters,
            state=self._in_panel(parameters, PanelOrder.BLOCK, inputs, outputs),
            bias=biases,
            bias_state=biases,
            summed=summed and stream_of(summed),
            folded=folded or {},
            db=db,
            db_before=before,
            kept=kept,
            dw=dw,
        )

    def image(self, tensor_class: str, name: str, layer: int, rows: int, cols: int) -> PlannedImage:
        """Place an operand of a layer's products, with the tag of the operand in all commands."""
        tag = slot = TAGS_PER_LAYER * layer + CLASS_NAMES.index(tensor_class)
        trains = layer < self.recipe.depth
        if tensor_class in self.plan.by_slot:  # images of evaluations have the widths of training
            slot %= TAGS_PER_LAYER * self.recipe.depth
        return self.plan.image(
            f"{name} image",
            tensor_class,
            (rows, cols),
            tag=tag,
            slot=slot,
            decides=trains and self.recipe.decides,
        )

    def _stored_names(self, *, bias: bool) -> list[str]:
        """Return ``w`` and the names of the optimiser's state."""
        return [name for name in self.recipe.update(bias=bias).outputs if name != "image"]

    def _parameters(self, name: str, rows: int, cols: int) -> dict[str, BoundStream]:
        return {
            each: stream_of(self.plan.tensor(f"{name} {_parameter(each)}", Kind.F32, rows, cols))
            for each in self._stored_names(bias=False)
        }

    def _with_bias_in_panel(self, layer: PerceptronLayer) -> PerceptronLayer:
        """Return the layer with the bias in the panel, if the bias is updated as columns and the
        panel has free vectors after all weights."""
        if layer.summed is not None:
            return layer
        placed = self._in_panel(layer.bias, PanelOrder.BLOCK_COLUMN, 1, layer.outputs)
        return replace(layer, bias_state=placed)

    def _in_panel(
        self, parameters: Mapping[str, BoundStream], order: PanelOrder, rows: int, cols: int
    ) -> Mapping[str, BoundStream]:
        """Return the parameters in the panel, if all of them fit, else in memory."""
        before, streams = self.plan.panel_end, dict[str, BoundStream]()
        for name, stream in parameters.items():
            placed = self.plan.panel(f"{stream.name}, panel", order, rows, cols)
            if placed is None:
                self.plan.empty_panel(before)
                return parameters
            streams[name] = placed
        return streams
