"""Write the outputs of a chain: rows of blocks to memory, to the converter, and to the
constants."""

from amaranth.hdl import Array, Assert, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import WriteSignature
from diastole_hw.stream.fifo import StreamFifo
from diastole_hw.vector.float.narrow import not_finite, rounds_to_infinity
from diastole_hw.vector.stream_layouts import (
    WORD,
    VectorShape,
    output_block_layout,
    row_layout,
    stream_layout,
)
from diastole_hw.vector.streams.packing import Packing, one_of, segments_of
from diastole_hw.vector.streams.row_pack import RowPack, byte_ends, packing_layout
from diastole_hw.vector.streams.segments import SegmentRequests
from diastole_sim.spec.micro import CONSTANTS, OUTPUTS
from diastole_sim.spec.sizes.queues import LEAST_ROWS, OUTPUT_BLOCKS, OUTPUT_REQUESTS, image_rows
from diastole_sim.spec.stream_table import ROW_BY_ROW, Kind


def goes_to_memory(shape: VectorShape, kind, block):
    """Return whether elements of ``block``, or kept elements of previous blocks, are written to
    memory. Elements of a vector are written only in the last block of a line."""
    line = one_of(kind, (Kind.COLUMN, Kind.ROW)) & block.last
    return one_of(kind, ROW_BY_ROW) | line | ((kind == Kind.MASK) & byte_ends(shape, block))


