"""Tables of the special functions, as gates."""

from enum import IntEnum

from amaranth.hdl import Module, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_sim.spec.functions import EXP, LGG, RCP, RSQ, VALUE_BITS, FunctionTable

INDEX_BITS = 8
"""Bits of a row's number in a table: at most 256 rows."""
C0_BITS, C1_BITS, C2_BITS = VALUE_BITS + 2, 27, 18
"""Bits of the coefficients in every row; c0 includes :func:`surplus`."""
HALF = 1 << 4
"""Half of the last place of a result, in units of a significand with 28 fraction bits."""
BELOW_ONE = 32
"""First row of LGG with values below 1, or at 1."""


class TableOf(IntEnum):
    """Table of a row. NONE: all coefficients are 0."""

    NONE = 0
    EXP = 1
    RCP = 2
    RSQ = 3
    LGG = 4


TABLES: dict[TableOf, FunctionTable] = {
    TableOf.EXP: EXP,
    TableOf.RCP: RCP,
    TableOf.RSQ: RSQ,
    TableOf.LGG: LGG,
}


def surplus(table: TableOf, row: int) -> int:
    """Return the constant that is added to c0: the 1 before the fraction, if the table omits the 1,
    and half of the last place, so that truncation rounds the result."""
    if table == TableOf.LGG:
        return HALF if row < BELOW_ONE else HALF // 2
    return (1 << VALUE_BITS) + HALF


class FunctionRows(wiring.Component):
    """Output the coefficients of a segment. c0 includes :func:`surplus`.

    Timing: combinational.

    Members
    -------
    table_number : In(3)
        A TableOf.
    index : In(8)
        Number of a row. Bits beyond the bits of the table are ignored.
    c0, c1, c2 : Out(30), Out(signed(27)), Out(18)
        Zeros if the table has no such row.
    """

    table_number: In(3)
    index: In(INDEX_BITS)
    c0: Out(C0_BITS)
    c1: Out(signed(C1_BITS))
    c2: Out(C2_BITS)

    def elaborate(self, platform):
        m = Module()
        shapes = {"c0": unsigned(C0_BITS), "c1": signed(C1_BITS), "c2": unsigned(C2_BITS)}
        coefficients = dict.fromkeys(shapes, 0)
        for table, rows in TABLES.items():
            own = {
                name: Signal(shape, name=f"{table.name.lower()}_{name}")
                for name, shape in shapes.items()
            }
            index = self.index[: (len(rows.rows) - 1).bit_length()]
            with m.If(self.table_number == table):  # gating outside the switch halves the gates
                with m.Switch(index):
                    for number, (c0, c1, c2) in enumerate(rows.rows):
                        with m.Case(number):
                            m.d.comb += [
                                own["c0"].eq(c0 + surplus(table, number)),
                                own["c1"].eq(c1),
                                own["c2"].eq(c2),
                            ]
            coefficients = {name: coefficients[name] | own[name] for name in shapes}
        m.d.comb += [getattr(self, name).eq(value) for name, value in coefficients.items()]
        return m
