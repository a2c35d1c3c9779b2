"""Model a product whose results go to a chain, tile by tile."""

from dataclasses import dataclass

from diastole_sim.perf.chain_times import ChainCore, ChainTimes
from diastole_sim.perf.chunk_walk import Loops, Span, loops_of
from diastole_sim.perf.lanes import LATENCY
from diastole_sim.perf.modelled_machine import ModelledMachine
from diastole_sim.perf.modelled_vector import ChainTask, ModelledVector, VisitedBlock
from diastole_sim.perf.product_estimate import Estimate, estimate_loops
from diastole_sim.perf.result_store import Store
from diastole_sim.spec.command import DEFAULT_NEST
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.nest import Nest
from diastole_sim.spec.sizes.queues import FLOAT_WORDS
from diastole_sim.spec.sizes.uses import WIDEST, Widths

READ = 2
"""Cycles from a tile's last sum to the read of its first sum."""
PASSED = 1
"""Cycles from a drain to the chain's buffers."""


class ChainedStore(Store):
    """Store that gives tiles to a chain in the order of the product, block by block."""

    def __init__(self, machine: ModelledMachine, loops: Loops, core: ChainCore):
        super().__init__(machine, (loops.units, loops.units))
        self.core, self.loops = core, loops
        self.order = loops.tiles()
        self.waits: list[tuple[int, int]] = []

    def tile(self, direction: int, cycle: int, spans: tuple[Span, ...]) -> None:
        """Give all blocks of a tile to the chain, every block when the chain has space for it."""
        (top, rows), (left, cols) = next(self.order)
        core, drain = self.core, self.drains[direction]
        first = cycle + READ + LATENCY + PASSED
        for i in range(top, top + rows):
            for j in range(left, left + cols):
                block = core.task.visited(i, j, first=j == left, last=j == left + cols - 1)
                self._block(block, first)
        self.others = core.inputs.read_beats
        drain.freed.append(core.inputs.product - LATENCY - PASSED)

    def _block(self, block: VisitedBlock, first: int) -> None:
        """Give a block to the chain, and record from when to when its rows waited."""
        inputs = self.core.inputs
        there = max(inputs.product, first)
        self.core.block(block, first)
        begun = inputs.product - self.core.vector.block
        self.waits.append((there, begun))

    def stalled(self, since: int) -> int:
        """Return the cycles from ``since`` on in which a row waited to be read. The last rows do
        not count: they are all read, and wait behind the read."""
        read = ceil_div(FLOAT_WORDS + LATENCY, self.core.vector.block)
        return sum(max(0, end - max(begin, since)) for begin, end in self.waits[:-read])

    def finish(self) -> int:
        """Return the cycle in which the last row was taken."""
        return self.core.inputs.product

    def drained(self, direction: int, number: int) -> int:
        """Return when the bank of a tile becomes free. The time is known as soon as the tile is
        complete."""
        return self.drains[direction].freed[number]


@dataclass(frozen=True, kw_only=True)
class DrainedTimes:
    """Times of a product with a chain. ``product``: times of the array, until the last row is
    taken. ``chain``: times of the vector unit. ``stalled``: cycles in which no vector entered the
    array and rows waited for the chain."""

    product: Estimate
    chain: ChainTimes
    stalled: int


def estimate_drained(
    machine: ModelledMachine,
    vector: ModelledVector,
    op: str,
    sizes: tuple[int, int, int],
    task: ChainTask,
    *,
    nest: Nest = DEFAULT_NEST,
    widths: Widths = WIDEST,
    unit_free: int = 0,
    converter_free: int = 0,
) -> DrainedTimes:
    """Return the times of a product (M, N, K) from cycle 0 on, and of a chain that the vector unit
    begins in cycle ``unit_free``. An image begins not before ``converter_free``."""
    loops = loops_of(machine, op, *sizes, nest, widths)
    core = ChainCore(vector, task, unit_free, converter_free)
    store = ChainedStore(machine, loops, core)
    product = estimate_loops(machine, op, sizes, loops, store)
    after = product.cycles - product.idle["tail"]
    stalled = product.idle["accumulator"] + store.stalled(after)
    return DrainedTimes(product=product, chain=core.end(), stalled=stalled)
