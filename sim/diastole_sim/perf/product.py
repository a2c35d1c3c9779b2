"""One product command: cycles, and beats to the last."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod

from diastole_sim.perf.deal import DealtStore
from diastole_sim.perf.execute import Execute
from diastole_sim.perf.fused import fused_chunks, fused_passes
from diastole_sim.perf.load import Loaders
from diastole_sim.perf.machine import DY, WIDEST, ModelledMachine, W, Widths, X, ceil_div
from diastole_sim.perf.rings import Room
from diastole_sim.perf.store import Store
from diastole_sim.perf.walk import Chunk, Loops, loops_of, product_chunks
from diastole_sim.spec.check import require_choice, require_int
from diastole_sim.spec.command import MACHINES_OWN
from diastole_sim.spec.image import MAX_SIZE
from diastole_sim.spec.nest import Nest

OPERATIONS = ("forward", "dx", "dw", "backward")
COUNTED = ("cycles", "slots", "read_beats", "write_beats", "turn")
"""Of an estimate, what adds up; beside ``idle``."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a command costs. ``macs`` unpadded; ``idle``: cycles in which the array had no slot.

    ``cycles`` is an estimate: where it was compared, within 0.3 % and 4 cycles of the hardware from
    B = 4 on, 1.5 % below and in any nest, results beginning where a burst may; small fused passes
    on two ports may be further off.
    ``read_beats`` and ``write_beats`` are exact. ``slots``: cycles in which the array had work.
    ``idle`` by what was awaited: ``load`` (the first chunk included), ``accumulator`` (a bank),
    ``short`` (passes shorter than the loading of held blocks), ``tail`` (the last results).
    ``turn``: cycles in which a vector waited for the turning array. ``passes``: pairs of planes for
    each multiplication of ``macs``, in the mean: 1 where formats have one width.
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
    turn: int
    passes: float = 1.0

    @property
    def macs(self) -> int:
        return self.m * self.n * self.k * (2 if self.op == "backward" else 1)

    @property
    def multiplications(self) -> int:
        """Of the array: those of every pair of planes."""
        return round(self.macs * self.passes)

    @property
    def utilisation(self) -> float:
        """Part of the array's multiplications that are of the product, 0 to 1."""
        return self.multiplications / (self.cycles * self.multipliers)

    @property
    def read_bytes(self) -> int:
        return self.read_beats * self.beat_bytes

    @property
    def write_bytes(self) -> int:
        return self.write_beats * self.beat_bytes


def estimate(
    machine: ModelledMachine,
    op: str,
    m: int,
    n: int,
    k: int,
    nest: Nest = MACHINES_OWN,
    widths: Widths = WIDEST,
) -> Estimate:
    """``op``: forward, dx, dw or backward, of X (m x k), W (k x n), dY (m x n) elements.

    A backward pass that does not fit as one runs as dx, then dw. ``nest``: of the products; the
    fused pass has its own. ``widths`` that the operands have. ValueError if out of range, or for a
    width that the machine has not.
    """
    require_product(op, m, n, k)
    if op == "backward":
        if machine.fuses(m, n, widths):
            chunks = fused_chunks(machine, m, n, k, widths)
            slabs = machine.fused_tile, machine.fused_blocks_n
            of_x = machine.planes(X, widths[X])
            found = _run(machine, op, (m, n, k), chunks, slabs, machine.fused_units, of_x, True)
            return replace(found, passes=fused_passes(machine, widths))
        parts = [estimate(machine, part, m, n, k, nest, widths) for part in ("dx", "dw")]
        return gradients_apart(parts)
    return estimate_loops(machine, op, (m, n, k), loops_of(machine, op, m, n, k, nest, widths))


def estimate_loops(
    machine: ModelledMachine,
    op: str,
    sizes: tuple[int, int, int],
    loops: Loops,
    store: Store | None = None,
) -> Estimate:
    """Of a product in its loops, whose results go to ``store``, None for memory; M, N, K."""
    chunks, units = product_chunks(machine, loops), (loops.units, loops.units)
    found = _run(machine, op, sizes, chunks, loops.slabs, units, loops.planes[0], store=store)
    return replace(found, passes=float(prod(loops.planes)))


def require_product(op: str, m: int, n: int, k: int) -> None:
    """ValueError if there is no such product."""
    require_choice("op", op, OPERATIONS)
    for name, size in (("m", m), ("n", n), ("k", k)):
        require_int(name, size, 1, MAX_SIZE)


def _run(
    machine: ModelledMachine,
    op: str,
    sizes: tuple[int, int, int],
    chunks: Iterable[Chunk],
    slabs: tuple[int, int],
    units: tuple[int, int],
    streams: int,
    fused: bool = False,
    store: Store | None = None,
) -> Estimate:
    m, n, k = sizes
    # The addresses of the maxima are products: as many cycles as the larger factor has bits.
    tallest = max(_rows_read(machine, op, sizes))
    setup = ceil_div(tallest, machine.block).bit_length() + 2
    headers = machine.header * (3 if fused else 2)  # of what is read, one after the other
    setup = max(setup, 3 + headers * (machine.memory.read_cycles + 1))
    load = Loaders(machine, ask=setup + 1)  # the first chunk, and whether there is room
    if store is None:
        store = (Store if machine.ports == 1 else DealtStore)(machine, units)
    execute = Execute(machine, store)
    room = Room(machine, store, slabs, fused, streams)
    slots = 0
    for chunk in chunks:
        loaded = load.chunk(chunk, room.take(chunk))
        room.ran(chunk, execute, execute.chunk(chunk, loaded))
        load.share(store.others)
        slots += chunk.slots * sum(chunk.uses) * chunk.slices * chunk.groups
    end = store.finish()
    assert execute.end is not None
    idle = execute.idle | {"tail": end - execute.end}
    return Estimate(
        op=op, m=m, n=n, k=k, fused=fused,
        multipliers=machine.multipliers, beat_bytes=machine.beat_bytes,
        cycles=end, slots=slots, read_beats=load.beats + headers, write_beats=store.beats,
        idle=idle, turn=load.turn_stalls,
    )  # fmt: skip


def _rows_read(machine: ModelledMachine, op: str, sizes: tuple[int, int, int]) -> tuple[int, ...]:
    """Rows of the three images as an operation reads them: of two copies, the one whose rows run
    along the contraction."""
    m, n, k = sizes
    of_x = k if machine.grouped(X) and op in ("dw", "backward") else m
    of_w = n if machine.grouped(W) and op == "forward" else k
    of_dy = n if machine.grouped(DY) and op == "dw" else m
    return of_x, of_w, of_dy


def gradients_apart(parts: list[Estimate]) -> Estimate:
    """Both gradients as products one after the other."""
    sums = {name: sum(getattr(part, name) for part in parts) for name in COUNTED}
    idle = {name: sum(part.idle[name] for part in parts) for name in parts[0].idle}
    passes = sum(part.passes for part in parts) / len(parts)
    return replace(parts[0], op="backward", fused=False, idle=idle, passes=passes, **sums)
