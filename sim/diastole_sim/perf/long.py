"""Long products: their time from a few of their tiles, which it grows with in equal steps."""

from dataclasses import replace
from itertools import product
from math import gcd, prod

from diastole_sim.perf.machine import WIDEST, ModelledMachine, Widths, ceil_div
from diastole_sim.perf.product import COUNTED, Estimate, estimate, gradients_apart, require_product
from diastole_sim.perf.walk import Loops, loops_of
from diastole_sim.spec.command import MACHINES_OWN
from diastole_sim.spec.image import GROUP_BLOCKS
from diastole_sim.spec.nest import Nest

FEWEST = 2
"""Whole tiles along a dimension before time grows by equal steps, at least."""
LONGEST_PERIOD = 8
"""Tiles, for the sake of the beats of maxima alone."""
WORTH = 0.6
"""Of a product's multiplications, that may be looked at; else all are."""
AXES = {"forward": "mnk", "dx": "mkn", "dw": "knm"}
"""By product, what streams, the lanes and the contraction."""


def estimate_long(
    machine: ModelledMachine,
    op: str,
    m: int,
    n: int,
    k: int,
    nest: Nest = MACHINES_OWN,
    widths: Widths = WIDEST,
) -> Estimate:
    """As :func:`estimate`, which it asks for products of a few tiles along each dimension, with the
    same rest; all that it counts grows linearly with each number of tiles from there on.

    Where it was compared, beats read within 0.5 %, written to the last, cycles within 2 % of the
    estimate, and within 0.1 % in the mean. ValueError if out of range.
    """
    require_product(op, m, n, k)
    if op == "backward" and not machine.fuses(m, n, widths):
        parts = [estimate_long(machine, part, m, n, k, nest, widths) for part in ("dx", "dw")]
        return gradients_apart(parts)
    sizes = {"m": m, "n": n, "k": k}
    if op == "backward":
        samples = {"k": sampled(machine, k, machine.fused_tile, 2 * FEWEST)}
    else:
        loops = loops_of(machine, op, m, n, k, nest, widths)
        inner = max(FEWEST, machine.sum_units // loops.units)  # until places of sums come round
        tiles = (inner, FEWEST) if loops.outer == "l" else (FEWEST, inner)
        fewest = *tiles, FEWEST + chunks_that_cover(machine, loops)
        axes = zip(AXES[op], loops.lengths, fewest, strict=True)
        samples = {axis: sampled(machine, sizes[axis], *rest) for axis, *rest in axes}
    if sum(prod(at) for at in product(*samples.values())) > WORTH * prod(sizes[a] for a in samples):
        return estimate(machine, op, m, n, k, nest, widths)
    weights = {axis: _weights(sizes[axis], at) for axis, at in samples.items()}
    found: list[tuple[float, Estimate]] = []
    for places in product(*(range(len(at)) for at in samples.values())):
        some = dict(sizes)
        weight = 1.0
        for (axis, at), place in zip(samples.items(), places, strict=True):
            some[axis] = at[place]
            weight *= weights[axis][place]
        found.append((weight, estimate(machine, op, **some, nest=nest, widths=widths)))
    return _mixed(found, sizes)


def chunks_that_cover(machine: ModelledMachine, loops: Loops) -> int:
    """Chunks of the contraction whose passes take as long as a tile's results: with fewer a product
    waits for its writes, with more for its multipliers."""
    t, lanes, chunk = loops.lengths
    words = ceil_div(lanes, machine.drained_vectors(north=loops.roles.north))
    beats = ceil_div(4 * lanes * machine.block, machine.beat_bytes * machine.ports)
    passes = ceil_div(lanes, loops.lanes_side) * ceil_div(chunk, loops.chunk_side)
    passes *= prod(loops.planes)
    return ceil_div(t * max(words, beats), passes * max(t, machine.rows))


def sampled(
    machine: ModelledMachine, size: int, blocks: int, fewest: int = FEWEST
) -> tuple[int, ...]:
    """Sizes to look at instead: with the fewest whole tiles of so many blocks, and one period of
    how these lie in groups and in beats of maxima more; the size itself where it is not longer."""
    period = GROUP_BLOCKS // gcd(GROUP_BLOCKS, blocks)
    of_maxima = machine.beat_bytes // gcd(machine.beat_bytes, blocks)
    period = max(period, of_maxima) if of_maxima <= LONGEST_PERIOD else period
    tiles, rest = divmod(size, blocks * machine.block)
    low = fewest + (tiles - fewest) % period
    if tiles <= low + period:
        return (size,)
    return tuple(count * blocks * machine.block + rest for count in (low, low + period))


def _weights(size: int, at: tuple[int, ...]) -> tuple[float, ...]:
    """Of each of the sizes looked at in a line through both."""
    if len(at) == 1:
        return (1.0,)
    low, high = at
    share = (size - low) / (high - low)
    return 1 - share, share


def _mixed(found: list[tuple[float, Estimate]], sizes: dict[str, int]) -> Estimate:
    one = found[0][1]
    if len(found) == 1:
        return one
    counts = {
        name: round(sum(weight * getattr(each, name) for weight, each in found)) for name in COUNTED
    }
    idle = {
        name: round(sum(weight * each.idle[name] for weight, each in found)) for name in one.idle
    }
    return replace(one, **sizes, idle=idle, **counts)
