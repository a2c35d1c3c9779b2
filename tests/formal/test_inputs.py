# amaranth: UnusedElaboratable=no
"""A chain's inputs: no reader of memory blocks another, since only that is asked for which there is
room for; and nothing is written over a block that is still to be read."""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from diastole_hw.vector.stream_layouts import VectorShape, stream_layout, visited_layout
from diastole_hw.vector.streams import inputs
from diastole_hw.vector.streams.input_fill import InputFill
from diastole_hw.vector.streams.inputs import InputStreams
from diastole_hw.vector.streams.packing import expected_layout, inputs_in_memory
from diastole_sim.spec.micro import INPUTS
from diastole_sim.spec.sizes.queues import INPUT_BLOCKS
from diastole_sim.spec.stream_table import Kind
from formal.prove import prove, prove_bounded, refute, refute_bounded
from support.edits import edited
from support.sweep import sweep

SHAPES = [(1, 32), sweep(2, 64)]
KINDS = (Kind.F32, Kind.PRODUCT, Kind.PANEL)
"""Those whose every beat is asked for, in whatever order blocks come."""
COUNTS = ("begun", "filled", "released", "multiplied")
PROBES = {name: f"dut.{name}" for name in COUNTS}
PROBES |= {f"block_{n}": f"dut.block{n}" for n in range(INPUT_BLOCKS)}
PROBES |= {
    "passed": "dut.fill.passed",
    "after": "dut.fill.after",
    "asks": "dut.requests.begun",
    "to_ask": "dut.requests.remaining",
}
CYCLES = 11
NEVER_READY = (
    InputFill,
    "self.beats.ready.eq(needs_beat & ~again & here.beat)",
    "self.beats.ready.eq(0)",
)
QUICK = [
    (InputStreams, "fill.available.eq(begun != filled)", "fill.available.eq(1)"),
    (InputStreams, "Mux(product, multiplied, count)", "Mux(product, begun, count)"),
    (InputFill, "self.product_available & ~own", "~own"),
]
SLOW = [
    (
        InputStreams,
        "space = (in_use != INPUT_BLOCKS) & (unread != INPUT_BLOCKS)",
        "space = Signal(init=1)",
    ),
    (InputStreams, "released + self.release_block", "released + self.release_block + 1"),
    (InputStreams, "filled + fill.done", "filled"),
    (InputFill, "with m.If(self.done):", "with m.If(self.done & (left == 0)):"),
    NEVER_READY,
]
"""Faults in the text of units; some are found in sweeps only."""
ASSERTIONS = 9  # four are the unit's own


class Watched(InputStreams):
    """The unit, and of which inputs it writes a row, of memory or ``of_product``."""

    def __init__(self, shape):
        super().__init__(shape)
        self.writes, self.of_product = Signal(INPUTS), Signal()

    def _buffers(self, m, fill, *more):
        super()._buffers(m, fill, *more)
        writes = fill.write.input & fill.write_en.replicate(INPUTS)
        m.d.comb += [self.writes.eq(writes), self.of_product.eq(fill.of_product)]


class _InputsSpec(wiring.Component):
    """What all that follows assumes: streams that stay, of ``KINDS``, at least one of
    them in memory or of a product; blocks that are not empty; and that a block is given back which
    is there."""

    def __init__(self, dut: InputStreams, **probes):
        self.dut = dut
        members = {
            "streams": data.ArrayLayout(stream_layout(dut.shape), INPUTS),
            "by_columns": 1,
            "offered": 1,
            "block": visited_layout(dut.shape),
            "gives_back": 1,
            "ready": 1,
            "comes": 1,
            "product_comes": 1,
        }
        super().__init__({name: In(shape) for name, shape in (members | probes).items()})

    def _surround(self, m):
        m.submodules.dut = dut = self.dut
        started, before = Signal(), Signal(self.streams.shape())
        by_columns = Signal(name="by_columns_before")
        m.d.sync += [started.eq(1), before.eq(self.streams), by_columns.eq(self.by_columns)]
        same = (before.as_value() == self.streams.as_value()) & (by_columns == self.by_columns)
        m.d.comb += Assume(~started | same)
        self.started = started
        self.buffered = [each.used & (each.kind != Kind.PANEL) for each in self.streams]
        for each in self.streams:
            known = Cat(each.kind == kind for kind in KINDS).any()
            m.d.comb += Assume(~each.used | known)
        side = dut.shape.block
        m.d.comb += [
            Assume(Cat(self.buffered).any()),
            Assume((self.block.rows != 0) & (self.block.rows <= side)),
            Assume((self.block.cols != 0) & (self.block.cols <= side)),
        ]
        here = Cat(
            ~buffered | (level != 0)
            for buffered, level in zip(self.buffered, dut.level, strict=True)
        ).all()
        offered, block = Signal(), Signal(self.block.shape(), name="block_before")
        m.d.sync += [offered.eq(self.offered & ~dut.blocks.ready), block.eq(self.block)]
        self.kept_back = offered
        m.d.comb += Assume(~offered | (self.offered & (block.as_value() == self.block.as_value())))
        m.d.comb += [
            dut.streams.eq(self.streams),
            dut.by_columns.eq(self.by_columns),
            dut.blocks.valid.eq(self.offered),
            dut.blocks.payload.eq(self.block),
            dut.release_block.eq(self.gives_back & here),
            dut.read.requests.ready.eq(self.ready),
            dut.product.valid.eq(self.product_comes),
        ]

    def _waits(self, m, comes):
        """Assert that no beat waits for longer than it has rows."""
        beats, most = self.dut.read.beats, self.dut.shape.block
        waited = Signal(range(most + 2), name="own_waited")
        m.d.comb += beats.valid.eq(comes)
        m.d.sync += waited.eq(Mux(comes & ~beats.ready, waited + 1, 0))
        m.d.comb += Assert(waited <= most, "a beat waits")


