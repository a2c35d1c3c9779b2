"""Broadcast stacks of matrices, and store a converted or multiplied stack as one tensor."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from diastole_sim.device.interface import CommandCounters, ConvertedTensor, Floats

Tensor = TypeVar("Tensor", bound=ConvertedTensor, covariant=True)
"""Type of a converted matrix of a device."""

Leading = tuple[int, ...]
"""Axes of a stack in front of rows and columns; empty for a single matrix."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Stack(Generic[Tensor]):
    """Converted matrices of one class; a :class:`diastole_sim.device.interface.ConvertedTensor`.

    ``leading``: axes in front of rows and columns. ``tensors``: the matrices, row by row.
    """

    leading: Leading
    tensors: tuple[Tensor, ...]

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
        """Return the stored numbers of a copy, in the stack's shape."""
        return stacked([tensor.values(copy) for tensor in self.tensors], self.leading)

    def copy_values(self) -> dict[str, Floats]:
        """Return :meth:`values` of every copy, by the axis of the copy's groups. The key is ``""``
        if only one copy exists."""
        each = [tensor.copy_values() for tensor in self.tensors]
        return {name: stacked([values[name] for values in each], self.leading) for name in each[0]}


def stacked(matrices: Sequence[Floats], leading: Leading) -> Floats:
    """Return matrices, listed row by row, as one array with the leading axes in front."""
    together = np.stack(matrices)
    return together.reshape(*leading, *together.shape[1:])


def broadcast(leading: Mapping[str, Leading]) -> Leading:
    """Return the leading axes of a stack of products from the leading axes of the operands, by
    name.

    ValueError if the axes do not broadcast by the rules of ``numpy.matmul``.
    """
    try:
        return np.broadcast_shapes(*leading.values())
    except ValueError:
        shapes = ", ".join(f"{axes or '()'} of {name}" for name, axes in leading.items())
        raise ValueError(
            "the axes in front of rows and columns must broadcast as in numpy.matmul, but "
            f"the axes in front are {shapes}"
        ) from None


def uses(leading: Leading, whole: Leading) -> tuple[list[int], list[int]]:
    """Return two lists for an operand with the axes ``leading``. The first list has, for every
    product of the stack ``whole``, the number of the operand's matrix. The second list has, for
    every matrix, the first product that takes the matrix."""
    numbers = np.broadcast_to(np.arange(math.prod(leading)).reshape(leading), whole).ravel()
    _, first = np.unique(numbers, return_index=True)
    return numbers.tolist(), first.tolist()


def sum_counters(counters: Iterable[CommandCounters | None]) -> CommandCounters | None:
    """Return the sums of the counters of several commands; None without a clock."""
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
