"""Estimate a product command: cycles, and exact beats."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

from diastole_sim.perf.chunk_walk import ChunkWalk, Loops, WalkedProduct, every_chunk, loops_of
from diastole_sim.perf.fused import FusedWalk, fused_passes
from diastole_sim.perf.modelled_machine import ModelledMachine
from diastole_sim.perf.product_run import ModelledProduct, ProductRun
from diastole_sim.perf.result_store import Store
from diastole_sim.spec.command import DEFAULT_NEST
from diastole_sim.spec.image import MAX_SIZE
from diastole_sim.spec.nest import Nest
from diastole_sim.spec.require import require_choice, require_int
from diastole_sim.spec.sizes.uses import WIDEST, Widths, X

Runner: TypeAlias = Callable[[ProductRun, ChunkWalk], None]
"""Function that takes a command through the chunks of its loops."""

OPERATIONS = ("forward", "dx", "dw", "backward")
COUNTED = ("cycles", "slots", "read_beats", "write_beats", "filled", "words")
TABLES = ("idle", "waits")
"""Members of an estimate that add up: numbers, and tables of numbers."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Costs of a product command.

    ``cycles`` is an estimate. In comparisons with the hardware the estimate is within 0.3 % and 4
    cycles from B = 4 on, and within 1.5 % below B = 4 and in any nest, for results that begin where
    a burst may. Small fused passes on two ports may be further off. Products in nests of small
    tiles may also be further off if rows leave in the very cycles in which the next sums in their
    memory begin; tests allow 15 % there. ``read_beats`` and ``write_beats`` are exact.

    - ``macs``: multiplications without padding.
    - ``slots``: cycles in which the array had work.
    - ``idle``: cycles in which the array had no slot, by the missing resource: ``load`` (the first
      chunk included), ``accumulator`` (a bank), ``short`` (passes shorter than the loading of
      stationary blocks), ``tail`` (the last results).
    - ``waits``: the same cycles by the cause of the delay. Operands: ``start`` (the first chunk),
      ``reading`` (the bus), ``loading`` (blocks on their way into scratchpads), ``latency``
      (requests that waited for free space or for memory), ``swap`` (loading of stationary blocks
      into the array). Results: ``writing`` (the bus), ``draining`` (sums on their way to the bus),
      ``end`` (the last results).
    - ``filled``: cycles in which the busiest port writes blocks into scratchpads.
    - ``words``: cycles in which sums leave the accumulators.
    - ``passes``: pairs of planes for every multiplication of ``macs``, on average; 1 for formats
      with one width.
    """

    op: str
    m: int
    n: int
    k: int
    fused: bool
    multipliers: int
    beat_bytes: int
    cycles: int
    slots: int
    read_beats: int
    write_beats: int
    idle: dict[str, int]
    waits: dict[str, int]
    filled: int
    words: int
    passes: float = 1.0

    @property
    def macs(self) -> int:
        return self.m * self.n * self.k * (2 if self.op == "backward" else 1)

    @property
    def multiplications(self) -> int:
        """Multiplications of the array, over all pairs of planes."""
        return round(self.macs * self.passes)

    @property
    def utilisation(self) -> float:
        """Part of the array's multiplications that belong to the product, 0 to 1."""
        return self.multiplications / (self.cycles * self.multipliers)

    @property
    def read_bytes(self) -> int:
        return self.read_beats * self.beat_bytes

    @property
    def write_bytes(self) -> int:
        return self.write_beats * self.beat_bytes


def run_whole(run: ProductRun, walk: ChunkWalk) -> None:
    """Take a command through every chunk."""
    for chunk in every_chunk(walk):
        run.chunk(chunk)


def estimate(
    machine: ModelledMachine,
    op: str,
    m: int,
    n: int,
    k: int,
    nest: Nest = DEFAULT_NEST,
    widths: Widths = WIDEST,
    *,
    runner: Runner = run_whole,
) -> Estimate:
    """Estimate a product. ``op``: forward, dx, dw or backward, of X (m x k), W (k x n), dY (m x n)
    elements.

    A backward pass that does not fit as a fused pass runs as dx, then dw. ``nest``: loop nest of
    the products; the fused pass has its own loops. ``widths``: widths of the operands. ValueError
    if an argument is out of range, or if the machine lacks a width.
    """
    require_product(op, m, n, k)
    if op != "backward":
        loops = loops_of(machine, op, m, n, k, nest, widths)
        return estimate_loops(machine, op, (m, n, k), loops, runner=runner)
    if not machine.fuses(m, n, widths):
        parts = [
            estimate(machine, part, m, n, k, nest, widths, runner=runner) for part in ("dx", "dw")
        ]
        return gradients_apart(parts)
    command = ModelledProduct(
        op=op,
        sizes=(m, n, k),
        slabs=(machine.fused_tile_blocks, machine.fused_blocks_n),
        units=(machine.fused_halves["east"], machine.fused_halves["north"]),
        streams=machine.planes(X, widths[X]),
        fused=True,
    )
    run = ProductRun(machine, command)
    runner(run, FusedWalk(machine, (m, n, k), widths))
    return _estimated(run, command, fused_passes(machine, widths))


def estimate_loops(
    machine: ModelledMachine,
    op: str,
    sizes: tuple[int, int, int],
    loops: Loops,
    store: Store | None = None,
    *,
    runner: Runner = run_whole,
) -> Estimate:
    """Estimate a product with given loops. ``sizes``: M, N, K. Results go to ``store``, or to
    memory if ``store`` is None."""
    command = ModelledProduct(
        op=op,
        sizes=sizes,
        slabs=loops.slabs,
        units=(loops.units, loops.units),
        streams=loops.planes[0],
    )
    run = ProductRun(machine, command, store)
    runner(run, WalkedProduct(machine, loops))
    return _estimated(run, command, float(prod(loops.planes)))


def require_product(op: str, m: int, n: int, k: int) -> None:
    """Raise ValueError if the product does not exist."""
    require_choice("op", op, OPERATIONS)
    for name, size in (("m", m), ("n", n), ("k", k)):
        require_int(name, size, 1, MAX_SIZE)


def _estimated(run: ProductRun, command: ModelledProduct, passes: float) -> Estimate:
    """Return the costs of a command after its last chunk."""
    machine, end, (m, n, k) = run.machine, run.finish(), command.sizes
    tail = end - run.now
    counted = run.counted
    idle = {name: counted[f"idle {name}"] for name in run.execute.idle} | {"tail": tail}
    ports = range(machine.ports)
    result = Estimate(
        op=command.op, m=m, n=n, k=k, fused=command.fused,
        multipliers=machine.macs, beat_bytes=machine.beat_bytes,
        cycles=end, slots=counted["slots"],
        read_beats=counted["read_beats"] + run.headers, write_beats=counted["write_beats"],
        idle=idle, waits=run.cause_waits(tail),
        filled=max(counted[f"filled {port}"] for port in ports),
        words=counted["words"], passes=passes,
    )  # fmt: skip
    assert result.cycles >= result.slots, "more vectors than cycles"
    return result


def gradients_apart(parts: list[Estimate]) -> Estimate:
    """Return the sum of both gradients' costs, as of two products in sequence."""
    sums = {name: sum(getattr(part, name) for part in parts) for name in COUNTED}
    tables = {
        table: {
            name: sum(getattr(part, table)[name] for part in parts)
            for name in getattr(parts[0], table)
        }
        for table in TABLES
    }
    passes = sum(part.passes for part in parts) / len(parts)
    return replace(parts[0], op="backward", fused=False, passes=passes, **sums, **tables)
