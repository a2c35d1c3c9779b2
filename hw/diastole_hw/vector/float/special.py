"""Special lane of the vector unit: exp, rcp, rsq, and the three parts of a logarithm."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.binary32 import FRACTION_BITS, QUIET, TOP
from diastole_hw.carry_save import quick_sum
from diastole_hw.data_registers import data_output, data_register
from diastole_hw.memory.round_sum import normalised
from diastole_hw.vector.float.booth_rows import square_rows, two_rows
from diastole_hw.vector.float.function_rows import (
    C0_BITS,
    C1_BITS,
    C2_BITS,
    INDEX_BITS,
    FunctionRows,
    TableOf,
)
from diastole_hw.vector.float.parabola import ARGUMENT_BITS, Parabola
from diastole_hw.vector.float.special_argument import (
    EXP_FRACTION_BITS,
    EXPONENT_BITS,
    LINEAR_BITS,
    VALUE_WIDTH,
    SpecialArgument,
)
from diastole_hw.vector.stream_layouts import WORD
from diastole_sim.spec.functions import SQUARE_BITS, VALUE_BITS
from diastole_sim.spec.micro import OP_BITS

PLACED = {"table": 3, "halved": 1, "negative": 1, "signed_zero": 1, "nan": 1}
"""Fields, with bits, that accompany the argument of a function up to the last stage."""
ENDING = {name: bits for name, bits in PLACED.items() if name != "table"}


class SpecialLane(wiring.Component):
    """Compute ``result``, a special function of ``a``, bit-exact to the golden model.

    Timing: ``latency`` cycles, 1 result per cycle, functions in any sequence. Stages: split the
    operand; find the place in a table; read the row, and square the argument; multiply twice; add,
    and assemble the result. There is no valid bit: the user delays a valid bit alongside.

    Members
    -------
    op : In(5)
        A MicroOp, ``exp`` to ``lgg``. Codes outside the range give an arbitrary result.
    a, result : In(32), Out(32)
    """

    op: In(OP_BITS)
    a: In(WORD)
    result: Out(WORD)

    latency = SpecialArgument.latency + 2 + Parabola.latency + 1

    def elaborate(self, platform):
        m = Module()
        argument, rows, parabola = SpecialArgument(), FunctionRows(), Parabola()
        m.submodules.argument = argument
        m.submodules.rows = rows
        m.submodules.parabola = parabola
        m.d.comb += [argument.op.eq(self.op), argument.a.eq(self.a)]
        exponent = signed(EXPONENT_BITS)
        placed = data_register(
            data.StructLayout({"place": ARGUMENT_BITS + INDEX_BITS, "exponent": exponent} | PLACED)
        )
        self._find(m, placed, argument.argument)
        read = data_register(data.StructLayout({"exponent": exponent} | ENDING))
        self._read(m, rows, parabola, placed)
        ending = data_register(read.shape())
        for name in read.shape().members:
            m.d.sync += [read[name].eq(placed[name]), ending[name].eq(read[name])]
        self._end(m, ending, parabola.value)
        return m

    @staticmethod
    def _find(m, placed, argument):
        """Find the place in a table. Without a table, normalise the magnitude, and align the
        fraction with the fraction of c0."""
        width = VALUE_WIDTH + 1  # with a sign
        shifted = Signal(width, name="whole")
        m.d.comb += shifted.eq(quick_sum(m, argument.value, argument.carries, argument.carry))
        for level in range(len(argument.shift)):
            moved = Signal(width, name=f"shifted_{level}")
            m.d.comb += moved.eq(Mux(argument.shift[level], shifted >> (1 << level), shifted))
            shifted = moved
        value = Signal(width)
        plain = argument.table == TableOf.NONE
        normal, zeros = normalised(m, argument.value[:LINEAR_BITS], LINEAR_BITS.bit_length())
        more = Signal(signed(EXPONENT_BITS))
        m.d.comb += value.eq(shifted ^ argument.complement.replicate(width))
        less = Cat(~zeros, Const(1, 1)).as_signed()  # -zeros - 1
        power = value[EXP_FRACTION_BITS:].as_signed()
        m.d.comb += more.eq(Mux(plain, less, Mux(argument.table == TableOf.EXP, power, 0)))
        fraction = Cat(Const(0, VALUE_BITS - LINEAR_BITS + 1), normal[:-1])
        m.d.sync += [
            placed.place.eq(Mux(plain, fraction, value)),
            placed.exponent.eq(Mux(plain & ~normal[-1], 0, argument.base + more)),
        ]
        m.d.sync += [placed[name].eq(argument[name]) for name in PLACED]

    @staticmethod
    def _read(m, rows, parabola, placed):
        """Read a row of a table, and square the argument. Without a table, c0 is the significand,
        and the remaining coefficients are 0."""
        t, index = placed.place[:ARGUMENT_BITS], placed.place[ARGUMENT_BITS:]
        layout = data.StructLayout(
            {
                "c0": unsigned(C0_BITS),
                "c1": signed(C1_BITS),
                "c2": unsigned(C2_BITS),
                "t": unsigned(ARGUMENT_BITS),
                "q": unsigned(SQUARE_BITS),
            }
        )
        row = data_register(layout, name="row")
        width = 2 * SQUARE_BITS
        squares = square_rows(m, t[-SQUARE_BITS:], width)
        square = Signal(width)
        m.d.comb += [
            square.eq(sum(two_rows(m, squares, width, "square"))),
            rows.table_number.eq(placed.table),
            rows.index.eq(index),
        ]
        plain = placed.table == TableOf.NONE
        significand = Cat(placed.place[:VALUE_BITS], Const(1, 1))
        m.d.sync += [
            row.c0.eq(rows.c0 | Mux(plain, significand, 0)),
            row.c1.eq(rows.c1),
            row.c2.eq(rows.c2),
            row.t.eq(t),
            row.q.eq(square[SQUARE_BITS:]),
        ]
        m.d.comb += [getattr(parabola, name).eq(row[name]) for name in layout.members]

    def _end(self, m, ending, value):
        """Assemble the result. The value already includes the rounding constant. A carry out of the
        fraction adds 1 to the exponent."""
        lowest = VALUE_BITS - FRACTION_BITS
        fraction, carry = Signal(FRACTION_BITS), Signal()
        m.d.comb += Cat(fraction, carry).eq(
            Mux(
                ending.halved,
                Cat(value[lowest - 1 : VALUE_BITS - 1], value[VALUE_BITS]),
                Cat(value[lowest:VALUE_BITS], value[VALUE_BITS + 1]),
            )
        )
        exponent, nothing, infinite = Signal(8), Signal(), Signal()
        for added in range(2):
            total = Signal(signed(EXPONENT_BITS), name=f"exponent_{added}")
            m.d.comb += total.eq(ending.exponent + added)
            with m.If(carry == added):
                m.d.comb += [
                    nothing.eq(total <= 0),
                    infinite.eq(total >= TOP),
                    exponent.eq(total[:8]),
                ]
        result = data_output(m, self.result, "result_register")
        m.d.sync += result.eq(
            Cat(
                Mux(nothing | infinite, Mux(ending.nan, QUIET, 0), fraction),
                Mux(nothing, 0, exponent | infinite.replicate(8)),
                ending.negative & (ending.signed_zero | ~nothing),
            )
        )
