"""What the model knows of a vector unit, and of the chain that it does."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from diastole_sim.perf.modelled_machine import Memory
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.micro import Instruction, When
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.stream_table import Descriptor, Walk

SHORTEST_SLOT = 8
"""Cycles of an instruction at least."""
WRITTEN = 7
"""Cycles from a row's read address to its result."""
SPECIAL_LATENCY = 5
"""Of a special lane."""


class VisitedBlock(NamedTuple):
    """A block of a walk: its number, its rows and columns inside the tensor, its place in its line,
    and whether it is the walk's last."""

    i: int
    j: int
    rows: int
    cols: int
    first: bool
    last: bool
    end: bool = False

    def does(self, instruction: Instruction) -> bool:
        """Whether an instruction is done in it."""
        return {
            When.ALWAYS: True,
            When.LAST: self.last,
            When.FIRST: self.first,
            When.NOT_LAST: not self.last,
        }[When(instruction.when)]


@dataclass(frozen=True, kw_only=True)
class ModelledVector:
    """``block`` B, ``specials`` lanes for functions, ``data_width`` of the bus in bits; ValueError
    is left to whoever made these: they are a machine's."""

    block: int
    specials: int
    data_width: int
    memory: Memory
    numerics: Numerics

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    @property
    def slot(self) -> int:
        """Cycles of an instruction."""
        return max(self.block, SHORTEST_SLOT)

    @cached_property
    def special_cycles(self) -> int:
        """From a special instruction to the first that may name its result."""
        groups = self.block // self.specials
        work = self.block * groups
        begins = 2 + (2 if groups > 1 else 0)
        return max(self.slot, work, begins + work + SPECIAL_LATENCY - (self.block - 1))

    @property
    def turned_cycles(self) -> int:
        """Later by so many comes who turns rows."""
        return self.block // 2

    def beats(self, elements: int, bits: int) -> int:
        """Of so many neighbouring elements of a block's row, that begin where a block does."""
        per_beat = self.data_width // bits
        return ceil_div(elements, min(per_beat, self.block))


@dataclass(frozen=True, kw_only=True)
class ChainTask:
    """A chain: its program, and by number those streams that its instructions name. ``walk``: of
    its tensor. ``of_product``: it stands at a drain. ``step``: the register."""

    program: Sequence[Instruction]
    inputs: dict[int, Descriptor]
    outputs: dict[int, Descriptor]
    walk: Walk
    of_product: bool = False
    step: int = 0

    def blocks(self) -> Iterator[VisitedBlock]:
        """Those of a walk over memory, in its order."""
        walk = self.walk
        rows, cols = walk.block_rows, walk.block_cols
        lines, length = (cols, rows) if walk.by_columns else (rows, cols)
        for line in range(lines):
            for at in range(length):
                i, j = (at, line) if walk.by_columns else (line, at)
                first, last = at == 0, at == length - 1
                yield self.visited(i, j, first=first, last=last)

    def visited(self, i: int, j: int, *, first: bool, last: bool) -> VisitedBlock:
        """A block of the tensor."""
        walk, block = self.walk, self.walk.block
        return VisitedBlock(
            i,
            j,
            min(block, walk.rows - i * block),
            min(block, walk.cols - j * block),
            first,
            last,
            i == walk.block_rows - 1 and j == walk.block_cols - 1,
        )
