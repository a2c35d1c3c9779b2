"""Last step of the converter: exponents, mantissas and maxima to the writer."""

from amaranth.hdl import Array, Module, Signal, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole.bus.service import request_layout, write_beat_layout
from diastole.convert.geometry import Geometry
from diastole.convert.intake import measured_layout
from diastole.convert.maxima import ColumnMaxima, RowMaxima
from diastole.emit.place import place
from diastole.plan import ADDRESS_BITS
from diastole_sim.program.image import GROUP_BLOCKS


class Output(wiring.Component):
    """Write the groups of an image in their order, and its maxima.

    A group is one request: its exponent beats, then its mantissa beats. The beats of row_max are
    written as they fill, col_max after the last group. Every strobe is set: pads are zeros.

    Timing: 1 cycle per group besides its beats, and 1 where it ends a beat of row_max.
    ``request.valid`` and ``o.valid`` do not depend on their ``ready``.

    Parameters
    ----------
    block, data_width : int
        Block side and bits of a beat, as in :class:`Geometry`.
    mantissa_bits : tuple of 3 int
        Magnitude bits of the classes x, w and dy.
    max_col_blocks : int
        Most columns of blocks of a tensor, at least 1. More are not checked for, and give wrong
        col_max.

    Members
    -------
    start : In(1)
        Begin an image.
    cls : In(2)
    rows, cols : In(32)
    destination : In(40)
        As in :class:`Converter`; must hold until ``done``.
    i : In(stream of :func:`measured_layout`)
    mantissas : In(stream of unsigned(data_width))
        The beats of the groups' mantissa fields.
    request : Out(stream of {"addr": unsigned(40), "beats": unsigned(16)})
    o : Out(stream of {"data": unsigned(data_width), "strb": unsigned(data_width // 8)})
    done : Out(1)
        A pulse when the last beat is taken.
    """

    def __init__(self, *, block: int, data_width: int, mantissa_bits: tuple, max_col_blocks: int):
        self.geometry = Geometry(block=block, data_width=data_width)
        self.block, self.data_width = block, data_width
        self.mantissa_bits = tuple(mantissa_bits)
        self.max_col_blocks = max_col_blocks
        super().__init__(
            {
                "start": In(1),
                "cls": In(2),
                "rows": In(32),
                "cols": In(32),
                "destination": In(ADDRESS_BITS),
                "i": In(stream.Signature(measured_layout(block))),
                "mantissas": In(stream.Signature(unsigned(data_width))),
                "request": Out(stream.Signature(request_layout())),
                "o": Out(stream.Signature(write_beat_layout(data_width))),
                "done": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sizes = self.geometry
        width = sizes.data_width
        depth = max(2, -(-self.max_col_blocks // GROUP_BLOCKS))
        rows = RowMaxima(data_width=width)
        columns = ColumnMaxima(data_width=width, depth=depth)
        m.submodules.row_maxima = place(rows, platform)
        m.submodules.column_maxima = place(columns, platform)
        self._connect_maxima(m, rows, columns)

        beats = Signal(16)
        mantissa_beats = [sizes.mantissa_beats(bits) for bits in self.mantissa_bits]
        m.d.comb += beats.eq(Array(mantissa_beats)[self.cls])
        address = Signal(ADDRESS_BITS)
        row_address = Signal(ADDRESS_BITS)
        located = self._locate_rows(m, row_address, rows.o.valid & rows.o.ready)
        with m.If(self.start):
            m.d.sync += address.eq(self.destination)

        m.d.comb += self.o.p.strb.eq(~0)
        count = Signal(16)
        last = Signal()
        with m.FSM():
            with m.State("request"):
                m.d.comb += [self.request.valid.eq(self.i.valid), self.request.p.addr.eq(address)]
                m.d.comb += self.request.p.beats.eq(beats + sizes.exponent_beats)
                with m.If(self.i.valid & self.request.ready):
                    m.d.comb += [rows.add.eq(1), columns.add.eq(1)]
                    m.d.sync += address.eq(address + self._bytes(self.request.p.beats))
                    m.d.sync += [count.eq(0), last.eq(self.i.p.group.last)]
                    m.next = "exponents"
            with m.State("exponents"):
                exponents = self.i.p.exponents.as_value()
                m.d.comb += [self.o.valid.eq(1), self.o.p.data.eq(exponents)]
                if sizes.exponent_beats > 1:
                    m.d.comb += self.o.p.data.eq(exponents.word_select(count[0], width))
                with m.If(self.o.ready):
                    m.d.sync += count.eq(count + 1)
                    with m.If(count == sizes.exponent_beats - 1):
                        m.d.comb += self.i.ready.eq(1)
                        m.d.sync += count.eq(0)
                        m.next = "mantissas"
            with m.State("mantissas"):
                m.d.comb += self.o.valid.eq(self.mantissas.valid)
                m.d.comb += self.o.p.data.eq(self.mantissas.payload)
                m.d.comb += self.mantissas.ready.eq(self.o.ready)
                with m.If(self.o.valid & self.o.ready):
                    m.d.sync += count.eq(count + 1)
                    with m.If(count == beats - 1):
                        m.next = "request"
                        with m.If(rows.o.valid):
                            m.next = "row request"
            with m.State("row request"):
                m.d.comb += [self.request.valid.eq(located), self.request.p.beats.eq(1)]
                m.d.comb += self.request.p.addr.eq(row_address)
                with m.If(self.request.valid & self.request.ready):
                    m.next = "row maxima"
            with m.State("row maxima"):
                m.d.comb += [self.o.valid.eq(1), self.o.p.data.eq(rows.o.payload)]
                m.d.comb += rows.o.ready.eq(self.o.ready)
                with m.If(self.o.ready):
                    m.next = "request"
                    with m.If(last):
                        m.next = "column request"
            with m.State("column request"):
                m.d.comb += [self.request.valid.eq(1), self.request.p.addr.eq(row_address)]
                m.d.comb += self.request.p.beats.eq(columns.beats)
                with m.If(self.request.ready):
                    m.d.comb += columns.drain.eq(1)
                    m.next = "column maxima"
            with m.State("column maxima"):
                m.d.comb += self.o.valid.eq(columns.o.valid)
                m.d.comb += self.o.p.data.eq(columns.o.p.data)
                m.d.comb += columns.o.ready.eq(self.o.ready)
                with m.If(self.o.valid & self.o.ready & columns.o.p.last):
                    m.d.comb += self.done.eq(1)
                    m.next = "request"
        return m

    def _bytes(self, beats):
        return beats << exact_log2(self.geometry.beat_bytes)

    def _connect_maxima(self, m, rows, columns):
        shift = exact_log2(self.geometry.block) + exact_log2(self.geometry.beat_bytes)
        m.d.comb += [
            rows.exponents.eq(self.i.p.exponents),
            rows.last_group.eq(self.i.p.group.last_group),
            rows.last.eq(self.i.p.group.last),
            columns.exponents.eq(self.i.p.exponents),
            columns.first_row.eq(self.i.p.group.first_row),
            columns.last_group.eq(self.i.p.group.last_group),
            columns.beats.eq((self.cols + (2**shift - 1)) >> shift),
        ]

    def _locate_rows(self, m, row_address, taken):
        """Where row_max begins: after rows of blocks times groups times beats; then beat by beat.

        One bit of the number of rows of blocks per cycle, while the first group is read.
        """
        block_shift = exact_log2(self.geometry.block)
        group_shift = exact_log2(self.geometry.group_cols)
        row_bytes = Signal(ADDRESS_BITS)
        left = Signal(32)
        beats = Array(
            self.geometry.mantissa_beats(bits) + self.geometry.exponent_beats
            for bits in self.mantissa_bits
        )[self.cls]
        groups = (self.cols + (2**group_shift - 1)) >> group_shift
        with m.If(left.any()):
            m.d.sync += [left.eq(left >> 1), row_bytes.eq(row_bytes << 1)]
            with m.If(left[0]):
                m.d.sync += row_address.eq(row_address + row_bytes)
        with m.Elif(taken):
            m.d.sync += row_address.eq(row_address + self.geometry.beat_bytes)
        with m.If(self.start):
            m.d.sync += left.eq((self.rows + (2**block_shift - 1)) >> block_shift)
            m.d.sync += row_bytes.eq(self._bytes(groups * beats))
            m.d.sync += row_address.eq(self.destination)
        return ~left.any()
