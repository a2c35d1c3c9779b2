"""Stacks of matrices: how they broadcast, and what is converted or multiplied of one, as one."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from diastole_sim.device.interface import CommandCounters, ConvertedTensor, Floats

Own = TypeVar("Own", bound=ConvertedTensor, covariant=True)
"""A converted matrix as a device has it."""

Leading = tuple[int, ...]
"""The axes of a stack in front of rows and columns; none for a matrix alone."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Stack(Generic[Own]):
    """Converted matrices of one class; a :class:`diastole_sim.device.interface.ConvertedTensor`.

    ``leading``: the axes in front of rows and columns. ``tensors``: the matrices, row by row.
    """

    leading: Leading
    tensors: tuple[Own, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return (*self.leading, *self.tensors[0].shape)

    @property
    def tensor_class(self) -> str:
        return self.tensors[0].tensor_class

    @property
    def nan(self) -> bool:
        return any(tensor.nan for tensor in self.tensors)

    @property
    def inf(self) -> bool:
        return any(tensor.inf for tensor in self.tensors)

    @property
    def saturated(self) -> int:
        return sum(tensor.saturated for tensor in self.tensors)

    @property
    def underflowed(self) -> int:
        return sum(tensor.underflowed for tensor in self.tensors)

    @property
    def stored(self) -> int:
        return sum(tensor.stored for tensor in self.tensors)

    def values(self, copy: int = 0) -> Floats:
        """The stored numbers of a copy, of the stack's shape."""
        return stacked([tensor.values(copy) for tensor in self.tensors], self.leading)

    def copy_values(self) -> dict[str, Floats]:
        """:meth:`values` of every copy, by the axis of its groups; ``""`` where there is one."""
        each = [tensor.copy_values() for tensor in self.tensors]
        return {name: stacked([values[name] for values in each], self.leading) for name in each[0]}


def stacked(matrices: Sequence[Floats], leading: Leading) -> Floats:
    """Matrices, row by row, as one array with these axes in front."""
    together = np.stack(matrices)
    return together.reshape(*leading, *together.shape[1:])


def broadcast(leading: Mapping[str, Leading]) -> Leading:
    """The axes of a stack of products from those of its operands, by name.

    ValueError if they do not broadcast as those of ``numpy.matmul`` do.
    """
    try:
        return np.broadcast_shapes(*leading.values())
    except ValueError:
        said = ", ".join(f"{axes or '()'} of {name}" for name, axes in leading.items())
        raise ValueError(
            f"the axes in front of rows and columns must broadcast as those of numpy.matmul do; "
            f"they are {said}"
        ) from None


def uses(own: Leading, whole: Leading) -> tuple[list[int], list[int]]:
    """For every product of a stack the number of the matrix that it takes of an operand with the
    axes ``own``; for every matrix the first product that does."""
    numbers = np.broadcast_to(np.arange(math.prod(own)).reshape(own), whole).ravel()
    _, first = np.unique(numbers, return_index=True)
    return numbers.tolist(), first.tolist()


def added(counters: Iterable[CommandCounters | None]) -> CommandCounters | None:
    """The sums of what several commands counted; None without a clock."""
    each = [one for one in counters if one is not None]
    if not each:
        return None
    return CommandCounters(
        cycles=sum(one.cycles for one in each),
        total_cycles=sum(one.total_cycles for one in each),
        convert_cycles=sum(one.convert_cycles for one in each),
        read_bytes=sum(one.read_bytes for one in each),
        write_bytes=sum(one.write_bytes for one in each),
        busy_slots=sum(one.busy_slots for one in each),
        waits={cause: sum(one.waits[cause] for one in each) for cause in each[0].waits},
    )
