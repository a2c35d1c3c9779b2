"""Request the inputs of a chain from memory, block by block."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import request_layout
from diastole_hw.vector.stream_layouts import VectorShape, stream_layout, visited_layout
from diastole_hw.vector.streams.packing import (
    expected_layout,
    inputs_in_memory,
    lowest,
    one_of,
    segments_of,
    shares_beats,
)
from diastole_hw.vector.streams.segments import SegmentRequests
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.image import MAX_SIZE
from diastole_sim.spec.micro import INPUTS
from diastole_sim.spec.stream_table import GATHERED, Kind


class InputRequests(wiring.Component):
    """Request the blocks of every input in memory. Blocks are requested in order, the inputs of a
    block ascending, and the rows of an input ascending. Every requested beat contains elements of
    the tensor. In a line that is a row of blocks, no beat of the previous block is requested again.

    Gathered rows: the unit requests the row numbers of a line first (a list), then the rows in
    every block. In a walk ``by_lines`` with a single gathered input, the list of the next line is
    requested after the rows of a line's first block, so that the list arrives in time. Otherwise
    the list is requested at the beginning of the line. In a walk by columns, or with several
    gathered inputs, every list is read again in every block. The lowest 24 bits of a number count.

    Timing: as :class:`diastole_hw.vector.streams.segments.SegmentRequests`, which receives an
    input, or a gathered row, in every cycle in which ``SegmentRequests`` is ready.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    streams : In(4 times stream_layout(shape))
        Stable from the first block until everything is requested.
    lists : In(4 times 40)
        Address of the list, for an input with gathered rows.
    by_columns, by_lines : In(1)
        ``by_columns``: lines are columns of blocks. ``by_lines``: lines are complete rows of
        blocks, in sequence.
    rows : In(range(MAX_SIZE + 1))
        Rows of the tensor. ``by_columns``, ``by_lines`` and ``rows`` are as stable as ``streams``.
    blocks : In(stream of visited_layout(shape))
    space : In(1)
        Free space for another block of every input.
    begins : Out(1)
        Pulse: a block begins. ``expected`` is valid in this cycle.
    expected : Out(expected_layout(shape))
    table_address, table_pitch : Out(40), Out(32)
        Address and pitch of the input whose list is requested.
    row_at, row_available : Out(range(B)), In(1)
        Next row of the oldest list; the row's address is available.
    row_en, row : Out(1), In(40)
        Read of the row's address, valid 1 cycle later until the next read.
    discard : Out(1)
        Pulse: the oldest list is no longer needed.
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
                "by_lines": In(1),
                "rows": In(range(MAX_SIZE + 1)),
                "blocks": In(stream.Signature(visited_layout(shape))),
                "space": In(1),
                "begins": Out(1),
                "expected": Out(expected_layout(shape)),
                "table_address": Out(ADDRESS_BITS),
                "table_pitch": Out(32),
                "row_at": Out(range(shape.block)),
                "row_available": In(1),
                "row_en": Out(1),
                "row": In(ADDRESS_BITS),
                "discard": Out(1),
                "requests": Out(stream.Signature(request_layout())),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.segments = segments = SegmentRequests(self.shape)
        wiring.connect(m, segments.requests, wiring.flipped(self.requests))
        several = self._expect(m)
        remaining = Signal(INPUTS)  # inputs of the block without a request
        left = Signal(INPUTS)  # `remaining`, or all inputs if a block begins
        one = Signal(INPUTS)  # next input of `left`
        done = Signal()  # the input's last piece is accepted
        begun = Signal()
        m.d.comb += [
            self.begins.eq(~begun & self.blocks.valid & self.space),
            left.eq(Mux(self.begins, Cat(inputs_in_memory(self.streams)), remaining)),
            one.eq(lowest(left)),
            self.blocks.ready.eq((begun | self.begins) & ((done & (left == one)) | (left == 0))),
        ]
        m.d.sync += [
            remaining.eq(Mux(done, left & ~one, left)),
            begun.eq((begun | self.begins) & ~self.blocks.ready),
        ]
        self._request(m, segments.blocks, one, left, done, several)
        m.d.sync += Assert(~begun | self.blocks.valid, "a block left too early")
        return m

    def _expect(self, m):
        """Drive ``expected`` for the block. Return whether several inputs are gathered."""
        block, expected, low = self.blocks.p, self.expected, self.shape.row_bits
        gathered = self._gathered()
        pairs = [each & other for n, each in enumerate(gathered) for other in gathered[:n]]
        several, alone = Signal(), Signal()  # alone: lists are read a line ahead
        most = (self.rows - 1)[: len(self.rows)]
        next_last = block.i + 1 == most >> low
        m.d.comb += [
            several.eq(Cat(pairs).any()),
            alone.eq(self.by_lines & ~several),
            expected.rows.eq(block.rows),
            expected.cols.eq(block.cols),
            expected.i.eq(block.i),
            expected.j.eq(block.j),
            expected.again.eq(self._again(several)),
            expected.listed.eq(
                Mux(alone, block.first & block.first_row, block.first | self.by_columns | several)
            ),
        ]
        with m.If(alone & block.first & (block.i != most >> low)):
            rest = (most & (self.shape.block - 1)) + 1
            m.d.comb += expected.ahead.eq(Mux(next_last, rest, self.shape.block))
        return several

    def _again(self, several):
        """Return the inputs whose elements lie in beats of the previous block."""
        block, same_line = self.blocks.p, ~self.blocks.p.first & ~self.by_columns
        return Cat(
            same_line
            & shares_beats(self.shape, each.kind, block)
            & ~(several & one_of(each.kind, GATHERED))
            for each in self.streams
        )

    def _gathered(self):
        """Return, for every input, whether rows are gathered."""
        return [each.used & one_of(each.kind, GATHERED) for each in self.streams]

    def _request(self, m, segment_request, one, left, done, several):
        """Send the pieces of input ``one``, if any. For gathered rows, send the list, every row,
        and the list of the next line."""
        block = Signal.like(self.blocks.p, name="listed_block")
        source = Signal(stream_layout(self.shape))
        list_at = Signal(ADDRESS_BITS)
        for number in range(INPUTS):
            with m.If(one[number]):
                m.d.comb += [source.eq(self.streams[number]), list_at.eq(self.lists[number])]
        gathered = Signal()
        m.d.comb += [
            block.eq(self.blocks.p),
            gathered.eq(left.any() & one_of(source.kind, GATHERED)),
        ]
        requested, ended = Signal(), Signal()  # the list is requested; all rows are requested
        listing, row_read, last = Signal(), Signal(), Signal()
        requested_stream = Signal(stream_layout(self.shape))
        again = Signal()
        m.d.comb += [
            again.eq((self.expected.again & one).any()),
            requested_stream.eq(source),
            segment_request.valid.eq(left.any() & ~again & (~gathered | listing | row_read)),
        ]
        with m.If(gathered):
            m.d.comb += [
                requested_stream.address.eq(self.row),
                listing.eq(self.expected.listed & ~requested | ended),
            ]
        with m.If(listing):
            m.d.comb += [
                requested_stream.address.eq(list_at),
                requested_stream.kind.eq(Kind.LABELS),
            ]
        with m.If(ended):
            m.d.comb += [block.i.eq(self.blocks.p.i + 1), block.rows.eq(self.expected.ahead)]
        segments_of(m, self.shape, requested_stream, block, segment_request.p)
        accepted = segment_request.valid & segment_request.ready
        row_accepted, rows_end, unlisted = Signal(), Signal(), Signal()
        ends = ended | (rows_end & (self.expected.ahead == 0))
        m.d.comb += [
            row_accepted.eq(accepted & gathered & ~listing),
            rows_end.eq(row_accepted & last),
            unlisted.eq(several | self.by_columns | self.blocks.p.last),
            self.discard.eq((rows_end | (again & gathered)) & unlisted),
            done.eq(again | (accepted & Mux(gathered, ends, 1))),
        ]
        with m.If(gathered & ~listing):
            m.d.comb += [segment_request.p.count.eq(0), segment_request.p.rows.eq(1)]
        with m.If(accepted & listing):
            m.d.sync += [requested.eq(~ended), ended.eq(0)]
        with m.If(rows_end):
            m.d.sync += [requested.eq(0), ended.eq(self.expected.ahead != 0)]
        gathered_ones = Cat(self._gathered())
        self._read_rows(m, gathered_ones & Mux(several, left, ~0), row_accepted, row_read, last)

    def _read_rows(self, m, pending, accepted, row_read, last):
        """Read the addresses of gathered rows, 1 row ahead. At the end of a block the first row of
        the next block is read, if the list stays. ``row_read``: an address has been read, and is
        not yet accepted. ``last``: the address belongs to the last row. ``pending``: inputs whose
        rows are not yet requested."""
        row, following = Signal(range(self.shape.block)), Signal(range(self.shape.block))
        m.d.comb += [
            last.eq(row == self.blocks.p.rows - 1),
            following.eq(Mux(last, 0, row + 1)),
            self.row_at.eq(Mux(row_read, following, row)),
            self.row_en.eq(self.row_available & (~row_read | accepted) & ~self.discard),
        ]
        m.d.sync += row_read.eq(self.row_en | (row_read & ~accepted & ~self.discard))
        with m.If(accepted):
            m.d.sync += row.eq(following)
        for number in reversed(range(INPUTS)):
            with m.If(pending[number]):
                m.d.comb += [
                    self.table_address.eq(self.streams[number].address),
                    self.table_pitch.eq(self.streams[number].pitch),
                ]
