"""Positions of tiles of sums: those of the walk, whatever it walks."""

import pytest
from amaranth.hdl import Assert, Assume, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from diastole.config.presets import PRODUCTS_ONLY
from diastole_hw.plan.modes import Mode
from diastole_hw.schedule.tile_walk import TileWalk
from diastole_hw.schedule.tokens import LENGTH, POSITION
from diastole_hw.store.tile_places import TilePlaces
from formal.prove import prove, refute

ASSERTIONS = 3
MODES = {"forward": Mode.FORWARD, "fused": Mode.FUSED}


class PlacesSpec(wiring.Component):
    """A walk whose tiles leave as soon as their last chunk is shown, in any nest.

    Where tiles are turned each chunk is one. Tiles that wait in between change nothing: they leave
    in their order, and only those that leave are counted. Assumes that sizes and nest stay while
    the walk is busy, that sizes are not 0, that steps are at most as long as the machine's tiles,
    and that streamed blocks are what their elements need.
    """

    start: In(1)
    ready: In(1)
    t_size: In(POSITION)
    l_blocks: In(POSITION)
    c_blocks: In(POSITION)
    t_step: In(LENGTH)
    l_step: In(LENGTH)
    c_step: In(LENGTH)
    lanes_outermost: In(1)

    def __init__(self, unit=TilePlaces, *, mode=Mode.FORWARD):
        self.plan = PRODUCTS_ONLY["pico"].plan
        self.transposed = mode == Mode.FUSED
        self.walk, self.places = TileWalk(self.plan), unit(self.plan, transposed=self.transposed)
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.walk, m.submodules.places = walk, places = self.walk, self.places
        plan, chunk, tile, shown = self.plan, walk.chunks.p, places.tile, places.drained
        t_blocks = Signal(POSITION)
        m.d.comb += [
            t_blocks.eq((self.t_size + (plan.block - 1)) >> plan.log_block),
            walk.product.t_size.eq(self.t_size),
            walk.product.t_blocks.eq(t_blocks),
            walk.start.eq(self.start),
            walk.chunks.ready.eq(self.ready),
            places.t_step.eq(self.t_step),
            places.lanes_outermost.eq(self.lanes_outermost),
            *(tile[name].eq(chunk[name]) for name in tile.shape().members),
        ]
        for name in ("l_blocks", "c_blocks", "t_step", "l_step", "c_step", "lanes_outermost"):
            m.d.comb += walk.product[name].eq(getattr(self, name))
        ends = chunk.last | self.transposed
        m.d.comb += places.leaves.eq(walk.chunks.valid & self.ready & ends)
        self._accepted(m, t_blocks)
        moved = (shown.t0 != chunk.t0) | (shown.l0 != chunk.l0)
        same = ~moved & (shown.first_t == chunk.first_t) & (shown.first_l == chunk.first_l)
        still = (shown.t0 == 0) & (shown.l0 == 0) & shown.first_t & shown.first_l
        lengths = Const(1)
        if self.transposed:
            same &= (shown.c0 == chunk.c0) & (shown.first_c == chunk.first)
            still &= (shown.c0 == 0) & shown.first_c
            lengths = shown.t_blocks == chunk.t_blocks
        m.d.comb += [
            Assert(~walk.busy | same, "a tile somewhere else"),
            Assert(~walk.chunks.valid | lengths, "a tile of another length"),
            Assert(walk.busy | still, "the next product does not begin in the corner"),
        ]
        return m

    def _accepted(self, m, t_blocks):
        plan = self.plan
        most = {"t_step": plan.tile_blocks, "l_step": 2 ** len(self.places.drained.l_blocks) - 1}
        most["c_step"] = 2 ** len(self.walk.chunks.p.c_blocks) - 1
        for name, length in most.items():
            step = getattr(self, name)
            m.d.comb += Assume((step != 0) & (step <= length))
        for name in ("t_size", "l_blocks", "c_blocks"):
            m.d.comb += Assume(getattr(self, name) != 0)
        if self.transposed:
            m.d.comb += Assume(~self.lanes_outermost)
        limit = 1 << POSITION.width - plan.log_block
        m.d.comb += Assume((self.l_blocks <= limit) & (self.c_blocks <= limit))
        stable = ("t_size", "l_blocks", "c_blocks", "t_step", "l_step", "c_step")
        for name in (*stable, "lanes_outermost"):
            now = getattr(self, name)
            before = Signal.like(now, name=f"before_{name}")
            m.d.sync += before.eq(now)
            m.d.comb += Assume((now == before) | ~self.walk.busy)


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_places_are_those_of_the_walk(mode):
    prove(PlacesSpec(mode=mode), assertions=ASSERTIONS)


class ForgetsTheOrder(TilePlaces):
    """Goes on along the lanes in every nest."""

    def _moves(self):
        return self.tile.last_l, Const(1)


class HasNoFirst(TilePlaces):
    """Has no first tile."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.drained.first_t.eq(0)
        return m


@pytest.mark.parametrize("broken", [ForgetsTheOrder, HasNoFirst])
def test_broken_places_are_refuted(broken):
    refute(PlacesSpec(broken), assertions=ASSERTIONS)
