"""Which loops suit a product: a host's choice, by the model of the machine.

All nests that a machine takes are looked at in closed form; where a product is short, so that its
beginning and its end count, those that look best are run in the model.
"""

from collections.abc import Iterator
from functools import lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

from diastole_sim.perf.chunk_walk import LoadedRegion, Loops, Roles, blocks, held_sides, loops_of
from diastole_sim.perf.modelled_machine import ModelledMachine
from diastole_sim.perf.product_estimate import estimate
from diastole_sim.spec.command import MACHINES_OWN
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.nest import KEPT, OUTER, Nest, NestLimits
from diastole_sim.spec.sizes.uses import WIDEST, Widths

SLACK = 1.007
"""So much longer than the fastest may take who reads less."""
TRIED = 20
"""Nests that are run in the model, at most."""
FEWEST_RUN = 4
"""Of them; where the model has no time for as many the closed form decides alone."""
MOST_STEPS = 5_000
"""Passes, rows and groups of blocks that the model may walk through for one choice: ten
milliseconds."""
HAND_OVER = 20
"""Cycles from the last pass of a chunk to the first request for its place, and from the last vector
of one to its first pass."""


HICCUPS = 8
"""Two units that take the same time take 9 % more together."""


class NestCost(NamedTuple):
    """Cycles and beats read; ``steps``: what the model would walk through to say it exactly."""

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
    """Of the nests within 0.7 % of the fastest the one that reads the fewest bytes.

    ``op``: forward, dx or dw; sizes in elements; ``widths`` that the operands have. What the
    machine has of its own is among them.
    """
    costs: dict[Nest, NestCost] = {}
    seen: set[tuple[object, ...]] = set()
    own = MACHINES_OWN
    own_loops = loops_of(machine, op, m, n, k, own, widths)
    for nest in candidates(limits, own_loops.blocks, own_loops.planes):
        loops = loops_of(machine, op, m, n, k, nest, widths)
        if (alike := what_it_does(loops)) not in seen:
            seen.add(alike)
            costs[nest] = roughly(machine, loops)
    costs[own] = roughly(machine, own_loops)
    ranked = [own, *sorted(costs.keys() - {own}, key=lambda nest: (costs[nest], str(nest)))]
    left, runs = MOST_STEPS, dict[Nest, tuple[float, float]]()
    for nest in ranked[:TRIED]:
        left -= int(costs[nest].steps)
        if left < 0:
            break
        found = estimate(machine, op, m, n, k, nest, widths)
        runs[nest] = found.cycles, found.read_beats
    if len(runs) < min(FEWEST_RUN, len(ranked)):
        runs = {nest: costs[nest][:2] for nest in ranked}
    fastest = min(cycles for cycles, _ in runs.values())
    near = (nest for nest, (cycles, _) in runs.items() if cycles <= SLACK * fastest)
    return min(near, key=lambda nest: runs[nest][::-1])


def candidates(
    limits: NestLimits, blocks: tuple[int, int, int], planes: tuple[int, int] = (1, 1)
) -> Iterator[Nest]:
    """Every length that a machine takes, written out, and with each the operands that may stay;
    ``blocks`` of the product: along what streams, the lanes and the contraction; ``planes`` of what
    streams and of what is held."""
    for nests in _written_out(limits):
        nest = nests[KEPT[0]]
        panels, slabs = limits.panels(nest, blocks, planes), limits.slabs(nest)
        rooms = limits.stream_blocks, limits.held_blocks
        fits = [panel <= room for panel, room in zip(panels, rooms, strict=True)]
        yield nests[KEPT[fits[0] + 2 * fits[1]]]
        # Where the next panel has no place while the last one is used, keeping may cost time.
        tight = [p + s > r for p, s, r in zip(panels, slabs, rooms, strict=True)]
        if any(fit and full for fit, full in zip(fits, tight, strict=True)):
            loose = [fit and not full for fit, full in zip(fits, tight, strict=True)]
            yield nests[KEPT[loose[0] + 2 * loose[1]]]


@lru_cache(maxsize=64)
def _written_out(limits: NestLimits) -> tuple[dict[str, Nest], ...]:
    """Every length and order, and of each the nests by what they keep."""
    lengths = product(limits.t_blocks, limits.groups, limits.chunk, OUTER)
    return tuple(
        {
            keep: Nest(t_blocks=t_blocks, groups=groups, chunk=chunk, outer=outer, keep=keep)
            for keep in KEPT
        }
        for t_blocks, groups, chunk, outer in lengths
    )


def what_it_does(loops: Loops) -> tuple[object, ...]:
    """The same for nests that differ in nothing on this product."""
    lengths = tuple(map(min, loops.lengths, loops.blocks))
    one = [length == whole for length, whole in zip(lengths[:2], loops.blocks, strict=False)]
    keeps = loops.keeps[0] and not one[1], loops.keeps[1] and not one[0]
    return (*lengths, OUTER[0] if any(one) else loops.outer, *keeps)