class OutputStreams(wiring.Component):
    """Write the output rows of instructions to the outputs of a chain, in the order of the
    instructions.

    Requests run ahead of the beats. Beats have the order of the requests, and neither stream waits
    for the other. The unit sends a request per row of a block, per block of a mask or of a vector
    of columns, and per number of a vector of rows. Masks are written in whole blocks, with zeros
    outside the tensor. All other outputs write nothing outside the tensor. Masks whose blocks have
    less than a byte are written byte by byte, and only in walks by rows in which the last block of
    a line ends a byte, or the tensor.

    Timing: a row leaves 2 cycles after arrival at the earliest. Then the unit sends a beat per
    cycle, or processes a row per cycle if the row has a beat or less, or nothing to write. A row of
    a block outside the tensor takes a cycle too. Requests are sent as by
    :class:`diastole_hw.vector.streams.segments.SegmentRequests`, 1 cycle after ``output_block``.
    ``write.beats`` and ``image`` are combinational from registers and a memory's output.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    streams : In(4 times stream_layout(shape))
        Outputs of the chain. Stable from the first block until ``idle``.
    output_block : In(stream of output_block_layout(shape))
        Announcements of output blocks, but not for panels. ``ready`` is ``space``.
    row_en, row : In(1), In(row_layout(shape))
        Row of an announced block, B rows per block, never before the announcement.
    space : Out(1)
        Free space for another block and the block's rows. A function of registers.
    write : Out(WriteSignature(data_width))
    image : Out(stream of row_layout(shape))
        Rows of images, B rows per block. Elements outside the tensor are arbitrary.
    constant_en, constant_at, constant : Out(1), Out(8), Out(32)
        Write of a number to the constants.
    not_finite, not_finite_kind : Out(1), Out(4)
        A watched output receives a NaN or Inf, in an element of the tensor and in the stored
        format; kind of the output.
    idle : Out(1)
        Everything that was announced is sent, except rows of images.
    """

    streams: data.View
    output_block: stream.Interface
    row: data.View
    write: wiring.PureInterface
    image: stream.Interface

    def __init__(self, shape: VectorShape):
        self.shape = shape
        super().__init__(
            {
                "streams": In(data.ArrayLayout(stream_layout(shape), OUTPUTS)),
                "output_block": In(stream.Signature(output_block_layout(shape))),
                "row_en": In(1),
                "row": In(row_layout(shape)),
                "space": Out(1),
                "write": Out(WriteSignature(shape.data_width)),
                "image": Out(stream.Signature(row_layout(shape))),
                "constant_en": Out(1),
                "constant_at": Out(range(CONSTANTS)),
                "constant": Out(unsigned(WORD)),
                "not_finite": Out(1),
                "not_finite_kind": Out(4),
                "idle": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        shape = self.shape
        segment_requests = StreamFifo(output_block_layout(shape), OUTPUT_REQUESTS)
        packs = StreamFifo(packing_layout(shape), OUTPUT_BLOCKS)
        rows = StreamFifo(row_layout(shape), max(OUTPUT_BLOCKS * shape.block, LEAST_ROWS))
        images = StreamFifo(row_layout(shape), image_rows(shape.data_width))
        segments, pack = SegmentRequests(shape), RowPack(shape)
        units = {
            "segment_requests": segment_requests,
            "packs": packs,
            "rows": rows,
            "images": images,
        }
        units |= {"segments": segments, "pack": pack}
        for name, unit in units.items():
            m.submodules[name] = unit
        wiring.connect(m, segments.requests, wiring.flipped(self.write.requests))
        wiring.connect(m, images.o, wiring.flipped(self.image))
        output_block, block, accepted = self.output_block, self.output_block.p.block, Signal()
        m.d.comb += [
            self.space.eq(segment_requests.i.ready & packs.i.ready),
            output_block.ready.eq(self.space),
            accepted.eq(output_block.valid & output_block.ready),
            segment_requests.i.valid.eq(accepted),
            segment_requests.i.payload.eq(output_block.payload),
            packs.i.valid.eq(accepted),
            packs.i.p.stream.eq(output_block.p.stream),
            rows.i.valid.eq(self.row_en),
            rows.i.payload.eq(self.row),
            self.idle.eq(~(segment_requests.o.valid | packs.o.valid | segments.busy)),
        ]
        names = [name for name in packs.i.p.shape().members if name != "stream"]
        m.d.comb += [packs.i.p[name].eq(block[name]) for name in names]
        m.d.sync += Assert(~self.row_en | rows.i.ready, "a row of no block that was given")
        self._request(m, segment_requests.o, segments.blocks)
        self._rows(m, packs.o, rows.o, pack, images.i)
        return m

    def _request(self, m, head, segment_requests):
        """Compute the pieces of memory to which blocks are written."""
        shape, block = self.shape, head.p.block
        chosen = Signal(stream_layout(shape))
        m.d.comb += chosen.eq(Array(each.as_value() for each in self.streams)[head.p.stream])
        segments_of(m, shape, chosen, block, segment_requests.p)
        with m.If(chosen.kind == Kind.ROW):  # a request for each number
            m.d.comb += [
                segment_requests.p.pitch.eq(WORD // 8),
                segment_requests.p.rows.eq(block.rows),
                segment_requests.p.beats.eq(1),
            ]
        with m.If(chosen.kind == Kind.MASK):  # whole blocks
            m.d.comb += segment_requests.p.beats.eq(Packing.of_mask(shape).parts)
        with m.If(goes_to_memory(shape, chosen.kind, block)):
            m.d.comb += [
                segment_requests.valid.eq(head.valid),
                head.ready.eq(segment_requests.ready),
            ]
        with m.Else():
            m.d.comb += head.ready.eq(1)

    def _rows(self, m, head, rows, pack, image):
        """Send the rows of blocks to the destinations. Rows of images have a separate queue, so
        that the converter does not stall the remaining outputs."""
        shape, block = self.shape, head.p
        row = Signal(range(shape.block))
        part = Signal.like(pack.part, name="part")
        kind, valid, inside = Signal(4), Signal(), Signal()
        emits = Signal()  # the row has a beat
        reaches = self._reaches(m, kind, block, row, inside)
        moves, leaves = Signal(), Signal()  # a beat, or the row, is accepted; the row is finished
        m.d.comb += [
            kind.eq(Array(each.kind for each in self.streams)[block.stream]),
            valid.eq(head.valid & rows.valid),
            inside.eq(row < block.rows),
            emits.eq(reaches & pack.emits & ~one_of(kind, (Kind.IMAGE, Kind.CONSTANT))),
            self.write.beats.valid.eq(valid & emits),
            self.write.beats.payload.eq(pack.beat),
            image.valid.eq(valid & (kind == Kind.IMAGE)),
            image.payload.eq(rows.payload),
            moves.eq(
                Mux(emits, self.write.beats.ready, (kind != Kind.IMAGE) | image.ready) & valid
            ),
            leaves.eq(moves & (~emits | pack.last_part)),
            rows.ready.eq(leaves),
            head.ready.eq(leaves & (row == shape.block - 1)),
            pack.kind.eq(kind),
            pack.block.eq(block),
            pack.row.eq(row),
            pack.part.eq(part),
            pack.numbers.eq(rows.payload),
            pack.accepted.eq(leaves),
        ]
        with m.If(moves):
            m.d.sync += part.eq(Mux(leaves, 0, part + 1))
        with m.If(leaves):
            m.d.sync += row.eq(Mux(head.ready, 0, row + 1))
        self._constants_and_overflow(m, block, kind, leaves & reaches, rows.payload)

    def _reaches(self, m, kind, block, row, inside):
        """Return whether the output uses elements of a row slot."""
        reaches = Signal()
        with m.Switch(kind):
            with m.Case(*ROW_BY_ROW, Kind.IMAGE):
                m.d.comb += reaches.eq(inside)
            with m.Case(Kind.MASK):
                m.d.comb += reaches.eq(1)
            with m.Case(Kind.ROW):
                m.d.comb += reaches.eq(inside & block.last)
            with m.Case(Kind.COLUMN):
                m.d.comb += reaches.eq((row == 0) & block.last)
            with m.Case(Kind.CONSTANT):
                m.d.comb += reaches.eq((row == 0) & block.end)
        return reaches

    def _constants_and_overflow(self, m, block, kind, leaves, numbers):
        """Output constants, and report numbers that are not finite, of a row that ``leaves``."""
        stream = Array(each.as_value() for each in self.streams)[block.stream]
        chosen = data.View(stream_layout(self.shape), stream)
        alone = one_of(kind, (Kind.ROW, Kind.CONSTANT))
        odd = [
            (not_finite(number) | ((kind == Kind.BF16) & rounds_to_infinity(number)))
            & (lane < Mux(alone, 1, block.cols))
            for lane, number in enumerate(numbers)
        ]
        m.d.comb += [
            self.constant_en.eq(leaves & (kind == Kind.CONSTANT)),
            self.constant_at.eq(chosen.address),
            self.constant.eq(numbers[0]),
            self.not_finite.eq(
                leaves & chosen.watch & ~one_of(kind, (Kind.U8, Kind.MASK)) & Cat(odd).any()
            ),
            self.not_finite_kind.eq(kind),
        ]
