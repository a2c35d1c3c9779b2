"""Encode, decode and fold the magnitude codes of elements.

An element is (-1)^s * sig * 2^(e - d - p + 1), with e the exponent of the element's group. D and p
are the depth and the precision of the format. The magnitude code is ((D - d) << (p - 1)) + sig, and
the stored element is code | s << magnitude_bits. A code above the format's ``max_code`` is Inf or
NaN.

*Folding* lowers the exponent of a group by the smallest d in the group, so that a window of product
bits is spent on the bits that are present. Every value stays the same.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole_sim.spec.formats import Format

Integers = NDArray[np.int64]
Mask = NDArray[np.bool_]


def magnitudes(codes: NDArray[Any], kind: Format) -> Integers:
    """Return stored elements without their signs."""
    return codes.astype(np.int64) & ((1 << kind.magnitude_bits) - 1)


def is_negative(codes: NDArray[Any], kind: Format) -> Mask:
    """Return whether stored elements have a sign; a NaN or a zero may have a sign too."""
    return (codes >> kind.magnitude_bits) & 1 == 1


def is_inf(codes: NDArray[Any], kind: Format) -> Mask:
    """Return whether stored elements are infinite."""
    if kind.specials != "ieee":
        return np.zeros(codes.shape, dtype=np.bool_)
    return magnitudes(codes, kind) == kind.max_code + 1


def is_nan(codes: NDArray[Any], kind: Format) -> Mask:
    """Return whether stored elements are NaN."""
    return magnitudes(codes, kind) > kind.max_code + (kind.specials == "ieee")


def decode_magnitudes(codes: NDArray[Any], kind: Format) -> tuple[Integers, Integers]:
    """Return ``sig`` and ``d`` of stored elements, without signs; both are 0 for zeros, Inf and
    NaN."""
    code = magnitudes(codes, kind)
    code[code > kind.max_code] = 0
    if kind.depth == 0:
        return code, np.zeros_like(code)
    field = code >> (kind.precision - 1)
    normal = field != 0
    significand = code - (np.maximum(field - 1, 0) << (kind.precision - 1))
    return significand, np.where(code == 0, 0, kind.depth + normal - field)


def encode_magnitudes(significand: Integers, d: Integers, kind: Format) -> Integers:
    """Return the magnitude codes of non-negative significands. A significand of 2^p carries into
    the next binade."""
    return ((kind.depth - d) << (kind.precision - 1)) + significand


def smallest_depth(code: Integers, kind: Format) -> Integers:
    """Return by how much every magnitude code could be folded; D + 1 for zeros, Inf and NaN, which
    set no limit.

    The result is d, or d - 1 if the significand is too large for the top binade. E4M3 has 1.75 *
    2^8 as its largest number in the top binade, and the code of 1.875 * 2^8 is NaN.
    """
    significand, d = decode_magnitudes(code, kind)
    return np.where(significand == 0, kind.depth + 1, d - (significand > kind.max_significand))


def fold(code: Integers, by: Integers, kind: Format) -> Integers:
    """Return the codes of the same values in groups whose exponents are lower by ``by``.

    ``by``: at most the :func:`smallest_depth` of every element of the group. Inf and NaN stay
    unchanged.
    """
    significand, d = decode_magnitudes(code, kind)
    missing = np.array([kind.precision - sig.bit_length() for sig in range(2**kind.precision)])
    up = np.minimum(missing[significand], kind.depth - d + by)  # a subnormal becomes normal
    folded = encode_magnitudes(significand << up, d - by + up, kind)
    return np.where((code == 0) | (code > kind.max_code), code, folded)


def unfold(code: Integers, by: Integers, kind: Format) -> Integers:
    """Invert :func:`fold`: return the codes that a standard would have."""
    significand, d = decode_magnitudes(code, kind)
    depth = d + by
    below = np.maximum(depth - kind.depth, 0)
    plain = encode_magnitudes(significand >> below, depth - below, kind)
    return np.where((code == 0) | (code > kind.max_code), code, plain)
