"""Row and column numbers of a tensor's elements as floats."""

from amaranth.hdl import Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.binary32 import BINARY32, FRACTION_BITS
from diastole_hw.vector.stream_layouts import WORD, VectorShape
from diastole_sim.spec.formats import EXPONENT_BIAS


def places_layout() -> data.StructLayout:
    """Return the layout of the first of B places (rows or columns) of a block, whose number is a
    multiple of B. ``base``: the number as a float. ``unit``: increment of the fraction per place.
    ``zero``: the number is 0."""
    return data.StructLayout(
        {"base": unsigned(WORD), "unit": unsigned(FRACTION_BITS + 1), "zero": unsigned(1)}
    )


class PositionBase(wiring.Component):
    """Convert block number ``index`` to the values from which :func:`place_number` derives the
    floats of the block's places. All floats are exact, since the numbers are below 2^24.

    Timing: combinational.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    index : In(shape.index_bits)
    o : Out(:func:`places_layout`)
    """

    def __init__(self, shape: VectorShape):
        self.shape = shape
        super().__init__({"index": In(shape.index_bits), "o": Out(places_layout())})

    def elaborate(self, platform):
        m = Module()
        bits = self.shape.index_bits
        base = Signal(BINARY32)
        m.d.comb += [self.o.base.eq(base), self.o.zero.eq(~self.index.any())]
        for top in range(bits):  # highest set bit: the last assignment wins
            with m.If(self.index[top]):
                exponent = top + self.shape.row_bits
                m.d.comb += [
                    base.exponent.eq(EXPONENT_BIAS + exponent),
                    base.fraction.eq(self.index[:top] << (FRACTION_BITS - top)),
                    self.o.unit.eq(1 << (FRACTION_BITS - exponent)),
                ]
        return m


def small(number: int) -> int:
    """Return the bits of an integer below 2^24 as a float."""
    if not number:
        return 0
    top = number.bit_length() - 1
    return (
        EXPONENT_BIAS + top << FRACTION_BITS
        | (number << FRACTION_BITS - top) & 2**FRACTION_BITS - 1
    )


def place_number(first, number: int):
    """Return the float of place ``number`` of a block, from the output of :class:`PositionBase`."""
    terms = [first.unit << k for k in range(number.bit_length()) if number >> k & 1]
    added = Const(0, 1)
    for term in terms:
        added = added | term
    return Mux(first.zero, small(number), first.base | added[:FRACTION_BITS])
