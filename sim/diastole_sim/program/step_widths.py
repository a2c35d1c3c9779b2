"""Control and log the widths of tensors that change while a network trains."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device.interface import TAGS_PER_LAYER
from diastole_sim.program.command_list import CommandList
from diastole_sim.program.memory_plan import INT32, MemoryPlan, PlannedArea
from diastole_sim.program.writer import THRESHOLDS
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import MULTIPLYING, SIZES, SLOT_FIELDS, Opcode
from diastole_sim.spec.formats import PLANE_BITS
from diastole_sim.spec.limits import EPS_BITS, VectorTable
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.operations import OPERAND_BY_CLASS
from diastole_sim.spec.require import require_int
from diastole_sim.train.precision import HIGH, Precision, Widths

Words = NDArray[np.uint32]
LOGGED = "widths"
"""Name of the area with the widths in the slots at the end of every step."""
BY_STEP = "widths by step"
"""Name of the area with the widths of every step, if the number of the step decides the widths."""


def first_widths(precision: Precision, layers: int) -> Words:
    """Return the widths of all slots before the first conversion."""
    return np.full(TAGS_PER_LAYER * layers, _slot_word(precision, 0, 0), "<u4")


def _slot_word(precision: Precision, last: int, following: int) -> int:
    """Return the contents of a slot whose last tensor belongs to the step ``last``, and whose next
    tensor belongs to the step ``following``."""
    return sum((precision.width(step) == HIGH) << bit for bit, step in enumerate((last, following)))


class StepWidths:
    """Widths in a training of ``steps`` steps and ``layers`` layers, by the rule ``precision``.

    The machine decides by thresholds, or every step loads the widths of all slots. The first tensor
    of every slot has the width of step 0, or 4 bits if the machine decides. The weights that a step
    converts are read by the next step, and their thresholds and widths belong to the next step.
    ``initial``: receives the bytes of the areas that the object allocates.
    """

    def __init__(
        self,
        precision: Precision,
        *,
        steps: int,
        layers: int,
        plan: MemoryPlan,
        initial: dict[str, bytes],
    ):
        self.precision, self.steps, self.layers = precision, steps, layers
        self.plan, self.initial = plan, initial
        self.slots = TAGS_PER_LAYER * layers
        self.decides = precision.kind == "fast"
        table = np.stack([self.thresholds(step, step + 1) for step in range(steps)])
        self._table = plan.by_step(THRESHOLDS, INT32, *table.shape)
        padded = np.zeros((steps, self._table.pitch // 4), "<u4")
        padded[:, : self.slots] = table
        initial[THRESHOLDS] = padded.tobytes()
        self._by_step = self._widths_by_step() if precision.by_step else None
        self._log = plan.by_step(LOGGED, INT32, steps, self.slots)

    def thresholds(self, step: int, of_weights: int) -> Words:
        """Return the thresholds by slot. ``of_weights``: step of the thresholds of weights.
        ValueError if a threshold is too large."""
        thresholds = np.zeros(self.slots, "<u4")
        for layer in range(self.layers):
            for number, name in enumerate(CLASS_NAMES):
                at = of_weights if name == "w" else step
                eps = self.precision.threshold(at, self.steps, layer, self.layers)
                require_int("threshold", eps, 0, 2**EPS_BITS - 1)
                thresholds[TAGS_PER_LAYER * layer + number] = eps
        return thresholds

    def begin(self) -> CommandList:
        """Return the command before the first conversion: the load of the first thresholds."""
        values, commands = self.thresholds(0, 0), CommandList()
        area = self.plan.take("first thresholds", "table", values.shape, values.nbytes)
        self.initial[area.name] = values.tobytes()
        commands.add(self._moved(Command.load, VectorTable.EPS, area), alone=True)
        return commands

    def begin_step(self, commands: CommandList) -> None:
        """Append the load of the thresholds, or of the widths, of the step."""
        if self.decides:
            load = self._moved(Command.load, VectorTable.EPS, self._table)
            commands.add(load, writes=[THRESHOLDS])
        if self._by_step is not None:
            load = self._moved(Command.load, VectorTable.WIDTHS, self._by_step)
            commands.add(load, alone=True)

    def _widths_by_step(self) -> PlannedArea:
        """Place the widths of all slots in every step."""
        area = self.plan.by_step(BY_STEP, INT32, self.steps, self.slots)
        widths = np.zeros((self.steps, area.pitch // 4), "<u4")
        for step in range(self.steps):
            for slot in range(self.slots):
                is_weight = slot % TAGS_PER_LAYER == CLASS_NAMES.index("w")
                widths[step, slot] = _slot_word(self.precision, step, step + is_weight)
        self.initial[BY_STEP] = widths.tobytes()
        return area

    def end_step(self, commands: CommandList) -> None:
        """Append the store of the decided widths."""
        store = self._moved(Command.store, VectorTable.WIDTHS, self._log)
        commands.add(store, alone=True)

    def _moved(
        self, make: Callable[..., Command], table: VectorTable, area: PlannedArea
    ) -> Command:
        return make(table, address=area.address, first=0, count=self.slots, advance=area.pitch)


def widths_of(
    log: Words, step: Sequence[Command], precision: Precision, *, steps: int, layers: int
) -> Widths:
    """Return the widths of all steps done, and the passes of their products.

    - ``log``: contents of the area :data:`LOGGED`, (steps done, slots).
    - ``step``: commands of a step.
    - ``steps``, ``layers``: sizes of the training.
    """
    widths = Widths(precision=precision, steps=steps, layers=layers)
    widths.history = width_history(log, precision, layers)
    for number in range(len(log)):
        for command in step:
            if command.opcode in MULTIPLYING:
                _count(widths, command, number)
    return widths


def _count(widths: Widths, command: Command, step: int) -> None:
    """Count the passes of a product."""
    operation, history = MULTIPLYING[Opcode(command.opcode)], widths.history
    slots = {
        tensor.name: getattr(command, SLOT_FIELDS[tensor.tensor_class])
        for product in operation.products
        for tensor in product.factors
    }
    layer = max(0, max(slots.values()) - 1) // TAGS_PER_LAYER
    of_operands = {
        name: history[f"layer{layer}.{name}"][step] if slot else None
        for name, slot in slots.items()
    }
    sizes = {axis: getattr(command, axis) for axis in SIZES}
    widths.count(operation, of_operands, sizes, layer)


def width_history(log: Words, precision: Precision, layers: int) -> dict[str, list[int]]:
    """Return the width of every tensor's conversion in all steps done, by tensor, as
    :class:`diastole_sim.train.precision.Widths` does. ``log``: contents of the area :data:`LOGGED`,
    (steps, slots)."""
    first = precision.width(0)
    history: dict[str, list[int]] = {}
    for layer in range(layers):
        for number, name in enumerate(CLASS_NAMES):
            if name not in precision.classes:
                continue
            last = (log[:, TAGS_PER_LAYER * layer + number] & 1) + 1
            widths = (PLANE_BITS * last).tolist()
            if name == "w":  # a step reads the weights of the previous step
                widths = [first, *widths[:-1]]
            history[f"layer{layer}.{OPERAND_BY_CLASS[name].name}"] = widths
    return history
