"""Special functions of the vector unit: tables and constants for golden model and hardware.

A function is a parabola on each of equal segments. A segment's row is (c0, c1, c2). The place in a
segment is an argument t of T bits, and

    th = t >> (T - 14);  q = (th * th) >> 14;  p = c0 + ((c1 * t) >> (T + 3)) + ((c2 * q) >> 17)

in units of 2^-28; ``>>`` rounds towards minus infinity.

=======  ==================  =========================  ================================
table    function            on                         segment, argument
=======  ==================  =========================  ================================
EXP      2^u - 1             0 <= u < 1                 64, 21 bits
RCP      2 / x - 1           1 <= x < 2                 128, 16 bits
RSQ      2 / sqrt(x) - 1     1 <= x < 2, 2 <= x < 4     128 of each, 16 bits
LGG      log(1 + d) / d      -1/4 <= d < 1/2            96, 17 bits
=======  ==================  =========================  ================================

The parabola goes through the function at the three Chebyshev points of the segment. Coefficients
are rounded to units of 2^-28, 2^-31 and 2^-31. Then c0 is moved by the rounded mean of the largest
and the smallest error at the 65 arguments floor(k (2^T - 1) / 64).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from diastole_sim.spec.require import require_int

TABLES = Path(__file__).with_name("tables")
"""Folder with a file for every table. A file has a line for every row: c0 c1 c2 in decimal."""

VALUE_BITS = 28
"""Fraction bits of p, and of the significand before it is rounded to a float."""
SLOPE_BITS = 31
"""Fraction bits of c1 and c2."""
SQUARE_BITS = 14
"""Bits of th, the top bits of the argument, and of q, the square of th."""

LOG2E_BITS = 33
LOG2E = 12392656037
"""log2 e in units of 2^-33, rounded: the factor by which ``exp`` multiplies a significand."""
EXP_SHIFT_LIMIT = 62
"""Most bits that ``exp`` drops of the product with log2 e, a number of 58 bits."""
EXP_OVERFLOW = 7
"""Exponent from which on ``exp`` uses the sign only: |x| >= 128."""

LN2_HIGH = 0.69140625
"""HI: 8 bits of ln 2. The product of HI and an exponent is exact."""

LARGEST_ERRORS = {"exp": 0.80, "rcp": 0.86, "rsq": 0.64, "lgg": 0.66}
"""Largest errors in units in the last place of the exact result. tests/sweeps/test_functions.py
measures them over every significand, and over 10 million numbers of ``exp``."""

Row = tuple[int, int, int]


@dataclass(frozen=True)
class FunctionTable:
    """Rows of a function in ascending order, and the bits of the argument in a segment.

    ``bits``: bits of c0, c1 and c2 in every row, with a sign bit (two's complement) only where
    ``signed`` is true. ``size_bits``: bits of all rows.
    """

    rows: tuple[Row, ...]
    argument_bits: int

    def __post_init__(self):
        require_int("rows", len(self.rows), 1, 256)
        require_int("argument_bits", self.argument_bits, SQUARE_BITS, 24)

    @classmethod
    def read(cls, name: str, argument_bits: int) -> "FunctionTable":
        """Return the table in a file of :data:`TABLES`."""
        lines = (TABLES / f"{name}.txt").read_text().splitlines()
        rows: list[Row] = []
        for line in lines:
            c0, c1, c2 = map(int, line.split())
            rows.append((c0, c1, c2))
        return cls(tuple(rows), argument_bits)

    @property
    def columns(self) -> tuple[tuple[int, ...], ...]:
        """Columns of the table: all c0, all c1, all c2."""
        return tuple(zip(*self.rows, strict=True))

    @property
    def signed(self) -> tuple[bool, ...]:
        """Signs of c0, c1, c2: True for a column with a negative number."""
        return tuple(min(column) < 0 for column in self.columns)

    @property
    def bits(self) -> tuple[int, ...]:
        pairs = zip(self.columns, self.signed, strict=True)
        return tuple(_magnitude_bits(column) + negative for column, negative in pairs)

    @property
    def size_bits(self) -> int:
        return len(self.rows) * sum(self.bits)


def _magnitude_bits(column: Sequence[int]) -> int:
    """Return enough bits for every number of a column, without the sign. -2^n takes n bits."""
    return max((each if each >= 0 else ~each).bit_length() for each in column)


EXP = FunctionTable.read("exp", 21)
RCP = FunctionTable.read("rcp", 16)
RSQ = FunctionTable.read("rsq", 16)
LGG = FunctionTable.read("lgg", 17)
FUNCTION_TABLES = {"exp": EXP, "rcp": RCP, "rsq": RSQ, "lgg": LGG}
"""Tables by operation."""
LGG_LOWEST = 1 << 22
"""Offset of D = d 2^24, with which the table begins at 0: 1/4 of 2^24."""
