"""Matrix products by aligned accumulation: what the array and its edge compute, bit for bit.

C[t,l] is the sum over c of A[t,c] B[l,c], both operands as rows along the contraction, which is cut
into blocks k of side B. With w the bits that a product is given (``Numerics.product_bits``)::

    product = round(sigA * sigB * 2^(w - pA - pB) / 2^(dA + dB)), half away from zero, signed
    s       = sum of the B products of a block;  NVFP4: times the significands of both scales
    d       = (maxA[t] - eA[t,k]) + (maxB[l] - eB[l,k])
    acc    += round((s << F) >> d)                         for every block k of the contraction
    value   = acc * 2^(maxA[t] + maxB[l] - F - (w - 2));   NVFP4: times 2^-6

The shift rounds each block sum once, to the nearest integer, ties upward; integer addition is
associative, so no schedule changes a bit. ``value`` is rounded once more, to binary32. What NaN and
Inf count as: :func:`diastole_sim.golden.operand_rows.read_operand_rows`.

Where no bit is lost before the last rounding, the sums run in float64, as integers scaled by powers
of two: below 2^53 they are exact in any order of addition. Vectors for which that does not hold are
taken one block of the contraction at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from diastole_sim.device.interface import Floats
from diastole_sim.device.operands import require_contractions, sizes_of
from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.operand_rows import (
    Doubles,
    Integers,
    Mask,
    OperandRows,
    power_of_two,
    read_operand_rows,
)
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.operations import (
    FORWARD,
    INPUT_GRADIENT,
    WEIGHT_GRADIENT,
    MatrixProduct,
)

FLOAT64_BITS = 53
SLAB_ELEMENTS = 1 << 15
"""Results held at once while block sums are made and shifted: what stays in a near cache."""
MAX_SHIFT = 63
ABOVE_ONE = 1 + 2.0**-50
"""What moves ties, and nothing else, beyond the half: see :func:`_rounded_sums`."""
FLOAT32_BITS = 24
MIN_NORMAL = 2.0**-126
OVERFLOW = 2.0**128
NAN_BITS = 0x7FC00000
"""The only NaN that is ever a result."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ResultTensor:
    """One float32 tensor; ``exact`` and ``overflow`` as in ``device.interface.ProductResult``."""

    values: Floats
    exact: bool
    overflow: bool


def forward(x: Quantised, w: Quantised, numerics: Numerics) -> ResultTensor:
    """Y = X W; as :func:`matrix_product`."""
    return matrix_product(FORWARD, {"X": x, "W": w}, numerics)


def input_gradient(w: Quantised, dy: Quantised, numerics: Numerics) -> ResultTensor:
    """dX = dY W^T; as :func:`matrix_product`."""
    return matrix_product(INPUT_GRADIENT, {"W": w, "dY": dy}, numerics)


def weight_gradient(x: Quantised, dy: Quantised, numerics: Numerics) -> ResultTensor:
    """dW = X^T dY; as :func:`matrix_product`."""
    return matrix_product(WEIGHT_GRADIENT, {"X": x, "dY": dy}, numerics)


def matrix_product(
    product: MatrixProduct, operands: Mapping[str, Quantised], numerics: Numerics
) -> ResultTensor:
    """The product of its factors among ``operands``, by name. ValueError if their shapes do not
    agree or the contraction is too long."""
    factors = {tensor.name: operands[tensor.name] for tensor in product.factors}
    sizes = sizes_of({name: factor.shape for name, factor in factors.items()})
    require_contractions([product], sizes, numerics)
    poison = numerics.special == "poison"
    first, second = (
        read_operand_rows(factors[tensor.name], product.copy(tensor), poison=poison)
        for tensor in product.factors
    )
    streamed, held = (factor.tensor_class for factor in factors.values())
    return multiply(first, second, Trees.of(streamed, held, numerics))


@dataclass(frozen=True, kw_only=True)
class Trees:
    """What decides the bits of a product of two sides.

    ``product_bits``: w. ``rounds``: whether a product may lose bits there. ``sum_bits``: SW.
    ``fraction``: F. ``significands``: whether elements come times those of their scales.
    """

    product_bits: int
    rounds: bool
    sum_bits: int
    fraction: int
    significands: bool

    @classmethod
    def of(cls, first: str, second: str, numerics: Numerics) -> "Trees":
        """Those of two tensor classes."""
        return cls(
            product_bits=numerics.product_bits(first, second),
            rounds=numerics.is_windowed(first, second),
            sum_bits=numerics.block_sum_bits,
            fraction=numerics.fraction,
            significands=numerics.scale_significands,
        )


def multiply(a: OperandRows, b: OperandRows, trees: Trees) -> ResultTensor:
    """A B^T for two operands whose second axis is the contraction."""
    accumulated = _accumulate(a, b, trees)[: a.length, : b.length]
    poisoned = (a.poisoned[:, None] | b.poisoned)[: a.length, : b.length]
    accumulated[poisoned] = 0
    bound = a.maxima[:, None] + b.maxima - 6 * trees.significands
    values, overflow = to_binary32(accumulated, bound - (trees.fraction + trees.product_bits - 2))
    values.view(np.uint32)[poisoned] = NAN_BITS
    return ResultTensor(values=values, exact=_is_exact(a, b, trees), overflow=overflow)


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


def _is_exact(a: OperandRows, b: OperandRows, trees: Trees) -> bool:
    """Whether no bit could be lost: in each block of the contraction every vector of A meets every
    one of B, so the largest of both decide."""
    meet = a.nonzero.any(axis=0) & b.nonzero.any(axis=0)
    d = a.deficits.max(axis=0) + b.deficits.max(axis=0)
    first, second = a.extents.max(axis=0), b.extents.max(axis=0)
    rounded = (first != 0) & (second != 0) & (first + second > trees.product_bits)
    return not ((meet & (d > trees.fraction)) | rounded).any()


