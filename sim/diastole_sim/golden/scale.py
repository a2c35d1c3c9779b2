"""From the largest magnitude of a group or a tensor to its exponent, and NVFP4's scale codes.

``amax`` is always the 31 bits of a finite binary32 magnitude, 0 where there is no element (or only
zeros and subnormals, which count as zeros). With amax = s * 2^(x - 23), s of 24 bits:

=======  =====================================================================
floor    x
even     x + 1 if s rounded to p bits (nearest, ties to even) is 2^p, else x
ceil     x if amax is a power of two, else x + 1
rceil    the smallest e with amax <= (largest element of a group of exponent e)
=======  =====================================================================

and no exponent is above 127.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole_sim.formats import (
    EXPONENT_BIAS,
    MAX_EXPONENT,
    NAN_EXPONENT,
    SIGNIFICAND_FRACTION,
    Format,
)
from diastole_sim.numerics import TensorClass

Integers = NDArray[np.int64]

SIGNIFICAND_BITS = 24
"""Of binary32, the hidden bit included."""
SCALE_BITS = SIGNIFICAND_FRACTION + 1
"""Of an E4M3 scale's significand, the hidden bit included."""
LOWEST_SCALE_EXPONENT = -6
"""Of a normal E4M3 scale: 2^-6 is the smallest."""
MAX_SCALE_CODE = 0x7E
"""Largest E4M3 scale, 448."""
NAN_SCALE_CODE = 0x7F
TWO_LEVEL_TOP = 2
"""emax of E2M1: exponent of the top binade minus that of the scale."""
TWO_LEVEL_LARGEST = 21
"""An NVFP4 tensor of exponent T holds up to 2688 * 2^T = 448 * 6 * 2^T = 21 * 2^(T + 7)."""
TENSOR_EXPONENTS = (-137, 117)
"""T of the smallest and of the largest binary32."""
MAX_QUOTIENT_SHIFT = 42
"""A significand of 24 bits shifted down by as much is below 2^-18, where no rule increments."""


def exponents_of(amax: Integers) -> Integers:
    """x: floor(log2 amax) of non-zero magnitudes; -127 for 0."""
    return (amax >> (SIGNIFICAND_BITS - 1)) - EXPONENT_BIAS


def significands_of(amax: Integers) -> Integers:
    """s, 2^23 to 2^24 - 1; meaningless for 0."""
    hidden = 1 << (SIGNIFICAND_BITS - 1)
    return amax & (hidden - 1) | hidden


def group_exponents(amax: Integers, chosen: TensorClass) -> Integers:
    """e by the class's scale rule; meaningless where amax is 0."""
    kind, s = chosen.format, significands_of(amax)
    dropped = SIGNIFICAND_BITS - kind.precision
    if chosen.scale == "fixed":  # a scale of 1, and bf16 has the exponents of binary32
        return np.full_like(amax, MAX_EXPONENT)
    raised = {
        "floor": np.zeros(s.shape, dtype=np.bool_),
        "even": s >= (1 << SIGNIFICAND_BITS) - (1 << (dropped - 1)),
        "ceil": s > 1 << (SIGNIFICAND_BITS - 1),
        "rceil": s > kind.max_significand << dropped,
    }[chosen.scale]
    return np.minimum(exponents_of(amax) + raised, MAX_EXPONENT)


def two_level_exponent(amax: Integers) -> Integers:
    """T of NVFP4: the smallest with amax <= 2688 * 2^T; meaningless where amax is 0."""
    lowest = SIGNIFICAND_BITS - TWO_LEVEL_LARGEST.bit_length()
    return exponents_of(amax) - 11 + (significands_of(amax) > TWO_LEVEL_LARGEST << lowest)


def amax_exponent(amax: int, chosen: TensorClass) -> int:
    """The e of a tensor's scale, or T of NVFP4, that follows from the tensor's ``amax``.

    That of the scale 1 if ``amax`` is 0. The class must have a scale per tensor.
    """
    if amax == 0:
        return unit_exponent(chosen)
    one = np.array([amax], dtype=np.int64)
    two_level = chosen.format.scale == "e4m3"
    return int((two_level_exponent(one) if two_level else group_exponents(one, chosen))[0])


def unit_exponent(chosen: TensorClass) -> int:
    """The e, or T, of a tensor's scale of 1."""
    return 0 if chosen.format.scale == "e4m3" else chosen.format.top_exponent


def scale_codes(amax: Integers, exponent: int, chosen: TensorClass) -> Integers:
    """E4M3 of amax / (6 * 2^T), ``nearest`` (ties to even) or ``up``, at most 448; 0 for 0.

    With amax = s * 2^(x - 23) the quotient is s / 3 * 2^(x - 24 - T), and s / 3 lies in 2^21 to
    2^23: two comparisons tell its binade, and a division by 3 * 2^n rounds it.
    """
    s = np.where(amax == 0, 0, significands_of(amax))
    upper = s >= 3 << 22
    binade = exponents_of(amax) - 3 - exponent + upper
    kept = np.maximum(binade, LOWEST_SCALE_EXPONENT)
    divisor = np.int64(3) << np.minimum(18 + upper + kept - binade, MAX_QUOTIENT_SHIFT)
    whole, rest = np.divmod(s, divisor)
    if chosen.scale == "up":
        whole += rest > 0
    else:
        whole += (2 * rest > divisor) | ((2 * rest == divisor) & (whole & 1 == 1))
    code = ((kept - LOWEST_SCALE_EXPONENT) << SIGNIFICAND_FRACTION) + whole
    return np.where(amax == 0, 0, np.minimum(code, MAX_SCALE_CODE))


def scale_parts(code: NDArray[Any]) -> tuple[Integers, Integers]:
    """sE (1 to 15) and the 4-bit significand of E4M3 codes: sig4 * 2^(sE - 7 - 3)."""
    wide = code.astype(np.int64)
    field = wide >> SIGNIFICAND_FRACTION
    hidden = np.where(field == 0, 0, 1 << SIGNIFICAND_FRACTION)
    return np.maximum(field, 1), hidden + (wide & ((1 << SIGNIFICAND_FRACTION) - 1))


def nan_byte(kind: Format) -> int:
    """The stored exponent of a group that is not a number."""
    return NAN_SCALE_CODE if kind.scale == "e4m3" else NAN_EXPONENT


def stored_parts(
    stored: NDArray[Any], kind: Format, exponent: int | None
) -> tuple[Integers, Integers]:
    """e and the 4-bit significand (8 where scales are powers of two) of stored exponents.

    ``exponent``: T, of NVFP4. Those of zeros and of NaN are meaningless.
    """
    if kind.scale != "e4m3":
        e = stored.astype(np.int64) - EXPONENT_BIAS
        return e, np.full_like(e, 1 << SIGNIFICAND_FRACTION)
    assert exponent is not None
    field, significand = scale_parts(stored)
    return field - 7 + exponent + TWO_LEVEL_TOP, significand
