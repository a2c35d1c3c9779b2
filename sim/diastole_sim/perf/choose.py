"""Choose the loops of a product by the model of the machine: the choice of a host.

All nests of a machine are evaluated in closed form. For a short product, whose beginning and end
matter, the best nests are then run in the model.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

from diastole_sim.perf.chunk_walk import (
    LoadedRegion,
    Loops,
    Roles,
    blocks,
    loops_of,
    stationary_sides,
)
from diastole_sim.perf.modelled_machine import ModelledMachine
from diastole_sim.perf.product_estimate import estimate
from diastole_sim.spec.command import DEFAULT_NEST
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.nest import KEEP_VALUES, OUTER, Nest, NestLimits
from diastole_sim.spec.sizes.uses import WIDEST, Widths

SLACK = 1.007
"""Factor on the shortest time within which a nest with fewer reads is preferred."""
MAX_MODELLED = 20
"""Most nests that are run in the model."""
FEWEST_RUN = 4
"""Fewest nests that are run in the model. If the model has no time for as many, the closed form
decides alone."""
MAX_STEPS = 5_000
"""Most passes, rows and groups of blocks that the model walks through for one choice: ten
milliseconds."""
HAND_OVER = 20
"""Cycles from the last pass of a chunk to the first request for its place, and from the last vector
of a chunk to its first pass."""


OVERLAP_EXPONENT = 8
"""Exponent in :func:`overlapped`. Two units with equal times take 9 % more together."""


class NestCost(NamedTuple):
    """Cost of a nest: cycles and beats read. ``steps``: steps of the model's walk for an exact
    result."""

    cycles: float
    beats: float
    steps: float


def choose_nest(
    machine: ModelledMachine,
    limits: NestLimits,
    op: str,
    m: int,
    n: int,
    k: int,
    widths: Widths = WIDEST,
) -> Nest:
    """Return the nest that reads the fewest bytes, of all nests within 0.7 % of the fastest.

    ``op``: forward, dx or dw. Sizes are in elements. ``widths``: widths of the operands. The
    machine's own nest is among the candidates.
    """
    costs: dict[Nest, NestCost] = {}
    seen: set[tuple[object, ...]] = set()
    own = DEFAULT_NEST
    own_loops = loops_of(machine, op, m, n, k, own, widths)
    for nest in candidates(limits, own_loops.blocks, own_loops.planes):
        loops = loops_of(machine, op, m, n, k, nest, widths)
        if (alike := nest_key(loops)) not in seen:
            seen.add(alike)
            costs[nest] = closed_form_cost(machine, loops)
    costs[own] = closed_form_cost(machine, own_loops)
    ranked = [own, *sorted(costs.keys() - {own}, key=lambda nest: (costs[nest], str(nest)))]
    left, runs = MAX_STEPS, dict[Nest, tuple[float, float]]()
    for nest in ranked[:MAX_MODELLED]:
        left -= int(costs[nest].steps)
        if left < 0:
            break
        estimated = estimate(machine, op, m, n, k, nest, widths)
        runs[nest] = estimated.cycles, estimated.read_beats
    if len(runs) < min(FEWEST_RUN, len(ranked)):
        runs = {nest: costs[nest][:2] for nest in ranked}
    fastest = min(cycles for cycles, _ in runs.values())
    near = (nest for nest, (cycles, _) in runs.items() if cycles <= SLACK * fastest)
    return min(near, key=lambda nest: runs[nest][::-1])


def candidates(
    limits: NestLimits, blocks: tuple[int, int, int], planes: tuple[int, int] = (1, 1)
) -> Iterator[Nest]:
    """Yield all lengths that a machine takes, written out, with the operands that may stay on chip.
    ``blocks``: blocks of the product along the streaming dimension, the lanes and the contraction.
    ``planes``: planes of the streaming and of the stationary operand."""
    for nests in _written_out(limits):
        nest = nests[KEEP_VALUES[0]]
        panels, slabs = limits.panels(nest, blocks, planes), limits.slabs(nest)
        capacities = limits.stream_blocks, limits.stationary_blocks
        fits = [panel <= capacity for panel, capacity in zip(panels, capacities, strict=True)]
        yield nests[KEEP_VALUES[fits[0] + 2 * fits[1]]]
        # Keeping may cost time if the next panel has no place while the last panel is used.
        tight = [p + s > r for p, s, r in zip(panels, slabs, capacities, strict=True)]
        if any(fit and full for fit, full in zip(fits, tight, strict=True)):
            loose = [fit and not full for fit, full in zip(fits, tight, strict=True)]
            yield nests[KEEP_VALUES[loose[0] + 2 * loose[1]]]


@lru_cache(maxsize=64)
def _written_out(limits: NestLimits) -> tuple[dict[str, Nest], ...]:
    """Return all lengths and orders. Every entry has the nests of a combination by the operands
    kept."""
    lengths = product(limits.t_blocks, limits.groups, limits.chunk, OUTER)
    return tuple(
        {
            keep: Nest(t_blocks=t_blocks, groups=groups, chunk=chunk, outer=outer, keep=keep)
            for keep in KEEP_VALUES
        }
        for t_blocks, groups, chunk, outer in lengths
    )


def nest_key(loops: Loops) -> tuple[object, ...]:
    """Return a key. Nests with equal keys do not differ on the product."""
    lengths = tuple(map(min, loops.lengths, loops.blocks))
    one = [length == whole for length, whole in zip(lengths[:2], loops.blocks, strict=False)]
    keeps = loops.keeps[0] and not one[1], loops.keeps[1] and not one[0]
    return (*lengths, OUTER[0] if any(one) else loops.outer, *keeps)


def closed_form_cost(machine: ModelledMachine, loops: Loops) -> NestCost:
    """Return the cost of loops in closed form. Tiles take as long as the slowest of array, loader
    and writer. The time before the first chunk arrives and after the last tile is added."""
    block, shortest = machine.block, machine.rows * machine.block
    t, lanes, chunk = (
        min(length, whole) for length, whole in zip(loops.lengths, loops.blocks, strict=True)
    )
    tiles_t = ceil_div(loops.blocks[0], t)
    tiles_l = ceil_div(loops.blocks[1], lanes)
    last_l = loops.blocks[1] - (tiles_l - 1) * lanes
    tiles, chunks = tiles_t * tiles_l, ceil_div(loops.blocks[2], chunk)
    slices = ceil_div(loops.blocks[2], loops.chunk_side)
    # Cycles of the passes of a slice over all tiles, and from these cycles the average of a tile.
    slots = (tiles_t - 1) * max(t * block, shortest, 4)
    slots += max(loops.sizes[0] - (tiles_t - 1) * t * block, shortest, 4)
    groups = (tiles_l - 1) * ceil_div(lanes, loops.lanes_side)
    groups += ceil_div(last_l, loops.lanes_side)
    work = slices * slots * groups / tiles
    share = loops.blocks[0] * loops.blocks[1] / (tiles * t * lanes)  # of a whole tile, on average
    rounds, load, beats = loading(machine, loops, (t, lanes, chunk), (tiles_t, tiles_l), share)
    rows = min(t * block, loops.sizes[0])
    north = loops.roles.north
    drain = rows * row_beats(machine, lanes, north=north)
    last_rows = loops.sizes[0] - (tiles_t - 1) * t * block
    work *= prod(loops.planes)
    worked = sum(
        count * overlapped(work, chunks * per_chunk)
        for count, per_chunk in zip(rounds, load, strict=True)
    )
    tile = overlapped(work, chunks * load[0])
    last = last_rows * row_beats(machine, last_l, north=north)
    through = overlapped(worked + last, tile + tiles * drain * share)
    latency = machine.memory.read_cycles + machine.memory.response_cycles
    around = beats.first + shortest + HAND_OVER + 2 * latency
    passes = slices * groups / tiles_l * prod(loops.planes)
    steps = tiles * (passes + rows) + beats.requests
    return NestCost(around + through, beats.all, steps)


def overlapped(one: float, other: float) -> float:
    """Return the time of two mutually waiting units: the longer time, and somewhat more for equal
    times, since every hiccup of either unit then counts."""
    return (one**OVERLAP_EXPONENT + other**OVERLAP_EXPONENT) ** (1 / OVERLAP_EXPONENT)


class Beats(NamedTuple):
    """Beats of the first chunk and of a product, and the number of requests for the beats."""

    first: float
    all: float
    requests: float


def loading(
    machine: ModelledMachine,
    loops: Loops,
    lengths: tuple[int, int, int],
    tiles: tuple[int, int],
    share: float,
) -> tuple[tuple[int, int], tuple[float, float], Beats]:
    """Return three values: tiles in the first round of the outer loop and in all further rounds;
    cycles per chunk for loading all planes, in either kind of tile; beats. A kept operand is loaded
    in the first tile of the loop that the operand does not depend on."""
    t, lanes, chunk = lengths
    parts_of_plane = chunk_parts(machine, loops.roles, t, lanes, chunk)
    stationary, streamed = (
        part.times(planes) for part, planes in zip(parts_of_plane, loops.planes[::-1], strict=True)
    )
    inner, outer = (tiles[0], tiles[1]) if loops.outer == "l" else (tiles[1], tiles[0])
    chunks = ceil_div(loops.blocks[2], chunk)
    # An operand kept over the inner loop is loaded in one tile of ``inner``. An operand kept over
    # the outer loop is loaded in the first round only.
    of_inner, of_outer = (stationary, streamed) if loops.outer == "l" else (streamed, stationary)
    keeps_inner, keeps_outer = loops.keeps[:: -1 if loops.outer == "l" else 1]
    parts = [(1 / inner if keeps_inner else 1.0, 1.0), (0.0, 0.0)]
    parts[1] = (parts[0][0], 0.0 if keeps_outer else 1.0)
    capacities = machine.stream_blocks, machine.stationary_blocks
    places = [capacity // slab for capacity, slab in zip(capacities, loops.slabs, strict=True)]
    cycles: list[float] = []
    beats, requests, rounds = 0.0, 0.0, (inner, inner * (outer - 1))
    for count, part in zip(rounds, parts, strict=True):
        loads = list(zip(part, (of_inner, of_outer), strict=True))
        came = sum(some * part.all_beats for some, part in loads)
        request_cycles = 5 * prod(loops.planes) + sum(
            some * part.request_cycles for some, part in loads
        )
        mine = max(sum(some * part.beats for some, part in loads), request_cycles) * share
        waits = machine.memory.read_cycles + HAND_OVER
        slab_cycles = (
            (mine + planes * waits) / max(1, there - 1)
            for planes, there in zip(loops.planes, places, strict=True)
        )
        cycles.append(max(mine, *slab_cycles) if came else 0.0)
        beats += count * chunks * came * share
        requests += count * chunks * sum(some * part.requests for some, part in loads)
    first = sum(part.beats for part in parts_of_plane)
    return rounds, (cycles[0], cycles[1]), Beats(first, beats, requests)


def row_beats(machine: ModelledMachine, lanes: int, *, north: bool) -> float:
    """Return the cycles in which a row of a tile leaves, beside rows of other ports."""
    words = ceil_div(lanes, machine.drain_vectors(north=north))
    return max(ceil_div(4 * lanes * machine.block, machine.beat_bytes) / machine.ports, words)


class ChunkPart(NamedTuple):
    """Loads of a chunk for one operand: beats over all ports; beats and request cycles of the first
    port, which has no fewer rows than any other port; requests."""

    all_beats: int
    beats: int
    request_cycles: int
    requests: int

    @classmethod
    def of(cls, region: LoadedRegion, ports: int) -> "ChunkPart":
        own = [region.of_port(port, ports) for port in range(ports)]
        ask_cycles = 8 + own[0].rows * (1 + len(own[0].runs))
        all_beats = sum(each.beats for each in own)
        return cls(all_beats, own[0].beats, ask_cycles, region.rows * len(region.runs))

    def times(self, planes: int) -> "ChunkPart":
        """Return the loads of ``planes`` planes."""
        return ChunkPart(*(planes * count for count in self))


@lru_cache(maxsize=1 << 14)  # nests of other orders, and other products, load the same
def chunk_parts(
    machine: ModelledMachine, roles: Roles, t: int, lanes: int, chunk: int
) -> tuple[ChunkPart, ChunkPart]:
    """Return the loads of the first chunk of a whole tile, for the stationary and for the streaming
    operand."""
    stationary_rows, stationary_cols = stationary_sides(roles, (0, lanes), (0, chunk))
    rows, cols = (chunk, t) if roles.cols_t else (t, chunk)
    stationary = blocks(machine, roles.stationary, stationary_rows, stationary_cols)
    streamed = blocks(machine, roles.stream, (0, rows), (0, cols))
    return ChunkPart.of(stationary, machine.ports), ChunkPart.of(streamed, machine.ports)
