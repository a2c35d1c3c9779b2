"""Products of small numbers as shifts and additions, which no tool takes for a multiplier."""

from functools import reduce
from operator import add

from amaranth.hdl import Const, Mux, Value


def times(value: Value, factor: Value | int) -> Value:
    """``value`` * ``factor``, neither of them signed; as many additions as a constant has ones, or
    a signal bits, less one.

    A product of a width and a constant, or of two lengths of a nest, is not worth the multiplier
    that tools for FPGAs make of it, and is slower in it. ValueError if ``factor`` is below 0.
    """
    if isinstance(factor, int):
        if factor < 0:
            raise ValueError(f"factor must be at least 0, not {factor}")
        terms = [value << bit for bit in range(factor.bit_length()) if factor >> bit & 1]
    else:
        terms = [Mux(one, value, 0) << bit for bit, one in enumerate(factor)]
    return reduce(add, terms) if terms else Const(0, 1)
