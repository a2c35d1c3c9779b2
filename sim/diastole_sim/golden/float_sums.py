"""Add sums of chunks as floats of p significant bits, held in doubles.

A sum of two numbers of p bits, rounded to 53 bits and then to p, equals the sum rounded to p if 53
is at least 2 p + 2 (Figueroa, SIGNUM 30(3), 1995). The condition holds for p up to 24. Rounding
does not depend on the exponent, so numbers may be in any unit that is a power of two.
"""

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

DOUBLE_BITS = 53


class FloatSums:
    """Accumulate ``acc = R_p(acc + R_p(q))`` for stacks of matrices of chunk sums q, in order. R_p
    is rounding to p significant bits.

    ``precision``: p, 3 to 24. ``sums``: acc. ``exact``: for every matrix of the stack, True if no
    R_p has lost a bit.
    """

    def __init__(self, *, precision: int):
        self.precision = precision
        self.sums: Doubles = np.zeros(())
        self.exact: NDArray[np.bool_] = np.ones((), np.bool_)

    def add(self, chunk: Doubles) -> None:
        """Add ``chunk``. A chunk sum is exact, or its last bit is sticky: the OR of the bits
        below."""
        added = to_precision(chunk, self.precision)
        total = self.sums + added
        # Bits that the addition itself lost (Knuth's two-sum), if the numbers are far apart.
        of_added = total - self.sums
        lost = (self.sums - (total - of_added)) + (added - of_added)
        result = to_precision(total, self.precision)
        wrong = (added != chunk) | (lost != 0) | (result != total)
        self.sums = result
        self.exact = self.exact & ~wrong.any(axis=(-2, -1))


def to_precision(numbers: Doubles, precision: int) -> Doubles:
    """Round finite doubles to ``precision`` significant bits (2 to 52), to nearest, ties to
    even."""
    dropped = DOUBLE_BITS - precision
    bits = np.ascontiguousarray(numbers).view(np.uint64)
    last = bits >> np.uint64(dropped) & np.uint64(1)
    # A remainder below one half carries nothing. A carry out of the significand increments the
    # exponent.
    bits = bits + (last + np.uint64((1 << (dropped - 1)) - 1))
    bits &= np.uint64(2**64 - (1 << dropped))
    return bits.view(np.float64)
