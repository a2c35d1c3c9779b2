"""Compute the order in which blocks of a product's result reach the chain."""

from functools import lru_cache

from diastole_sim.golden.vector.order import Order
from diastole_sim.spec.chains import walk_of
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import CHAINED, NEST_FIELDS, Opcode
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.nest import KEEP_VALUES, OUTER, Nest
from diastole_sim.spec.stream_table import Walk


def order_of(command: Command, limits: Limits) -> Order:
    """Return the order of the blocks of a chain. A chain over memory runs by rows or by columns. At
    a product's drain the tiles follow in the order of the loop nest. Within a tile the rows of
    blocks ascend, and within a row the blocks ascend."""
    walk = walk_of(command, limits.block)
    if command.opcode not in CHAINED:
        return Order.of_walk(walk)
    nests = limits.nests and limits.nests.of(CHAINED[Opcode(command.opcode)].name)
    assert nests, "a product with a chain takes nests"
    lengths = {name: getattr(command, field) for name, field in NEST_FIELDS.items()}
    nest = nests.with_defaults(
        Nest(**lengths, outer=OUTER[command.nest_outer], keep=KEEP_VALUES[command.nest_keep])
    )
    return tile_order(walk, nest.t_blocks, nest.groups * nests.lane_side, nest.outer)


@lru_cache(maxsize=256)
def tile_order(walk: Walk, high: int, wide: int, outer: str) -> Order:
    """Return the order for tiles of ``high`` x ``wide`` blocks. ``outer``: ``t`` for one row of
    tiles after the other, or ``l`` for one column of tiles after the other."""
    if wide >= walk.block_cols:
        return Order.of_walk(walk)
    tops, lefts = range(0, walk.block_rows, high), range(0, walk.block_cols, wide)
    corners = [(top, left) for top in tops for left in lefts]
    if outer == "l":
        corners = [(top, left) for left in lefts for top in tops]
    lines = [
        [(i, j) for j in range(left, min(left + wide, walk.block_cols))]
        for top, left in corners
        for i in range(top, min(top + high, walk.block_rows))
    ]
    return Order.of_lines(walk, lines)
