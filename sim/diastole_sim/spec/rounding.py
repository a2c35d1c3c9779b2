"""Rounding rules of the converter: drop low bits of an integer magnitude.

A rule takes a magnitude, the number of low bits to drop, and a draw of ``bits`` random bits. The
rule returns the kept part, incremented or not. Let nu be the dropped part in units of the kept
part's last place, 0 <= nu < 1, and R the draw. A rule increments under the following condition:

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
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from diastole_sim.spec.lfsr import MAX_LFSR_BITS, PAIR_LFSR_BITS
from diastole_sim.spec.require import require_choice, require_int

Integers = NDArray[Any]
Mask = NDArray[np.bool_]

MAX_MAGNITUDE_BITS = 24
DRAW_BITS = 16
"""Bits of an element's draw. A rounding with fewer random bits takes the top bits."""
SHARED_DRAW_BITS = 8
"""Most random bits of a second copy from the draw of the first copy, whose low bits the second copy
takes. With more random bits the second copy has a draw of its own."""
RANDOM_BITS: dict[str, tuple[int, int]] = {
    "counter": (1, DRAW_BITS),
    "lfsr": (1, MAX_LFSR_BITS),
    "lfsr3": (PAIR_LFSR_BITS, PAIR_LFSR_BITS),
    "data": (1, 12),
}
"""Fewest and most bits of a draw, by the kind of draws
(:mod:`diastole_sim.golden.element_draws`)."""
DEFAULT_RANDOM_BITS = 8
KINDS = tuple(RANDOM_BITS)
ROW_KINDS = ("lfsr", "lfsr3")
"""Kinds whose draws are states of a register that starts anew in every row."""
MAX_RANDOM_BITS = max(maximum for _, maximum in RANDOM_BITS.values())
SHIFT_LIMIT = MAX_MAGNITUDE_BITS + MAX_RANDOM_BITS + 2
"""Shift from which on nu < 2^-26 and no rule increments. Larger shifts are clamped to this
shift."""


def _nearest(
    truncated: Integers, part: Integers, rest: Mask, draw: Integers, bits: int
) -> Integers:
    """Round to nearest, ties to even, without a draw."""
    half = 1 << bits
    return truncated + ((part > half) | ((part == half) & (rest | (truncated & 1 == 1))))


def _stochastic_a(
    truncated: Integers, part: Integers, rest: Mask, draw: Integers, bits: int
) -> Integers:
    """Add the draw below the kept part and truncate; too low by up to 2^-bits in the mean."""
    return truncated + (((part >> 1) + draw) >> bits)


def _stochastic_b(
    truncated: Integers, part: Integers, rest: Mask, draw: Integers, bits: int
) -> Integers:
    """Add the draw and a constant half below the draw's last bit, and truncate."""
    return truncated + ((part + 2 * draw + 1) >> (bits + 1))


def _stochastic_c(
    truncated: Integers, part: Integers, rest: Mask, draw: Integers, bits: int
) -> Integers:
    """Round the dropped part to ``bits`` bits, to nearest even, then continue as rule A."""
    whole = part >> 1
    whole += part & 1 & (rest | whole)
    return truncated + ((whole + draw) >> bits)


RULES: dict[str, Callable[[Integers, Integers, Mask, Integers, int], Integers]] = {
    "nearest": _nearest,
    "stochastic-a": _stochastic_a,
    "stochastic-b": _stochastic_b,
    "stochastic-c": _stochastic_c,
}
"""Rules as functions of the kept part, floor(nu * 2^(bits+1)), a mask of rests below, draw and
bits."""


def default_random_bits(kind: str) -> int:
    """Return the default number of random bits per draw of a kind of generator: 8, or the accepted
    number nearest to 8."""
    require_choice("rounding_kind", kind, KINDS)
    minimum, maximum = RANDOM_BITS[kind]
    return min(max(DEFAULT_RANDOM_BITS, minimum), maximum)


def is_stochastic(rule: str) -> bool:
    """Return whether ``rule`` takes draws."""
    return rule != "nearest"


def round_magnitude(
    rule: str, magnitude: ArrayLike, shift: ArrayLike, draw: ArrayLike = 0, bits: int = 1
) -> Integers:
    """Drop the low ``shift`` bits of ``magnitude`` by ``rule``; arrays broadcast.

    ``magnitude``: 0..2^24 - 1; ``shift``: 0 or more; ``draw``: 0..2^bits - 1; ``bits``: 1..24. The
    ranges of the arrays are not checked. ValueError for an unknown rule or bits out of range.
    Integers of arguments and result have 32 bits or more.
    """
    require_choice("rounding", rule, tuple(RULES))
    require_int("bits", bits, 1, MAX_RANDOM_BITS)
    magnitude, shift, draw = (np.asarray(operand) for operand in (magnitude, shift, draw))
    if rule == "nearest":
        return _to_nearest(magnitude, shift)
    shift = np.minimum(shift, SHIFT_LIMIT)
    truncated = magnitude >> shift
    dropped = magnitude - (truncated << shift)
    if shift.size and shift.min() > bits:  # 32 bits are enough, unless an argument has more
        shift = shift - (bits + 1)
        part = dropped >> shift
        return RULES[rule](truncated, part, part << shift != dropped, draw, bits)
    dropped = dropped.astype(np.int64) << (bits + 1)
    part = dropped >> shift
    return RULES[rule](truncated, part, part << shift != dropped, draw, bits)


def _to_nearest(magnitude: Integers, shift: Integers) -> Integers:
    """Round by the rule ``nearest``: add twice the magnitude, 1 if the kept part is odd, and
    2^shift - 1, then drop ``shift`` + 1 bits."""
    shift = np.minimum(shift, MAX_MAGNITUDE_BITS + 2)
    total = magnitude >> shift
    total &= 1
    total += magnitude << 1
    total += (np.ones_like(shift) << shift) - 1
    total >>= shift + 1
    return total


def round_quotient(
    rule: str, numerator: ArrayLike, divisor: ArrayLike, draw: ArrayLike = 0, bits: int = 1
) -> Integers:
    """Round ``numerator`` / ``divisor``, an exact fraction, to an integer by ``rule``; arrays
    broadcast.

    ``numerator``: 0..2^24 - 1; ``divisor``: 1..2^54. All else as for :func:`round_magnitude`.
    """
    require_choice("rounding", rule, tuple(RULES))
    require_int("bits", bits, 1, MAX_RANDOM_BITS)
    divisor = np.asarray(divisor, dtype=np.int64)
    truncated, dropped = np.divmod(np.asarray(numerator, dtype=np.int64), divisor)
    part, rest = np.divmod(dropped << (bits + 1), divisor)
    return RULES[rule](truncated, part, rest != 0, np.asarray(draw, dtype=np.int64), bits)
