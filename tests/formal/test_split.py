"""The burst splitter, which makes the addresses of the bus: in the window, every beat once."""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In

from diastole_hw.bus.services import owned_request_layout, owner_tag_layout
from diastole_hw.bus.split import BurstSplitter
from formal.prove import prove, refute

ASSERTIONS = 9
FLAGS = ("last", "begins", "fits")
PROBES = {name: f"dut.{name}" for name in ("end", "further", *FLAGS)}
PAGE = 4096  # bytes; no burst of AXI crosses a multiple of it


class SplitSpec(wiring.Component):
    """The beats of a request that are still due, counted beside the splitter, and whose it is.

    Assumes aligned requests of at least one beat, as the unit does, and a window that stays.
    ``end``, ``further`` and ``FLAGS`` are probes of what the unit keeps: its last beat's place in
    64 beats, how many 64 are begun until then, whether none is, and whether the request begins and
    the next burst ends in the window.
    """

    def __init__(self, dut: BurstSplitter):
        self.dut = dut
        flags = dict.fromkeys(("ready", "stop", "clear"), In(1))
        window = dict.fromkeys(("base", "limit"), In(40))
        kept = {"end": In(6), "further": In(11)} | dict.fromkeys(FLAGS, In(1))
        super().__init__(
            {"i": In(stream.Signature(owned_request_layout()))} | flags | window | kept
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        wiring.connect(m, wiring.flipped(self.i), dut.i)
        for name in ("base", "limit", "stop", "clear"):
            m.d.comb += getattr(dut, name).eq(getattr(self, name))
        m.d.comb += dut.o.ready.eq(self.ready)
        size = dut.data_width // 8
        m.d.comb += Assume((self.i.p.addr % size == 0) & (self.i.p.beats != 0))

        window = Signal(80)
        began = Signal()
        m.d.sync += [window.eq(Cat(self.base, self.limit)), began.eq(1)]
        m.d.comb += Assume(~began | (window == Cat(self.base, self.limit)))
        address = Signal(41)  # of the next beat; a request may run over the end of memory
        due = Signal(16)
        owner_tag = Signal(owner_tag_layout())
        beats = Signal(9)
        given = Signal()
        end = Signal(42)
        m.d.comb += [
            beats.eq(dut.o.p.len + 1),
            given.eq(dut.o.valid & self.ready),
            end.eq(address + beats * size),
        ]
        with m.If(given):
            m.d.sync += [address.eq(end), due.eq(due - beats)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [address.eq(self.i.p.addr), due.eq(self.i.p.beats)]
            m.d.sync += owner_tag.eq(self.i.p.owner_tag)
        with m.If(self.clear):
            m.d.sync += due.eq(0)

        m.d.comb += Assert(dut.busy == (due != 0), "a request forgotten, or not ended")
        with m.If(dut.busy):
            until = address // size + due - 1
            kept = [
                self.end == until % 64,
                self.further == until // 64 - address // size // 64,
                self.last == (self.further == 0),
                self.begins == (address >= self.base),
                self.fits == ((end - 1) // size < self.limit // size),
            ]
            m.d.comb += Assert(Cat(*kept).all(), "what is kept of the request")
            m.d.comb += Assert(dut.o.p.addr == address[:40], "a beat skipped or repeated")
            m.d.comb += Assert(beats <= due, "more beats than were asked for")
            m.d.comb += Assert(dut.o.p.last == (beats == due), "not the last, or not told")
            m.d.comb += Assert(dut.o.p.owner_tag == owner_tag, "somebody else's")
        with m.If(dut.o.valid):
            m.d.comb += Assert((address >= self.base) & (end <= self.limit), "outside the window")
            within = (dut.o.p.addr // PAGE == (end - 1) // PAGE) & (beats <= 256)
            m.d.comb += Assert(within & ~self.stop, "a burst that AXI forbids, or that was stopped")
        waiting = dut.busy & ~dut.o.valid & ~self.stop
        blocked = (address < self.base) | (end > self.limit)
        m.d.comb += Assert(~waiting | (dut.outside & blocked), "waits without a reason")
        return m


@pytest.mark.parametrize("data_width", [32, 64, 512])
def test_splitter(data_width):
    dut = BurstSplitter(data_width=data_width)
    prove(SplitSpec(dut), assertions=ASSERTIONS, probes=PROBES)


class Edited(BurstSplitter):
    def elaborate(self, platform):
        m = super().elaborate(platform)
        self.edit(m)
        return m


class IgnoresTheWindow(Edited):
    def edit(self, m):
        m.d.comb += self.o.valid.eq(self.busy & ~self.stop)


class CrossesPages(Edited):
    def edit(self, m):
        whole = Signal(8)
        m.d.comb += whole.eq(63)
        with m.If(self.o.p.addr[:6] == 0):
            m.d.comb += self.o.p.len.eq(whole)


class TakesOneTooFew(Edited):
    def edit(self, m):
        with m.If(self.i.valid & self.i.ready & (self.i.p.beats > 1)):
            m.d.sync += self.busy.eq(self.i.p.beats != 2)


class StopsForNothing(Edited):
    def edit(self, m):
        with m.If(self.o.p.addr[20]):
            m.d.comb += self.o.valid.eq(0)


class TellsTheLastTooEarly(Edited):
    def edit(self, m):
        with m.If(self.o.p.addr[:12] == 0):
            m.d.comb += self.o.p.last.eq(1)


class TellsTheOtherCommand(Edited):
    def edit(self, m):
        with m.If(self.o.p.len == 63):
            m.d.comb += self.o.p.owner_tag.command.eq(0)


BROKEN = [
    *(IgnoresTheWindow, CrossesPages, TakesOneTooFew, StopsForNothing),
    *(TellsTheLastTooEarly, TellsTheOtherCommand),
]


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.sampled(2)
def test_broken_splitter_is_refuted(broken):
    refute(SplitSpec(broken(data_width=64)), assertions=ASSERTIONS, probes=PROBES)
