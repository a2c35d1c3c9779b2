"""Between one value per group of elements and one value per element."""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from diastole_sim.spec.formats import Grouping

Scalar = TypeVar("Scalar", bound=np.generic)


@dataclass(frozen=True, kw_only=True)
class Partition:
    """Groups of ``rows`` x ``columns`` elements, over arrays of whole groups."""

    rows: int
    columns: int

    @classmethod
    def groups(cls, grouping: Grouping, block: int) -> "Partition":
        """The elements that are folded together: a group, or with a tensor scale a block."""
        side = grouping.size or block
        return cls(rows=1 if grouping.kind == "vector" else side, columns=side)

    @classmethod
    def cells(cls, grouping: Grouping, block: int) -> "Partition":
        """The elements of one stored exponent: a vector group, else a block."""
        if grouping.kind == "vector":
            return cls(rows=1, columns=grouping.size)
        return cls(rows=block, columns=block)

    def over(self, cells: "Partition") -> "Partition":
        """How many of ``cells`` each group has, along both axes."""
        return Partition(rows=self.rows // cells.rows, columns=self.columns // cells.columns)

    def reduce(self, function: np.ufunc, elements: NDArray[Scalar]) -> NDArray[Scalar]:
        """``function`` over all elements of each group."""
        rows, columns = elements.shape[0] // self.rows, elements.shape[1] // self.columns
        along = function.reduce(elements.reshape(rows, self.rows, -1), axis=1)
        return function.reduce(along.reshape(rows, columns, self.columns), axis=2)

    def spread(self, groups: NDArray[Scalar]) -> NDArray[Scalar]:
        """Every element gets what its group has."""
        return groups.repeat(self.rows, axis=0).repeat(self.columns, axis=1)
