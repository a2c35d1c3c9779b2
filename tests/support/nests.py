"""Nests drawn at random, of those that a machine takes."""

from math import ceil

from diastole_sim.spec.nest import KEEP_VALUES, LENGTHS, OUTER, Nest, NestLimits
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.operations import OPERATIONS


def blocks_of(operation: str, sizes, block: int) -> tuple[int, int, int]:
    """Of a product M x N x K: blocks along what streams, the lanes and the contraction."""
    (product,) = OPERATIONS[operation].products
    by_axis = dict(zip("mnk", sizes, strict=True))
    t, lanes, contraction = (-(-by_axis[axis] // block) for axis in product.loops)
    return t, lanes, contraction


def cycles_of(limits, operation: str, nest: Nest, sizes, planes=None) -> int:
    """Until what a nest keeps is found to fit on a machine of ``limits``, which say their nests: of
    each length that is counted as many and 2, and 2. ``planes`` of both operands in a machine that
    has several."""
    taken = limits.nests.of(operation)
    own = taken.with_defaults(nest)
    streamed, lanes, contraction = blocks_of(operation, sizes, limits.block)
    common = own.chunk // taken.chunk_side, ceil(contraction / own.chunk)
    inner = nest.outer == "l"
    tiles = ceil(streamed / own.t_blocks) if inner else 1
    stream = [*common, own.t_blocks, tiles, *(planes or ())[:1]]
    tiles = 1 if inner else ceil(lanes / (own.groups * taken.lane_side))
    held = [*common, own.groups, tiles, *(planes or ())[1:]]
    kept = [*(stream * nest.keeps_stream), *(held * nest.keeps_stationary)]
    return sum(length + 2 for length in kept) + 2


def widest_planes(operation: str, numerics: Numerics) -> tuple[int, int]:
    """Most planes of what streams, and of what is held."""
    (product,) = OPERATIONS[operation].products
    streamed, held = (numerics.planes_of(each.tensor_class)[-1] for each in product.factors)
    return streamed, held


def drawn_nest(
    limits: NestLimits, blocks: tuple[int, int, int], rng, planes: tuple[int, int] = (1, 1)
) -> Nest:
    """Any that the machine takes for a product of so many blocks, and ``planes`` of what streams
    and is held; some lengths may be its own."""
    while True:
        lengths = {name: rng.choice([0, *getattr(limits, name)]) for name in LENGTHS}
        nest = Nest(outer=rng.choice(OUTER), keep=rng.choice(KEEP_VALUES), **lengths)
        if limits.problem(nest, blocks, planes) is None:
            return nest
