"""Conversions of numbers: bfloat16 and bytes from binary32, and binary32 from integers."""

from amaranth.hdl import Cat, Const, Mux, Signal

from diastole_hw.binary32 import MINUS_ONE, NAN
from diastole_sim.spec.formats import EXPONENT_BIAS as BIAS

BF16_NAN = NAN >> 16
LABEL_BITS = 24
"""Labels are at most 2^24."""


def not_finite(number):
    """Return whether a binary32 number is NaN or Inf."""
    return number[23:31].all()


def rounds_to_infinity(number):
    """Return whether a finite binary32 number rounds to Inf in bfloat16. The result for NaN and Inf
    is 0."""
    return number[15:31] == 0x7F7F << 1 | 1


def counts_as_zero(number):
    """Return whether a binary32 number is a zero or subnormal."""
    return ~number[23:31].any()


def bf16_of(m, number, name: str):
    """Return the 16 bits of a binary32 number in bfloat16, rounded to nearest even. NaN is 7fc0,
    and a subnormal number is a zero with the number's sign."""
    half = Signal(16, name=f"{name}_bf16")
    nan = not_finite(number) & number[:23].any()
    up = number[15] & (number[16] | number[:15].any())
    m.d.comb += half.eq(
        Mux(
            nan,
            BF16_NAN,
            Mux(counts_as_zero(number), number[31] << 15, number[16:] + up),
        )
    )
    return half


def byte_of(m, number, name: str):
    """Return a binary32 number as a byte: rounded to nearest even, 0 to 255. NaN is 0.

    The upper 8 bits of the significand, the next bit, and a sticky bit for all lower bits are
    shifted right by 7 minus the exponent.
    """
    down = Signal(8, name=f"{name}_down")
    bits = Cat(number[:15].any(), number[15:23], Const(1, 1))
    exponent = number[23:31]
    m.d.comb += down.eq(BIAS + 7 - exponent)
    for level in range(4):
        moved = Signal(10, name=f"{name}_moved_{level}")
        shift = 1 << level
        lost = bits[: shift + 1].any()
        m.d.comb += moved.eq(Mux(down[level], Cat(lost, bits[shift + 1 :]), bits))
        bits = moved
    rounded = Signal(9, name=f"{name}_rounded")
    byte = Signal(8, name=f"{name}_u8")
    large = exponent >= BIAS + 8
    small = down[4:].any() & ~large
    nan = not_finite(number) & number[:23].any()
    m.d.comb += [
        rounded.eq(bits[2:] + (bits[1] & (bits[0] | bits[2]))),
        byte.eq(Mux(large | rounded[8], 255, rounded)),
    ]
    return Mux(number[31] | nan | small, 0, byte)


def from_integer(m, integer, name: str, *, fraction_bits: int = 0):
    """Return an unsigned integer of up to 24 bits, times 2^-``fraction_bits``, in binary32,
    exactly."""
    width = len(integer)
    levels = (width - 1).bit_length()
    bits = integer
    zeros = []  # number of leading zeros, lowest bit first
    for level in reversed(range(levels)):
        shift = 1 << level
        moves = Signal(name=f"{name}_moves_{level}")
        moved = Signal(width, name=f"{name}_left_{level}")
        m.d.comb += [
            moves.eq(~bits[max(width - shift, 0) :].any()),
            moved.eq(Mux(moves, bits << shift, bits)),
        ]
        bits = moved
        zeros.insert(0, moves)
    number = Signal(32, name=f"{name}_float")
    exponent = Mux(bits[-1], BIAS + width - 1 - fraction_bits - Cat(zeros), 0)
    m.d.comb += number.eq(Cat(Const(0, 24 - width), bits[:-1], exponent[:8]))
    return number


def from_label(m, label, name: str):
    """Return an int32 in 0 .. 2^24 in binary32, and -1 for any other int32."""
    top = label[LABEL_BITS:]
    number = from_integer(m, label[:LABEL_BITS], name)
    largest = (BIAS + LABEL_BITS) << 23
    only_top = (top == 1) & ~label[:LABEL_BITS].any()
    return Mux(top == 0, number, Mux(only_top, largest, MINUS_ONE))
