"""The multipliers and the adder tree of one lane."""

from amaranth.hdl import Cat, Module, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_sim.check import require_choice, require_int
from diastole_sim.numerics import BLOCK_SIDES


class BlockSum(wiring.Component):
    """``block_sum`` = sum over k of vector[k] * held[k], exact. Elements are sign and magnitude.

    A negative product enters the tree as the complement of its magnitude, and a 1 that makes it the
    negative is the carry-in of an adder; the sign extensions add up to one constant, which flips
    the top bit.

    Timing: combinational; with ``product_registers`` one register after each product.

    Parameters
    ----------
    block : int
        B, a power of two, 1 to 32.
    vector_bits, held_bits : int
        Magnitude bits of the elements, 2 to 8.
    sum_bits : int
        Bits of ``block_sum``, 5 to 22; it wraps if a sum needs more, which is not checked.
    product_registers : bool

    Members
    -------
    vector, held : In(array of B times unsigned(bits + 1))
    block_sum : Out(signed(sum_bits))

    ValueError if out of range.
    """

    def __init__(
        self,
        *,
        block: int,
        vector_bits: int,
        held_bits: int,
        sum_bits: int,
        product_registers: bool,
    ):
        require_choice("block", block, BLOCK_SIDES)
        require_int("vector_bits", vector_bits, 2, 8)
        require_int("held_bits", held_bits, 2, 8)
        require_int("sum_bits", sum_bits, 5, 22)
        self.block, self.vector_bits, self.held_bits = block, vector_bits, held_bits
        self.sum_bits, self.product_registers = sum_bits, product_registers
        super().__init__(
            {
                "vector": In(data.ArrayLayout(unsigned(vector_bits + 1), block)),
                "held": In(data.ArrayLayout(unsigned(held_bits + 1), block)),
                "block_sum": Out(signed(sum_bits)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        bits = self.vector_bits + self.held_bits
        terms, carries = [], []
        for k in range(self.block):
            vector, held = self.vector[k], self.held[k]
            negative = Signal(name=f"negative_{k}", reset_less=True)
            magnitude = Signal(bits, name=f"magnitude_{k}", reset_less=True)
            domain = m.d.sync if self.product_registers else m.d.comb
            domain += negative.eq(vector[-1] ^ held[-1])
            domain += magnitude.eq(vector[:-1] * held[:-1])
            term = Signal(bits + 1, name=f"term_{k}")
            # The product plus 2^bits - 1 if negative, plus 2^bits if not: never below zero.
            m.d.comb += term.eq(Cat(magnitude ^ negative.replicate(bits), ~negative))
            terms.append(term)
            carries.append(negative)
        total = self._tree(m, terms, carries)
        log_block = (self.block - 1).bit_length()
        exact = Signal(signed(bits + 1 + log_block))
        m.d.comb += exact.eq(total ^ (1 << (bits + log_block)))  # less B * 2^bits
        m.d.comb += self.block_sum.eq(exact)
        return m

    @staticmethod
    def _tree(m: Module, terms: list, carries: list):
        """Sum of B terms and B single bits, of which B - 1 are carry-ins of the tree's adders."""
        *carries, last = carries
        while len(terms) > 1:
            level = []
            for first, second in zip(terms[::2], terms[1::2], strict=True):
                number = len(terms) + len(level)
                carry = carries.pop()
                partial = Signal(len(first) + 1, name=f"partial_{number}")
                # Two equal bits below the operands carry into them exactly if they are set.
                m.d.comb += partial.eq((Cat(carry, first) + Cat(carry, second))[1:])
                level.append(partial)
            terms = level
        return terms[0] + last
