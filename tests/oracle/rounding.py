"""The rounding rules on exact fractions."""

from fractions import Fraction
from math import floor


def nearest_even(value):
    """A fraction to the nearest integer; Python's own round() is nearest even, exactly."""
    return round(Fraction(value))


def round_fraction(rule, value, draw, bits):
    """Round a non-negative fraction to an integer by the rule's inequality."""
    value = Fraction(value)
    whole = floor(value)
    nu = value - whole
    if rule == "nearest":
        return nearest_even(value)
    if rule == "stochastic-a":
        up = floor(nu * 2**bits) + draw >= 2**bits
    elif rule == "stochastic-b":
        up = floor(nu * 2 ** (bits + 1)) + 2 * draw + 1 >= 2 ** (bits + 1)
    elif rule == "stochastic-c":
        up = nearest_even(nu * 2**bits) + draw >= 2**bits
    else:
        raise AssertionError(rule)
    return whole + up
