"""NVFP4 by the rule ``four-over-six``: which of two scales a group gets.

A group's largest magnitude becomes 6 times the scale, or 4 times a scale that is half as large
again: then the steps between 4 and 6 are not so wide. The scale with the smaller sum of squared
errors is taken, 6 where they are equal. Source: Cook et al., Four Over Six, arXiv 2512.02010.

Elements are rounded to nearest, ties to even, to see the errors, whatever the class's rounding is.
With |x| = v in units u of half a last place of the scale for 6, and r4, r6 what it is rounded to,

    (v - r4)^2 - (v - r6)^2 = (r6 - r4) (2 v - r4 - r6),

so that only magnitudes matter for which r4 and r6 differ. Those are 1/2 or more, and have 24 bits
below the unit at most: the sum is an integer, in units of 2^-24, and the comparison exact.
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
"""What has more is as large as can be: then both scales are the largest, and no error differs."""
ELEMENTS = (0, 1, 2, 3, 4, 6, 8, 12)
"""Of E2M1, in halves."""
MIDDLES = (1, 3, 5, 7, 10, 14, 20)
"""Between neighbours of these, in quarters."""


def takes_four(
    finite: Integers,
    six: Integers,
    four: Integers,
    exponent: int | Integers,
    partition: Partition,
) -> Mask:
    """Whether each group gets the scale by which its largest magnitude becomes 4.

    ``finite``: magnitude bits of the elements, whole groups, 0 for what counts as zero. ``six``,
    ``four``: E4M3 codes of each group's scale by either. ``exponent``: T.
    """
    (field, significand), (other_field, other) = scale_parts(six), scale_parts(four)
    unit = field - SCALE_FORMAT.bias - SIGNIFICAND_FRACTION - 1 + exponent  # u = 2^unit
    v = _in_units(finite, partition.spread(unit))
    r6 = _rounded(v, partition.spread(significand))
    r4 = _rounded(v, partition.spread(other << (other_field - field)))
    worse = (r6 - r4) * (2 * v - ((r4 + r6) << FRACTION))
    return partition.reduce(np.add, worse) < 0


def _in_units(finite: Integers, unit: Integers) -> Integers:
    """Magnitudes in units of 2^(``unit`` - ``FRACTION``), cut."""
    lowest = exponents_of(finite) - (BINARY32_SIGNIFICAND_BITS - 1) - (unit - FRACTION)
    room = MAGNITUDE_BITS - BINARY32_SIGNIFICAND_BITS
    s = significands_of(finite).astype(np.int64)
    up, down = np.clip(lowest, 0, room), np.clip(-lowest, 0, BINARY32_SIGNIFICAND_BITS)
    cut = np.where(lowest > room, (1 << MAGNITUDE_BITS) - 1, s << up >> down)
    return np.where(finite == 0, 0, cut)


def _rounded(v: Integers, significand: Integers) -> Integers:
    """The nearest multiples of half a scale, in units; ``significand``: the scale's."""
    places = np.zeros_like(v)
    for number, middle in enumerate(MIDDLES):
        at = (middle * significand) << FRACTION
        places += (2 * v > at) | ((2 * v == at) & (number & 1 == 1))
    return np.array(ELEMENTS, np.int64)[places] * significand
