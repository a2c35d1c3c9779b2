"""Split a copy of a tensor in the format ``fast`` into planes. A plane has an image of its own.

A plane holds 2 bits of every magnitude, with the sign.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from diastole_sim.spec.formats import PLANE_BITS
from diastole_sim.spec.image import Blocks, Bytes, StoredCopy


def split_planes(copy: Blocks, planes: int) -> list[StoredCopy]:
    """Return the planes of a copy in the format ``fast``, the plane of the top bits first. A copy
    with a single image is a single plane."""
    if planes == 1:
        return [_stored(copy, copy.codes)]
    width = PLANE_BITS * planes
    sign = copy.codes >> width << PLANE_BITS
    low = 2**PLANE_BITS - 1
    chunks = (copy.codes >> shift & low for shift in range(width - PLANE_BITS, -1, -PLANE_BITS))
    return [_stored(copy, (sign | chunk).astype(np.uint16)) for chunk in chunks]


def join_planes(planes: Sequence[StoredCopy]) -> StoredCopy:
    """Return the copy of some planes: the inverse of :func:`split_planes`. Exponents and maxima
    must be equal in all planes. Where they differ, the last plane that differs from the first
    counts. A sign is set if any plane has the sign."""
    first = planes[0]
    if len(planes) == 1:
        return first
    codes = np.zeros_like(first.codes)
    signs = np.zeros_like(first.codes)
    for plane in planes:
        codes = codes << PLANE_BITS | plane.codes & 2**PLANE_BITS - 1
        signs |= plane.codes >> PLANE_BITS
    return StoredCopy(
        codes=(codes | signs << PLANE_BITS * len(planes)).astype(np.uint16),
        exponents=_same([plane.exponents for plane in planes]),
        row_max=_same([plane.row_max for plane in planes]),
        col_max=_same([plane.col_max for plane in planes]),
    )


def _same(arrays: Sequence[Bytes]) -> Bytes:
    """Return the common elements of all arrays. Where arrays differ, return the element of the last
    array that differs from the first."""
    first = common = arrays[0]
    for other in arrays[1:]:
        common = np.where(other == first, common, other)
    return common


def _stored(copy: Blocks, codes: NDArray[np.uint16]) -> StoredCopy:
    return StoredCopy(
        codes=codes, exponents=copy.exponents, row_max=copy.row_max, col_max=copy.col_max
    )
