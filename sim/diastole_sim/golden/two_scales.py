"""Choose one of two scales for every group of NVFP4 by the rule ``four-over-six``.

The largest magnitude of a group becomes 6 times the scale, or 4 times a scale that is half as large
again. The larger scale has narrower steps in the range from 4 to 6 times the smaller scale. The
rule takes the scale with the smaller sum of squared errors, and the scale for 6 if the sums are
equal. Source: Cook et al., Four Over Six, arXiv 2512.02010.

To measure the errors, elements are rounded to nearest, ties to even, whatever the class's rounding
is. With |x| = v in units u of half a last place of the scale for 6, and with the rounded values r4
and r6,

    (v - r4)^2 - (v - r6)^2 = (r6 - r4) (2 v - r4 - r6).

Only magnitudes with different r4 and r6 matter. They are 1/2 or more, and have 24 bits below the
unit at most. The sum is therefore an integer in units of 2^-24, and the comparison is exact.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.partition import Partition
from diastole_sim.spec.formats import BINARY32_SIGNIFICAND_BITS, SCALE_FORMAT, SIGNIFICAND_FRACTION
from diastole_sim.spec.scales import exponents_of, scale_parts, significands_of

Integers = NDArray[Any]
Mask = NDArray[np.bool_]

FRACTION = BINARY32_SIGNIFICAND_BITS
"""Bits of a magnitude below the unit."""
MAGNITUDE_BITS = 8 + FRACTION
"""Bits of a magnitude. A magnitude with more bits is replaced by the largest one: both scales are
then the largest scale, and no error differs."""
ELEMENTS = (0, 1, 2, 3, 4, 6, 8, 12)
"""Magnitudes of E2M1, in halves."""
MIDDLES = (1, 3, 5, 7, 10, 14, 20)
"""Midpoints between neighbours in :data:`ELEMENTS`, in quarters."""


def prefers_four(
    finite: Integers,
    six: Integers,
    four: Integers,
    exponent: int | Integers,
    partition: Partition,
) -> Mask:
    """Return whether every group gets the scale for 4: the scale by which its largest magnitude
    becomes 4.

    ``finite``: magnitude bits of the elements in whole groups, 0 for elements that count as zero.
    ``six``, ``four``: E4M3 codes of every group's two possible scales. ``exponent``: T.
    """
    (field, significand), (other_field, other) = scale_parts(six), scale_parts(four)
    unit = field - SCALE_FORMAT.bias - SIGNIFICAND_FRACTION - 1 + exponent  # u = 2^unit
    v = _in_units(finite, partition.spread(unit))
    r6 = _rounded(v, partition.spread(significand))
    r4 = _rounded(v, partition.spread(other << (other_field - field)))
    worse = (r6 - r4) * (2 * v - ((r4 + r6) << FRACTION))
    return partition.reduce(np.add, worse) < 0


def _in_units(finite: Integers, unit: Integers) -> Integers:
    """Return magnitudes in units of 2^(``unit`` - ``FRACTION``), truncated."""
    lowest = exponents_of(finite) - (BINARY32_SIGNIFICAND_BITS - 1) - (unit - FRACTION)
    free_bits = MAGNITUDE_BITS - BINARY32_SIGNIFICAND_BITS
    s = significands_of(finite).astype(np.int64)
    up, down = np.clip(lowest, 0, free_bits), np.clip(-lowest, 0, BINARY32_SIGNIFICAND_BITS)
    cut = np.where(lowest > free_bits, (1 << MAGNITUDE_BITS) - 1, s << up >> down)
    return np.where(finite == 0, 0, cut)


def _rounded(v: Integers, significand: Integers) -> Integers:
    """Return the nearest multiples of half a scale, in units. ``significand``: significand of the
    scale."""
    places = np.zeros_like(v)
    for number, middle in enumerate(MIDDLES):
        at = (middle * significand) << FRACTION
        places += (2 * v > at) | ((2 * v == at) & (number & 1 == 1))
    return np.array(ELEMENTS, np.int64)[places] * significand
