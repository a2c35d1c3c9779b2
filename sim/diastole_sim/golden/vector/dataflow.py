"""Trace every operand of a chain to its maker, to find results that can be computed at once.

A program processes blocks one after the other, and values in registers and in the panel pass from
block to block. A result depends on nothing but its operands. This module therefore follows every
*cell* that holds a block (a register, or B vectors of the panel) through the chain. It traces every
operand of every instruction in every block to the instruction and block that wrote the cell last.
Results that do not depend on each other are then computed together: all blocks of a tensor if no
value is carried, the blocks of all lines if every line is a sum, and likewise for any other pattern
of the program.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.vector.order import Order
from diastole_sim.spec.micro import (
    NO_REGISTER,
    REGISTERS,
    Instruction,
    MicroOp,
    Source,
    When,
)
from diastole_sim.spec.stream_table import Descriptor, PanelOrder

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]

BEFORE = -1
"""Code for an operand in the panel that no instruction has written: the value from before the
chain."""
ZERO_SOURCE = -2
"""Code for an operand that is +0: a panel with ``aux`` 3, in the first row of blocks."""
NEUTRAL = -3
"""Code for an operand that ``fresh`` replaces by the neutral element."""
UNDEFINED = -4
"""Code for a register that no instruction has written."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Piece:
    """Some blocks of an operand. ``to``: indices among a step's blocks. ``maker``: instruction that
    made the blocks, or one of the codes above. ``place``: indices among the results of ``maker``.
    For blocks from before the chain, ``place`` counts blocks of vectors of the panel, from the
    first whole block on."""

    to: slice | Integers
    maker: int
    place: slice | Integers


