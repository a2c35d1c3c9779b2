"""What a chain writes: rows of blocks to memory, to the converter, and to the constants."""

from amaranth.hdl import Array, Assert, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import WriteSignature
from diastole_hw.stream.fifo import StreamFifo
from diastole_hw.vector.float.narrow import not_finite, rounds_to_infinity
from diastole_hw.vector.stream_layouts import (
    WORD,
    VectorShape,
    given_layout,
    row_layout,
    stream_layout,
)
from diastole_hw.vector.streams.packing import Packing, one_of, segments_of
from diastole_hw.vector.streams.row_pack import RowPack, byte_ends, packing_layout
from diastole_hw.vector.streams.segments import SegmentRequests
from diastole_sim.spec.micro import CONSTANTS, OUTPUTS
from diastole_sim.spec.stream_table import Kind

DEPTH = 4
"""Blocks whose rows there is room for."""
LEAST_ROWS = 32
"""Of the queue of rows: what is deeper than sixteen is a memory."""
BY_ROWS = (Kind.F32, Kind.BF16, Kind.U8)


def image_rows(shape: VectorShape) -> int:
    """Rows by which the converter may be behind: more where it is slow, of a narrow bus, so that
    the next chain begins early."""
    return max(LEAST_ROWS, 32 * 256 // shape.data_width)


def goes_to_memory(shape: VectorShape, kind, block):
    """Whether something of ``block``, or kept of those before it, is written to memory: of a vector
    only in the last block of a line."""
    line = one_of(kind, (Kind.COLUMN, Kind.ROW)) & block.last
    return one_of(kind, BY_ROWS) | line | ((kind == Kind.MASK) & byte_ends(shape, block))


class OutputStreams(wiring.Component):
    """Write what instructions give to a chain's outputs, in the order in which they give it.

    Requests run ahead of the beats, which come in the same order; neither waits for the other. A
    request for each row of a block; of a mask and of a vector of columns for each block; of a
    vector of rows for each number. Of a mask whole blocks are written, zeros outside the tensor;
    of other outputs nothing is outside the tensor. Masks whose blocks have less than a byte are
    written byte by byte, and only by rows: a block is the last one of its line only at the end of a
    byte, or of the tensor.

    Timing: a row that came leaves 2 cycles later at the earliest; then a beat every cycle, or a row
    every cycle where it is a beat or less, or none at all. Of a block a row that is not in the
    tensor takes a cycle too. Requests as of
    :class:`diastole_hw.vector.streams.segments.SegmentRequests`, 1 cycle after ``given``.
    ``write.beats`` and ``image`` are combinational from registers and a memory's output.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    streams : In(4 times stream_layout(shape))
        Of the outputs; stable from the first block until ``idle``.
    given : In(stream of given_layout(shape))
        ``ready`` is ``room``. Not of panels.
    row_en, row : In(1), In(row_layout(shape))
        A row of a block that was given, B of each; none before its block.
    room : Out(1)
        For another block and its rows; a function of registers.
    write : Out(WriteSignature(data_width))
    image : Out(stream of row_layout(shape))
        Rows of images, B of each block, anything outside the tensor.
    constant_en, constant_at, constant : Out(1), Out(8), Out(32)
        A number for the constants.
    not_finite, not_finite_kind : Out(1), Out(4)
        A NaN or Inf goes to an output that is watched, in an element of the tensor and as it is
        stored; and the output's kind.
    idle : Out(1)
        Everything that was given has left, but rows of images.
    """

    streams: data.View
    given: stream.Interface
    row: data.View
    write: wiring.PureInterface
    image: stream.Interface

    def __init__(self, shape: VectorShape):
        self.shape = shape
        super().__init__(
            {
                "streams": In(data.ArrayLayout(stream_layout(shape), OUTPUTS)),
                "given": In(stream.Signature(given_layout(shape))),
                "row_en": In(1),
                "row": In(row_layout(shape)),
                "room": Out(1),
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
        asks = StreamFifo(given_layout(shape), 2)
        packs = StreamFifo(packing_layout(shape), DEPTH)
        rows = StreamFifo(row_layout(shape), max(DEPTH * shape.block, LEAST_ROWS))
        images = StreamFifo(row_layout(shape), image_rows(shape))
        segments, pack = SegmentRequests(shape), RowPack(shape)
        units = {"asks": asks, "packs": packs, "rows": rows, "images": images}
        units |= {"segments": segments, "pack": pack}
        for name, unit in units.items():
            m.submodules[name] = unit
        wiring.connect(m, segments.requests, wiring.flipped(self.write.requests))
        wiring.connect(m, images.o, wiring.flipped(self.image))
        given, block, taken = self.given, self.given.p.block, Signal()
        m.d.comb += [
            self.room.eq(asks.i.ready & packs.i.ready),
            given.ready.eq(self.room),
            taken.eq(given.valid & given.ready),
            asks.i.valid.eq(taken),
            asks.i.payload.eq(given.payload),
            packs.i.valid.eq(taken),
            packs.i.p.stream.eq(given.p.stream),
            rows.i.valid.eq(self.row_en),
            rows.i.payload.eq(self.row),
            self.idle.eq(~(asks.o.valid | packs.o.valid | segments.busy)),
        ]
        names = [name for name in packs.i.p.shape().members if name != "stream"]
        m.d.comb += [packs.i.p[name].eq(block[name]) for name in names]
        m.d.sync += Assert(~self.row_en | rows.i.ready, "a row of no block that was given")
        self._ask(m, asks.o, segments.blocks)
        self._rows(m, packs.o, rows.o, pack, images.i)
        return m

    def _ask(self, m, head, asks):
        """Where blocks go."""
        shape, block = self.shape, head.p.block
        chosen = Signal(stream_layout(shape))
        m.d.comb += chosen.eq(Array(each.as_value() for each in self.streams)[head.p.stream])
        segments_of(m, shape, chosen, block, asks.p)
        with m.If(chosen.kind == Kind.ROW):  # a request for each number
            m.d.comb += [asks.p.pitch.eq(WORD // 8), asks.p.rows.eq(block.rows), asks.p.beats.eq(1)]
        with m.If(chosen.kind == Kind.MASK):  # whole blocks
            m.d.comb += asks.p.beats.eq(Packing.of_mask(shape).parts)
        with m.If(goes_to_memory(shape, chosen.kind, block)):
            m.d.comb += [asks.valid.eq(head.valid), head.ready.eq(asks.ready)]
        with m.Else():
            m.d.comb += head.ready.eq(1)

    def _rows(self, m, head, rows, pack, image):
        """Rows of blocks to where they go; those of images have a queue of their own, so that the
        converter does not keep others waiting."""
        shape, block = self.shape, head.p
        row = Signal(range(shape.block))
        part = Signal.like(pack.part, name="part")
        kind, valid, inside = Signal(4), Signal(), Signal()
        emits = Signal()  # the row has a beat
        reaches = self._reaches(m, kind, block, row, inside)
        moves, leaves = Signal(), Signal()  # its beat or itself; the row as a whole
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
            pack.taken.eq(leaves),
        ]
        with m.If(moves):
            m.d.sync += part.eq(Mux(leaves, 0, part + 1))
        with m.If(leaves):
            m.d.sync += row.eq(Mux(head.ready, 0, row + 1))
        self._notice(m, block, kind, leaves & reaches, rows.payload)

    def _reaches(self, m, kind, block, row, inside):
        """Whether something of a row slot is for the output."""
        reaches = Signal()
        with m.Switch(kind):
            with m.Case(*BY_ROWS, Kind.IMAGE):
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

    def _notice(self, m, block, kind, leaves, numbers):
        """Numbers of a row that ``leaves`` for an output: constants, and what is not finite."""
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
