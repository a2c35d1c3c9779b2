"""What a cell is measured against: one bfloat16 multiplier with a binary32 adder.

No machine is made of it.
"""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

BIAS = 127
TOP = 255
"""The exponent field of Inf and NaN, in both formats."""
NAN = 0x7FC0_0000
GUARDS = 3
"""Bits kept below binary32's last place: two, and whether anything is below them."""


class FloatMultiplyAdd(wiring.Component):
    """``result`` = ``a`` * ``b`` + ``c``, one rounding to nearest, ties to even.

    Subnormal operands count as zeros of their sign; a result that is below 2^-126 after rounding to
    24 bits becomes +0, and so does every sum of zeros and every difference of equals. Inf and NaN
    as in IEEE 754; the NaN is 7fc00000. Combinational.

    Members
    -------
    a, b : In(16)
        bfloat16.
    c, result : In(32), Out(32)
        binary32.
    """

    a: In(16)
    b: In(16)
    c: In(32)
    result: Out(32)

    def elaborate(self, platform):
        m = Module()
        a, b, c = (_unpacked(m, name, getattr(self, name)) for name in "abc")
        negative = a.negative ^ b.negative  # of the product
        there = ~(a.zero | b.zero)
        # Both as multiples of 2^-23 of their exponents' units: the product is 1 to just below 4.
        product, addend = Signal(25), Signal(25)
        exponent, other = Signal(signed(11)), Signal(signed(11))
        m.d.comb += [
            product.eq(Mux(there, a.significand * b.significand << 9, 0)),
            addend.eq(Mux(c.zero, 0, c.significand)),
            exponent.eq(Mux(there, a.exponent + b.exponent - BIAS, -BIAS)),
            other.eq(Mux(c.zero, -BIAS, c.exponent)),
        ]
        distance, below = Signal(signed(12)), Signal()
        m.d.comb += [distance.eq(exponent - other), below.eq(distance[-1])]
        large, small = Signal(25), Signal(25)
        m.d.comb += [
            large.eq(Mux(below, addend, product)),
            small.eq(Mux(below, product, addend)),
        ]
        shifted = _shifted_sticky(m, small, Mux(below, -distance, distance)[:11])
        total = Signal(signed(30))
        subtract = negative ^ c.negative
        m.d.comb += total.eq(
            Cat(Const(0, GUARDS), large).as_unsigned()
            + (shifted ^ subtract.replicate(len(shifted))).as_signed()
            + subtract
        )
        sign = Mux(below, c.negative, negative) ^ total[-1]
        magnitude = Signal(29)
        m.d.comb += magnitude.eq((total ^ total[-1].replicate(30)) + total[-1])
        finite = self._rounded(m, magnitude, Mux(below, other, exponent), sign)
        self._specials(m, a, b, c, negative, finite)
        return m

    @staticmethod
    def _rounded(m, magnitude, exponent, sign):
        """Binary32 of ``magnitude`` * 2^(exponent - BIAS - 23 - GUARDS)."""
        zeros, normal = Signal(range(29)), Signal(29)
        for place in range(29):  # the highest one decides
            with m.If(magnitude[place]):
                m.d.comb += zeros.eq(28 - place)
        m.d.comb += normal.eq(magnitude << zeros)
        upper, rest = normal[5:], normal[:5]
        rounded, field = Signal(25), Signal(signed(12))
        up = rest[4] & (rest[:4].any() | upper[0])
        m.d.comb += [
            rounded.eq(upper + up),
            field.eq(exponent + 2 - zeros + rounded[-1]),
        ]
        result = Signal(32, name="finite")
        with m.If((magnitude == 0) | (field <= 0)):
            m.d.comb += result.eq(0)
        with m.Elif(field >= TOP):
            m.d.comb += result.eq(Cat(Const(0, 23), Const(TOP, 8), sign))
        with m.Else():
            m.d.comb += result.eq(Cat(rounded[:23], field[:8], sign))
        return result

    def _specials(self, m, a, b, c, negative, finite):
        infinite = a.infinite | b.infinite
        none = a.nan | b.nan | c.nan | (a.infinite & b.zero) | (b.infinite & a.zero)
        with m.If(none | (infinite & c.infinite & (negative ^ c.negative))):
            m.d.comb += self.result.eq(NAN)
        with m.Elif(infinite | c.infinite):
            sign = Mux(infinite, negative, c.negative)
            m.d.comb += self.result.eq(Cat(Const(0, 23), Const(TOP, 8), sign))
        with m.Else():
            m.d.comb += self.result.eq(finite)


def _unpacked(m, name, value):
    """Return the fields of a float, and whether the float is zero, infinite or NaN."""
    bits = len(value) - 9
    layout = data.StructLayout(
        {
            "significand": unsigned(bits + 1),
            "exponent": unsigned(8),
            "negative": 1,
            "zero": 1,
            "infinite": 1,
            "nan": 1,
        }
    )
    fields = Signal(layout, name=f"{name}_fields")
    fraction, exponent = value[:bits], value[bits:-1]
    m.d.comb += [
        fields.significand.eq(Cat(fraction, 1)),
        fields.exponent.eq(exponent),
        fields.negative.eq(value[-1]),
        fields.zero.eq(exponent == 0),
        fields.infinite.eq((exponent == TOP) & (fraction == 0)),
        fields.nan.eq((exponent == TOP) & (fraction != 0)),
    ]
    return fields


def _shifted_sticky(m, value, distance):
    """``value`` with guards, shifted right; what falls out sets the lowest bit. A sign of 0."""
    bits = len(value) + GUARDS
    shifted = Cat(Const(0, GUARDS), value, Const(0, 1))
    near = Mux(distance[5:].any(), 31, distance[:5])
    for level in range(5):
        step = Signal(bits + 1, name=f"shifted_{level}")
        by = 1 << level
        lost = Cat(shifted[: by + 1].any(), shifted[by + 1 :])
        m.d.comb += step.eq(Mux(near[level], lost, shifted))
        shifted = step
    return shifted


class FloatCell(wiring.Component):
    """A systolic cell of one float multiply-add, with the registers that it needs.

    ``psum`` one cycle later is ``vector`` * held + ``psum_in``; ``vector`` and what is loaded hop
    on. A word that is loaded is held from the next ``swap`` on.

    Members
    -------
    vector, vector_out, load, load_out : In, Out, In, Out(16)
    mine, swap : In(1)
        The word is for this cell; the next slot belongs to a new pass.
    psum_in, psum : In, Out(32)
    """

    vector: In(16)
    vector_out: Out(16)
    load: In(16)
    load_out: Out(16)
    mine: In(1)
    swap: In(1)
    psum_in: In(32)
    psum: Out(32)

    def elaborate(self, platform):
        m = Module()
        m.submodules.multiply_add = unit = FloatMultiplyAdd()
        shadow, active = Signal(16, reset_less=True), Signal(16, reset_less=True)
        m.d.sync += [self.vector_out.eq(self.vector), self.load_out.eq(self.load)]
        with m.If(self.mine):
            m.d.sync += shadow.eq(self.load)
        with m.If(self.swap):
            m.d.sync += active.eq(shadow)
        m.d.comb += [unit.a.eq(self.vector), unit.b.eq(active), unit.c.eq(self.psum_in)]
        m.d.sync += self.psum.eq(unit.result)
        return m
