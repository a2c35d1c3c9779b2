"""Make the tables of special functions, as :mod:`diastole_sim.spec.functions` describes.

Every number is computed with :data:`DIGITS` decimal digits. Roots, exponentials and logarithms are
correctly rounded. Only integers are kept.
"""

from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from pathlib import Path

from diastole_sim.spec.functions import (
    FUNCTION_TABLES,
    SLOPE_BITS,
    SQUARE_BITS,
    VALUE_BITS,
    FunctionTable,
    Row,
)

DIGITS = 50
"""Decimal digits. With 30 digits every table has equal values."""
PLACES = 64
"""Steps between the arguments at which errors are measured."""

Segment = Callable[[Decimal], Decimal]
"""Function of a place in a segment, 0 to 1."""


def function_tables() -> dict[str, FunctionTable]:
    """Compute all tables and return them by operation."""
    with localcontext(prec=DIGITS, rounding=ROUND_HALF_EVEN):
        return {
            name: _table(segments, FUNCTION_TABLES[name].argument_bits)
            for name, segments in _all_segments().items()
        }


def write_tables(folder: Path) -> None:
    """Write a file for every table, in the form of :meth:`FunctionTable.read`."""
    for name, table in function_tables().items():
        lines = (" ".join(map(str, row)) for row in table.rows)
        (folder / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))


def _table(segments: list[Segment], argument_bits: int) -> FunctionTable:
    return FunctionTable(tuple(_row(segment, argument_bits) for segment in segments), argument_bits)


def _row(function: Segment, argument_bits: int) -> Row:
    """Return the coefficients of one segment."""
    points = [(2 + sign * Decimal(3).sqrt()) / 4 for sign in (-1, 0, 1)]  # Chebyshev points
    values = [function(point) for point in points]
    # Newton's divided differences, then the coefficients of powers of the place.
    upper = (values[1] - values[0]) / (points[1] - points[0])
    lower = (values[2] - values[1]) / (points[2] - points[1])
    square = (lower - upper) / (points[2] - points[0])
    slope = upper - square * (points[0] + points[1])
    value = values[0] - (slope + square * points[0]) * points[0]
    c0, c1, c2 = _fixed(value, VALUE_BITS), _fixed(slope, SLOPE_BITS), _fixed(square, SLOPE_BITS)
    errors: list[Decimal] = []
    for step in range(PLACES + 1):
        t = step * ((1 << argument_bits) - 1) // PLACES
        exact = function(Decimal(t) / (1 << argument_bits)) * (1 << VALUE_BITS)
        errors.append(_evaluate((c0, c1, c2), t, argument_bits) - exact)
    return c0 - _nearest((max(errors) + min(errors)) / 2), c1, c2


def _evaluate(row: Row, t: int, argument_bits: int) -> int:
    """Return p as the hardware computes it."""
    top = t >> (argument_bits - SQUARE_BITS)
    square = (top * top) >> SQUARE_BITS
    linear = (row[1] * t) >> (argument_bits + SLOPE_BITS - VALUE_BITS)
    return row[0] + linear + ((row[2] * square) >> (SQUARE_BITS + SLOPE_BITS - VALUE_BITS))


def _fixed(number: Decimal, bits: int) -> int:
    return _nearest(number * (1 << bits))


def _nearest(number: Decimal) -> int:
    return int(number.to_integral_value())


def _exp(u: Decimal) -> Decimal:
    return (u * Decimal(2).ln()).exp() - 1


def _rcp(x: Decimal) -> Decimal:
    return 2 / x - 1


def _rsq(x: Decimal) -> Decimal:
    return 2 / x.sqrt() - 1


def _lgg(d: Decimal) -> Decimal:
    return (1 + d).ln() / d if d else Decimal(1)


def _segments(function: Segment, low: Decimal, width: Decimal, count: int) -> list[Segment]:
    """Return ``function`` on ``count`` neighbouring segments, each from place 0 to place 1."""
    return [lambda place, i=i: function(low + (i + place) * width) for i in range(count)]


def _all_segments() -> dict[str, list[Segment]]:
    one = Decimal(1)
    return {
        "exp": _segments(_exp, 0 * one, one / 64, 64),
        "rcp": _segments(_rcp, one, one / 128, 128),
        "rsq": _segments(_rsq, one, one / 128, 128) + _segments(_rsq, 2 * one, one / 64, 128),
        "lgg": _segments(_lgg, -one / 4, one / 128, 96),
    }
