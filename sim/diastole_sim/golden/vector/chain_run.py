"""Run a chain: one program over every block of a tensor.

:func:`run_blocks` defines the result: the blocks follow one another, and every instruction works on
a whole block. :func:`run_chain` gives the same bits, and computes independent results together
(:mod:`diastole_sim.golden.vector.dataflow`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from diastole_sim.golden.vector.arithmetic import BINARY32, Arithmetic, Numbers
from diastole_sim.golden.vector.chain_output import ChainOutput, ChainResult
from diastole_sim.golden.vector.dataflow import (
    BEFORE,
    UNDEFINED,
    Dataflow,
    Piece,
    Step,
    active_blocks,
    panel_blocks,
    trace_dataflow,
)
from diastole_sim.golden.vector.operate import SourceValues, operate
from diastole_sim.golden.vector.order import Order
from diastole_sim.spec.micro import NO_REGISTER, REGISTERS, Instruction, MicroOp, Source
from diastole_sim.spec.stream_table import Descriptor, Kind, PanelOrder

Input = Numbers | Descriptor
"""Values that broadcast to the tensor (rows, cols), or a descriptor of kind ``panel``. A vector of
columns is (1, cols), a vector of rows is (rows, 1)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ChainRun:
    """Chain to be run.

    - ``program``: instructions without faults.
    - ``inputs``: input streams that the program names.
    - ``outputs``: descriptors of the output streams; only their kinds are read, and the places of
      panel streams.
    - ``panel``: (vectors, B), written in place.
    - ``constants``: 256 constants, with their values from before the chain throughout.

    All numbers have the type of ``arithmetic``. An output vector of rows or of columns needs whole
    lines.
    """

    program: tuple[Instruction, ...]
    order: Order
    inputs: Mapping[int, Input]
    outputs: Mapping[int, Descriptor]
    panel: Numbers
    constants: Numbers
    arithmetic: Arithmetic = BINARY32

    def __post_init__(self) -> None:
        kinds = {stream.kind for stream in self.outputs.values()}
        if kinds & {Kind.ROW, Kind.COLUMN} and not self.order.lines_are_whole:
            raise ValueError("a vector of rows or columns must be written by whole lines")

    def inputs_in_panel(self) -> dict[int, Descriptor]:
        return {n: each for n, each in self.inputs.items() if isinstance(each, Descriptor)}

    def outputs_in_panel(self) -> dict[int, Descriptor]:
        return {n: each for n, each in self.outputs.items() if each.kind == Kind.PANEL}

    def sources(self) -> SourceValues:
        """Return all operands except registers and panel."""
        return SourceValues(
            order=self.order,
            arithmetic=self.arithmetic,
            streams={
                number: self.order.split(each)
                for number, each in self.inputs.items()
                if not isinstance(each, Descriptor)
            },
            constants=self.constants,
        )


def run_chain(chain: ChainRun) -> ChainResult:
    """Run a chain, with as many blocks at once as possible."""
    dataflow = _cached_dataflow(
        chain.program,
        chain.order,
        tuple(chain.inputs_in_panel().items()),
        tuple(chain.outputs_in_panel().items()),
    )
    if dataflow is None:
        return run_blocks(chain)
    return _WholeChain(chain, dataflow).run()


@lru_cache(maxsize=256)
def _cached_dataflow(
    program: tuple[Instruction, ...],
    order: Order,
    inputs: tuple[tuple[int, Descriptor], ...],
    outputs: tuple[tuple[int, Descriptor], ...],
) -> Dataflow | None:
    return trace_dataflow(program, order, dict(inputs), dict(outputs))


