"""Multiply two elements and output the bits of the product that enter the adder tree."""

from functools import reduce
from operator import add

from amaranth.hdl import Cat, Const, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.cell.cell_shape import Element
from diastole_hw.cell.packed import packed_bits, unpack
from diastole_sim.spec.require import require_int


class Multiplier(wiring.Component):
    """Compute ``magnitude + round_up`` = |vector * stationary| in a window of w bits, rounded half
    away from zero::

        magnitude + up = floor(sigV * sigH * 2^(w - Pv - Ph - dV - dH) + 1/2)

    If no product can lose a bit (``exact``, or no window), ``round_up`` is 0.

    Timing: combinational.

    Parameters
    ----------
    vector_element, stationary_element : Element
    window : int or None
        w, 2 to 56. None: the two elements have D = 0, and w is Pv + Ph.
    exact : bool
        No pair of elements has a bit below the window. Not checked.
    dsp : bool
        A unit outside multiplies the significands, and the product is an input.

    Members
    -------
    vector : In(vector_element.bits)
    stationary : In(packed_bits(stationary_element))
        Element as packed by :func:`diastole_hw.cell.packed.pack`.
    product : In(Pv + Ph)
        With ``dsp`` only: sigV * sigH.
    magnitude : Out(w)
    round_up : Out(1)
    negative : Out(1)
        Product of the signs, for a zero too.

    ValueError if out of range. Source: the definition of a window (docs/formats.md, "Windows").
    """

    def __init__(
        self,
        *,
        vector_element: Element,
        stationary_element: Element,
        window: int | None,
        exact: bool,
        dsp: bool = False,
    ):
        if window is not None:
            require_int("window", window, 2, 56)
        self.vector_element, self.stationary_element = vector_element, stationary_element
        self.window, self.exact, self.dsp = window, exact, dsp
        both = vector_element.significand_bits + stationary_element.significand_bits
        members = {
            "vector": In(vector_element.bits),
            "stationary": In(packed_bits(stationary_element)),
            "magnitude": Out(both if window is None else window),
            "round_up": Out(1),
            "negative": Out(1),
        }
        if dsp:
            members["product"] = In(both)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        vector_sig = self.vector_element.significand(self.vector)
        stationary_sig, stationary_drop = unpack(self.stationary_element, self.stationary)
        m.d.comb += self.negative.eq(self.vector[-1] ^ self.stationary[-1])
        if self.window is None:
            m.d.comb += self.magnitude.eq(self._product(vector_sig, stationary_sig))
            return m
        exact_product = Signal(len(vector_sig) + len(stationary_sig))
        m.d.comb += exact_product.eq(self._product(vector_sig, stationary_sig))
        # A bit below the rounding bit changes nothing, however far the product is shifted.
        below = int(not self.exact)
        width = len(self.magnitude) + below
        top = Cat(Const(0, max(width - len(exact_product), 0)), exact_product)[-width:]
        drop = self.vector_element.exponent_drop(self.vector) + stationary_drop
        shifted = Signal(width)
        m.d.comb += [shifted.eq(top >> drop), self.magnitude.eq(shifted[below:])]
        if below:
            m.d.comb += self.round_up.eq(shifted[0])
        return m

    def _product(self, vector_sig, stationary_sig):
        """Return the product of two significands as a sum of shifted rows, one row per bit. A flow
        would look for a DSP block for a multiplication."""
        if self.dsp:
            return self.product
        rows = (
            Cat(Const(0, place), stationary_sig & bit.replicate(len(stationary_sig)))
            for place, bit in enumerate(vector_sig)
        )
        return reduce(add, rows)