def _accumulate(a: OperandRows, b: OperandRows, trees: Trees) -> Integers:
    """Sum of the shifted block sums, in units of 2^-F; a.rows x b.rows, padded."""
    unit = 2.0 ** (trees.product_bits - a.format.precision - b.format.precision)
    reach = FLOAT64_BITS - _largest_sum(a, b).bit_length()
    lossy_a, lossy_b = _lossy(a, b, trees, reach), _lossy(b, a, trees, reach)
    columns = np.flatnonzero(lossy_a.any(axis=0) & lossy_b.any(axis=0))
    aligned_a, aligned_b = a.aligned(a.elements * unit), b.aligned(b.elements)
    if not columns.size:
        return (aligned_a @ aligned_b.T * 2.0**trees.fraction).astype(np.int64)
    apart_a, apart_b = a.only(lossy_a) * unit, b.only(lossy_b)
    rest_a, rest_b = aligned_a - a.aligned(apart_a), aligned_b - b.aligned(apart_b)
    exact = rest_a @ aligned_b.T + (aligned_a - rest_a) @ rest_b.T
    accumulated = (exact * 2.0**trees.fraction).astype(np.int64)
    whole = 2.0**b.format.depth  # makes integers of B's elements, and of A's if no product is cut
    _add_block_sums(
        accumulated,
        (apart_a / whole, a.deficits),
        (apart_b * whole, b.deficits),
        columns,
        trees,
    )
    return accumulated


def _largest_sum(a: OperandRows, b: OperandRows) -> int:
    """Bound of any sum of products, in units of the smallest product of two elements."""
    first, second = (2**side.format.precision - 1 for side in (a, b))
    scales = 15 * 15 if a.format.two_level else 1
    return a.elements.shape[1] * first * second * scales


def _lossy(side: OperandRows, other: OperandRows, trees: Trees, reach: int) -> Mask:
    """The vectors that, with some vector they meet, lose a bit or leave the bits of a float64."""
    return side.nonzero & (
        (side.reach + other.reach.max(axis=0) > reach)
        | (side.deficits + other.deficits.max(axis=0) > trees.fraction)
        | (side.extents + other.extents.max(axis=0) > trees.product_bits)
    )


def _add_block_sums(
    accumulated: Integers,
    a: tuple[Doubles, Integers],
    b: tuple[Doubles, Integers],
    columns: Integers,
    trees: Trees,
) -> None:
    """Add the shifted block sums of every listed block of the contraction to ``accumulated``.

    ``a``, ``b``: elements and deficits of both sides.
    """
    elements, deficits = a
    block = elements.shape[1] // deficits.shape[1]
    height = max(1, SLAB_ELEMENTS // accumulated.shape[1])
    shifted_sums = _sums_in_doubles if trees.sum_bits < FLOAT64_BITS else _sums_in_integers
    for column in columns:
        place = slice(column * block, (column + 1) * block)
        held = np.ascontiguousarray(b[0][:, place].T)
        held_deficits = b[1][:, column]
        for top in range(0, elements.shape[0], height):
            slab = slice(top, top + height)
            streamed = np.ascontiguousarray(elements[slab, place])
            if streamed.any():
                d = deficits[slab, column, None], held_deficits
                accumulated[slab] += shifted_sums(streamed, held, d, trees)


def _sums_in_doubles(
    streamed: Doubles, held: Doubles, d: tuple[Integers, Integers], trees: Trees
) -> Integers:
    """Shifted block sums of a slab, for SW <= 52; ``d``: deficits of both, which broadcast.

    All but the addition of the half is exact, and that one too, but where it cannot matter: below
    2^-53 of a half, and above 2^52, where every number is whole and stays as it is.
    """
    scales = power_of_two(trees.fraction - d[0]), power_of_two(-d[1])
    if trees.rounds:
        sums = _rounded_sums(streamed, held)
        sums *= scales[0]
        sums *= scales[1]
    else:
        sums = (streamed * scales[0]) @ (held * scales[1])
    sums += 0.5
    return np.floor(sums, out=sums).astype(np.int64)


def _sums_in_integers(
    streamed: Doubles, held: Doubles, d: tuple[Integers, Integers], trees: Trees
) -> Integers:
    """The same for any SW; with SW + F <= 62 a bit more than the result fits too."""
    if trees.rounds:
        sums = _rounded_sums(streamed, held).astype(np.int64)
    else:
        sums = streamed.astype(np.int64) @ held.astype(np.int64)
    sums <<= trees.fraction + 1
    sums >>= np.minimum(d[0] + d[1], MAX_SHIFT)
    sums += 1
    sums >>= 1
    return sums


def _rounded_sums(streamed: Doubles, held: Doubles) -> Doubles:
    """Block sums of products that are rounded, half away from zero.

    The products have at most 16 bits and are below 2^48. Times 1 + 2^-50 they move by less than a
    quarter and less than their last place, so that rounding to nearest even does what is wanted:
    what was a tie has become more than a half, and nothing else has reached one.
    """
    streamed = streamed * ABOVE_ONE
    sums = np.zeros((streamed.shape[0], held.shape[1]))
    products = np.empty_like(sums)
    for c, row in enumerate(held):
        np.multiply(streamed[:, c, None], row, out=products)
        np.rint(products, out=products)
        sums += products
    return sums


def _bit_length(magnitude: Integers) -> Integers:
    """Bits of each integer, 0 for 0; one more where float64 rounds it up to a power of two.

    That one changes no result: rounding to 24 or to 23 bits gives the same power of two.
    """
    return np.frexp(magnitude.astype(np.float64))[1].astype(np.int64)
