"""The order in which the converter reads a tensor: tiles, and the requests for their rows."""

from amaranth.hdl import Assert, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.bus.services import request_layout
from diastole_hw.convert.by_class import by_class
from diastole_hw.convert.order import TileOrder, cut_layout, follow_tiles
from diastole_hw.convert.tile_index import of_tile_rows
from diastole_hw.random.draws import INDEX_BITS
from diastole_hw.registers import data_register
from diastole_hw.transfer.address import whole_beats
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.image import EXTENT_BITS, PITCH_BITS
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.sizes.converter import ConverterSizes


def walked_layout(sizes: ConverterSizes) -> data.StructLayout:
    """One tile, clipped to the tensor.

    ``address``: of its first float, bytes. ``index``: of its first element in the tensor.
    ``rows``, ``cols``: how many lie in the tensor. ``first_row``, ``first_col``, ``last_row``,
    ``last_col``: it lies in the first or last row or column of tiles.
    """
    return data.StructLayout(
        {
            "address": unsigned(ADDRESS_BITS),
            "index": unsigned(INDEX_BITS),
            "rows": range(sizes.max_tile_rows + 1),
            "cols": range(sizes.max_tile_cols + 1),
            "first_row": 1,
            "first_col": 1,
            "last_row": 1,
            "last_col": 1,
        }
    )


def asked_layout(sizes: ConverterSizes) -> data.StructLayout:
    """What is needed of it to ask for its data."""
    members = walked_layout(sizes).members
    return data.StructLayout({name: members[name] for name in ("address", "rows", "cols")})


def tile_layout(sizes: ConverterSizes) -> data.StructLayout:
    """What is needed of it when they come; ``address`` is that in the beat."""
    in_beat = {"address": unsigned(exact_log2(sizes.beat_bytes))}
    return data.StructLayout(dict(walked_layout(sizes).members) | in_beat)


def waiting_tile_layout(sizes: ConverterSizes, *, in_patches: bool) -> data.StructLayout:
    """A tile in a queue: with its index only where tensors may come in patches."""
    members = tile_layout(sizes).members.items()
    kept = {name: shape for name, shape in members if in_patches or name != "index"}
    return data.StructLayout(kept)