class RoomSpec(_InputsSpec):
    """At most four blocks of an input are begun and not given back; the rows that are written are
    of one that is begun, and not whole. A beat that comes while a block is begun waits for no more
    cycles than B."""

    def __init__(self, dut: InputStreams):
        bits = INPUT_BLOCKS.bit_length()
        probes = dict.fromkeys(COUNTS, bits)
        probes |= {f"block_{n}": expected_layout(dut.shape) for n in range(INPUT_BLOCKS)}
        probes |= {"passed": INPUTS, "after": 1, "asks": 1, "to_ask": INPUTS}
        super().__init__(dut, **probes)

    def elaborate(self, platform):
        m = Module()
        self._surround(m)
        dut, bits = self.dut, INPUT_BLOCKS.bit_length()
        begun, filled, multiplied = (
            (getattr(self, name) - self.released)[:bits]
            for name in ("begun", "filled", "multiplied")
        )
        of_product = [each.used & (each.kind == Kind.PRODUCT) for each in self.streams]
        memory = Cat(inputs_in_memory(self.streams))
        multiplies = Cat(of_product).any()
        behind = Mux(dut.of_product, multiplied, filled)
        self._waits(m, self.comes & (begun != filled) & memory.any())
        inside = [
            ~buffered | (level <= begun)
            for buffered, level in zip(self.buffered, dut.level, strict=True)
        ]
        over = [
            dut.writes[number] & ((behind < level) | (behind >= begun))
            for number, level in enumerate(dut.level)
        ]
        m.d.comb += [
            Assert(begun <= INPUT_BLOCKS, "more blocks are begun than there is room for"),
            Assert(Cat(*inside).all(), "a block is there that was not begun"),
            Assert(~Cat(*over).any(), "a row is written over one that is to be read"),
        ]
        rows = []
        for number in range(INPUT_BLOCKS):
            held = (Const(number, bits - 1) - self.released)[: bits - 1] < begun
            block = getattr(self, f"block_{number}")
            inside = (block.rows != 0) & (block.rows <= dut.shape.block)
            rows.append(~held | (inside & ((block.again & memory) == 0) & ~block.ahead.any()))
        true = [
            *rows,
            ~self.after,
            (self.to_ask & ~memory) == 0,
            ~self.asks | self.kept_back,
            filled <= begun,
            ~multiplies | (multiplied <= begun),
            (self.passed & ~memory) == 0,
            (self.passed == 0) | (begun != filled),
            (self.passed != memory) | ~memory.any(),
            memory.any() | ((begun - filled <= 1) & (multiplied <= filled)),
            self.started | ((begun == 0) & (multiplied == 0)),
        ]
        m.d.comb += Assert(Cat(*true).all(), "lost")
        return m


class ReadSpec(_InputsSpec):
    """Beats come when they like, but only those that were asked for; every one of them is taken,
    within so many cycles as it has rows, whatever the core and the product do."""

    def elaborate(self, platform):
        m = Module()
        self._surround(m)
        requests, beats = self.dut.read.requests, self.dut.read.beats
        owed = Signal(6, name="own_owed")
        asked = Mux(requests.valid & requests.ready, requests.p.beats, 0)
        m.d.sync += owed.eq(owed + asked - (beats.valid & beats.ready))
        self._waits(m, self.comes & (owed != 0))
        return m


def streams(block, data_width, unit=Watched):
    return unit(VectorShape(block=block, data_width=data_width, specials=1, panel_vectors=4))


@pytest.mark.parametrize("block, data_width", SHAPES)
def test_rows_go_where_there_is_room(block, data_width):
    prove(RoomSpec(streams(block, data_width)), assertions=ASSERTIONS, probes=PROBES)


@pytest.mark.parametrize("block, data_width", [sweep(1, 32), (2, 64)])
def test_every_beat_that_was_asked_for_is_taken(block, data_width):
    prove_bounded(ReadSpec(streams(block, data_width)), assertions=ASSERTIONS - 4, cycles=CYCLES)


@pytest.mark.parametrize("unit, old, new", [*QUICK, *SLOW])
def test_every_fault_has_its_place(unit, old, new):
    assert edited(unit, old, new) is not unit


@pytest.mark.parametrize("unit, old, new", [*QUICK, *(sweep(*edit) for edit in SLOW)])
@pytest.mark.sampled(2)
def test_inputs_with_a_fault_are_refuted(monkeypatch, unit, old, new):
    broken = edited(unit, old, new)
    if unit is InputStreams:
        monkeypatch.setattr(Watched, "_count", broken._count)
    else:
        monkeypatch.setattr(inputs, unit.__name__, broken)
    refute(RoomSpec(streams(2, 64)), assertions=ASSERTIONS, depth=12, probes=PROBES)


def test_a_beat_that_is_not_taken_is_noticed(monkeypatch):
    monkeypatch.setattr(inputs, "InputFill", edited(*NEVER_READY))
    refute_bounded(ReadSpec(streams(1, 32)), assertions=ASSERTIONS - 4, cycles=CYCLES)
