"""Multipliers and adder tree of a lane."""

from amaranth.hdl import Cat, Module, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.cell.cell_shape import Element
from diastole_hw.cell.multiplier import Multiplier
from diastole_hw.cell.packed import packed_bits
from diastole_hw.data_registers import one_later
from diastole_sim.spec.numerics import BLOCK_SIDES
from diastole_sim.spec.require import require_choice, require_int


class BlockSum(wiring.Component):
    """Compute ``block_sum``, the sum over k of the signed products of vector[k] and stationary[k].

    :class:`diastole_hw.cell.multiplier.Multiplier` makes the products, rounded to the window if
    there is a window. The sum of the products is exact. A negative product enters the tree as the
    complement of its magnitude. The 1 that completes the negation is the carry-in of an adder, as
    is the 1 that rounds a product up. The sign extensions add up to a constant, which flips the top
    bit.

    Timing: combinational. With a ``cut``, every path through the unit has one register.

    Parameters
    ----------
    block : int
        B, a power of two, 1 to 32.
    vector_element, stationary_element, window, exact, dsp
        Parameters of :class:`diastole_hw.cell.multiplier.Multiplier`.
    sum_bits : int
        Bits of ``block_sum``, 3 to 57. A sum of more bits wraps. Not checked.
    cut : int or None
        Number of adders between a product and its register, 0 (the product itself is registered) to
        log2 B. None: no registers.

    Members
    -------
    vector : In(array of B times unsigned(vector_element.bits))
    stationary : In(array of B times unsigned(packed_bits(stationary_element)))
    products : In(array of B times unsigned(Pv + Ph))
        With ``dsp`` only: products of the significands.
    block_sum : Out(signed(sum_bits))

    ValueError if out of range.
    """

    def __init__(
        self,
        *,
        block: int,
        vector_element: Element,
        stationary_element: Element,
        window: int | None,
        exact: bool,
        sum_bits: int,
        cut: int | None,
        dsp: bool = False,
    ):
        require_choice("block", block, BLOCK_SIDES)
        require_int("sum_bits", sum_bits, 3, 57)
        self.block, self.sum_bits = block, sum_bits
        self.vector_element, self.stationary_element = vector_element, stationary_element
        self.window, self.exact, self.dsp = window, exact, dsp
        if cut is not None:
            require_int("cut", cut, 0, (block - 1).bit_length())
        self.cut = cut
        members = {
            "vector": In(data.ArrayLayout(unsigned(vector_element.bits), block)),
            "stationary": In(data.ArrayLayout(unsigned(packed_bits(stationary_element)), block)),
            "block_sum": Out(signed(sum_bits)),
        }
        if dsp:
            both = vector_element.significand_bits + stationary_element.significand_bits
            members["products"] = In(data.ArrayLayout(unsigned(both), block))
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        terms, carries = [], []
        for k in range(self.block):
            magnitude, round_up, negative = self._product(m, k)
            bits = len(magnitude)
            term = Signal(bits + 1, name=f"term_{k}")
            # The product plus 2^bits - 1 if negative, else plus 2^bits: never below zero.
            m.d.comb += term.eq(Cat(magnitude ^ negative.replicate(bits), ~negative))
            terms.append(term)
            # -(magnitude + up) is the complement of the magnitude, and 1 - up.
            carries.append(negative ^ round_up)
        total = self._tree(m, terms, carries, self.cut)
        bits = len(terms[0]) - 1
        log_block = (self.block - 1).bit_length()
        summed = Signal(signed(bits + 1 + log_block))
        m.d.comb += summed.eq(total ^ (1 << (bits + log_block)))  # subtract B * 2^bits
        m.d.comb += self.block_sum.eq(summed)
        return m

    def _product(self, m, k):
        """Return magnitude, rounding bit and sign of product k."""
        m.submodules[f"multiplier_{k}"] = multiplier = Multiplier(
            vector_element=self.vector_element,
            stationary_element=self.stationary_element,
            window=self.window,
            exact=self.exact,
            dsp=self.dsp,
        )
        m.d.comb += [
            multiplier.vector.eq(self.vector[k]),
            multiplier.stationary.eq(self.stationary[k]),
        ]
        if self.dsp:
            m.d.comb += multiplier.product.eq(self.products[k])
        names = ("magnitude", "round_up", "negative")
        values = [getattr(multiplier, name) for name in names]
        if self.cut == 0:
            values = _registered(m, values, [f"{name}_{k}" for name in names])
        return tuple(values)

    @staticmethod
    def _tree(m: Module, terms: list, carries: list, cut: int | None):
        """Return the sum of B terms and B single bits. B - 1 of the bits are carry-ins of the
        adders."""
        *carries, last = carries
        depth = 0
        while len(terms) > 1:
            level = []
            for first, second in zip(terms[::2], terms[1::2], strict=True):
                number = len(terms) + len(level)
                carry = carries.pop()
                partial = Signal(len(first) + 1, name=f"partial_{number}")
                # Two equal bits below the operands carry into the sum exactly if the bits are set.
                m.d.comb += partial.eq((Cat(carry, first) + Cat(carry, second))[1:])
                level.append(partial)
            terms = level
            depth += 1
            if depth == cut:
                terms = _registered(m, terms, [f"kept_{n}" for n in range(len(terms))])
                left = [*carries, last]
                *carries, last = _registered(m, left, [f"carry_{n}" for n in range(len(left))])
        return terms[0] + last


def _registered(m: Module, values: list, names: list) -> list:
    """Return the values one cycle later."""
    return [one_later(m, value, name) for value, name in zip(values, names, strict=True)]
