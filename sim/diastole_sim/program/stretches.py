"""Send rows of tensors to a machine in stretches, where memory has no room for all rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.memory import Bytes

Rows = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Stretches:
    """Rows that a host sends to areas of a memory before each stretch of the work.

    - ``order``: numbers of the rows of every stretch, in the order in memory.
    - ``tensors``: all rows by name of the area, as bytes with the pitch of the area.
    """

    order: tuple[Rows, ...]
    tensors: Mapping[str, Bytes] = field(repr=False)

    def of(self, number: int) -> Iterator[tuple[str, Bytes]]:
        """Yield the areas of a stretch, and the bytes to write from the area's address on."""
        for name, rows in self.tensors.items():
            yield name, rows[self.order[number]].reshape(-1)


@dataclass(frozen=True, kw_only=True)
class TrainingStretches(Stretches):
    """Rows of a training: every stretch has ``steps`` steps, and the last may have fewer."""

    steps: int

    def number(self, step: int) -> int:
        """Return the number of the stretch of a step."""
        return step // self.steps

    def end(self, step: int) -> int:
        """Return the first step after the stretch of ``step``."""
        return (self.number(step) + 1) * self.steps


@dataclass(frozen=True, kw_only=True)
class EvaluationParts(Stretches):
    """Rows of an evaluation of ``count`` samples. All parts have an equal number of rows: the last
    part repeats the last row."""

    count: int
