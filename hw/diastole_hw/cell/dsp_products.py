"""Compute products that share a factor in a single multiplication for a DSP block."""

from amaranth.hdl import Cat, Const, Module, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.cell.cell_shape import Element
from diastole_hw.cell.packed import packed_bits, unpack
from diastole_sim.spec.require import require_int


class DspProducts(wiring.Component):
    """Compute ``products[n]`` = sigV * sigH of ``vector`` and ``stationary[n]`` in one
    multiplication.

    No product is longer than s = Pv + Ph bits. The products are therefore adjacent fields of a
    single product::

        (sigH[0] + sigH[1] * 2^s + ...) * sigV = products[0] + products[1] * 2^s + ...

    Vivado makes small products of logic. The attribute ``use_dsp`` requests a DSP block.

    Timing: combinational.

    Parameters
    ----------
    vector_element, stationary_element : Element
    count : int
        Number of products, 1 to 32. The first factor has (count - 1) * s + Ph bits.

    Members
    -------
    vector : In(vector_element.bits)
    stationary : In(array of ``count`` times unsigned(packed_bits(stationary_element)))
        Elements as packed by :func:`diastole_hw.cell.packed.pack`.
    products : Out(array of ``count`` times unsigned(s))

    ValueError if out of range.
    """

    def __init__(self, *, vector_element: Element, stationary_element: Element, count: int):
        require_int("count", count, 1, 32)
        self.vector_element, self.stationary_element, self.count = (
            vector_element,
            stationary_element,
            count,
        )
        both = vector_element.significand_bits + stationary_element.significand_bits
        super().__init__(
            {
                "vector": In(vector_element.bits),
                "stationary": In(
                    data.ArrayLayout(unsigned(packed_bits(stationary_element)), count)
                ),
                "products": Out(data.ArrayLayout(unsigned(both), count)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        vector_sig = self.vector_element.significand(self.vector)
        gap = Const(0, len(vector_sig))
        first, *others = (unpack(self.stationary_element, packed)[0] for packed in self.stationary)
        spaced = Cat(first, *(part for sig in others for part in (gap, sig)))
        product = Signal(len(spaced) + len(vector_sig), attrs={"use_dsp": "yes"})
        m.d.comb += [product.eq(spaced * vector_sig), self.products.eq(product)]
        return m