class _WholeChain:
    """Run a dataflow. ``results``: by instruction, the results of all blocks in which the
    instruction is done."""

    def __init__(self, chain: ChainRun, dataflow: Dataflow):
        self.chain, self.dataflow = chain, dataflow
        self.sources = chain.sources()
        self.side = chain.order.block
        none = np.empty((0, self.side, self.side), chain.arithmetic.dtype)
        self.results: list[Numbers] = [none] * len(chain.program)
        used = [*chain.inputs_in_panel().values(), *chain.outputs_in_panel().values()]
        base = used[0].address % self.side if used else 0
        whole = (len(chain.panel) - base) // self.side * self.side
        self.cells = chain.panel[base : base + whole].reshape(-1, self.side, self.side)

    def run(self) -> ChainResult:
        padded = None if self.chain.order.inside.all() else self.chain.order.inside
        for step in self.dataflow.steps:
            each = self.chain.program[step.instruction]
            result = operate(
                each,
                self._operands(each, step),
                self.chain.arithmetic,
                first=self.chain.order.first[step.blocks],
                inside=None if padded is None else padded[step.blocks],
            )
            self._keep(step, np.broadcast_to(result, (step.count, self.side, self.side)))
        written = ChainOutput(self.chain.order, self.chain.outputs, self.chain.arithmetic)
        for number, each in enumerate(self.chain.program):
            if each.o in self.chain.outputs:
                written.write(each.o, self.dataflow.active[number], self.results[number])
        for cells, maker, place in self.dataflow.final_values:
            self.cells[cells] = self.results[maker][place]
        return written.result()

    def _operands(self, each: Instruction, step: Step) -> dict[str, Numbers]:
        return {
            letter: self._gathered(step.operands[letter], step.count)
            if letter in step.operands
            else self.sources.read(source, each.k, step.blocks)
            for letter, source in each.sources.items()
        }

    def _gathered(self, parts: Sequence[Piece], count: int) -> Numbers:
        if len(parts) == 1:
            return self._part(parts[0])
        values = np.empty((count, self.side, self.side), self.chain.arithmetic.dtype)
        for part in parts:
            values[part.to] = self._part(part)
        return values

    def _part(self, part: Piece) -> Numbers:
        """Return blocks of an operand. Any block will do where ``fresh`` replaces the operand.
        Blocks of the panel are copied, since the panel is written while results are still read."""
        if part.maker >= 0:
            return self.results[part.maker][part.place]
        if part.maker == BEFORE:
            return self.cells[part.place].copy()
        value = np.nan if part.maker == UNDEFINED else 0.0
        return self.chain.arithmetic.array(np.full((1, self.side, self.side), value))

    def _keep(self, step: Step, values: Numbers) -> None:
        number = step.instruction
        total = len(self.dataflow.active[number])
        if step.count == total:
            self.results[number] = values
            return
        if not len(self.results[number]):
            self.results[number] = np.empty((total, self.side, self.side), values.dtype)
        self.results[number][step.place] = values


def run_blocks(chain: ChainRun) -> ChainResult:
    """Run a chain block after block, as the chain is defined."""
    order, arithmetic = chain.order, chain.arithmetic
    side = order.block
    sources, inputs, outputs = chain.sources(), chain.inputs_in_panel(), chain.outputs_in_panel()
    registers: dict[int, Numbers] = dict.fromkeys(
        range(REGISTERS), arithmetic.array(np.full((1, side, side), np.nan))
    )
    written = ChainOutput(order, chain.outputs, arithmetic)
    done = [each.op != MicroOp.NOP and active_blocks(each.when, order) for each in chain.program]
    for number in range(len(order)):
        block = slice(number, number + 1)
        for each, when in zip(chain.program, done, strict=True):
            if not np.broadcast_to(when, len(order))[number]:
                continue
            operands: dict[str, Numbers] = {}
            for letter, source in each.sources.items():
                stream = inputs.get(source - Source.S0)
                if source < REGISTERS:
                    operands[letter] = registers[source]
                elif stream is None:
                    operands[letter] = sources.read(source, each.k, block)
                else:
                    operands[letter] = _panel_block(chain, stream, number).copy()
            first, inside = order.first[block], order.inside[block]
            result = operate(each, operands, arithmetic, first=first, inside=inside)
            result = np.broadcast_to(result, (1, side, side))
            if each.d != NO_REGISTER:
                registers[each.d] = result
            if each.o in chain.outputs:
                written.write(each.o, block, result)
            if each.o in outputs:
                _panel_block(chain, outputs[each.o], number)[:] = result
    return written.result()


def _panel_block(chain: ChainRun, stream: Descriptor, number: int) -> Numbers:
    """Return B vectors of the panel: a view, or new zeros if the stream reads zeros."""
    side, order = chain.order.block, chain.order
    if stream.aux == PanelOrder.BLOCK_COLUMN_ZERO_FIRST and order.i[number] == 0:
        return np.zeros((side, side), chain.panel.dtype)
    first = stream.address + int(panel_blocks(stream, order)[number]) * side
    return chain.panel[first : first + side]
