"""Select the operands of the lanes: sources, lane permutation, signs, and a replacement of c."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.binary32 import INFINITY, ONE, negated
from diastole_hw.data_registers import data_register
from diastole_hw.vector.core.entry import PANEL, is_register
from diastole_hw.vector.core.issue import issued_layout
from diastole_hw.vector.core.positions import PositionBase, place_number, places_layout
from diastole_hw.vector.core.register_file import PORTS
from diastole_hw.vector.stream_layouts import WORD, VectorShape, row_layout
from diastole_sim.spec.micro import INPUTS, OP_BITS, MicroOp, Source

ROW_SOURCES = ("register", "result", "s0", "s1", "s2", "s3", "panel")
"""Sources that are a row of numbers. An operand selects 1 of the rows."""


class Operands(wiring.Component):
    """Output the operands of a row of a slot.

    An operand is first selected by the operand's source. Then c is taken from the lane at XOR
    distance ``turn_lanes``. The sign of an operand may be flipped, but not the sign of NaN. A fresh
    c is replaced by the neutral element. ``keep`` marks the lanes outside the tensor if the
    instruction keeps c outside the tensor. A special instruction is executed as a ``mov`` of a.

    Timing: ``registers``, ``results``, ``streams`` and ``panel`` are read 1 cycle after ``slot``
    and ``row``. The outputs are valid 2 cycles after ``slot`` and ``row``.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    slot, row : In(:func:`issued_layout`), In(range(B))
    registers, results : In(array of 3 :func:`row_layout`)
        Rows for operands a, b and c.
    streams : In(array of 4 :func:`row_layout`)
        Elements outside the tensor are +0.
    panel : In(:func:`row_layout`)
    op : Out(5)
    a, b, c : Out(:func:`row_layout`)
    keep : Out(B)
    """

    def __init__(self, shape: VectorShape):
        self.shape = shape
        row = row_layout(shape)
        super().__init__(
            {
                "slot": In(issued_layout(shape)),
                "row": In(range(shape.block)),
                "registers": In(data.ArrayLayout(row, PORTS)),
                "results": In(data.ArrayLayout(row, PORTS)),
                "streams": In(data.ArrayLayout(row, INPUTS)),
                "panel": In(row),
                "op": Out(OP_BITS),
                "a": Out(row),
                "b": Out(row),
                "c": Out(row),
                "keep": Out(shape.block),
            }
        )

    def elaborate(self, platform):
        m = Module()
        lanes = self.shape.block
        entry = self.slot.entry
        inside, op, keeps = data_register(lanes), data_register(OP_BITS), data_register()
        in_row = self.row < self.slot.rows
        m.d.sync += [
            inside.eq(Cat(in_row & (lane < self.slot.cols) for lane in range(lanes))),
            op.eq(Mux(entry.special, MicroOp.MOV, entry.op)),
            keeps.eq(entry.keep),
        ]
        row, columns = self._places(m)
        for number, letter in enumerate("abc"):
            chosen = self._choose(m, number, letter, inside, row, columns)
            if letter == "c":
                chosen = self._permuted(m, chosen)
            self._finish(m, letter, chosen)
        registered_keep, registered_op = data_register(lanes), data_register(OP_BITS)
        m.d.sync += [registered_keep.eq(keeps.replicate(lanes) & ~inside), registered_op.eq(op)]
        m.d.comb += [self.keep.eq(registered_keep), self.op.eq(registered_op)]
        return m

    def _places(self, m):
        """Return the row's number as a float, and, for the next cycle, the numbers of the
        columns."""
        rows, columns = PositionBase(self.shape), PositionBase(self.shape)
        m.submodules.rows = rows
        m.submodules.columns = columns
        first = data_register(places_layout())
        m.d.comb += [rows.index.eq(self.slot.i), columns.index.eq(self.slot.j)]
        m.d.sync += first.eq(columns.o)
        numbers = range(self.shape.block)
        row = Array(place_number(rows.o, number) for number in numbers)[self.row]
        return row, [place_number(first, number) for number in numbers]

    def _choose(self, m, number, letter, inside, row, columns):
        """Return an operand per lane. The select bits were registered in the previous cycle."""
        operand = self.slot.entry[letter]
        source, renamed = operand.source, self.slot.renamed[number]
        scalar = data_register(WORD, name=f"scalar_{letter}")
        only_inside = data_register(name=f"inside_{letter}")
        by_column = data_register(name=f"column_{letter}")
        of = data_register(len(ROW_SOURCES), name=f"of_{letter}")
        streams = [source == Source.S0 + stream for stream in range(INPUTS)]
        m.d.sync += [
            of.eq(Cat(is_register(operand) & ~renamed, renamed, *streams, source == PANEL)),
            by_column.eq(source == Source.COLUMN),
            only_inside.eq(source == Source.INSIDE),
            scalar.eq(0),
        ]
        with m.Switch(source):
            with m.Case(Source.CONSTANT):
                m.d.sync += scalar.eq(self.slot.entry.constant)
            with m.Case(Source.ONE, Source.INSIDE):
                m.d.sync += scalar.eq(ONE)
            with m.Case(Source.ROW):
                m.d.sync += scalar.eq(row)
        rows = [self.registers[number], self.results[number], *self.streams, self.panel]
        chosen = []
        for lane in range(self.shape.block):
            value = Signal(WORD, name=f"{letter}_{lane}")
            element = Mux(only_inside & ~inside[lane], 0, scalar) | Mux(by_column, columns[lane], 0)
            for bit, each in zip(of, rows, strict=True):
                element = element | Mux(bit, each[lane], 0)
            m.d.comb += value.eq(element)
            chosen.append(value)
        return chosen

    def _permuted(self, m, values):
        """Return, for every lane, the value of the lane at XOR distance ``turn_lanes``."""
        distance = data_register(self.slot.entry.turn_lanes.shape(), name="distance")
        m.d.sync += distance.eq(self.slot.entry.turn_lanes)
        permuted = []
        for lane in range(self.shape.block):
            value = Signal(WORD, name=f"permuted_{lane}")
            m.d.comb += value.eq(values[lane])
            for bit in range(self.shape.row_bits):
                with m.If(distance[bit]):
                    m.d.comb += value.eq(values[lane ^ (1 << bit)])
            permuted.append(value)
        return permuted

    def _finish(self, m, letter, values):
        """Apply the sign, and replace a fresh c by the neutral element."""
        entry = self.slot.entry
        negate = data_register(name=f"negate_{letter}")
        finished = data_register(row_layout(self.shape), name=f"row_{letter}")
        m.d.sync += negate.eq(entry[letter].negate)
        m.d.sync += [finished[lane].eq(negated(value, negate)) for lane, value in enumerate(values)]
        m.d.comb += getattr(self, letter).eq(finished)
        if letter == "c":
            fresh, neutral = data_register(), data_register(WORD)
            infinity = Const(INFINITY, WORD - 1) & entry.infinite.replicate(WORD - 1)
            m.d.sync += [fresh.eq(entry.fresh), neutral.eq(Cat(infinity, entry.negative))]
            with m.If(fresh):
                m.d.sync += [lane.eq(neutral) for lane in finished]
