"""Which loops suit a product: a host's choice, by the model of the machine.

All nests that a machine takes are looked at in closed form; where a product is short, so that its
beginning and its end count, those that look best are run in the model.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from diastole_sim.perf.machine import ModelledMachine, ceil_div
from diastole_sim.perf.product import estimate
from diastole_sim.perf.walk import LoadedRegion, Loops, blocks, held_sides, loops_of
from diastole_sim.spec.command import MACHINES_OWN
from diastole_sim.spec.nest import KEPT, OUTER, Nest, NestLimits

SLACK = 1.007
"""So much longer than the fastest may take who reads less."""
TRIED = 20
"""Nests that are run in the model, at most."""
FEWEST_RUN = 4
"""Of them; where the model has no time for as many the closed form decides alone."""
MOST_STEPS = 10_000
"""Passes, rows and groups of blocks that the model may walk through for one choice: a few tens of
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
    machine: ModelledMachine, limits: NestLimits, op: str, m: int, n: int, k: int
) -> Nest:
    """Of the nests within 0.7 % of the fastest the one that reads the fewest bytes.

    ``op``: forward, dx or dw; sizes in elements. What the machine has of its own is among them.
    """
    costs: dict[Nest, NestCost] = {}
    seen: set[tuple[object, ...]] = set()
    blocks = loops_of(machine, op, m, n, k).blocks
    for nest in candidates(limits, blocks):
        loops = loops_of(machine, op, m, n, k, nest)
        if (alike := what_it_does(loops)) not in seen:
            seen.add(alike)
            costs[nest] = roughly(machine, loops)
    own = MACHINES_OWN
    costs[own] = roughly(machine, loops_of(machine, op, m, n, k, own))
    ranked = [own, *sorted(costs.keys() - {own}, key=lambda nest: (costs[nest], str(nest)))]
    left, runs = MOST_STEPS, dict[Nest, tuple[float, float]]()
    for nest in ranked[:TRIED]:
        left -= int(costs[nest].steps)
        if left < 0:
            break
        found = estimate(machine, op, m, n, k, nest)
        runs[nest] = found.cycles, found.read_beats
    if len(runs) < min(FEWEST_RUN, len(ranked)):
        runs = {nest: costs[nest][:2] for nest in ranked}
    fastest = min(cycles for cycles, _ in runs.values())
    near = (nest for nest, (cycles, _) in runs.items() if cycles <= SLACK * fastest)
    return min(near, key=lambda nest: runs[nest][::-1])


def candidates(limits: NestLimits, blocks: tuple[int, int, int]) -> Iterator[Nest]:
    """Every length that a machine takes, written out, and with each the operands that may stay;
    ``blocks`` of the product: along what streams, the lanes and the contraction."""
    for t_blocks, groups, chunk in product(limits.t_blocks, limits.groups, limits.chunk):
        for outer in OUTER:
            nest = Nest(t_blocks=t_blocks, groups=groups, chunk=chunk, outer=outer)
            panels, slabs = limits.panels(nest, blocks), limits.slabs(nest)
            rooms = limits.stream_blocks, limits.held_blocks
            fits = [panel <= room for panel, room in zip(panels, rooms, strict=True)]
            yield replace(nest, keep=KEPT[fits[0] + 2 * fits[1]])
            # Where the next panel has no place while the last one is used, keeping may cost time.
            tight = [p + s > r for p, s, r in zip(panels, slabs, rooms, strict=True)]
            if any(fit and full for fit, full in zip(fits, tight, strict=True)):
                loose = [fit and not full for fit, full in zip(fits, tight, strict=True)]
                yield replace(nest, keep=KEPT[loose[0] + 2 * loose[1]])


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
    worked = sum(
        count * overlapped(work, chunks * per_chunk)
        for count, per_chunk in zip(rounds, load, strict=True)
    )
    tile = overlapped(work, chunks * load[0])
    last = last_rows * row_beats(machine, last_l, north=north)
    through = overlapped(worked + last, tile + tiles * drain * share)
    latency = machine.memory.read_cycles + machine.memory.response_cycles
    around = beats.first + shortest + HAND_OVER + 2 * latency
    steps = tiles * (slices * groups / tiles_l + rows) + beats.requests
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
    them; beats. What stays is loaded in the first tile of the loop that it does not depend on."""
    t, lanes, chunk = lengths
    held, streamed = chunk_regions(machine, loops, t, lanes, chunk)
    inner, outer = (tiles[0], tiles[1]) if loops.outer == "l" else (tiles[1], tiles[0])
    chunks = ceil_div(loops.blocks[2], chunk)
    # Of the operand that stays for an inner loop one part in so many, of the other one all at once.
    of_inner, of_outer = (held, streamed) if loops.outer == "l" else (streamed, held)
    keeps_inner, keeps_outer = loops.keeps[:: -1 if loops.outer == "l" else 1]
    parts = [(1 / inner if keeps_inner else 1.0, 1.0), (0.0, 0.0)]
    parts[1] = (parts[0][0], 0.0 if keeps_outer else 1.0)
    places = min(
        whole // slab
        for whole, slab in zip(
            (machine.stream_blocks, machine.held_blocks), loops.slabs, strict=True
        )
    )
    cycles: list[float] = []
    beats, requests, rounds = 0.0, 0.0, (inner, inner * (outer - 1))
    for count, part in zip(rounds, parts, strict=True):
        loads = list(zip(part, (of_inner, of_outer), strict=True))
        came = sum(some * brought(machine, region) for some, region in loads)
        # The first port has as many rows as any other.
        shares = [(some, region.of_port(0, machine.ports)) for some, region in loads]
        asked = 5 + sum(some * (8 + own.rows * (1 + len(own.runs))) for some, own in shares)
        mine = max(sum(some * own.beats for some, own in shares), asked) * share
        waits = machine.memory.read_cycles + HAND_OVER
        cycles.append(max(mine, (mine + waits) / max(1, places - 1)) if came else 0.0)
        beats += count * chunks * came * share
        requests += (
            count * chunks * sum(some * region.rows * len(region.runs) for some, region in loads)
        )
    first = sum(region.of_port(0, machine.ports).beats for region in (held, streamed))
    return rounds, (cycles[0], cycles[1]), Beats(first, beats, requests)


def brought(machine: ModelledMachine, region: LoadedRegion) -> int:
    """Beats that all ports read of it."""
    return sum(region.of_port(port, machine.ports).beats for port in range(machine.ports))


def row_beats(machine: ModelledMachine, lanes: int, *, north: bool) -> float:
    """Cycles of a row of a tile on its way out, beside those of other ports."""
    words = ceil_div(lanes, machine.drained_vectors(north=north))
    return max(ceil_div(4 * lanes * machine.block, machine.beat_bytes) / machine.ports, words)


def chunk_regions(
    machine: ModelledMachine, loops: Loops, t: int, lanes: int, chunk: int
) -> tuple[LoadedRegion, LoadedRegion]:
    """What the first chunk of a whole tile loads: held and streamed blocks."""
    roles = loops.roles
    held_rows, held_cols = held_sides(roles, (0, lanes), (0, chunk))
    rows, cols = (chunk, t) if roles.cols_t else (t, chunk)
    held = blocks(machine, roles.held, held_rows, held_cols)
    return held, blocks(machine, roles.stream, (0, rows), (0, cols))
