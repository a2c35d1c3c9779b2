"""Conditions of several conditions."""

from functools import reduce
from operator import or_

from amaranth.hdl import Const


def any_of(conditions):
    """Return whether any of the conditions, of 1 bit each, holds. None holds of no conditions."""
    return reduce(or_, conditions, Const(0, 1))


def among(value, choices):
    """Return whether ``value`` is in ``choices``."""
    return any_of(value == choice for choice in choices)
