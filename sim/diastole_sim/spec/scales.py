"""Derive exponents from the largest magnitude of a group or a tensor, and NVFP4's scale codes.

``amax`` is always the 31 bits of a finite binary32 magnitude, 0 for no element or for zeros and
subnormals only. (Subnormals count as zeros.) With amax = s * 2^(x - 23), s of 24 bits, the rules
give the following exponents:

- ``floor``: x;
- ``even``: x + 1 if s rounded to p bits (nearest, ties to even) is 2^p, else x;
- ``ceil``: x if amax is a power of two, else x + 1;
- ``rceil``: the smallest e with amax <= (largest element of a group of exponent e).

No exponent is above 127.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole_sim.spec.formats import (
    BINARY32_SIGNIFICAND_BITS,
    EXPONENT_BIAS,
    FOUR_OVER_SIX,
    FOUR_OVER_SIX_EXPONENT,
    FOUR_OVER_SIX_LARGEST,
    MAX_EXPONENT,
    SCALE_FORMAT,
    SIGNIFICAND_FRACTION,
    TWO_LEVEL_EXPONENT,
    TWO_LEVEL_LARGEST,
    Format,
)
from diastole_sim.spec.numerics import TensorClass
from diastole_sim.spec.rounding import SHIFT_LIMIT

Integers = NDArray[np.int64]

MAX_QUOTIENT_SHIFT = SHIFT_LIMIT
"""Shift from which on a significand of 24 bits is below 2^-26, where no rule increments."""


def exponents_of(amax: Integers) -> Integers:
    """Return x: floor(log2 amax) of non-zero magnitudes; -127 for 0."""
    return (amax >> (BINARY32_SIGNIFICAND_BITS - 1)) - EXPONENT_BIAS


def significands_of(amax: Integers) -> Integers:
    """Return s, 2^23 to 2^24 - 1; meaningless for 0."""
    hidden = 1 << (BINARY32_SIGNIFICAND_BITS - 1)
    return amax & (hidden - 1) | hidden


def group_exponents(amax: Integers, storage: TensorClass) -> Integers:
    """Return e by the class's scale rule; meaningless where amax is 0."""
    kind, s = storage.format, significands_of(amax)
    dropped = BINARY32_SIGNIFICAND_BITS - kind.precision
    if storage.scale == "fixed":  # the scale is 1, and bf16 has the exponents of binary32
        return np.full_like(amax, MAX_EXPONENT)
    raised = {
        "floor": np.zeros(s.shape, dtype=np.bool_),
        "even": s >= (1 << BINARY32_SIGNIFICAND_BITS) - (1 << (dropped - 1)),
        "ceil": s > 1 << (BINARY32_SIGNIFICAND_BITS - 1),
        "rceil": s > kind.max_significand << dropped,
    }[storage.scale]
    return np.minimum(exponents_of(amax) + raised, MAX_EXPONENT)


def two_level_exponent(amax: Integers, storage: TensorClass) -> Integers:
    """Return T of NVFP4: the smallest T with amax <= 2688 * 2^T, or, by the rule ``four-over-six``,
    with amax <= 1536 * 2^T. T is at most the largest value in a command. Meaningless where amax is
    0."""
    largest, exponent = TWO_LEVEL_LARGEST, TWO_LEVEL_EXPONENT
    if storage.scale == FOUR_OVER_SIX:
        largest, exponent = FOUR_OVER_SIX_LARGEST, FOUR_OVER_SIX_EXPONENT
    lowest = BINARY32_SIGNIFICAND_BITS - largest.bit_length()
    above = significands_of(amax) > largest << lowest
    return np.minimum(exponents_of(amax) - exponent + above, storage.format.tensor_exponents[1])


def amax_exponent(amax: int, storage: TensorClass) -> int:
    """Return the exponent of a tensor's scale, e or T of NVFP4, from the tensor's ``amax``.

    The exponent of the scale 1 is returned if ``amax`` is 0. The class must have a scale per
    tensor.
    """
    if amax == 0:
        return storage.format.unit_exponent
    one = np.array([amax], dtype=np.int64)
    if storage.format.two_level:
        return int(two_level_exponent(one, storage)[0])
    return int(group_exponents(one, storage)[0])


def delayed_exponent(maxima: Sequence[int], storage: TensorClass, margin: int) -> int | None:
    """Return the exponent of a tensor's scale, e or T of NVFP4, from ``maxima``, the tensor's
    largest magnitudes in steps before. None if all maxima are 0.

    The scale of the largest maximum is raised by ``margin`` binades, but not beyond the largest
    scale of a command.
    """
    largest = max(maxima)
    if largest == 0:
        return None
    limit = storage.format.tensor_exponents[1] if storage.format.two_level else MAX_EXPONENT
    return min(amax_exponent(largest, storage) + margin, limit)


def scale_codes(
    amax: Integers, exponent: int | Integers, storage: TensorClass, largest: int = 6
) -> Integers:
    """Return E4M3 of amax / (6 * 2^T), to nearest (ties to even) or ``up``, at most 448; 0 for 0.
    With ``largest`` = 4 return E4M3 of amax / (4 * 2^T).

    With amax = s * 2^(x - 23) the quotient by 6 is s / 3 * 2^(x - 24 - T), and s / 3 lies in 2^21
    to 2^23. A comparison gives the binade, and a division by 3 * 2^n rounds. The quotient by 4 is s
    * 2^(x - 25 - T).
    """
    s = np.where(amax == 0, 0, significands_of(amax))
    upper = s >= 3 << 22 if largest == 6 else np.ones_like(s)
    divisor, shift = (np.int64(3), 18) if largest == 6 else (np.int64(1), 19)
    binade = exponents_of(amax) - 3 - exponent + upper
    lowest = 1 - SCALE_FORMAT.bias
    clipped = np.maximum(binade, lowest)
    divisor = divisor << np.minimum(shift + upper + clipped - binade, MAX_QUOTIENT_SHIFT)
    whole, rest = np.divmod(s, divisor)
    if storage.scale == "up":
        whole += rest > 0
    else:
        whole += (2 * rest > divisor) | ((2 * rest == divisor) & (whole & 1 == 1))
    code = ((clipped - lowest) << SIGNIFICAND_FRACTION) + whole
    return np.where(amax == 0, 0, np.minimum(code, SCALE_FORMAT.max_code))


def scale_parts(code: NDArray[Any]) -> tuple[Integers, Integers]:
    """Return sE (1 to 15) and the 4-bit significand of E4M3 codes: sig4 * 2^(sE - 7 - 3)."""
    wide = code.astype(np.int64)
    field = wide >> SIGNIFICAND_FRACTION
    hidden = np.where(field == 0, 0, 1 << SIGNIFICAND_FRACTION)
    return np.maximum(field, 1), hidden + (wide & ((1 << SIGNIFICAND_FRACTION) - 1))


def stored_parts(
    stored: NDArray[Any], kind: Format, exponent: int | Integers | None
) -> tuple[Integers, Integers]:
    """Return e and the 4-bit significand (8 for scales that are powers of two) of stored exponents.

    ``exponent``: T of NVFP4; it broadcasts. Results for zeros and NaN are meaningless.
    """
    if not kind.two_level:
        e = stored.astype(np.int64) - EXPONENT_BIAS
        return e, np.full_like(e, 1 << SIGNIFICAND_FRACTION)
    assert exponent is not None
    field, significand = scale_parts(stored)
    return field + exponent - kind.scale_offset, significand