class TensorWalk(wiring.Component):
    """Visit the tiles of a tensor, row of tiles by row of tiles, or patch by patch.

    Timing: the first tile is valid in the cycle after ``start``; one tile per cycle. ``o.valid`` is
    a register, ``o.payload`` combinational from registers and ``cls``.

    Parameters
    ----------
    numerics : Numerics
    data_width : int
        As in :class:`ConverterSizes`, which has the sizes of each class's tiles.
    in_patches : bool
        Tensors may come so, from a chain.

    Members
    -------
    start : In(1)
        Begin a tensor; only while no tile is left of the one before, not checked.
    cls : In(2)
    rows, cols : In(24)
        At least 1; not checked. Must hold until the last tile is taken, as must the others.
    source : In(40)
        Address of the float tensor, aligned to beats.
    pitch : In(27)
        Bytes from one row of floats to the next.
    cut : In(:func:`diastole_hw.convert.order.cut_layout`)
        With ``in_patches``, as ``rows``; ``address`` is anything where the tensor is cut.
    o : Out(stream of :func:`walked_layout`)
        ``index`` is there with ``in_patches``; else
        :class:`diastole_hw.convert.tile_index.TileIndex` counts it.
    """

    def __init__(self, *, numerics: Numerics, data_width: int, in_patches: bool = False):
        self.numerics, self.data_width, self.in_patches = numerics, data_width, in_patches
        self.geometry = ConverterSizes(numerics=numerics, data_width=data_width)
        super().__init__(
            ({"cut": In(cut_layout())} if in_patches else {})
            | {
                "start": In(1),
                "cls": In(2),
                "rows": In(EXTENT_BITS),
                "cols": In(EXTENT_BITS),
                "source": In(ADDRESS_BITS),
                "pitch": In(PITCH_BITS),
                "o": Out(stream.Signature(walked_layout(self.geometry))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sizes = self.geometry
        tile_rows = by_class(m, self.cls, sizes.of_classes(sizes.tile_rows), "tile_rows")
        tile_cols = by_class(m, self.cls, sizes.of_classes(sizes.tile_cols), "tile_cols")
        (self._by_patches if self.in_patches else self._by_rows)(m, tile_rows, tile_cols)
        some = self.rows.any() & self.cols.any()
        m.d.sync += Assert(~self.start | ~self.o.valid, "started with tiles left")
        m.d.sync += Assert(~self.start | some, "started without elements")
        return m

    def _by_rows(self, m, tile_rows, tile_cols):
        """The tiles row by row, from left to right."""
        sizes = self.geometry
        aligned = min(4 * min(sizes.of_classes(sizes.tile_cols)), sizes.beat_bytes)  # every tile

        def whole(value):
            return whole_beats(value, aligned)

        rows_left = data_register(EXTENT_BITS)
        cols_left = data_register(EXTENT_BITS)
        row_address = data_register(ADDRESS_BITS)
        address = data_register(ADDRESS_BITS)
        first_row = data_register()
        first_col = data_register()
        tile = self.o.p
        m.d.comb += [
            tile.first_row.eq(first_row),
            tile.first_col.eq(first_col),
            tile.address.eq(address),
            tile.rows.eq(Mux(tile.last_row, rows_left, tile_rows)),
            tile.cols.eq(Mux(tile.last_col, cols_left, tile_cols)),
            tile.last_row.eq(rows_left <= tile_rows),
            tile.last_col.eq(cols_left <= tile_cols),
        ]
        row_bytes = of_tile_rows(m, sizes, self.cls, self.pitch, "pitch")
        next_address = (row_address + row_bytes)[:ADDRESS_BITS]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [
                cols_left.eq(cols_left - tile_cols),
                address.eq(whole(address + (tile_cols << 2))),
                first_col.eq(0),
            ]
            with m.If(tile.last_col):
                m.d.sync += [rows_left.eq(rows_left - tile_rows), cols_left.eq(self.cols)]
                m.d.sync += [row_address.eq(whole(next_address)), address.eq(whole(next_address))]
                m.d.sync += [first_row.eq(0), first_col.eq(1)]
                with m.If(tile.last_row):
                    m.d.sync += self.o.valid.eq(0)
        with m.If(self.start):
            m.d.sync += [rows_left.eq(self.rows), cols_left.eq(self.cols)]
            m.d.sync += [row_address.eq(whole(self.source)), address.eq(whole(self.source))]
            m.d.sync += [first_row.eq(1), first_col.eq(1), self.o.valid.eq(1)]

    def _by_patches(self, m, tile_rows, tile_cols):
        """The tiles in the order of a chain."""
        m.submodules.order = order = TileOrder()
        tile = self.o.p
        row_bytes = of_tile_rows(m, self.geometry, self.cls, self.pitch, "pitch")
        row_elements = of_tile_rows(m, self.geometry, self.cls, self.cols)
        rows_left, _ = follow_tiles(m, order, self.rows, 0, -tile_rows, "rows_left")
        cols_left, _ = follow_tiles(m, order, self.cols, -tile_cols, 0, "cols_left")
        origin = Const(0, INDEX_BITS)
        index, _ = follow_tiles(m, order, origin, tile_cols, row_elements, "index")
        address, _ = follow_tiles(m, order, self.source, tile_cols << 2, row_bytes, "address")
        m.d.comb += [
            order.start.eq(self.start),
            order.cut.eq(self.cut),
            order.taken.eq(self.o.valid & self.o.ready),
            order.last_row.eq(tile.last_row),
            order.last_col.eq(tile.last_col),
            tile.first_row.eq(order.first_row),
            tile.first_col.eq(order.first_col),
            tile.address.eq(address),
            tile.index.eq(index),
            tile.rows.eq(Mux(tile.last_row, rows_left, tile_rows)),
            tile.cols.eq(Mux(tile.last_col, cols_left, tile_cols)),
            tile.last_row.eq(rows_left <= tile_rows),
            tile.last_col.eq(cols_left <= tile_cols),
        ]
        with m.If(order.taken & tile.last_row & tile.last_col):
            m.d.sync += self.o.valid.eq(0)
        with m.If(self.start):
            m.d.sync += self.o.valid.eq(1)


class ReadRequests(wiring.Component):
    """Ask the reader for the row segments of a tile, piece by piece, those rows only that lie in
    the tensor.

    A segment is read in whole beats; where it is shorter than a beat, the beat that it lies in.

    Timing: one request per cycle, combinational from the tile at the input.

    Parameters
    ----------
    numerics : Numerics
    data_width : int
        As in :class:`ConverterSizes`.

    Members
    -------
    cls : In(2)
        Must hold while there is a tile.
    i : In(stream of :func:`asked_layout`)
    pitch : In(27)
        Bytes from one row of floats to the next, a multiple of the beat; not checked.
    o : Out(stream of {"addr": unsigned(40), "beats": unsigned(16)})
    """

    def __init__(self, *, numerics: Numerics, data_width: int):
        self.numerics, self.data_width = numerics, data_width
        self.geometry = ConverterSizes(numerics=numerics, data_width=data_width)
        super().__init__(
            {
                "cls": In(2),
                "i": In(stream.Signature(asked_layout(self.geometry))),
                "pitch": In(PITCH_BITS),
                "o": Out(stream.Signature(request_layout())),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sizes = self.geometry
        beat_shift = exact_log2(sizes.beat_bytes)
        floats = sizes.floats
        row = Signal(range(sizes.max_tile_rows + 1))
        offset = Signal(range(sizes.max_tile_rows << PITCH_BITS))
        address = Signal(ADDRESS_BITS)
        m.d.comb += address.eq(self.i.p.address + offset)
        m.d.comb += self.o.p.addr[beat_shift:].eq(address[beat_shift:])
        column = Signal(range(sizes.max_tile_cols))  # the piece's first
        below = Signal(range(sizes.max_tile_cols + 1))  # and that of the next one
        cols = Signal.like(self.i.p.cols)
        last_piece = Signal()
        if any(sizes.in_pieces):
            piece = by_class(m, self.cls, sizes.of_classes(sizes.piece_cols), "piece_cols")
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
