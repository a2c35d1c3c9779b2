"""Place everything that a training program keeps in memory besides parameters and values: samples,
tables, losses."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device.interface import TAGS_PER_LAYER
from diastole_sim.lowering.recipe import TrainingRecipe
from diastole_sim.lowering.samples import ROOM_FOR_ALL, Room, StoredSamples
from diastole_sim.program.memory_plan import (
    INT32,
    BoundStream,
    MemoryPlan,
    PlannedArea,
    PlannedImage,
    stream_of,
)
from diastole_sim.program.program import FLOORS, LOSSES, STEP_TABLE
from diastole_sim.program.program_tables import OWN_CONSTANTS, STEP_CONSTANTS
from diastole_sim.program.stretches import EvaluationParts, TrainingStretches
from diastole_sim.spec.image import round_up
from diastole_sim.spec.limits import SCALE_SLOTS
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.stream_table import Descriptor, Kind, PanelOrder


def named(name: str, microbatch: int) -> str:
    """Return the name of a value or an area of a microbatch. The first microbatch has no number, as
    in a step without accumulation."""
    return f"{name}, microbatch {microbatch + 1}" if microbatch else name


class NetworkTensors:
    """Tensors of a network in memory.

    - ``first``: parameters by name, with shapes as in the graph.
    - ``initial``: bytes of the areas that do not begin as zeros.
    """

    def __init__(
        self, recipe: TrainingRecipe, first: Mapping[str, NDArray[np.float32]], plan: MemoryPlan
    ):
        self.recipe, self.first, self.plan = recipe, first, plan
        self.initial: dict[str, bytes] = {}

    def fill(self, area: PlannedArea, rows: NDArray[np.generic]) -> None:
        """Fill an area with rows of numbers, ``pitch`` bytes apart."""
        self.initial[area.name] = _padded(area, rows).tobytes()

    def image(
        self,
        tensor_class: str,
        name: str,
        layer: int,
        rows: int,
        cols: int,
        *,
        decides: bool = True,
    ) -> PlannedImage:
        """Place an operand of a layer's products, with the tag of the operand in all commands.
        Layers of further microbatches and of an evaluation are numbered after the last layer, and
        have the scales and widths of the first microbatch. ValueError if the machine has too few
        slots of scales."""
        tag = TAGS_PER_LAYER * layer + CLASS_NAMES.index(tensor_class)
        slot = tag % (TAGS_PER_LAYER * self.recipe.depth)
        if self.plan.needs_slots(tensor_class) and slot >= SCALE_SLOTS:
            raise ValueError(
                f"the network has {self.recipe.depth} linear layers, but the machine has scales or "
                f"widths for {SCALE_SLOTS // TAGS_PER_LAYER} layers"
            )
        trains = layer < self.recipe.depth
        return self.plan.image(
            name,
            tensor_class,
            (rows, cols),
            tag=tag,
            slot=slot,
            decides=trains and decides and self.recipe.decides,
        )

    def stored(self, name: str, samples: StoredSamples) -> PlannedArea:
        kind = Kind.U8 if samples.are_bytes else Kind.F32
        area = self.plan.tensor(name, kind, *samples.inputs.shape)
        self.fill(area, samples.inputs)
        return area


@dataclass(frozen=True, kw_only=True)
class Microbatch:
    """Places of a microbatch's numbers.

    - ``rows``, ``targets``: rows of the samples, and targets, in every step.
    - ``row_losses``: loss of every row.
    """

    rows: BoundStream
    targets: BoundStream
    row_losses: BoundStream


class ProgramTensors(NetworkTensors):
    """Tensors of a training.

    - ``training``, ``held_out``: samples. ``training_area``, ``held_out_area``: their places.
    - ``sent``, ``sent_held_out``: samples that the host sends, None if all are in memory.
    - ``microbatches``: places of the numbers of every microbatch.
    - ``floors``: smallest scale of the loss in every step, None without a table of floors.
    - ``row_losses``, ``losses``: loss of every row of a step, and loss of every step. Numbers
      between the rows of two microbatches are 0.
    - ``step_numbers``: numbers of the constants of a step, by name, for each optimiser of the
      recipe.
    """

    def __init__(
        self,
        recipe: TrainingRecipe,
        training: StoredSamples,
        held_out: StoredSamples,
        first: Mapping[str, NDArray[np.float32]],
        plan: MemoryPlan,
        room: Room = ROOM_FOR_ALL,
    ):
        super().__init__(recipe, first, plan)
        self.training, self.held_out = training, held_out
        self._sent_steps = room.steps
        self._sent_rows: dict[str, NDArray[np.uint8]] = {}
        self._sent_lists: dict[str, NDArray[np.uint8]] = {}
        self._lists_in_memory: list[str] = []
        numbers = count(OWN_CONSTANTS)
        self.step_numbers = [
            {name: next(numbers) for name in optimiser.of_step(0)}
            for optimiser in recipe.optimisers
        ]
        changing = sum(map(len, self.step_numbers))
        if changing > STEP_CONSTANTS:
            raise ValueError(
                f"{changing} constants change from step to step, but the "
                f"machine has room for {STEP_CONSTANTS}"
            )
        kind = Kind.U8 if training.are_bytes else Kind.F32
        self.training_area = self._training_rows("training samples", kind, training.inputs)
        self.held_out_area, self.sent_held_out = self._held_out(room.held_out)
        rows = self._by_microbatch("rows of steps", self._rows(), repeats=True)
        targets = self._targets(training)
        self.step_table = self._step_table() if changing else None
        self.floors = self._floors()
        self.row_losses = self._row_losses()
        self.losses = plan.by_step(LOSSES, "f32", recipe.steps, 1)
        self._spare: dict[str, BoundStream] = {}
        self.microbatches = [
            Microbatch(rows=rows[n], targets=targets[n], row_losses=self._row_losses_of(n))
            for n in range(recipe.microbatches)
        ]

    def spare(self, name: str, order: PanelOrder, rows: int, cols: int) -> BoundStream:
        """Place a tensor, or a vector with a number for every row, in the panel if enough vectors
        are free, otherwise in memory. All microbatches use one place."""
        if name not in self._spare:
            self._spare[name] = self._placed(name, order, rows, cols)
        return self._spare[name]

    def _placed(self, name: str, order: PanelOrder, rows: int, cols: int) -> BoundStream:
        in_panel = self.plan.panel(f"{name} of the loss", order, rows, cols)
        if in_panel is not None:
            return in_panel
        if order == PanelOrder.BLOCK:
            return stream_of(self.plan.tensor(f"{name} of the loss", Kind.F32, rows, cols))
        return stream_of(self.plan.vector(f"{name} of the loss", Kind.ROW, rows))

    def _targets(self, training: StoredSamples) -> list[BoundStream]:
        """Place the labels of every step by microbatch, or the numbers to learn of every sample."""
        if training.are_labelled:
            labels = training.targets[self.recipe.batches]
            return self._by_microbatch("labels of steps", labels)
        targets = training.targets.astype("<f4")
        area = self._training_rows("training targets", Kind.F32, targets)
        return [stream_of(area, Kind.GATHERED_F32)] * self.recipe.microbatches

    def _training_rows(self, name: str, kind: Kind, rows: NDArray[np.generic]) -> PlannedArea:
        """Place the rows of a tensor of all training samples, or room for the rows of a stretch of
        steps."""
        columns = rows.shape[1]
        if self._sent_steps is None:
            area = self.plan.tensor(name, kind, len(rows), columns)
            self.fill(area, rows)
            return area
        count = self._sent_steps * self.recipe.samples_of_step
        area = self.plan.tensor(name, kind, count, columns, zeros=True)
        self._sent_rows[name] = _padded(area, rows)
        return area

    def _held_out(self, room: int | None) -> tuple[PlannedArea, EvaluationParts | None]:
        """Place all held-out samples, or room for a part. Return the samples to send in parts."""
        name, samples = "held-out samples", self.held_out
        if room is None:
            return self.stored(name, samples), None
        count = len(samples.inputs)
        self.held_out = samples.first(room)
        kind = Kind.U8 if samples.are_bytes else Kind.F32
        area = self.plan.tensor(name, kind, room, samples.inputs.shape[1], zeros=True)
        order = tuple(
            np.minimum(np.arange(at, at + room), count - 1) for at in range(0, count, room)
        )
        rows = {name: _padded(area, samples.inputs)}
        return area, EvaluationParts(order=order, tensors=rows, count=count)

    @property
    def sent(self) -> TrainingStretches | None:
        steps, batches = self._sent_steps, self.recipe.batches
        if steps is None:
            return None
        order = tuple(batches[at : at + steps].ravel() for at in range(0, len(batches), steps))
        return TrainingStretches(
            order=order,
            tensors=self._sent_rows,
            steps=steps,
            by_step=self._sent_lists,
            lists=tuple(self._lists_in_memory),
        )

    def _rows(self) -> NDArray[np.int64]:
        """Return the rows in memory of the samples of every step."""
        batches = self.recipe.batches
        if self._sent_steps is None:
            return batches
        places = np.arange(batches.size).reshape(batches.shape)
        return places % (self._sent_steps * self.recipe.samples_of_step)

    def _row_losses(self) -> PlannedArea:
        """Place the loss of every row: the rows of each microbatch begin on a beat."""
        recipe = self.recipe
        if recipe.microbatches == 1:
            return self.plan.tensor("losses of rows", Kind.F32, 1, recipe.batch)
        size = recipe.microbatches * self._row_losses_pitch // 4
        return self.plan.tensor("losses of rows", Kind.F32, 1, size, zeros=True)

    @property
    def _row_losses_pitch(self) -> int:
        return round_up(4 * self.recipe.batch, self.plan.beat_bytes)

    def _row_losses_of(self, microbatch: int) -> BoundStream:
        area, last = self.row_losses, self.recipe.microbatches - 1
        place = area.address + microbatch * self._row_losses_pitch
        # The mean reads the whole area, and must wait for the last rows.
        name = area.name if microbatch == last else f"{area.name}, microbatch {microbatch + 1}"
        return BoundStream(name=name, descriptor=Descriptor(kind=Kind.ROW, address=place))

    def _by_microbatch(
        self, name: str, values: NDArray[np.generic], *, repeats: bool = False
    ) -> list[BoundStream]:
        """Place the integers of every step, an area for each microbatch. ``repeats``: as for
        :meth:`_lists`."""
        count = self.recipe.microbatches
        return [
            self._lists(named(name, number), part, repeats=repeats)
            for number, part in enumerate(np.split(values, count, axis=1))
        ]

    def _lists(self, name: str, values: NDArray[np.generic], *, repeats: bool) -> BoundStream:
        """Place the integers of every step, or of a stretch of steps, and return the stream.
        ``repeats``: True if all stretches have the same integers."""
        steps = self._sent_steps or len(values)
        area = self.plan.by_step(name, INT32, steps, values.shape[1])
        self.fill(area, values[:steps].astype("<i4"))
        if self._sent_steps is not None:
            self._lists_in_memory.append(name)
            if not repeats:
                self._sent_lists[name] = _padded(area, values.astype("<i4"))
        return stream_of(area, Kind.LABELS, per_step=True)

    def _step_table(self) -> PlannedArea:
        values = [self._of_step(step) for step in range(self.recipe.steps)]
        table = np.array(values, dtype=np.float64).astype("<f4")
        area = self.plan.by_step(STEP_TABLE, "f32", *table.shape)
        self.fill(area, table)
        return area

    def _of_step(self, step: int) -> list[float]:
        """Return the constants of a step in the order of their numbers."""
        values: list[float] = []
        for optimiser, names in zip(self.recipe.optimisers, self.step_numbers, strict=True):
            numbers = optimiser.of_step(step)
            if set(numbers) != set(names):
                raise ValueError(
                    "the same constants must change in every step, but step 0 changes "
                    f"{', '.join(names)} and step {step} changes {', '.join(numbers) or 'none'}"
                )
            values += [numbers[name] for name in names]
        return values

    def _floors(self) -> PlannedArea | None:
        """Place the smallest scale of the loss in every step; None without a table of floors."""
        scaling = self.recipe.loss_scaling
        if scaling is None or not scaling.floors:
            return None
        values = [[2.0 ** scaling.floor(step)] for step in range(self.recipe.steps)]
        area = self.plan.by_step(FLOORS, "f32", self.recipe.steps, 1)
        self.fill(area, np.array(values, "<f4"))
        return area


def _padded(area: PlannedArea, rows: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Return rows of numbers as bytes, with the pitch of an area."""
    data = np.ascontiguousarray(rows).view(np.uint8)
    padded = np.zeros((len(data), area.pitch or area.length), np.uint8)
    padded[:, : data.shape[1]] = data
    return padded
