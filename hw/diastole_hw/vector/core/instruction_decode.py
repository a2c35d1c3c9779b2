"""Decode an instruction word for a block."""

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.binary32 import INFINITY
from diastole_hw.vector.core.descriptor_check import instruction_layout
from diastole_hw.vector.core.entry import NOTHING, PANEL, entry_layout
from diastole_hw.vector.stream_layouts import VectorShape, is_special, stream_layout, visited_layout
from diastole_sim.spec.micro import (
    INPUTS,
    MICRO_BITS,
    NEUTRAL,
    NO_OUTPUT,
    NO_REGISTER,
    USES,
    MicroOp,
    Source,
    When,
)
from diastole_sim.spec.stream_table import STREAMS, Kind, PanelOrder

_SIGN = 1 << 31


class Decode(wiring.Component):
    """Decode instruction ``word`` for ``block`` into an entry, without the constant.

    Operands that the operation does not have are decoded as +0. A panel with ``aux`` 3 is decoded
    as +0 in the first row of blocks. Vector numbers of the panel are cut to the low bits, because
    streams that leave the panel are refused before a chain starts.

    Timing: combinational.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    word : In(64)
    block : In(:func:`visited_layout`)
    streams : In(8 of :func:`stream_layout`)
    holds : Out(1)
        ``when`` of the instruction holds in the block.
    entry : Out(:func:`entry_layout`)
    """

    def __init__(self, shape: VectorShape):
        self.shape = shape
        super().__init__(
            {
                "word": In(MICRO_BITS),
                "block": In(visited_layout(shape)),
                "streams": In(data.ArrayLayout(stream_layout(shape), STREAMS)),
                "holds": Out(1),
                "entry": Out(entry_layout(shape)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        word = data.View(instruction_layout(), self.word)
        special = is_special(word.op)
        m.d.comb += [
            self.holds.eq(is_done_in(word.when, self.block)),
            self.entry.op.eq(word.op),
            self.entry.special.eq(special),
            self.entry.writes.eq(word.d != NO_REGISTER),
            self.entry.d.eq(word.d),
            self.entry.o.eq(word.o),
            self.entry.turn_lanes.eq((Const(1) << word.turn_lanes) >> 1),
            self.entry.turn_rows.eq((Const(1) << word.turn_rows) >> 1),
            self.entry.fresh.eq(word.fresh & self.block.first),
            self.entry.keep.eq(word.keep),
        ]
        self._neutral(m, word.op)
        self._operands(m, word, special)
        self._output(m, word)
        return m

    def _neutral(self, m, op):
        """Set sign and magnitude of the operation's neutral element."""
        with m.Switch(op):
            for code, pattern in NEUTRAL.items():
                with m.Case(code):
                    m.d.comb += self.entry.infinite.eq(pattern & INFINITY == INFINITY)
                    m.d.comb += self.entry.negative.eq(bool(pattern & _SIGN))

    def _operands(self, m, word, special):
        """Decode the sources of a, b and c, and the single stream of the panel, if any."""
        sources = {"a": word.a, "b": Mux(special, word.a, word.b), "c": word.c}
        negate = {
            "a": word.negate_a & ~special,
            "b": Mux(special, word.negate_a, word.negate_b),
            "c": word.negate_c,
        }
        panel_input = Signal(range(INPUTS))  # number of the input stream in the panel
        for letter, source in sources.items():
            used, stream = Signal(name=f"used_{letter}"), Signal(name=f"stream_{letter}")
            number = source[:2]
            of_panel = self.streams[number].kind == Kind.PANEL
            operand = self.entry[letter]
            m.d.comb += [
                used.eq(special if letter == "b" else 0),
                stream.eq(used & (source >= Source.S0) & (source <= Source.S3)),
                operand.source.eq(Mux(used, source, NOTHING)),
                operand.negate.eq(negate[letter]),
            ]
            with m.Switch(word.op):
                uses = [op for op in MicroOp if letter in USES[op] and op < MicroOp.EXP]
                with m.Case(*uses):
                    m.d.comb += used.eq(1)
            with m.If(stream & of_panel):
                m.d.comb += [panel_input.eq(number), operand.source.eq(PANEL)]
                with m.If(self._is_zero(self.streams[number])):
                    m.d.comb += operand.source.eq(NOTHING)
                with m.Else():
                    m.d.comb += self.entry.from_panel.eq(1)
            with m.Elif(stream):
                m.d.comb += self.entry.streams.bit_select(number, 1).eq(1)
        m.d.comb += self.entry.panel_read.eq(self._vector(m, self.streams[panel_input], "read"))

    def _is_zero(self, stream):
        """Return whether a stream of the panel reads +0 in the current block."""
        return self.block.first_row & (stream.aux == PanelOrder.BLOCK_COLUMN_ZERO_FIRST)

    def _output(self, m, word):
        """Decode the output: none, a stream, or the panel."""
        has_output, stream = Signal(), self.streams[INPUTS + word.o[:2]]
        of_panel = stream.kind == Kind.PANEL
        m.d.comb += [
            has_output.eq(word.o != NO_OUTPUT),
            self.entry.writes_output.eq(has_output & ~of_panel),
            self.entry.to_panel.eq(has_output & of_panel),
            self.entry.panel_write.eq(self._vector(m, stream, "write")),
        ]

    def _vector(self, m, stream, name):
        """Return the number of the block's first vector in the panel."""
        bits = max(0, self.shape.panel_bits - self.shape.row_bits)
        number, pitch = Signal(bits, name=f"block_{name}"), Signal(bits, name=f"pitch_{name}")
        row, column = (Signal(bits, name=f"{axis}_{name}") for axis in ("row", "column"))
        m.d.comb += [pitch.eq(stream.pitch), row.eq(self.block.i), column.eq(self.block.j)]
        with m.Switch(stream.aux):
            with m.Case(PanelOrder.BLOCK):
                m.d.comb += number.eq(row * pitch + column)
            with m.Case(PanelOrder.BLOCK_ROW):
                m.d.comb += number.eq(row)
            with m.Default():
                m.d.comb += number.eq(column)
        return stream.address + (number << self.shape.row_bits)


def is_done_in(when, block):
    """Return whether an instruction with this ``when`` is executed in a block."""
    last, first = block.last, block.first
    return (
        (when == When.ALWAYS)
        | ((when == When.LAST) & last)
        | ((when == When.FIRST) & first)
        | ((when == When.NOT_LAST) & ~last)
    )
