"""Sums of chunks by MPFR at p bits: to nearest even, in the order of the contraction."""

import gmpy2


def float_sum(terms, *, in_chunk, mantissa):
    """(sum, whether nothing was lost) of integers, one for each block of the contraction: those of
    ``in_chunk`` blocks are added exactly, rounded to ``mantissa`` + 1 bits, and added so."""
    lost = False
    context = gmpy2.context(precision=mantissa + 1, round=gmpy2.RoundToNearest)
    total = gmpy2.mpfr(0)
    with context:
        for first in range(0, len(terms), in_chunk):
            exactly = sum(terms[first : first + in_chunk])
            chunk = gmpy2.mpfr(exactly)
            before = int(total)
            total = total + chunk
            lost = lost or int(chunk) != exactly or int(total) != before + int(chunk)
    return int(total), not lost
