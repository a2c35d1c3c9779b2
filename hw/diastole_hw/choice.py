"""One of several values, by a bit for each: a level of AND and a tree of OR."""

from functools import reduce
from operator import or_

from amaranth.hdl import Mux


def the_one_of(values, chosen):
    """Of several values the one that is ``chosen``, by a bit for each; 0 if none is."""
    gated = (Mux(bit, value, 0) for value, bit in zip(values, chosen, strict=True))
    return reduce(or_, gated)
