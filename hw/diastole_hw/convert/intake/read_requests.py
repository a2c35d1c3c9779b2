"""Request the data of a tile from memory: one request for every row of a piece."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.bus.services import request_layout
from diastole_hw.convert.by_class import by_class
from diastole_hw.convert.tile_layouts import requested_layout
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.image import PITCH_BITS
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes


class ReadRequests(wiring.Component):
    """Request the row segments of a tile from the reader, piece by piece (a piece is a range of
    columns of the tile). Rows outside the tensor are not requested.

    A segment is read in whole beats. If a segment is shorter than a beat, the whole beat is read.

    Timing: 1 request per cycle, combinational from the tile at the input.

    Parameters
    ----------
    sizes : ConverterSizes

    Members
    -------
    cls : In(2)
        Must hold while a tile is offered.
    i : In(stream of :func:`requested_layout`)
    pitch : In(27)
        Bytes from a row of floats to the next, a multiple of the beat; not checked.
    o : Out(stream of {"addr": unsigned(40), "beats": unsigned(16)})
    """

    def __init__(self, sizes: ConverterSizes):
        self.sizes = sizes
        super().__init__(
            {
                "cls": In(2),
                "i": In(stream.Signature(requested_layout(self.sizes))),
                "pitch": In(PITCH_BITS),
                "o": Out(stream.Signature(request_layout())),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sizes = self.sizes
        beat_shift = exact_log2(sizes.beat_bytes)
        floats = sizes.floats
        row = Signal(range(sizes.max_tile_rows + 1))
        offset = Signal(range(sizes.max_tile_rows << PITCH_BITS))
        address = Signal(ADDRESS_BITS)
        m.d.comb += address.eq(self.i.p.address + offset)
        m.d.comb += self.o.p.addr[beat_shift:].eq(address[beat_shift:])
        column = Signal(range(sizes.max_tile_cols))  # first column of the piece
        below = Signal(range(sizes.max_tile_cols + 1))  # first column of the next piece
        cols = Signal.like(self.i.p.cols)
        last_piece = Signal()
        if any(sizes.in_pieces):
            piece = by_class(m, self.cls, sizes.by_class(sizes.piece_cols), "piece_cols")
            m.d.comb += [
                below.eq(column + piece),
                last_piece.eq(below >= self.i.p.cols),
                cols.eq(Mux(last_piece, self.i.p.cols - column, piece)),
            ]
        else:
            m.d.comb += [last_piece.eq(1), cols.eq(self.i.p.cols)]
        m.d.comb += self.o.p.beats.eq((cols + (floats - 1)) >> exact_log2(floats))
        m.d.comb += self.o.valid.eq(self.i.valid)
        last_row = row + 1 == self.i.p.rows
        m.d.comb += self.i.ready.eq(self.o.ready & last_row & last_piece)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [row.eq(row + 1), offset.eq(offset + self.pitch)]
            with m.If(last_row):
                m.d.sync += [row.eq(0), column.eq(below), offset.eq(below << 2)]
                with m.If(last_piece):
                    m.d.sync += [column.eq(0), offset.eq(0)]
        return m
