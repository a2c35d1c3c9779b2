"""Send rows of tensors to a machine in stretches, where memory has no room for all rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.memory import Bytes
from diastole_sim.program.addresses import relocate

Rows = NDArray[np.int64]
PlacePitch = tuple[int, int]


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
    """Rows of a training. A stretch has ``steps`` steps, and the last stretch may have fewer.

    - ``by_step``: rows of every step by name of the area, as bytes with the pitch of the area.
    - ``lists``: names of all areas with rows of a stretch's steps, those of ``by_step`` among them.
    - ``tables``: tables of descriptors by name of the area, with the addresses of the lists in the
      first stretch. The machine adds the step times the pitch, so later stretches need addresses
      that are lower by the rows of all steps before.
    - ``addresses``: places of these addresses in each table, with the pitch of the list.
    """

    steps: int
    by_step: Mapping[str, Bytes] = field(default_factory=dict[str, Bytes], repr=False)
    lists: tuple[str, ...] = ()
    tables: Mapping[str, Bytes] = field(default_factory=dict[str, Bytes], repr=False)
    addresses: Mapping[str, tuple[PlacePitch, ...]] = field(
        default_factory=dict[str, tuple[PlacePitch, ...]]
    )

    def number(self, step: int) -> int:
        """Return the number of the stretch of a step."""
        return step // self.steps

    def end(self, step: int) -> int:
        """Return the first step after the stretch of ``step``."""
        return (self.number(step) + 1) * self.steps

    def of(self, number: int) -> Iterator[tuple[str, Bytes]]:
        """Yield the areas of a stretch, and the bytes to write from the area's address on."""
        yield from super().of(number)
        first = number * self.steps
        for name, rows in self.by_step.items():
            yield name, rows[first : first + self.steps].reshape(-1)
        for name, table in self.tables.items():
            moved = table.copy()
            for place, pitch in self.addresses[name]:
                relocate(moved, [place], -first * pitch)
            yield name, moved


@dataclass(frozen=True, kw_only=True)
class EvaluationParts(Stretches):
    """Rows of an evaluation of ``count`` samples. All parts have an equal number of rows: the last
    part repeats the last row."""

    count: int
