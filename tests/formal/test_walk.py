"""The tile walk: inside the tensors, and every block of every product once."""

import pytest
from amaranth.hdl import Assert, Assume, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from diastole.config.presets import PRESETS
from diastole_hw.plan.uses import Mode
from diastole_hw.schedule.tokens import POSITION
from diastole_hw.schedule.walk import TileWalk
from formal.prove import prove, refute

ASSERTIONS = 5
MODES = {"forward": Mode.FORWARD, "dx": Mode.DX, "fused": Mode.FUSED}


class WalkSpec(wiring.Component):
    """Watch one triple of a streamed element, a lane block and a contraction block: any one.

    Assumes that sizes and the watched triple stay while the walk is busy, that sizes are not 0,
    and that streamed blocks are what their elements need.
    """

    start: In(1)
    ready: In(1)
    t_size: In(POSITION)
    l_blocks: In(POSITION)
    c_blocks: In(POSITION)
    watched_t: In(POSITION)
    watched_l: In(POSITION)
    watched_c: In(POSITION)

    def __init__(self, dut: TileWalk, mode: Mode):
        self.dut, self.mode = dut, mode
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        log_block = dut.plan.log_block
        product, chunk = dut.product, dut.chunks.p
        t_blocks = Signal(POSITION)
        m.d.comb += [
            t_blocks.eq((self.t_size + (1 << log_block) - 1) >> log_block),
            product.mode.eq(self.mode),
            product.north.eq(self.mode == Mode.DX),
            product.t_size.eq(self.t_size),
            product.t_blocks.eq(t_blocks),
            product.l_blocks.eq(self.l_blocks),
            product.c_blocks.eq(self.c_blocks),
            dut.start.eq(self.start),
            dut.chunks.ready.eq(self.ready),
        ]
        self._stable(m, dut.busy)
        t, l, c = self.watched_t, self.watched_l, self.watched_c  # noqa: E741
        m.d.comb += Assume((t < self.t_size) & (l < self.l_blocks) & (c < self.c_blocks))

        t_start = chunk.t0 << log_block
        in_t = (t >= t_start) & (t < t_start + chunk.t_count)
        in_l = (l >= chunk.l0) & (l < chunk.l0 + chunk.l_blocks)
        in_c = (c >= chunk.c0) & (c < chunk.c0 + chunk.c_blocks)
        seen = Signal()
        ran = Signal()
        hit = Signal()
        m.d.comb += hit.eq(dut.chunks.valid & self.ready & in_t & in_l & in_c)
        with m.If(self.start & ~dut.busy):
            m.d.sync += [ran.eq(1), seen.eq(0)]
        with m.Elif(hit):
            m.d.sync += seen.eq(1)
        with m.If(dut.chunks.valid):
            inside = (
                (chunk.t0 + chunk.t_blocks <= t_blocks)
                & (t_start + chunk.t_count <= self.t_size)
                & (chunk.l0 + chunk.l_blocks <= self.l_blocks)
                & (chunk.c0 + chunk.c_blocks <= self.c_blocks)
            )
            lengths = (chunk.t_count, chunk.t_blocks, chunk.l_blocks, chunk.c_blocks)
            some = 1
            for length in lengths:
                some &= length != 0
            before = (t < t_start) | (in_t & ((l < chunk.l0) | (in_l & (c < chunk.c0))))
            m.d.comb += Assert(inside, "outside the tensor")
            m.d.comb += Assert(some, "an empty chunk")
            m.d.comb += Assert(seen == before, "out of order")
        m.d.comb += Assert(~(hit & seen), "a block twice")
        m.d.comb += Assert(dut.busy | ~ran | seen, "a block left out")
        return m

    def _stable(self, m, busy):
        for name in ("t_size", "l_blocks", "c_blocks", "watched_t", "watched_l", "watched_c"):
            now = getattr(self, name)
            before = Signal.like(now, name=f"before_{name}")
            m.d.sync += before.eq(now)
            m.d.comb += Assume((now == before) | ~busy)


def walk(mode, unit=TileWalk, preset="pico"):
    return WalkSpec(unit(PRESETS[preset].plan), mode)


@pytest.mark.parametrize("preset", ["pico", "nano"])
@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_walk(mode, preset):
    prove(walk(mode, preset=preset), assertions=ASSERTIONS)


class Edited(TileWalk):
    """The walk, with something overridden."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        self.edit(m, self.chunks.p)
        return m


class LeavesTheTensor(Edited):
    """Chunks are not clipped at the end of the contraction."""

    def edit(self, m, chunk):
        m.d.comb += chunk.c_blocks.eq(self.plan.chunk(north=False))


class LeavesTheElements(Edited):
    """Streams whole blocks, where the last one is not whole."""

    def edit(self, m, chunk):
        m.d.comb += chunk.t_count.eq(chunk.t_blocks << self.plan.log_block)


class DropsTheLastLanes(Edited):
    """Ends when the last lane tile is due, with the first one of a longer product."""

    def edit(self, m, chunk):
        with m.If(self.busy & self.chunks.ready & chunk.last & (chunk.l0 == 0)):
            m.d.sync += self.busy.eq(0)


class RunsTwice(Edited):
    """Does not notice the end."""

    def edit(self, m, chunk):
        with m.If(self.busy):
            m.d.sync += self.busy.eq(1)


class DoesNotWait(Edited):
    """Gives up when a chunk is not taken at once."""

    def edit(self, m, chunk):
        with m.If(self.busy & ~self.chunks.ready):
            m.d.sync += self.busy.eq(0)


class WalksNothing(Edited):
    """Gives empty chunks."""

    def edit(self, m, chunk):
        m.d.comb += chunk.l_blocks.eq(0)


@pytest.mark.parametrize(
    "broken",
    [
        LeavesTheTensor,
        LeavesTheElements,
        DropsTheLastLanes,
        RunsTwice,
        DoesNotWait,
        WalksNothing,
    ],
)
def test_broken_walk_is_refuted(broken):
    refute(walk(Mode.FORWARD, broken), assertions=ASSERTIONS)
