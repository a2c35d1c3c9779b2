"""Monitor precision: measure how much magnitudes of 4 bits would improve on magnitudes of 2 bits.

For every element of a tensor, k4 and k2 are the magnitudes of 4 and of 2 bits at the exponent of
the element's group, rounded to nearest even with saturation. They do not depend on the width and
rounding with which the tensor is stored. The ratio r = sum |k4 - 4 k2| / sum 4 k2 compares the
difference with the magnitudes. A host chooses the width of the next conversion by r: .32 for normal
numbers, .16 for uniform numbers.

Source: Zhang, McDanel, Kung: FAST, HPCA 2022. In the paper groups are weighted by their exponents.
"""

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.copies import Fields, convert_copy
from diastole_sim.golden.magnitudes import magnitudes
from diastole_sim.spec.numerics import Numerics

NARROW, WIDE = 2, 4
THRESHOLD_BITS = 16
"""Fraction bits of a threshold of r."""
COUNTER_MAX = 2**32 - 1
"""Largest value of a counter, at which the counter stops."""


@dataclass(frozen=True, kw_only=True)
class Improvement:
    """Ratio r of the monitor as a fraction, with k4 and k2 the magnitudes of an element in 4 and in
    2 bits.

    - ``num``: sum of |k4 - 4 k2|, a counter.
    - ``den``: sum of 4 k2, which is 4 times the counter of k2.

    Both counters have 32 bits and stop at all ones.
    """

    num: int
    den: int

    @classmethod
    def counted(cls, num: int, narrow: int) -> "Improvement":
        """Return the improvement that the counters show for the sums ``num`` and ``narrow`` (of
        k2)."""
        scale = 1 << (WIDE - NARROW)
        return cls(num=min(num, COUNTER_MAX), den=scale * min(narrow, COUNTER_MAX))

    def exceeds(self, threshold: int) -> bool:
        """Return whether r is above a threshold in units of 2^-16. The tensor's next conversion
        then has 4 bits. 0 / 0 is above no threshold."""
        return (self.num << THRESHOLD_BITS) > threshold * self.den

    @property
    def ratio(self) -> float:
        """Ratio r: 0 for a tensor of zeros, Inf if all narrow magnitudes but not all wide
        magnitudes are 0."""
        if self.den:
            return self.num / self.den
        return float("inf") if self.num else 0.0


@runtime_checkable
class Monitored(Protocol):
    """Converted tensor with a result of the monitor, or None."""

    @property
    def improvement(self) -> Improvement | None: ...


def improvements(fields: Fields, numerics: Numerics, tensor_class: str) -> list[Improvement]:
    """Return the improvement of every matrix of a stack, (count, rows, columns), without padding.
    NaN counts as 0 and Inf as the largest element, as in the stored tensor. With ``poison`` the
    groups of NaN and Inf count as zeros."""
    nearest = replace(numerics.tensor_class(tensor_class), rounding="nearest")
    measured = replace(numerics, widths=(NARROW, WIDE), **{tensor_class: nearest})

    def rounded(width: int) -> NDArray[np.int64]:
        draws = np.zeros((1, 1, 1), np.int32)
        conversion = Conversion(tensor_class, width=width)
        copy, _ = convert_copy(fields, draws, measured, conversion, None, False)
        kind = measured.converted_class(tensor_class, width).format
        return magnitudes(copy.codes, kind)  # padding is zeros

    narrow, wide = rounded(NARROW), rounded(WIDE)
    differ = np.abs(wide - (narrow << (WIDE - NARROW))).sum(axis=(1, 2)).tolist()
    return [
        Improvement.counted(num, k2)
        for num, k2 in zip(differ, narrow.sum(axis=(1, 2)).tolist(), strict=True)
    ]
