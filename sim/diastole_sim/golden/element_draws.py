"""The draw of every element, of any kind: a function of the element's place, or of itself.

=========  ====  ============================================================================
kind       bits  an element's draw
=========  ====  ============================================================================
counter    1-16  of 16 bits of a hash of its number (``random.py``)
lfsr       1-24  low bits of a register that steps once per column (``lfsr.py``)
lfsr3      3     state or inverse of one that steps once per pair of columns (``lfsr.py``)
data       1-12  the low bits of its own binary32 significand, in every copy: no generator
=========  ====  ============================================================================
"""

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.lfsr_draws import lfsr_draws, pair_draws
from diastole_sim.golden.random import DrawKey, stack_draws
from diastole_sim.spec.numerics import Numerics


def element_draws(
    magnitudes: NDArray[np.int32], numerics: Numerics, key: DrawKey
) -> NDArray[np.int32]:
    """Of a stack of matrices, (tags, rows, columns), of whose elements ``magnitudes`` has the low
    31 bits of binary32."""
    shape = magnitudes.shape[-2], magnitudes.shape[-1]
    bits, kind = numerics.random_bits, numerics.rounding_kind
    if kind == "data":
        return magnitudes & ((1 << bits) - 1)
    if kind == "lfsr3":
        return pair_draws(shape, key)
    if kind == "lfsr":
        return lfsr_draws(shape, key, bits=bits, lfsr_bits=numerics.lfsr_bits)
    return stack_draws(shape, key, bits=bits)
