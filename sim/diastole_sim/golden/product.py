"""Matrix products by aligned accumulation: what the array and its edge compute, bit for bit.

With A = X or one of its kin, in blocks of side B, and likewise the other operand::

    d     = (row_max_A[i] - e_A[i,k]) + (col_max_B[j] - e_B[k,j])
    acc  += round((s << F) >> d)           for every block k of the contraction, s the block sum
    value = acc * 2^(row_max_A[i] + col_max_B[j] - F - point_A - point_B)

The shift rounds each block sum once, to the nearest integer, ties upward; integer addition is
associative, so no schedule changes a bit. ``value`` is rounded once more, to binary32.

The sums run in float64, as integers scaled by powers of two: below 2^53 they are exact in any
order of addition. Blocks whose deficits are too large for that, or larger than F, are taken one
contraction block at a time.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device_api import Floats
from diastole_sim.formats import EXPONENT_BIAS
from diastole_sim.golden.convert import Quantised, expand
from diastole_sim.numerics import Numerics

FLOAT64_BITS = 53
SLAB_ELEMENTS = 1 << 15
"""Results held at once while block sums are shifted one by one: what stays in a near cache."""
FLOAT32_BITS = 24
MIN_NORMAL = 2.0**-126
OVERFLOW = 2.0**128

Integers = NDArray[np.int64]
Doubles = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Product:
    """One float32 tensor; ``exact`` and ``overflow`` as in ``device_api.ProductResult``."""

    values: Floats
    exact: bool
    overflow: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Side:
    """An operand as a product sees it: free axis by contraction, in blocks.

    ``scaled``: elements times 2^-deficit, in units of the bound; float64, free x contraction,
    padded. ``deficits``: per block, 0 for a block of zeros. ``nonzero``: per block. ``maxima``:
    stored exponents, one per row of blocks. ``length``: free elements, unpadded.
    """

    scaled: Doubles
    deficits: Integers
    nonzero: Mask
    maxima: Integers
    length: int
    max_magnitude: int
    point: int
    block: int


def forward(x: Quantised, w: Quantised, numerics: Numerics) -> Product:
    """Y = X W. ValueError if the shapes do not agree or the contraction is too long."""
    require_equal("the columns of X", x.shape[1], "the rows of W", w.shape[0])
    return multiply(_rows(x), _columns(w), x.shape[1], numerics)


def input_gradient(w: Quantised, dy: Quantised, numerics: Numerics) -> Product:
    """dX = dY W^T. ValueError as in :func:`forward`."""
    require_equal("the columns of dY", dy.shape[1], "the columns of W", w.shape[1])
    return multiply(_rows(dy), _rows(w), dy.shape[1], numerics)


def weight_gradient(x: Quantised, dy: Quantised, numerics: Numerics) -> Product:
    """dW = X^T dY. ValueError as in :func:`forward`."""
    require_equal("the rows of X", x.shape[0], "the rows of dY", dy.shape[0])
    return multiply(_columns(x), _columns(dy), x.shape[0], numerics)


def multiply(a: Side, b: Side, contraction: int, numerics: Numerics) -> Product:
    """A B^T for two operands whose second axis is the contraction, of ``contraction`` elements."""
    if contraction > numerics.max_contraction:
        raise ValueError(
            f"the contraction has {contraction} elements, more than the "
            f"{numerics.max_contraction} that a headroom of {numerics.headroom} bits allows "
            f"(2^{numerics.headroom} blocks of {numerics.block})"
        )
    accumulated = _accumulate(a, b, numerics.fraction)
    bound = a.maxima[:, None] + b.maxima[None, :] - 2 * EXPONENT_BIAS
    scale = expand(bound - (numerics.fraction + a.point + b.point), a.block)
    values, overflow = to_binary32(accumulated[: a.length, : b.length], scale)
    return Product(
        values=values, exact=_largest_deficit(a, b) <= numerics.fraction, overflow=overflow
    )


def to_binary32(accumulated: Integers, scale: Integers) -> tuple[Floats, bool]:
    """``accumulated`` * 2^``scale`` to nearest even, and whether a value became Inf.

    ``scale`` may be larger along both axes. A value that is below 2^-126 after rounding to 24 bits
    with unbounded exponent is +0, as is a zero; |accumulated| < 2^62.
    """
    scale = scale[: accumulated.shape[0], : accumulated.shape[1]]
    magnitude = np.abs(accumulated)
    shift = np.maximum(_bit_length(magnitude) - FLOAT32_BITS, 0)
    kept = magnitude >> shift
    twice, unit = (magnitude - (kept << shift)) << 1, np.int64(1) << shift
    kept += (twice > unit) | ((twice == unit) & (kept & 1 == 1))
    exact = np.ldexp(kept.astype(np.float64), (shift + scale).astype(np.int32))
    exact[exact < MIN_NORMAL] = 0.0
    too_large = exact >= OVERFLOW
    exact[too_large] = np.inf
    values = exact.astype(np.float32)
    np.negative(values, out=values, where=(accumulated < 0) & (values != 0))
    return values, bool(too_large.any())


def _rows(tensor: Quantised) -> Side:
    """Contract the columns."""
    return _side(tensor, tensor.signed(), tensor.exponents, tensor.row_max, tensor.shape[0])


def _columns(tensor: Quantised) -> Side:
    """Contract the rows."""
    return _side(tensor, tensor.signed().T, tensor.exponents.T, tensor.col_max, tensor.shape[1])


def _side(
    tensor: Quantised,
    signed: Doubles,
    exponents: NDArray[np.uint8],
    maxima: NDArray[np.uint8],
    length: int,
) -> Side:
    nonzero = exponents != 0
    wide = maxima.astype(np.int64)
    deficits = np.where(nonzero, wide[:, None] - exponents.astype(np.int64), 0)
    return Side(
        scaled=np.ldexp(signed, expand(-deficits.astype(np.int32), tensor.block)),
        deficits=deficits,
        nonzero=nonzero,
        maxima=wide,
        length=length,
        max_magnitude=tensor.format.max_magnitude,
        point=tensor.format.point,
        block=tensor.block,
    )


def _largest_deficit(a: Side, b: Side) -> int:
    """Largest d with which two non-zero blocks meet; every A block of a column meets every B."""
    meet = a.nonzero.any(axis=0) & b.nonzero.any(axis=0)
    return int(np.where(meet, a.deficits.max(axis=0) + b.deficits.max(axis=0), 0).max())


def _accumulate(a: Side, b: Side, fraction: int) -> Integers:
    """Sum of the shifted block sums, in units of 2^-fraction; a.rows x b.rows, padded."""
    largest_sum = a.scaled.shape[1] * a.max_magnitude * b.max_magnitude
    limit = min(fraction, FLOAT64_BITS - largest_sum.bit_length())
    if _largest_deficit(a, b) <= limit:
        return (a.scaled @ b.scaled.T * 2.0**fraction).astype(np.int64)
    wide_a = a.nonzero & (a.deficits + b.deficits.max(axis=0) > limit)
    wide_b = b.nonzero & (b.deficits + a.deficits.max(axis=0) > limit)
    a_wide = np.where(expand(wide_a, a.block), a.scaled, 0.0)
    b_wide = np.where(expand(wide_b, b.block), b.scaled, 0.0)
    narrow = (a.scaled - a_wide) @ b.scaled.T + a_wide @ (b.scaled - b_wide).T
    accumulated = (narrow * 2.0**fraction).astype(np.int64)
    columns = np.flatnonzero(wide_a.any(axis=0) & wide_b.any(axis=0))
    _add_block_sums(accumulated, a_wide * 2.0**fraction, b_wide, columns, a.block)
    return accumulated


def _add_block_sums(
    accumulated: Integers, a: Doubles, b: Doubles, columns: NDArray[np.intp], block: int
) -> None:
    """Add round(a b^T) of every listed block of the contraction to ``accumulated``.

    A block sum is a 22-bit integer times a power of two, so every float64 below is exact, but for
    fractions under 2^-53, which round to the same integer as what they stand for.
    """
    height = max(1, SLAB_ELEMENTS // b.shape[0])
    for column in columns:
        place = slice(column * block, (column + 1) * block)
        held = np.ascontiguousarray(b[:, place].T)
        for top in range(0, a.shape[0], height):
            streamed = np.ascontiguousarray(a[top : top + height, place])
            if not streamed.any():
                continue
            sums = streamed @ held
            whole = np.floor(sums)
            sums -= whole
            slab = accumulated[top : top + height]
            slab += whole.astype(np.int64)
            slab += sums >= 0.5


def _bit_length(magnitude: Integers) -> Integers:
    """Bits of each integer, 0 for 0; one more where float64 rounds it up to a power of two.

    That one changes no result: rounding to 24 or to 23 bits gives the same power of two.
    """
    return np.frexp(magnitude.astype(np.float64))[1].astype(np.int64)


def require_equal(what: str, length: int, other: str, other_length: int) -> None:
    """ValueError unless the two sides, described by words, have the same length."""
    if length != other_length:
        raise ValueError(f"{what} are {length}, but {other} are {other_length}; they must be equal")
