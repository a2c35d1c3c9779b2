# amaranth: UnusedElaboratable=no
"""A chain's outputs: a row of a block that was given never comes without room."""

import pytest
from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from diastole_hw.vector.stream_layouts import VectorShape, stream_layout
from diastole_hw.vector.streams.outputs import OutputStreams
from diastole_sim.spec.micro import OUTPUTS
from diastole_sim.spec.sizes.queues import OUTPUT_BLOCKS
from formal.prove import prove, refute
from support.edits import edited

SHAPE = VectorShape(block=1, data_width=32, specials=1, panel_vectors=4)
ASSERTIONS = 4  # one is the unit's own, one its queue's
PROBES = {
    "rows": "dut.rows.level",
    "waiting": "dut.rows.waiting",
    "blocks": "dut.packs.level",
    "oldest": "dut.packs.read",
    "next_": "dut.packs.write",
}
FAULTS = [
    ("self.space.eq(segment_requests.i.ready & packs.i.ready)", "self.space.eq(1)"),
    ("rows.ready.eq(leaves)", "rows.ready.eq(leaves & emits)"),
    ("rows.i.valid.eq(self.row_en)", "rows.i.valid.eq(accepted)"),
]
"""Faults in the text of the unit."""


class Watched(OutputStreams):
    """The unit; and whether its oldest row is there."""

    def __init__(self, shape):
        super().__init__(shape)
        self.available = Signal()

    def _rows(self, m, head, rows, *more):
        super()._rows(m, head, rows, *more)
        m.d.comb += self.available.eq(rows.valid)


class RowsSpec(wiring.Component):
    """Blocks of one row of any outputs, which are given when there is room; their rows come any
    time later, and go to a memory and a converter that take them any time later."""

    def __init__(self, dut: OutputStreams):
        self.dut = dut
        pulses = ("given", "comes", "beat_ready", "request_ready", "image_ready")
        super().__init__(
            {
                "streams": In(data.ArrayLayout(stream_layout(dut.shape), OUTPUTS)),
                **{name: In(1) for name in pulses},
                "stream": In(range(OUTPUTS)),
                "last": In(1),
                "rows": In(range(64)),
                "waiting": In(range(64)),
                "blocks": In(range(OUTPUT_BLOCKS + 1)),
                "oldest": In(range(OUTPUT_BLOCKS)),
                "next_": In(range(OUTPUT_BLOCKS)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        due = Signal(range(64), name="own_due")  # rows that are to come
        taken, row_en = Signal(), Signal()
        m.d.comb += [
            dut.streams.eq(self.streams),
            dut.output_block.valid.eq(self.given),
            dut.output_block.p.stream.eq(self.stream),
            dut.output_block.p.block.rows.eq(1),
            dut.output_block.p.block.cols.eq(1),
            dut.output_block.p.block.last.eq(self.last),
            taken.eq(self.given & dut.output_block.ready),
            row_en.eq(self.comes & (due != 0)),
            dut.row_en.eq(row_en),
            dut.write.beats.ready.eq(self.beat_ready),
            dut.write.requests.ready.eq(self.request_ready),
            dut.image.ready.eq(self.image_ready),
        ]
        m.d.sync += due.eq(due + taken - row_en)
        behind = self.oldest + self.blocks
        true = [
            self.rows == self.waiting + dut.available,
            self.blocks <= OUTPUT_BLOCKS,
            self.oldest < OUTPUT_BLOCKS,
            self.next_ == Mux(behind >= OUTPUT_BLOCKS, behind - OUTPUT_BLOCKS, behind),
        ]
        m.d.comb += [
            Assert(self.rows + due == self.blocks, "rows and blocks are not in step"),
            Assert(Cat(*true).all(), "lost"),
        ]
        return m


def test_rows_have_room():
    prove(RowsSpec(Watched(SHAPE)), assertions=ASSERTIONS, probes=PROBES)


@pytest.mark.parametrize("old, new", FAULTS)
def test_rows_without_room_are_noticed(old, new):
    broken = edited(OutputStreams, old, new)

    class Broken(Watched):
        elaborate = broken.elaborate

        def _rows(self, *parts):
            broken._rows(self, *parts)
            parts[0].d.comb += self.available.eq(parts[2].valid)

    refute(RowsSpec(Broken(SHAPE)), assertions=ASSERTIONS, probes=PROBES)
