"""Dropping low bits of a magnitude: the rules of the converter, on integers.

Each rule takes a magnitude, how many of its low bits to drop, and a draw of ``bits`` random bits,
and returns the kept part, incremented or not. With nu = the part dropped, in units of the kept
part's last place, 0 <= nu < 1, and R = the draw, it increments when

===============  ==========================================================
nearest          nu > 1/2, or nu = 1/2 and the kept part is odd
stochastic-a     floor(nu * 2^bits) + R >= 2^bits
stochastic-b     floor(nu * 2^(bits+1)) + 2 R + 1 >= 2^(bits+1)
stochastic-c     nearest_even(nu * 2^bits) + R >= 2^bits
===============  ==========================================================

The names A, B, C follow the interim report of IEEE P3109. No rule changes a value that needs no
rounding (nu = 0).
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diastole_sim.check import require_choice, require_int

Integers = NDArray[np.int64]

MAX_MAGNITUDE_BITS = 24
MAX_RANDOM_BITS = 16
SHIFT_LIMIT = MAX_MAGNITUDE_BITS + MAX_RANDOM_BITS + 2
"""From this shift on nu < 2^-18 and no rule increments; shifts are clamped to it."""


def _split(magnitude: Integers, shift: Integers) -> tuple[Integers, Integers]:
    kept = magnitude >> shift
    return kept, magnitude - (kept << shift)


def _nearest(magnitude: Integers, shift: Integers, draw: Integers, bits: int) -> Integers:
    """Nearest, ties to even; takes no draw."""
    kept, dropped = _split(magnitude, shift)
    twice, unit = dropped << 1, np.int64(1) << shift
    return kept + ((twice > unit) | ((twice == unit) & (kept & 1 == 1)))


def _stochastic_a(magnitude: Integers, shift: Integers, draw: Integers, bits: int) -> Integers:
    """Add the draw below the kept part and truncate; too low by up to 2^-bits in the mean."""
    kept, dropped = _split(magnitude, shift)
    return kept + ((((dropped << bits) >> shift) + draw) >> bits)


def _stochastic_b(magnitude: Integers, shift: Integers, draw: Integers, bits: int) -> Integers:
    """As A, with a constant half below the draw's last bit."""
    kept, dropped = _split(magnitude, shift)
    return kept + ((((dropped << (bits + 1)) >> shift) + 2 * draw + 1) >> (bits + 1))


def _stochastic_c(magnitude: Integers, shift: Integers, draw: Integers, bits: int) -> Integers:
    """Round the dropped part to ``bits`` bits, nearest even, then as A."""
    kept, dropped = _split(magnitude, shift)
    return kept + ((_nearest(dropped << bits, shift, draw, bits) + draw) >> bits)


RULES: dict[str, Callable[[Integers, Integers, Integers, int], Integers]] = {
    "nearest": _nearest,
    "stochastic-a": _stochastic_a,
    "stochastic-b": _stochastic_b,
    "stochastic-c": _stochastic_c,
}


def is_stochastic(rule: str) -> bool:
    """Whether ``rule`` takes draws."""
    return rule != "nearest"


def round_magnitude(
    rule: str, magnitude: ArrayLike, shift: ArrayLike, draw: ArrayLike = 0, bits: int = 1
) -> Integers:
    """Drop the low ``shift`` bits of ``magnitude`` by ``rule``; arrays broadcast.

    ``magnitude``: 0..2^24 - 1; ``shift``: 0 or more; ``draw``: 0..2^bits - 1; ``bits``: 1..16.
    The ranges of the arrays are not checked. ValueError for an unknown rule or bits out of range.
    """
    require_choice("rounding", rule, tuple(RULES))
    require_int("bits", bits, 1, MAX_RANDOM_BITS)
    clamped = np.minimum(np.asarray(shift, dtype=np.int64), SHIFT_LIMIT)
    return RULES[rule](
        np.asarray(magnitude, dtype=np.int64), clamped, np.asarray(draw, dtype=np.int64), bits
    )
