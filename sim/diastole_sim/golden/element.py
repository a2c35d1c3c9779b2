"""Round the elements of a group: convert binary32 numbers and a scale to magnitude codes.

``finite``: the 31 magnitude bits of every element, 0 for an element that counts as zero. ``e``:
exponent of the top binade of the element's group. A code is above ``max_code`` if the element
exceeds the largest element of the format; the caller decides the final code.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.magnitudes import encode_magnitudes
from diastole_sim.spec.formats import BINARY32_SIGNIFICAND_BITS, SCALE_SIGNIFICAND_BITS
from diastole_sim.spec.numerics import TensorClass
from diastole_sim.spec.rounding import round_magnitude, round_quotient
from diastole_sim.spec.scales import (
    MAX_QUOTIENT_SHIFT,
    exponents_of,
    significands_of,
)

Integers = NDArray[Any]


def round_elements(
    finite: Integers, e: Integers, storage: TensorClass, draws: Integers, bits: int
) -> Integers:
    """Return the codes of elements whose scale is a power of two."""
    kind = storage.format
    below = e - exponents_of(finite)
    shift = np.maximum(below, 0)
    d = np.minimum(shift, kind.depth) if kind.depth else shift[:0]
    if kind.depth:
        shift -= d
    shift += BINARY32_SIGNIFICAND_BITS - kind.precision
    code = round_magnitude(storage.rounding, significands_of(finite), shift, draws, bits)
    if kind.depth:
        code = encode_magnitudes(code, d, kind)
    if below.size and below.min() < 0:
        code[below < 0] = kind.max_code + 1
    code[finite == 0] = 0
    return code


def round_quotients(
    finite: Integers,
    e: Integers,
    significand: Integers,
    storage: TensorClass,
    draws: Integers,
    bits: int,
) -> Integers:
    """Return the codes of elements whose scale has a ``significand`` of 1 to 15 eighths besides
    ``e``.

    The quotient of a 24-bit significand s by a 4-bit significand is in the binade of s if s is not
    smaller than the aligned divisor. Otherwise the quotient is in the binade below. With the binade
    known the quotient is rounded once, exactly.
    """
    finite, e, significand = (part.astype(np.int64) for part in (finite, e, significand))
    kind, s = storage.format, significands_of(finite)
    bit_length = np.array([number.bit_length() for number in range(1 << SCALE_SIGNIFICAND_BITS)])
    lead = SCALE_SIGNIFICAND_BITS - bit_length[significand]
    fits = s >= significand << (lead + BINARY32_SIGNIFICAND_BITS - SCALE_SIGNIFICAND_BITS)
    below = e - exponents_of(finite) + 1 - fits - lead
    d = np.clip(below, 0, kind.depth)
    shift = (
        BINARY32_SIGNIFICAND_BITS
        - kind.precision
        - SCALE_SIGNIFICAND_BITS
        + fits
        + lead
        + np.maximum(below, 0)
        - d
    )
    divisor = significand << np.minimum(shift, MAX_QUOTIENT_SHIFT)
    code = encode_magnitudes(round_quotient(storage.rounding, s, divisor, draws, bits), d, kind)
    code[below < 0] = kind.max_code + 1
    code[finite == 0] = 0
    return code
