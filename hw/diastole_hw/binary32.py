"""Define the fields of binary32 and the binary32 words that gates compare with."""

from typing import Any

from amaranth.hdl import Cat, unsigned
from amaranth.lib import data

from diastole_sim.spec.formats import BINARY32_SIGNIFICAND_BITS

FRACTION_BITS = BINARY32_SIGNIFICAND_BITS - 1
EXPONENT_BITS = 8
TOP = 2**EXPONENT_BITS - 1
"""Exponent of Inf and NaN."""
QUIET = 1 << (FRACTION_BITS - 1)
"""Fraction of the only NaN that arithmetic produces."""
ONE = 0x3F80_0000
MINUS_ONE = 0xBF80_0000
INFINITY = 0x7F80_0000
NAN = INFINITY | QUIET
LARGEST = 0x7F7F_FFFF
"""Largest finite number."""
BINARY32 = data.StructLayout(
    {
        "fraction": unsigned(FRACTION_BITS),
        "exponent": unsigned(EXPONENT_BITS),
        "negative": unsigned(1),
    }
)


def float_fields(value) -> Any:
    """Return a view of 32 bits as BINARY32."""
    return data.View(BINARY32, value)


def nonzero(value):
    """Return whether a float is not zero. A subnormal float counts as zero."""
    return float_fields(value).exponent.any()


def not_a_number(value):
    """Return whether a float is a NaN."""
    view = float_fields(value)
    return view.exponent.all() & view.fraction.any()


def negated(value, flag):
    """Return a float with its sign flipped where ``flag`` is set. NaN is unchanged."""
    return Cat(value[:-1], value[-1] ^ (flag & ~not_a_number(value)))