def roughly(machine: ModelledMachine, loops: Loops) -> NestCost:
    """In closed form: tiles as long as the slowest of array, loader and writer makes them, after
    the first chunk has come and before the last tile has gone."""
    block, shortest = machine.block, machine.rows * machine.block
    t, lanes, chunk = (
        min(length, whole) for length, whole in zip(loops.lengths, loops.blocks, strict=True)
    )
    tiles_t = ceil_div(loops.blocks[0], t)
    tiles_l = ceil_div(loops.blocks[1], lanes)
    last_l = loops.blocks[1] - (tiles_l - 1) * lanes
    tiles, chunks = tiles_t * tiles_l, ceil_div(loops.blocks[2], chunk)
    slices = ceil_div(loops.blocks[2], loops.chunk_side)
    # Cycles of the passes of a slice over all tiles, and so of a tile on average.
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
    """Of two units that wait for each other: the longer time, and somewhat more where they take the
    same, for then every hiccup of either one counts."""
    return (one**HICCUPS + other**HICCUPS) ** (1 / HICCUPS)


class Beats(NamedTuple):
    """Of the first chunk, and of a product; and how many requests there are for them."""

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
    """Tiles in the first round of the outer loop and in all others; cycles of loading a chunk in
    them, all its planes; beats. What stays is loaded in the first tile of the loop that it does not
    depend on."""
    t, lanes, chunk = lengths
    parts_of_plane = chunk_parts(machine, loops.roles, t, lanes, chunk)
    held, streamed = (
        part.times(planes) for part, planes in zip(parts_of_plane, loops.planes[::-1], strict=True)
    )
    inner, outer = (tiles[0], tiles[1]) if loops.outer == "l" else (tiles[1], tiles[0])
    chunks = ceil_div(loops.blocks[2], chunk)
    # Of the operand that stays for an inner loop one part in so many, of the other one all at once.
    of_inner, of_outer = (held, streamed) if loops.outer == "l" else (streamed, held)
    keeps_inner, keeps_outer = loops.keeps[:: -1 if loops.outer == "l" else 1]
    parts = [(1 / inner if keeps_inner else 1.0, 1.0), (0.0, 0.0)]
    parts[1] = (parts[0][0], 0.0 if keeps_outer else 1.0)
    rooms = machine.stream_blocks, machine.held_blocks
    places = [room // slab for room, slab in zip(rooms, loops.slabs, strict=True)]
    cycles: list[float] = []
    beats, requests, rounds = 0.0, 0.0, (inner, inner * (outer - 1))
    for count, part in zip(rounds, parts, strict=True):
        loads = list(zip(part, (of_inner, of_outer), strict=True))
        came = sum(some * part.all_beats for some, part in loads)
        asked = 5 * prod(loops.planes) + sum(some * part.ask_cycles for some, part in loads)
        mine = max(sum(some * part.beats for some, part in loads), asked) * share
        waits = machine.memory.read_cycles + HAND_OVER
        turns = (
            (mine + planes * waits) / max(1, there - 1)
            for planes, there in zip(loops.planes, places, strict=True)
        )
        cycles.append(max(mine, *turns) if came else 0.0)
        beats += count * chunks * came * share
        requests += count * chunks * sum(some * part.requests for some, part in loads)
    first = sum(part.beats for part in parts_of_plane)
    return rounds, (cycles[0], cycles[1]), Beats(first, beats, requests)


def row_beats(machine: ModelledMachine, lanes: int, *, north: bool) -> float:
    """Cycles of a row of a tile on its way out, beside those of other ports."""
    words = ceil_div(lanes, machine.drain_vectors(north=north))
    return max(ceil_div(4 * lanes * machine.block, machine.beat_bytes) / machine.ports, words)


class ChunkPart(NamedTuple):
    """What a chunk loads of one operand: beats that all ports read of it, and, of the first port,
    which has as many rows as any other, beats, and cycles in which it asks for them; requests."""

    all_beats: int
    beats: int
    ask_cycles: int
    requests: int

    @classmethod
    def of(cls, region: LoadedRegion, ports: int) -> "ChunkPart":
        own = [region.of_port(port, ports) for port in range(ports)]
        ask_cycles = 8 + own[0].rows * (1 + len(own[0].runs))
        all_beats = sum(each.beats for each in own)
        return cls(all_beats, own[0].beats, ask_cycles, region.rows * len(region.runs))

    def times(self, planes: int) -> "ChunkPart":
        """Of so many planes."""
        return ChunkPart(*(planes * count for count in self))


@lru_cache(maxsize=1 << 14)  # nests of other orders, and of other products, load the same
def chunk_parts(
    machine: ModelledMachine, roles: Roles, t: int, lanes: int, chunk: int
) -> tuple[ChunkPart, ChunkPart]:
    """What the first chunk of a whole tile loads: of what is held and of what streams."""
    held_rows, held_cols = held_sides(roles, (0, lanes), (0, chunk))
    rows, cols = (chunk, t) if roles.cols_t else (t, chunk)
    held = blocks(machine, roles.held, held_rows, held_cols)
    streamed = blocks(machine, roles.stream, (0, rows), (0, cols))
    return ChunkPart.of(held, machine.ports), ChunkPart.of(streamed, machine.ports)
