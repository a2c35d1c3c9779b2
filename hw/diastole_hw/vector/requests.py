"""What a chain's inputs ask of memory, block by block."""

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import request_layout
from diastole_hw.invariant import invariant
from diastole_hw.place import place
from diastole_hw.vector.packing import (
    expected_layout,
    inputs_in_memory,
    lowest,
    one_of,
    segments_of,
)
from diastole_hw.vector.segments import SegmentRequests
from diastole_hw.vector.shape import VectorShape, stream_layout, visited_layout
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.micro import INPUTS
from diastole_sim.spec.stream_table import GATHERED, Kind

INDEX_BITS = 24
"""Of the number of a row."""


class InputRequests(wiring.Component):
    """Ask for the blocks of every input that is in memory: block after block, of each the inputs
    ascending, of each its rows ascending. Nothing outside the tensor is asked for but what shares a
    beat with it.

    Gathered rows: first the numbers of a block's rows are asked for, in every block that is the
    first of a line or has a row of blocks of its own, and in every block where several inputs are
    gathered, which share the memory of these numbers; then each row, when they have come. Of a
    number the lowest 24 bits count.

    Timing: as :class:`diastole_hw.vector.segments.SegmentRequests`, which is fed an input every
    cycle, after one cycle at each block's beginning; 2 cycles for a gathered row.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    streams : In(4 times stream_layout(shape))
        Stable from the first block until all is asked for.
    lists : In(4 times 40)
        Of gathered rows the address of the list.
    by_columns : In(1)
    blocks : In(stream of visited_layout(shape))
    room : In(1)
        For another block of every input.
    begins : Out(1)
        A pulse: a block is begun, whose ``expected`` holds in this cycle.
    expected : Out(expected_layout(shape))
    listed : In(1)
        A pulse: the numbers of rows that were asked for have all come.
    index_en, index_at, index : Out(1), Out(range(B)), In(24)
        The memory in which they are.
    requests : Out(stream of request_layout())
    """

    blocks: stream.Interface
    requests: stream.Interface
    streams: data.View
    lists: data.View
    expected: data.View

    def __init__(self, shape: VectorShape):
        self.shape = shape
        super().__init__(
            {
                "streams": In(data.ArrayLayout(stream_layout(shape), INPUTS)),
                "lists": In(data.ArrayLayout(ADDRESS_BITS, INPUTS)),
                "by_columns": In(1),
                "blocks": In(stream.Signature(visited_layout(shape))),
                "room": In(1),
                "begins": Out(1),
                "expected": Out(expected_layout(shape)),
                "listed": In(1),
                "index_en": Out(1),
                "index_at": Out(range(shape.block)),
                "index": In(INDEX_BITS),
                "requests": Out(stream.Signature(request_layout())),
            }
        )

    def elaborate(self, platform):
        m = Module()
        segments = SegmentRequests(self.shape)
        m.submodules.segments = place(segments, platform)
        wiring.connect(m, segments.requests, wiring.flipped(self.requests))
        self._expect(m)
        left = Signal(INPUTS)  # inputs of the block that are not asked for yet
        one = Signal(INPUTS)  # the next one of them
        asks = segments.blocks
        chosen = Signal(stream_layout(self.shape))
        list_at = Signal(ADDRESS_BITS)
        m.d.comb += one.eq(lowest(left))
        for number in range(INPUTS):
            with m.If(one[number]):
                m.d.comb += [chosen.eq(self.streams[number]), list_at.eq(self.lists[number])]
        listing, by_row = Signal(), Signal()  # a list is asked for, a gathered row
        source = Signal.like(chosen, name="source")
        m.d.comb += source.eq(chosen)
        with m.If(listing):
            m.d.comb += [source.address.eq(list_at), source.kind.eq(Kind.LABELS)]
        segments_of(m, self.shape, source, self.blocks.p, asks.p)
        with m.If(by_row):
            m.d.comb += [asks.p.count.eq(self.index), asks.p.rows.eq(1)]
        done = Signal()  # the input's last piece is taken
        self._sequence(m, one_of(chosen.kind, GATHERED), asks, listing, by_row, left.any(), done)
        with m.If(self.begins):
            m.d.sync += left.eq(Cat(inputs_in_memory(self.streams)))
        with m.Elif(done):
            m.d.sync += left.eq(left & ~one)
        none = ~Cat(inputs_in_memory(self.streams)).any()
        m.d.comb += self.blocks.ready.eq((done & (left == one)) | (self.begins & none))
        invariant(m, platform, ~left.any() | self.blocks.valid, "a block left too early")
        return m

    def _expect(self, m):
        block, expected = self.blocks.p, self.expected
        gathered = [each.used & one_of(each.kind, GATHERED) for each in self.streams]
        several = Const(0, 1)
        for number, each in enumerate(gathered):
            for other in gathered[:number]:
                several = several | (each & other)
        m.d.comb += [
            expected.rows.eq(block.rows),
            expected.cols.eq(block.cols),
            expected.i.eq(block.i),
            expected.j.eq(block.j),
            expected.listed.eq(block.first | self.by_columns | several),
        ]

    def _sequence(self, m, gathered, asks, listing, by_row, begun, done):
        """What is asked for next."""
        row = Signal(range(self.shape.block))
        m.d.comb += self.index_at.eq(row)
        with m.FSM():
            with m.State("INPUT"):
                with m.If(~begun):
                    m.d.comb += self.begins.eq(self.blocks.valid & self.room)
                with m.Elif(~gathered):
                    m.d.comb += [asks.valid.eq(1), done.eq(asks.ready)]
                with m.Elif(self.expected.listed):
                    m.d.comb += [asks.valid.eq(1), listing.eq(1)]
                    with m.If(asks.ready):
                        m.next = "LIST"
                with m.Else():
                    m.next = "INDEX"
            with m.State("LIST"), m.If(self.listed):
                m.next = "INDEX"
            with m.State("INDEX"):
                m.d.comb += self.index_en.eq(1)
                m.next = "ROW"
            with m.State("ROW"):
                m.d.comb += [asks.valid.eq(1), by_row.eq(1)]
                with m.If(asks.ready):
                    m.d.sync += row.eq(row + 1)
                    m.next = "INDEX"
                    with m.If(row == self.blocks.p.rows - 1):
                        m.d.sync += row.eq(0)
                        m.d.comb += done.eq(1)
                        m.next = "INPUT"
