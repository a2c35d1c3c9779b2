"""Draw the random bits of every element: a function of the element's place, or of the element
itself.

The kinds, with the bits of a draw:

- ``counter``, 1-16: bits out of 16 bits of a hash of the element's number (``random.py``).
- ``lfsr``, 1-24: low bits of a register that steps once per column (``lfsr_draws.py``).
- ``lfsr3``, 3: state or inverse of a register that steps once per pair of columns
  (``lfsr_draws.py``).
- ``data``, 1-12: low bits of the element's own binary32 significand, in every copy. No generator.
"""

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.lfsr_draws import lfsr_draws, pair_draws
from diastole_sim.golden.random import DrawKey, stack_draws
from diastole_sim.spec.numerics import Numerics


def element_draws(
    magnitudes: NDArray[np.int32], numerics: Numerics, key: DrawKey
) -> NDArray[np.int32]:
    """Return the draws for a stack of matrices, (tags, rows, columns). ``magnitudes``: low 31 bits
    of the elements as binary32."""
    shape = magnitudes.shape[-2], magnitudes.shape[-1]
    bits, kind = numerics.random_bits, numerics.rounding_kind
    if kind == "data":
        return magnitudes & ((1 << bits) - 1)
    if kind == "lfsr3":
        return pair_draws(shape, key)
    if kind == "lfsr":
        return lfsr_draws(shape, key, bits=bits, lfsr_bits=numerics.lfsr_bits)
    return stack_draws(shape, key, bits=bits)
