"""Send rows of tensors to a machine in stretches, where memory has no room for all rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.memory import Bytes
from diastole_sim.spec.command_table import ADDRESS_BITS

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
class StepAddress:
    """Address of a stream with a row for every step. ``place``: first byte of the address in a
    table. ``address``: address of the row of step 0. ``pitch``: bytes from row to row."""

    place: int
    address: int
    pitch: int

    def write(self, table: Bytes, first: int) -> None:
        """Write the address to a table, in place, if memory has the rows from step ``first`` on.
        The machine adds ``step`` times the pitch, modulo 2^40."""
        size = ADDRESS_BITS // 8
        moved = (self.address - first * self.pitch) % 2**ADDRESS_BITS
        table[self.place : self.place + size] = np.frombuffer(
            moved.to_bytes(size, "little"), np.uint8
        )


@dataclass(frozen=True, kw_only=True)
class TrainingStretches(Stretches):
    """Rows of a training. A stretch has ``steps`` steps, and the last stretch may have fewer.

    - ``by_step``: rows of every step by name of the area, as bytes with the pitch of the area.
    - ``lists``: names of all areas with rows of a stretch's steps, those of ``by_step`` among them.
    - ``tables``: tables of descriptors by name of the area, with the ``addresses`` of the lists.
    """

    steps: int
    by_step: Mapping[str, Bytes] = field(default_factory=dict[str, Bytes], repr=False)
    lists: tuple[str, ...] = ()
    tables: Mapping[str, Bytes] = field(default_factory=dict[str, Bytes], repr=False)
    addresses: Mapping[str, tuple[StepAddress, ...]] = field(
        default_factory=dict[str, tuple[StepAddress, ...]]
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
            for address in self.addresses[name]:
                address.write(moved, first)
            yield name, moved


@dataclass(frozen=True, kw_only=True)
class EvaluationParts(Stretches):
    """Rows of an evaluation of ``count`` samples. All parts have an equal number of rows: the last
    part repeats the last row."""

    count: int
