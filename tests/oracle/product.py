"""Matrix products of quantised tensors: exact ones, and aligned accumulation block by block.

Operands are lists of lists of Python integers: signed magnitudes padded to whole blocks, and
stored exponents per block. A product is A B with A's columns and B's rows contracted.
"""

from fractions import Fraction

import gmpy2


def transpose(rows):
    return [list(column) for column in zip(*rows, strict=True)]


def exact_product(a, b):
    """A B of lists of lists of fractions."""
    columns = transpose(b)
    return [[sum(x * y for x, y in zip(r, c, strict=True)) for c in columns] for r in a]


def binary32(value):
    """Round a fraction once: (float, overflow); +0 if below 2^-126 after rounding to 24 bits."""
    wide = gmpy2.context(precision=24, round=gmpy2.RoundToNearest)
    with wide:
        rounded = gmpy2.mpfr(gmpy2.mpq(value.numerator, value.denominator))
    exact = Fraction(*rounded.as_integer_ratio())
    if abs(exact) < Fraction(2) ** -126:
        return 0.0, False
    if abs(exact) >= Fraction(2) ** 128:
        return float("inf") if exact > 0 else float("-inf"), True
    return float(exact), False


def _shifted(block_sum, d, fraction):
    """(s << F) >> d to nearest, ties upward."""
    value = Fraction(block_sum * 2**fraction, 2**d) + Fraction(1, 2)
    return value.numerator // value.denominator


def aligned_product(a, a_exponents, a_bits, b, b_exponents, b_bits, *, block, fraction):
    """The product as the array computes it: (fractions before the last rounding, exact).

    ``a_bits``, ``b_bits``: mantissa bits. Bounds and deficits come from the stored exponents.
    """
    sum_bits = a_bits + b_bits + 1 + block.bit_length() - 1
    row_max = [max(row) for row in a_exponents]
    col_max = [max(column) for column in transpose(b_exponents)]
    exact, result = True, []
    for i, a_row in enumerate(a):
        result.append([])
        for j in range(len(b[0])):
            bi, bj, total = i // block, j // block, 0
            for k in range(len(b_exponents)):
                ea, eb = a_exponents[bi][k], b_exponents[k][bj]
                if ea == 0 or eb == 0:
                    continue
                d = min(row_max[bi] - ea + col_max[bj] - eb, sum_bits + fraction)
                exact = exact and d <= fraction
                places = range(k * block, (k + 1) * block)
                total += _shifted(sum(a_row[p] * b[p][j] for p in places), d, fraction)
            bound = (row_max[bi] - 127) + (col_max[bj] - 127)
            scale = bound - fraction - (a_bits - 1) - (b_bits - 1)
            result[-1].append(total * Fraction(2) ** scale)
    return result, exact
