"""Multiply small numbers by shifts and additions, from which no tool infers a multiplier."""

from functools import reduce
from operator import add

from amaranth.hdl import Const, Mux, Value


def times(value: Value, factor: Value | int) -> Value:
    """Return ``value`` * ``factor``, both unsigned. The number of additions is the number of ones
    of a constant factor, or the number of bits of a signal, less 1.

    A product of a width and a constant, or of two lengths of a loop nest, is not worth the
    multiplier that tools for FPGAs infer, and would be slower in the multiplier. ValueError if
    ``factor`` is below 0.
    """
    if isinstance(factor, int):
        if factor < 0:
            raise ValueError(f"factor must be at least 0, not {factor}")
        terms = [value << bit for bit in range(factor.bit_length()) if factor >> bit & 1]
    else:
        terms = [Mux(one, value, 0) << bit for bit, one in enumerate(factor)]
    return reduce(add, terms) if terms else Const(0, 1)
