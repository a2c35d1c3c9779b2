"""Nests that fit a machine, and the one that a host would choose."""

from collections.abc import Iterator
from itertools import product
from math import inf

from diastole_sim.perf.machine import ceil_div
from diastole_sim.perf.planned.machine import PlannedMachine
from diastole_sim.perf.planned.nest import PlannedNest
from diastole_sim.perf.planned.product import Forecast, Sizes, forecast, use_sizes
from diastole_sim.perf.walk import roles_of

FEWEST_VECTORS, MOST_FUSED_VECTORS = 16, 256
SLACK = 1.007
"""Of the fastest; among those the fewest bytes are best."""
NEAR, RANKED, LEAST_READ = 1.02, 8, 6


def fitting(machine: PlannedMachine, op: str, m: int, n: int, k: int) -> Iterator[PlannedNest]:
    """Every nest that the memories hold, tiles in powers of two; ``op`` as of ``forecast``."""
    sizes = use_sizes(machine, op, m, n, k)
    yield from _fused(machine, sizes) if op == "backward" else _products(machine, sizes)


def _fused(machine: PlannedMachine, sizes: Sizes) -> Iterator[PlannedNest]:
    if not machine.has_fused_pass:
        return
    block, (_, n, m) = machine.block, sizes.blocks
    slices_n, slices_m = ceil_div(n, machine.rows), ceil_div(m, machine.cols)
    held = slices_n * slices_m * machine.rows * block
    t = max(1, FEWEST_VECTORS // block)
    while t * block <= MOST_FUSED_VECTORS:
        hidden = 4 * t >= machine.rows  # the next blocks are loaded in two passes of t vectors
        sums = slices_n * t * block
        fits = sums <= machine.sum_words // 2 and held <= machine.held_words
        if hidden and fits and sums <= machine.stream_words:
            yield PlannedNest(
                t_blocks=t, groups=slices_n, chunk=machine.cols, keep_b=True, fused=True
            )
        t *= 2


def _products(machine: PlannedMachine, sizes: Sizes) -> Iterator[PlannedNest]:
    block, (t_blocks, l_blocks, c_blocks) = machine.block, sizes.blocks
    all_groups, all_slices = ceil_div(l_blocks, sizes.lane_side), ceil_div(c_blocks, sizes.side)
    for t in _powers(max(1, FEWEST_VECTORS // block), t_blocks, machine.sum_words // 2 // block):
        if 2 * t <= machine.rows and t < t_blocks:
            continue  # passes too short to load the next blocks
        for groups in _powers(1, all_groups, all_groups):
            groups = min(groups, all_groups)
            whole = groups == all_groups and t >= t_blocks
            unit = machine.sum_words // machine.sum_units
            sums = ceil_div(groups * t * block, unit) * unit
            if sums > machine.sum_words or (2 * sums > machine.sum_words and not whole):
                continue
            for slices in (1, 2, 4, 8):
                yield from _kept(machine, sizes, t, groups, slices, (all_groups, all_slices))


def _kept(
    machine: PlannedMachine, sizes: Sizes, t: int, groups: int, slices: int, all_: tuple[int, int]
) -> Iterator[PlannedNest]:
    """What may stay on chip, in either order of the tile loops."""
    block, t_blocks = machine.block, sizes.blocks[0]
    all_groups, all_slices = all_
    of_a, of_b = t * block * slices, groups * machine.rows * block * slices  # of a chunk
    if 1 < slices > all_slices or 2 * of_a > machine.stream_words or 2 * of_b > machine.held_words:
        return
    several_t, several_l = t < t_blocks, groups < all_groups
    for outer, keep_a, keep_b in product("tl", (False, True), (False, True)):
        tiles_t = ceil_div(t_blocks, t) if outer == "l" else 1
        kept_a = tiles_t * all_slices * t * block
        kept_b = (all_groups if outer == "t" else groups) * all_slices * machine.rows * block
        if keep_a and (not several_l or kept_a + of_a > machine.stream_words):
            continue
        if keep_b and (not several_t or kept_b > machine.held_words):
            continue
        if outer == "l" and not (keep_b and several_l):
            continue
        yield PlannedNest(
            t_blocks=t, groups=groups, chunk=slices * sizes.side,
            outer=outer, keep_a=keep_a, keep_b=keep_b,
        )  # fmt: skip


def _powers(first: int, enough: int, most: int) -> Iterator[int]:
    """Powers of two times ``first``, up to ``most``, ending with the first that is ``enough``."""
    value = first
    while value <= max(most, first):
        yield value
        if value >= enough:
            return
        value *= 2


def best(machine: PlannedMachine, op: str, m: int, n: int, k: int) -> Forecast:
    """Of the nests within 0.7 % of the fastest the one that reads the fewest bytes. ValueError if
    none fits; ``backward`` is the fused pass."""
    nests = list(fitting(machine, op, m, n, k))
    if op != "backward":
        nests = _shortlist(machine, op, m, n, k, nests)
    if not nests:
        raise ValueError(f"no nest of {op} fits {m} x {n} x {k} on this machine")
    return chosen([forecast(machine, op, m, n, k, nest) for nest in nests])


def best_backward(machine: PlannedMachine, m: int, n: int, k: int) -> tuple[Forecast, ...]:
    """The fused pass, or dx and dw where it does not fit or is slower."""
    apart = tuple(best(machine, op, m, n, k) for op in ("dx", "dw"))
    fused = [
        forecast(machine, "backward", m, n, k, nest)
        for nest in fitting(machine, "backward", m, n, k)
    ]
    if fused and chosen(fused).cycles <= sum(part.cycles for part in apart):
        return (chosen(fused),)
    return apart


def chosen(found: list[Forecast]) -> Forecast:
    fastest = min(each.cycles for each in found)
    near = (each for each in found if each.cycles <= SLACK * fastest)
    return min(near, key=lambda each: each.read_bytes)


def _shortlist(
    machine: PlannedMachine, op: str, m: int, n: int, k: int, nests: list[PlannedNest]
) -> list[PlannedNest]:
    """Those worth a run: the fastest by a closed form, and of those near them the ones that read
    least."""
    sizes = use_sizes(machine, op, m, n, k)
    ranked = sorted(
        (_roughly(machine, op, sizes, nest), number) for number, nest in enumerate(nests)
    )
    if not ranked:
        return []
    fastest = ranked[0][0][0]
    near = [each for each in ranked if each[0][0] <= NEAR * fastest]
    near.sort(key=lambda each: each[0][1])
    numbers = [number for _, number in ranked[:RANKED] + near[:LEAST_READ]]
    return [nests[number] for number in dict.fromkeys(numbers)]


def _roughly(
    machine: PlannedMachine, op: str, sizes: Sizes, nest: PlannedNest
) -> tuple[float, float]:
    """Cycles and vectors read, in closed form: the longest of array, loaders and writer, with what
    cannot overlap."""
    block, (t_blocks, l_blocks, c_blocks) = machine.block, sizes.blocks
    roles = roles_of(machine, op)
    groups = ceil_div(l_blocks, sizes.lane_side)
    t = min(nest.t_blocks * block, sizes.t)
    g, slices = min(nest.groups, groups), ceil_div(c_blocks, sizes.side)
    tiles_t = ceil_div(t_blocks, nest.t_blocks)
    tiles_l = ceil_div(l_blocks, nest.groups * sizes.lane_side)
    read = block * (
        t_blocks * c_blocks * (1 if nest.keep_a else tiles_l)
        + l_blocks * c_blocks * (1 if nest.keep_b else tiles_t)
    )
    rate = inf
    for cls in (roles.stream, roles.held):
        brought = machine.data_width / (machine.vector_bits(cls) + 2)
        rate = min(rate, machine.ports * min(machine.vectors_per_cycle(cls), brought))
    shortest = machine.rows * block
    passes = max(t, shortest) * tiles_t * groups * slices
    start = 60 + shortest + (t * sizes.side + g * sizes.lane_side * block * sizes.side) / rate
    fill = (t * sizes.side + shortest * sizes.side) / rate
    first_tile = max(t, shortest, fill) * g * slices
    width = machine.data_width * machine.ports
    last_tile = t * g * sizes.lane_side * block * 32 / width
    written = sizes.t * ceil_div(4 * sizes.lanes, machine.beat_bytes) / machine.ports
    cycles = max(
        passes + start + last_tile, read / rate + start + last_tile, start + first_tile + written
    )
    return cycles, read
