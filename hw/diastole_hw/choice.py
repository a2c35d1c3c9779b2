"""Select a value by a one-hot code: a level of AND and a tree of OR."""

from functools import reduce
from operator import or_

from amaranth.hdl import Mux


def one_hot_select(values, select):
    """Return the value whose bit is set in the one-hot ``select``; 0 if no bit is set."""
    gated = (Mux(bit, value, 0) for value, bit in zip(values, select, strict=True))
    return reduce(or_, gated)
