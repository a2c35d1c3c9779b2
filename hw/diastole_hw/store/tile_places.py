"""Compute where tiles of sums lie in their result, instead of storing the positions with the
tiles."""

from amaranth.hdl import Module, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.tokens import drained_layout, length_shapes, summed_layout


class TilePlaces(wiring.Component):
    """Compute the position of every tile of sums by counting the tiles of its direction.

    Tiles arrive in the order of :class:`diastole_hw.schedule.tile_walk.TileWalk`, all tiles of one
    product and then all tiles of the next product. The lengths of a tile, and the marks of the last
    tile of a loop, determine where the next tile begins. So no queue on the way holds a position.

    Timing: ``drained`` belongs to ``tile`` in the same cycle. Its positions are registers, which
    advance with ``leaves``.

    Parameters
    ----------
    plan : Plan
    transposed : bool
        Some tiles of the direction are transposed: a transposed tile is one chunk of a contraction,
        and the contraction is the innermost loop.

    Members
    -------
    tile : In(summed_layout(plan, transposed=transposed))
        Oldest tile. The sum of all lengths of a loop is the length of its dimension, not checked.
    leaves : In(1)
        The tile has been drained. The next tile is valid from the next cycle on.
    lanes_outermost, t_step : In(1), In(length_shapes(plan)["t_step"])
        Fields of the tile's product: the order of its loops over tiles, and the blocks of a T tile.
    drained : Out(drained_layout(plan, transposed=transposed))
    """

    tile: data.View
    drained: data.View

    def __init__(self, plan: Plan, *, transposed: bool):
        self.plan, self.transposed = plan, transposed
        super().__init__(
            {
                "tile": In(summed_layout(plan, transposed=transposed)),
                "leaves": In(1),
                "lanes_outermost": In(1),
                "t_step": In(length_shapes(plan)["t_step"]),
                "drained": Out(drained_layout(plan, transposed=transposed)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan, tile, drained = self.plan, self.tile, self.drained
        t0 = Signal.like(drained.t0, name="t0")
        l0 = Signal.like(drained.l0, name="l0")
        first_t = Signal(init=1)
        first_l = Signal(init=1)
        both = [name for name in tile.shape().members if name in drained.shape().members]
        m.d.comb += [drained[name].eq(tile[name]) for name in both]
        m.d.comb += [
            drained.t0.eq(t0),
            drained.l0.eq(l0),
            drained.first_t.eq(first_t),
            drained.first_l.eq(first_l),
        ]
        if self.transposed:
            c0 = Signal.like(drained.c0, name="c0")
            first_c = Signal(init=1)
            m.d.comb += [
                drained.t_blocks.eq((tile.t_count + (plan.block - 1)) >> plan.log_block),
                drained.c0.eq(c0),
                drained.first_c.eq(first_c),
            ]
            with m.If(self.leaves):
                m.d.sync += [c0.eq(c0 + tile.c_blocks), first_c.eq(tile.last)]
                with m.If(tile.last):
                    m.d.sync += c0.eq(0)
        moves_t, moves_l = self._moves()
        with m.If(self.leaves & tile.last):
            with m.If(moves_t):
                m.d.sync += [t0.eq(t0 + self.t_step), first_t.eq(tile.last_t)]
                with m.If(tile.last_t):
                    m.d.sync += t0.eq(0)
            with m.If(moves_l):
                m.d.sync += [l0.eq(l0 + tile.l_blocks), first_l.eq(tile.last_l)]
                with m.If(tile.last_l):
                    m.d.sync += l0.eq(0)
        return m

    def _moves(self):
        """Return whether the loop over T tiles moves (advances or restarts), and whether the loop
        over lane tiles moves. The inner loop always moves, the outer loop when the inner loop
        restarts."""
        outermost = self.lanes_outermost
        return outermost | self.tile.last_l, ~outermost | self.tile.last_t
