"""The precision monitor: what magnitudes of 4 bits would improve on those of 2.

Of every element of a tensor, whatever width and rounding it is stored with, k4 and k2 are its
magnitudes at its group's exponent, rounded to nearest even and saturating. Their difference beside
the magnitudes themselves, r = sum |k4 - 4 k2| / sum 4 k2, is what a host decides by which width the
next conversion has: .32 for normal numbers, .16 for uniform ones.

Source: Zhang, McDanel, Kung: FAST, HPCA 2022; there groups weigh by their exponents.
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
"""Where the counters stop."""


@dataclass(frozen=True, kw_only=True)
class Improvement:
    """``num``: sum of |k4 - 4 k2|; ``den``: sum of 4 k2, counted as that of k2. Both counters
    have 32 bits and stop at all ones."""

    num: int
    den: int

    @classmethod
    def counted(cls, num: int, narrow: int) -> "Improvement":
        """As the counters show sums of that size; ``narrow``: of k2."""
        scale = 1 << (WIDE - NARROW)
        return cls(num=min(num, COUNTER_MAX), den=scale * min(narrow, COUNTER_MAX))

    def exceeds(self, threshold: int) -> bool:
        """Whether r is above a threshold, in units of 2^-16: whether the tensor's next conversion
        has 4 bits. 0 / 0 is above none."""
        return (self.num << THRESHOLD_BITS) > threshold * self.den

    @property
    def ratio(self) -> float:
        """r; 0 for a tensor of zeros, Inf where only the wide magnitudes are none."""
        if self.den:
            return self.num / self.den
        return float("inf") if self.num else 0.0


@runtime_checkable
class Monitored(Protocol):
    """A converted tensor of which the monitor has something to say, or None."""

    @property
    def improvement(self) -> Improvement | None: ...


def improvements(fields: Fields, numerics: Numerics, tensor_class: str) -> list[Improvement]:
    """Of each matrix of a stack, (count, rows, columns), unpadded. NaN counts as 0 and Inf as the
    largest element, as they are stored; with ``poison`` their groups count as zeros."""
    nearest = replace(numerics.tensor_class(tensor_class), rounding="nearest")
    measured = replace(numerics, widths=(NARROW, WIDE), **{tensor_class: nearest})

    def rounded(width: int) -> NDArray[np.int64]:
        draws = np.zeros((1, 1, 1), np.int32)
        asked = Conversion(tensor_class, width=width)
        copy, _ = convert_copy(fields, draws, measured, asked, None, False)
        kind = measured.converted_class(tensor_class, width).format
        return magnitudes(copy.codes, kind)  # padding is zeros

    narrow, wide = rounded(NARROW), rounded(WIDE)
    differ = np.abs(wide - (narrow << (WIDE - NARROW))).sum(axis=(1, 2)).tolist()
    return [
        Improvement.counted(num, k2)
        for num, k2 in zip(differ, narrow.sum(axis=(1, 2)).tolist(), strict=True)
    ]
