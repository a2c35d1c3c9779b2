"""Describe a vector unit and its chain for the model."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from diastole_sim.perf.modelled_machine import Memory
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.micro import Instruction, When
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.sizes.vector_shape import PIPELINE
from diastole_sim.spec.stream_table import Descriptor, Walk

WRITTEN = 7
"""Cycles from a row's read address to its result."""
SPECIAL_LATENCY = 5
"""Latency of a special lane in cycles."""


class VisitedBlock(NamedTuple):
    """Block of a walk. ``i``, ``j``: number of the block by row and column of blocks. ``rows``,
    ``cols``: rows and columns inside the tensor. ``first``, ``last``: True for the first and the
    last block of a line. ``end``: True for the last block of the walk."""

    i: int
    j: int
    rows: int
    cols: int
    first: bool
    last: bool
    end: bool = False

    def does(self, instruction: Instruction) -> bool:
        """Return whether an instruction is done in the block."""
        return {
            When.ALWAYS: True,
            When.LAST: self.last,
            When.FIRST: self.first,
            When.NOT_LAST: not self.last,
        }[When(instruction.when)]


@dataclass(frozen=True, kw_only=True)
class ModelledVector:
    """Vector unit of a machine. ``block``: B. ``specials``: number of lanes for functions.
    ``data_width``: bits of the bus. The values are not checked, since they come from a valid
    machine."""

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
        return max(self.block, PIPELINE)

    @cached_property
    def special_cycles(self) -> int:
        """Cycles from a special instruction to the first instruction that may name the result."""
        groups = self.block // self.specials
        work = self.block * groups
        begins = 2 + (2 if groups > 1 else 0)
        return max(self.slot, work, begins + work + SPECIAL_LATENCY - (self.block - 1))

    @property
    def permuted_cycles(self) -> int:
        """Delay in cycles of an instruction that permutes rows."""
        return self.block // 2

    def beats(self, elements: int, bits: int) -> int:
        """Return the beats of ``elements`` neighbouring elements of a block's row, which begin
        where a block begins. ``bits``: bits of an element."""
        per_beat = self.data_width // bits
        return ceil_div(elements, min(per_beat, self.block))


@dataclass(frozen=True, kw_only=True)
class ChainTask:
    """Chain to be modelled.

    - ``program``: instructions.
    - ``inputs``, ``outputs``: streams that the instructions name, by number.
    - ``walk``: walk over the tensor.
    - ``of_product``: True for a chain at a product's drain.
    - ``step``: value of the register ``step``.
    """

    program: Sequence[Instruction]
    inputs: dict[int, Descriptor]
    outputs: dict[int, Descriptor]
    walk: Walk
    of_product: bool = False
    step: int = 0

    def blocks(self) -> Iterator[VisitedBlock]:
        """Yield the blocks of a walk over memory in order."""
        walk = self.walk
        rows, cols = walk.block_rows, walk.block_cols
        lines, length = (cols, rows) if walk.by_columns else (rows, cols)
        for line in range(lines):
            for at in range(length):
                i, j = (at, line) if walk.by_columns else (line, at)
                first, last = at == 0, at == length - 1
                yield self.visited(i, j, first=first, last=last)

    def visited(self, i: int, j: int, *, first: bool, last: bool) -> VisitedBlock:
        """Return a block of the tensor."""
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
