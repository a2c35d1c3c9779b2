"""A copy of a tensor in the format ``fast`` as its planes, each of which has an image."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from diastole_sim.spec.formats import PLANE_BITS
from diastole_sim.spec.image import Blocks, Bytes, StoredCopy


def split_planes(copy: Blocks, planes: int) -> list[StoredCopy]:
    """The planes of a copy in the format ``fast``, the top bits first; of a copy that has one image
    only that."""
    if planes == 1:
        return [_stored(copy, copy.codes)]
    width = PLANE_BITS * planes
    sign = copy.codes >> width << PLANE_BITS
    low = 2**PLANE_BITS - 1
    chunks = (copy.codes >> shift & low for shift in range(width - PLANE_BITS, -1, -PLANE_BITS))
    return [_stored(copy, (sign | chunk).astype(np.uint16)) for chunk in chunks]


def join_planes(planes: Sequence[StoredCopy]) -> StoredCopy:
    """The inverse of :func:`split_planes`. Where planes differ in what must be the same in each, it
    is as the last of them that differs from the first has it, and signs are those of any."""
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
    """What is the same in all; else, of the last that differs from the first."""
    first = found = arrays[0]
    for other in arrays[1:]:
        found = np.where(other == first, found, other)
    return found


def _stored(copy: Blocks, codes: NDArray[np.uint16]) -> StoredCopy:
    return StoredCopy(
        codes=codes, exponents=copy.exponents, row_max=copy.row_max, col_max=copy.col_max
    )