@dataclass(frozen=True, kw_only=True, eq=False)
class Step:
    """Execution of an instruction in some blocks at once. ``place``: indices among the
    instruction's results. ``blocks``: numbers of the blocks. ``operands``: by letter, the pieces of
    operands in cells."""

    instruction: int
    place: slice | Integers
    blocks: slice | Integers
    count: int
    operands: Mapping[str, Sequence[Piece]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Dataflow:
    """Dataflow of a program. ``active``: by instruction, the blocks in which the instruction is
    done. ``steps``: steps in an order in which every operand is ready. ``final_values``: for every
    written cell of the panel, the number of the cell, and the instruction and place of its final
    value."""

    active: Sequence[Integers]
    steps: Sequence[Step]
    final_values: Sequence[tuple[Integers, int, Integers]]


def active_blocks(when: int, order: Order) -> Mask:
    """Return the blocks in which an instruction is done."""
    return {
        When.ALWAYS: np.ones(len(order), np.bool_),
        When.LAST: order.last,
        When.FIRST: order.first,
        When.NOT_LAST: ~order.last,
    }[When(when)]


def panel_blocks(stream: Descriptor, order: Order) -> Integers:
    """Return, for every block of a panel stream, the number of its block of B vectors, counted from
    the stream's address."""
    if stream.aux == PanelOrder.BLOCK:
        return order.i * stream.pitch + order.j
    return order.i if stream.aux == PanelOrder.BLOCK_ROW else order.j


def trace_dataflow(
    program: Sequence[Instruction],
    order: Order,
    inputs: Mapping[int, Descriptor],
    outputs: Mapping[int, Descriptor],
) -> Dataflow | None:
    """Return the dataflow of a program. ``inputs``, ``outputs``: streams in the panel. Return None
    if blocks of two streams straddle each other (addresses that differ modulo B); the chain must
    then run block after block."""
    used = [*inputs.values(), *outputs.values()]
    if len({stream.address % order.block for stream in used}) > 1:
        return None
    return _DataflowTracer(program, order, inputs, outputs).dataflow()


class _DataflowTracer:
    """Compute the dataflow of one program. A moment is block * length of the program + instruction.
    A write of an instruction is visible to later moments."""

    def __init__(
        self,
        program: Sequence[Instruction],
        order: Order,
        inputs: Mapping[int, Descriptor],
        outputs: Mapping[int, Descriptor],
    ):
        self.program, self.order, self.inputs, self.outputs = program, order, inputs, outputs
        self.length = len(program)
        self.moments = len(order) * self.length
        done = [each.op != MicroOp.NOP and active_blocks(each.when, order) for each in program]
        self.active = [np.flatnonzero(np.broadcast_to(each, len(order))) for each in done]
        self.writes = np.sort(np.concatenate([np.zeros(0, np.int64), *self._writes()]))

    def dataflow(self) -> Dataflow:
        traced = [dict(self._operands(number)) for number in range(self.length)]
        steps = [step for group in self._groups(traced) for step in self._steps(group, traced)]
        return Dataflow(active=self.active, steps=steps, final_values=list(self._final_values()))

    def _cells(self, source: int, blocks: Integers) -> Integers | None:
        """Return the cell of an operand for every block; None if the operand is in no cell."""
        if source < REGISTERS:
            return np.full(len(blocks), source)
        stream = self.inputs.get(source - Source.S0)
        return None if stream is None else self._panel_cells(stream, blocks)

    def _panel_cells(self, stream: Descriptor, blocks: Integers) -> Integers:
        first = REGISTERS + stream.address // self.order.block
        return first + panel_blocks(stream, self.order)[blocks]

    def _writes(self) -> Iterator[Integers]:
        """Yield all writes as cell * moments + moment."""
        for number, each in enumerate(self.program):
            blocks = self.active[number]
            moments = blocks * self.length + number
            if each.d != NO_REGISTER:
                yield each.d * self.moments + moments
            if each.o in self.outputs:
                yield self._panel_cells(self.outputs[each.o], blocks) * self.moments + moments

    def _operands(self, number: int) -> Iterator[tuple[str, tuple[Integers, Integers]]]:
        """Yield by letter, for every block in which an instruction is done, the maker of the
        operand and the block in which the maker ran, or the operand's place in the panel before the
        chain."""
        each, blocks = self.program[number], self.active[number]
        # Find the latest write to the operand's cell before this moment by binary search.
        for letter, source in each.sources.items():
            cells = self._cells(source, blocks)
            if cells is None:
                continue
            before = UNDEFINED if source < REGISTERS else BEFORE
            keys = cells * self.moments + blocks * self.length + number
            latest = np.searchsorted(self.writes, keys) - 1
            writes = self.writes[latest] if len(self.writes) else np.full(len(keys), -1)
            written = (latest >= 0) & (writes // self.moments == cells)
            maker = np.where(written, writes % self.length, before)
            where = np.where(written, writes % self.moments // self.length, cells - REGISTERS)
            stream = self.inputs.get(source - Source.S0)
            if stream is not None and stream.aux == PanelOrder.BLOCK_COLUMN_ZERO_FIRST:
                maker[self.order.i[blocks] == 0] = ZERO_SOURCE
            if letter == "c" and each.fresh:
                maker[self.order.first[blocks]] = NEUTRAL
            yield letter, (maker, where)

    def _groups(
        self, traced: Sequence[Mapping[str, tuple[Integers, Integers]]]
    ) -> Iterator[list[int]]:
        """Yield groups of instructions that depend circularly on each other's results. An
        instruction without a circular dependence is a group of its own. A group comes before the
        groups that need its results."""
        reaches = np.eye(self.length, dtype=np.bool_)
        for number, operands in enumerate(traced):
            for maker, _ in operands.values():
                reaches[maker[maker >= 0], number] = True
        # Compute the transitive closure (Warshall).
        for middle in range(self.length):
            reaches |= reaches[:, middle, None] & reaches[None, middle, :]
        mutual = reaches & reaches.T
        for number in np.argsort(reaches.sum(axis=0), kind="stable"):
            group = np.flatnonzero(mutual[number])
            if group[0] == number:
                yield group.tolist()

    def _steps(
        self, group: Sequence[int], traced: Sequence[Mapping[str, tuple[Integers, Integers]]]
    ) -> Iterator[Step]:
        """Yield the steps of a group: block by block if blocks depend on each other, else all
        blocks together."""
        levels = self._levels(group, traced)
        for level in range(int(levels.max()) + 1):
            for number in group:
                places = np.flatnonzero(levels[self.active[number]] == level)
                if len(places):
                    yield self._step(number, places, traced[number])

    def _levels(
        self, group: Sequence[int], traced: Sequence[Mapping[str, tuple[Integers, Integers]]]
    ) -> Integers:
        """Return for every block the length of the longest path of dependences on earlier blocks
        through the group."""
        pairs = [np.zeros((2, 0), np.int64)]
        for number in group:
            for maker, where in traced[number].values():
                selected = np.isin(maker, group) & (where != self.active[number])
                pairs.append(np.stack([self.active[number][selected], where[selected]]))
        levels = np.zeros(len(self.order), np.int64)
        later, earlier = np.concatenate(pairs, axis=1)
        ahead = np.argsort(later, kind="stable")
        for block, other in zip(later[ahead].tolist(), earlier[ahead].tolist(), strict=True):
            levels[block] = max(levels[block], levels[other] + 1)
        return levels

    def _step(
        self, number: int, places: Integers, operands: Mapping[str, tuple[Integers, Integers]]
    ) -> Step:
        return Step(
            instruction=number,
            place=as_slice(places),
            blocks=as_slice(self.active[number][places]),
            count=len(places),
            operands={
                letter: list(self._parts(maker[places], where[places]))
                for letter, (maker, where) in operands.items()
            },
        )

    def _parts(self, maker: Integers, where: Integers) -> Iterator[Piece]:
        makers: list[int] = np.unique(maker).tolist()
        for each in makers:
            to = np.flatnonzero(maker == each)
            place = where[to]
            if each >= 0:
                place = np.searchsorted(self.active[each], place)
            yield Piece(to=as_slice(to), maker=each, place=as_slice(place))

    def _final_values(self) -> Iterator[tuple[Integers, int, Integers]]:
        cells = self.writes // self.moments
        final = np.append(cells[1:] != cells[:-1], True)[: len(cells)] & (cells >= REGISTERS)
        writes = self.writes[final]
        written, blocks = writes % self.length, writes % self.moments // self.length
        makers: list[int] = np.unique(written).tolist()
        for maker in makers:
            selected = written == maker
            place = np.searchsorted(self.active[maker], blocks[selected])
            yield cells[final][selected] - REGISTERS, maker, place


def as_slice(numbers: Integers) -> slice | Integers:
    """Return ascending numbers at equal distances as a slice, which copies nothing. Return other
    numbers unchanged."""
    if not len(numbers):
        return slice(0, 0)
    first, last = int(numbers[0]), int(numbers[-1])
    step = int(numbers[1]) - first if len(numbers) > 1 else 1
    if step > 0 and np.array_equal(numbers, np.arange(first, last + 1, step)):
        return slice(first, last + 1, step)
    return numbers
