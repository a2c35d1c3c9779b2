"""Which loops suit a product: a host's choice, by the model of the machine.

All nests that a machine takes are looked at in closed form; where a product is short, so that its
beginning and its end count, those that look best are run in the model.
"""

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from diastole_sim.perf.machine import ModelledMachine, ceil_div
from diastole_sim.perf.product import estimate
from diastole_sim.perf.walk import LoadedRegion, Loops, blocks, held_sides, loops_of
from diastole_sim.spec.command import MACHINES_OWN
from diastole_sim.spec.nest import OUTER, Nest, NestLimits

SLACK = 1.007
"""So much longer than the fastest may take who reads less."""
TRIED = 20
"""Nests that are run in the model, at most."""
MOST_STEPS = 5000
"""Passes, rows and groups of blocks that the model may walk through for one choice: a few tens of
milliseconds."""
HAND_OVER = 20
"""Cycles from the last pass of a chunk to the first request for its half, and from the last vector
of one to its first pass."""


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
    for nest in candidates(limits):
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
    if not runs:
        runs = {nest: costs[nest][:2] for nest in ranked}
    fastest = min(cycles for cycles, _ in runs.values())
    near = (nest for nest, (cycles, _) in runs.items() if cycles <= SLACK * fastest)
    return min(near, key=lambda nest: runs[nest][::-1])


def candidates(limits: NestLimits) -> Iterator[Nest]:
    """Every nest that a machine takes, its own lengths written out."""
    for t_blocks, groups, chunk in product(limits.t_blocks, limits.groups, limits.chunk):
        for outer in OUTER:
            yield Nest(t_blocks=t_blocks, groups=groups, chunk=chunk, outer=outer)


def what_it_does(loops: Loops) -> tuple[object, ...]:
    """The same for nests that differ in nothing on this product."""
    lengths = tuple(map(min, loops.lengths, loops.blocks))
    one_row = any(length == whole for length, whole in zip(lengths[:2], loops.blocks, strict=False))
    return (*lengths, OUTER[0] if one_row else loops.outer)


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
    regions = chunk_regions(machine, loops, t, lanes, chunk)
    beats = sum(region.beats for region in regions)
    asked = 12 + sum(8 + region.rows * (1 + len(region.runs)) for region in regions)
    # A half is asked for when it is free: a chunk comes a latency later.
    load = max(beats, asked) * share + machine.memory.read_cycles + HAND_OVER
    rows = min(t * block, loops.sizes[0])
    north = loops.roles.north
    drain = rows * row_beats(machine, lanes, north=north)
    last_rows = loops.sizes[0] - (tiles_t - 1) * t * block
    tile = max(work, chunks * load)
    through = max(
        tiles * tile + last_rows * row_beats(machine, last_l, north=north),
        tile + tiles * drain * share,
    )
    latency = machine.memory.read_cycles + machine.memory.response_cycles
    around = beats + shortest + HAND_OVER + 2 * latency
    groups_read = sum(region.rows * len(region.runs) for region in regions)
    steps = tiles * (slices * groups / tiles_l + rows + chunks * groups_read)
    return NestCost(around + through, tiles * chunks * beats * share, steps)


def row_beats(machine: ModelledMachine, lanes: int, *, north: bool) -> int:
    """Cycles of a row of a tile on its way out."""
    words = ceil_div(lanes, machine.drained_vectors(north=north))
    return max(ceil_div(4 * lanes * machine.block, machine.beat_bytes), words)


def chunk_regions(
    machine: ModelledMachine, loops: Loops, t: int, lanes: int, chunk: int
) -> tuple[LoadedRegion, LoadedRegion]:
    """What the first chunk of a whole tile loads: held and streamed blocks."""
    roles = loops.roles
    held_rows, held_cols = held_sides(roles, (0, lanes), (0, chunk))
    rows, cols = (chunk, t) if roles.cols_t else (t, chunk)
    held = blocks(machine, roles.held, held_rows, held_cols)
    return held, blocks(machine, roles.stream, (0, rows), (0, cols))
