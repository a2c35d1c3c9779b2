"""Rows and columns of a tensor's elements as numbers."""

from amaranth.hdl import Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.binary32 import BINARY32, FRACTION_BITS
from diastole_hw.vector.stream_layouts import WORD, VectorShape
from diastole_sim.spec.formats import EXPONENT_BIAS


def places_layout(shape: VectorShape) -> data.StructLayout:
    """The first of B places, whose number is a multiple of B. ``base``: as a float. ``unit``: what
    the next place adds to its fraction. ``zero``: it is 0."""
    return data.StructLayout(
        {"base": unsigned(WORD), "unit": unsigned(FRACTION_BITS + 1), "zero": unsigned(1)}
    )


class FirstPlace(wiring.Component):
    """Block number ``index`` as what the floats of its places follow from, by
    :func:`place_number`: all exact, below 2^24.

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
        super().__init__({"index": In(shape.index_bits), "o": Out(places_layout(shape))})

    def elaborate(self, platform):
        m = Module()
        bits = self.shape.index_bits
        base = Signal(BINARY32)
        m.d.comb += [self.o.base.eq(base), self.o.zero.eq(~self.index.any())]
        for top in range(bits):  # the highest bit that is set; the last assignment counts
            with m.If(self.index[top]):
                exponent = top + self.shape.row_bits
                m.d.comb += [
                    base.exponent.eq(EXPONENT_BIAS + exponent),
                    base.fraction.eq(self.index[:top] << (FRACTION_BITS - top)),
                    self.o.unit.eq(1 << (FRACTION_BITS - exponent)),
                ]
        return m


def small(number: int) -> int:
    """The bits of a number below 2^24 as a float."""
    if not number:
        return 0
    top = number.bit_length() - 1
    return (
        EXPONENT_BIAS + top << FRACTION_BITS
        | (number << FRACTION_BITS - top) & 2**FRACTION_BITS - 1
    )


def place_number(first, number: int):
    """The float of a block's place ``number``, of what :class:`FirstPlace` says."""
    terms = [first.unit << k for k in range(number.bit_length()) if number >> k & 1]
    added = Const(0, 1)
    for term in terms:
        added = added | term
    return Mux(first.zero, small(number), first.base | added[:FRACTION_BITS])
