"""Convert between one value per group of elements and one value per element."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from diastole_sim.spec.formats import Grouping

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, kw_only=True)
class Partition:
    """Groups of ``rows`` x ``columns`` elements, over arrays (..., R, C) of whole groups."""

    rows: int
    columns: int

    @classmethod
    def groups(cls, grouping: Grouping, block: int) -> "Partition":
        """Return the elements that are folded together: a group, or a block if the scale belongs to
        the whole tensor."""
        side = grouping.size or block
        return cls(rows=1 if grouping.kind == "vector" else side, columns=side)

    @classmethod
    def cells(cls, grouping: Grouping, block: int) -> "Partition":
        """Return the elements of one stored exponent: a vector group, else a block."""
        if grouping.kind == "vector":
            return cls(rows=1, columns=grouping.size)
        return cls(rows=block, columns=block)

    def over(self, cells: "Partition") -> "Partition":
        """Return the number of ``cells`` per group along both axes."""
        return Partition(rows=self.rows // cells.rows, columns=self.columns // cells.columns)

    def reduce(self, function: np.ufunc, elements: NDArray[Scalar]) -> NDArray[Scalar]:
        """Return the reduction by ``function`` over all elements of every group."""
        *leading, rows, columns = elements.shape
        if self.rows > 1:
            tall = elements.reshape(*leading, rows // self.rows, self.rows, columns)
            elements = function.reduce(tall, axis=-2)
        if self.columns > 1:
            wide = elements.reshape(*elements.shape[:-1], columns // self.columns, self.columns)
            elements = function.reduce(wide, axis=-1)
        return elements

    def spread(self, groups: NDArray[Scalar]) -> NDArray[Scalar]:
        """Return an array in which every element has the value of its group."""
        return groups.repeat(self.columns, axis=-1).repeat(self.rows, axis=-2)


def transpose(array: NDArray[Scalar]) -> NDArray[Scalar]:
    """Transpose every matrix of a stack."""
    return np.ascontiguousarray(array.swapaxes(-1, -2))


def nonzeros(array: NDArray[Scalar]) -> NDArray[np.int64]:
    """Return the number of nonzero elements of every matrix of a stack."""
    *leading, rows, columns = array.shape
    matrices = array.reshape(-1, rows * columns)
    return np.array([np.count_nonzero(each) for each in matrices], np.int64).reshape(leading)
