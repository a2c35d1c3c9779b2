"""The fields of binary32, and what they say."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, unsigned
from amaranth.lib import data

from diastole_sim.spec.formats import BINARY32_SIGNIFICAND_BITS

FRACTION_BITS = BINARY32_SIGNIFICAND_BITS - 1
TOP = 255
"""The exponent of Inf and NaN."""
QUIET = 1 << (FRACTION_BITS - 1)
"""The fraction of the only NaN that arithmetic makes."""
ONE = 0x3F80_0000
BINARY32 = data.StructLayout(
    {"fraction": unsigned(FRACTION_BITS), "exponent": unsigned(8), "negative": unsigned(1)}
)


def float_fields(value) -> Any:
    """A view of 32 bits as BINARY32."""
    return data.View(BINARY32, value)


def nonzero(value):
    """Whether a float is not a zero; a subnormal one is."""
    return float_fields(value).exponent.any()


def not_a_number(value):
    """Whether a float is a NaN."""
    view = float_fields(value)
    return view.exponent.all() & view.fraction.any()


def negated(value, flag):
    """A float with its sign flipped where ``flag`` is set; NaN stays as it is."""
    return Cat(value[:-1], value[-1] ^ (flag & ~not_a_number(value)))


def quick_sum(m: Module, a, b, carry):
    """``a`` + ``b`` + ``carry``, as long as ``a``; ``b`` is as long. Once in a module.

    Carries go by powers of two (Kogge and Stone), which takes half the time of a ``+`` that is
    mapped for area, and a fifth more gates.
    """
    width, distance = len(a), 1
    makes, passes = a & b, a | b
    while distance < width:
        makes_more = Signal(width, name=f"makes_{2 * distance}")
        passes_more = Signal(width, name=f"passes_{2 * distance}")
        m.d.comb += [
            makes_more.eq(makes | (passes & (makes << distance))),
            passes_more.eq(passes & Cat(Const(-1, distance), passes)),
        ]
        makes, passes = makes_more, passes_more
        distance *= 2
    carries = makes | (passes & carry.replicate(width))
    return a ^ b ^ Cat(carry, carries)[:width]
