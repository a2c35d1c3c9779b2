"""The tile walk: inside the tensors, and every block of every product once."""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from diastole.config.presets import PRODUCTS_ONLY
from diastole_hw.plan.modes import Mode
from diastole_hw.schedule.tile_walk import TileWalk
from diastole_hw.schedule.tokens import LENGTH, POSITION
from formal.prove import prove, refute
from support.sweep import sweep

ASSERTIONS = 7
MODES = {"forward": Mode.FORWARD, "dx": Mode.DX, "fused": Mode.FUSED}


class WalkSpec(wiring.Component):
    """Watch one triple of a streamed element, a lane block and a contraction block: any one, in any
    nest that the machine takes, whatever it keeps and wherever that stands.

    Assumes that sizes, nest and the watched triple stay while the walk is busy, that sizes are not
    0, and that streamed blocks are what their elements need.
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
    keep_stream: In(1)
    keep_stationary: In(1)
    stream_slab: In(LENGTH)
    stationary_slab: In(LENGTH)
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
            product.t_step.eq(self.t_step),
            product.l_step.eq(self.l_step),
            product.c_step.eq(self.c_step),
            product.lanes_outermost.eq(self.lanes_outermost),
            product.keep_stream.eq(self.keep_stream),
            product.keep_stationary.eq(self.keep_stationary),
            product.stream_slab.eq(self.stream_slab),
            product.stationary_slab.eq(self.stationary_slab),
            dut.start.eq(self.start),
            dut.chunks.ready.eq(self.ready),
        ]
        self._stable(m, dut.busy)
        self._accepted(m)
        t, l, c = self.watched_t, self.watched_l, self.watched_c  # noqa: E741
        m.d.comb += Assume((t < self.t_size) & (l < self.l_blocks) & (c < self.c_blocks))
        most = 1 << POSITION.width - log_block  # blocks of the longest tensor
        m.d.comb += Assume((self.l_blocks <= most) & (self.c_blocks <= most))

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
            here = in_t & in_l & (c < chunk.c0)
            rows_first = (t < t_start) | (in_t & (l < chunk.l0)) | here
            lanes_first = (l < chunk.l0) | (in_l & (t < t_start)) | here
            before = Mux(self.lanes_outermost, lanes_first, rows_first)
            m.d.comb += Assert(inside, "outside the tensor")
            m.d.comb += Assert(some, "an empty chunk")
            m.d.comb += Assert(seen == before, "out of order")
        self._loads(m, t_blocks)
        m.d.comb += Assert(~(hit & seen), "a block twice")
        m.d.comb += Assert(dut.busy | ~ran | seen, "a block left out")
        return m

    def _loads(self, m, t_blocks):
        """What is kept is loaded where it is wanted first, and free where it is wanted last; what
        is not, with every chunk. Each chunk of the axes that blocks depend on comes once for every
        tile of the other one, in order, as is shown above: first at that one's start."""
        chunk = self.dut.chunks.p
        for name, keeps, at_start, at_end in (
            ("stream", self.keep_stream, chunk.l0 == 0,
             chunk.l0 + chunk.l_blocks == self.l_blocks),
            (
                "stationary",
                self.keep_stationary,
                chunk.t0 == 0,
                chunk.t0 + chunk.t_blocks == t_blocks,
            ),
        ):  # fmt: skip
            said = (chunk[f"load_{name}"] == (~keeps | at_start)) & (
                chunk[f"free_{name}"] == (~keeps | at_end)
            )
            m.d.comb += Assert(~self.dut.chunks.valid | said, f"{name}: not loaded once")

    def _accepted(self, m):
        """A nest is one that the machine takes; that of the fused pass is its own."""
        plan = self.dut.plan
        if self.mode == Mode.FUSED:
            lengths = ([plan.fused_tile_blocks], [plan.fused_blocks_n], [plan.cols])
            m.d.comb += Assume(~self.lanes_outermost)
        else:
            limits = plan.nests.of(self.mode.name.lower())
            side = plan.cols if plan.use(self.mode).north else plan.rows
            lengths = (limits.t_blocks, [count * side for count in limits.groups], limits.chunk)
        for step, accepted in zip((self.t_step, self.l_step, self.c_step), lengths, strict=True):
            m.d.comb += Assume(Cat(step == length for length in accepted).any())

    def _stable(self, m, busy):
        sizes = ("t_size", "l_blocks", "c_blocks", "t_step", "l_step", "c_step", "lanes_outermost")
        sizes += ("keep_stream", "keep_stationary", "stream_slab", "stationary_slab")
        for name in (*sizes, "watched_t", "watched_l", "watched_c"):
            now = getattr(self, name)
            before = Signal.like(now, name=f"before_{name}")
            m.d.sync += before.eq(now)
            m.d.comb += Assume((now == before) | ~busy)


def walk(mode, unit=TileWalk, preset="pico"):
    return WalkSpec(unit(PRODUCTS_ONLY[preset].plan), mode)


@pytest.mark.parametrize(
    "mode, preset",
    [
        (Mode.FUSED, "nano"),
        *(sweep(mode, "pico") for mode in MODES.values()),
        *(sweep(mode, "nano") for mode in (Mode.FORWARD, Mode.DX)),
    ],
)
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
        m.d.comb += chunk.c_blocks.eq(self.product.c_step)


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


class ForgetsTheOrder(TileWalk):
    """Goes on along the lanes in every nest."""

    def _next_tile(self, m, t0, l0, at):
        m.d.sync += l0.eq(l0 + self.product.l_step)
        with m.If(at.last_l):
            m.d.sync += [l0.eq(0), t0.eq(t0 + self.product.t_step)]


class LoadsEveryTime(Edited):
    """What is held, in every nest."""

    def edit(self, m, chunk):
        m.d.comb += chunk.load_stationary.eq(1)


class FreesTooEarly(Edited):
    """What streams, with the first lane tile."""

    def edit(self, m, chunk):
        m.d.comb += chunk.free_stream.eq(1)


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
        ForgetsTheOrder,
        LoadsEveryTime,
        FreesTooEarly,
        WalksNothing,
    ],
)
@pytest.mark.sampled(2)
def test_broken_walk_is_refuted(broken):
    refute(walk(Mode.FORWARD, broken), assertions=ASSERTIONS)
