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

Where accumulators are floats, ``acc`` is the integer sum of a chunk of the contraction only, and
:mod:`diastole_sim.golden.float_sums` adds chunks.

Operands in the format ``fast`` are sums of planes, plane i 2 i below the top: every pair of them is
a product with d larger by 2 (i + j), and ``acc`` the sum of all.

Where no bit is lost before the last rounding, the sums run in float64, as integers scaled by powers
of two: below 2^53 they are exact in any order of addition. Vectors for which that does not hold are
taken one block of the contraction at a time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from diastole_sim.device.interface import Floats
from diastole_sim.device.operand_shapes import require_contractions, sizes_of
from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.float_sums import FloatSums
from diastole_sim.golden.operand_rows import (
    Bounds,
    Doubles,
    Integers,
    Mask,
    OperandRows,
    power_of_two,
    read_operand_rows,
)
from diastole_sim.golden.partition import nonzeros
from diastole_sim.spec.accumulator import FloatAccumulator
from diastole_sim.spec.formats import Format
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
FLOAT64_SIGNIFICAND = 53
STICKY_BITS = 9
"""What an accumulator of 62 bits has more than a float64."""
MIN_NORMAL = 2.0**-126
FAR = 64
"""Binades by which small numbers are moved to where 24 bits are kept."""
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
    one = {tensor.name: [operands[tensor.name]] for tensor in product.factors}
    (result,) = stack_product(product, one, numerics)
    return result


def stack_product(
    product: MatrixProduct, operands: Mapping[str, Sequence[Quantised]], numerics: Numerics
) -> list[ResultTensor]:
    """As :func:`matrix_product` of each in turn. Factors are as many tensors of one class and
    shape as there are products, or one for all."""
    factors = {tensor.name: operands[tensor.name] for tensor in product.factors}
    sizes = sizes_of({name: tensors[0].shape for name, tensors in factors.items()})
    require_contractions([product], sizes, numerics)
    poison = numerics.special == "poison"
    first, second = (
        read_operand_rows(factors[tensor.name], product.copy(tensor), poison=poison)
        for tensor in product.factors
    )
    streamed, held = (tensors[0].tensor_class for tensors in factors.values())
    return multiply(first, second, Trees.of(streamed, held, numerics))


@dataclass(frozen=True, kw_only=True)
class Trees:
    """What decides the bits of a product of two sides.

    ``product_bits``: w. ``rounds``: whether a product may lose bits there. ``sum_bits``: SW.
    ``fraction``: F. ``significands``: whether elements come times those of their scales.
    ``accumulator``: the floats that chunks are added in, None if all is one integer.
    """

    product_bits: int
    rounds: bool
    sum_bits: int
    fraction: int
    significands: bool
    accumulator: FloatAccumulator | None = None

    @classmethod
    def of(cls, first: str, second: str, numerics: Numerics) -> "Trees":
        """Those of two tensor classes."""
        return cls(
            product_bits=numerics.product_bits(first, second),
            rounds=numerics.is_windowed(first, second),
            sum_bits=numerics.block_sum_bits,
            fraction=numerics.fraction,
            significands=numerics.scale_significands,
            accumulator=numerics.accumulator,
        )


def multiply(a: OperandRows, b: OperandRows, trees: Trees) -> list[ResultTensor]:
    """A B^T for each of two stacks of operands whose last axis is the contraction; one of the two
    may be of one operand, for all."""
    if trees.accumulator is None:
        sums, exact = _sums(a, b, trees)
    else:
        sums, exact = _float_sums(a, b, trees, trees.accumulator)
    poisoned = (a.poisoned[:, :, None] | b.poisoned[:, None, :])[:, : a.length, : b.length]
    if poisoned.any():
        sums[poisoned] = 0
    values, overflow = round_sums(sums)
    too_large = nonzeros(np.isinf(values)) != 0 if overflow else np.zeros_like(exact)
    values.view(np.uint32)[poisoned] = NAN_BITS
    return [
        ResultTensor(values=each, exact=bool(one), overflow=bool(large))
        for each, one, large in zip(values, exact, too_large, strict=True)
    ]


def _sums(a: OperandRows, b: OperandRows, trees: Trees) -> tuple[Doubles, Mask]:
    """What an integer accumulates over all of the operands' blocks, unpadded, with what is below 53
    bits in the last one; of each matrix of the stack, whether no bit could be lost."""
    exact = np.ones(max(len(a.elements), len(b.elements)), np.bool_)
    sums = None
    pairs = [(first, second) for first in a.planes() for second in b.planes()]
    lowest = pairs[-1]
    if _may_lose(*lowest, trees) or _leaves_doubles(a, b):
        exact = _is_exact(*lowest, trees)
        sums = _sums_with_losses(pairs, trees)
    if sums is None:
        sums = a.values() @ b.values().swapaxes(1, 2)
    return sums[:, : a.length, : b.length], exact


def _float_sums(
    a: OperandRows, b: OperandRows, trees: Trees, accumulator: FloatAccumulator
) -> tuple[Doubles, Mask]:
    """Likewise where chunks of the contraction are added as floats."""
    blocks = accumulator.blocks(a.block)
    total = FloatSums(precision=accumulator.precision)
    exact = np.ones(max(len(a.elements), len(b.elements)), np.bool_)
    for first in range(0, a.deficits.shape[-1], blocks):
        sums, no_loss = _sums(a.part(first, blocks), b.part(first, blocks), trees)
        exact &= no_loss
        total.add(sums)
    return total.sums, exact & total.exact


def to_binary32(accumulated: Integers, scale: Integers) -> tuple[Floats, bool]:
    """:func:`round_sums` of ``accumulated`` * 2^``scale``; |accumulated| < 2^62."""
    return round_sums(_as_doubles(accumulated, scale))


def round_sums(sums: Doubles) -> tuple[Floats, bool]:
    """Numbers to nearest even, and whether one became Inf.

    One that is below 2^-126 after rounding to 24 bits with unbounded exponent is +0, as is a zero.
    """
    with np.errstate(over="ignore"):
        values = sums.astype(np.float32)
    values += np.float32(0)  # no zero has a sign
    small = np.abs(values) < 2 * MIN_NORMAL
    if small.any():  # there binary32 has fewer bits
        larger = (sums[small] * 2.0**FAR).astype(np.float32)
        larger[np.abs(larger) < MIN_NORMAL * 2.0**FAR] = 0
        values[small] = larger * np.float32(2.0**-FAR)
    return values, bool(np.isinf(values).any())


def _as_doubles(accumulated: Integers, scale: Integers) -> Doubles:
    """``accumulated`` * 2^``scale``, exactly; of what has more than 53 bits, those dropped are in
    the last one that is kept, so that it rounds to fewer as it would have."""
    wide = np.abs(accumulated) >> FLOAT64_SIGNIFICAND != 0
    if wide.any():
        dropped = accumulated & ((1 << STICKY_BITS) - 1)
        kept = (accumulated - dropped) | (dropped != 0).astype(np.int64) << STICKY_BITS
        accumulated = np.where(wide, kept, accumulated)
    return np.ldexp(accumulated.astype(np.float64), scale.astype(np.int32))


def _is_exact(a: OperandRows, b: OperandRows, trees: Trees) -> Mask:
    """Whether no bit could be lost: in each block of the contraction every vector of A meets every
    one of B, so the largest of both decide."""
    meet = a.nonzero.any(axis=1) & b.nonzero.any(axis=1)
    d = a.deficits.max(axis=1) + b.deficits.max(axis=1)
    first, second = a.extents.max(axis=1), b.extents.max(axis=1)
    rounded = (first != 0) & (second != 0) & (first + second > trees.product_bits)
    return ~((meet & (d > trees.fraction)) | rounded).any(axis=1)


def is_one_product(a: Bounds, b: Bounds, trees: Trees) -> bool:
    """Whether no bit is lost and no sum leaves the bits of a float64, were the worst vectors of
    both to meet: then the sums are one float64 product of the stored numbers."""
    return (
        fits(a, b, FLOAT64_BITS)
        and a.deficits + b.deficits <= trees.fraction
        and a.extents + b.extents <= trees.product_bits
    )


def fits(a: Bounds, b: Bounds, bits: int) -> bool:
    """Whether every sum has so many bits, whatever is added of it first, were the worst vectors of
    both to meet."""
    return a.reach + b.reach <= bits - bits_of_sums(a.format, b.format, a.contraction)


def _may_lose(a: OperandRows, b: OperandRows, trees: Trees) -> bool:
    """Whether a bit could be lost, or a sum leave the bits of a float64, were the worst vectors of
    both to meet."""
    return not is_one_product(a.bounds, b.bounds, trees)


def _leaves_doubles(a: OperandRows, b: OperandRows) -> bool:
    """Whether a sum could leave the bits of a float64, were the worst vectors of both to meet."""
    return bool(a.reach.max() + b.reach.max() > _room(a, b))


def _sums_with_losses(
    pairs: Sequence[tuple[OperandRows, OperandRows]], trees: Trees
) -> Doubles | None:
    """The sums over all pairs of planes, where two vectors meet that lose a bit; None if none do
    and there is one pair only."""
    a, b = pairs[0]
    accumulated: Integers | None = None
    for first, second in pairs:
        lossy = _lossy(first, second, trees), _lossy(second, first, trees)
        columns = np.flatnonzero((lossy[0].any(axis=1) & lossy[1].any(axis=1)).any(axis=0))
        if len(pairs) == 1 and not columns.size:
            return None
        found = _accumulate(first, second, trees, lossy, columns)
        accumulated = found if accumulated is None else accumulated + found
    assert accumulated is not None
    bound = a.maxima[:, :, None] + b.maxima[:, None, :] - 6 * trees.significands
    return _as_doubles(accumulated, bound - (trees.fraction + trees.product_bits - 2))


def _accumulate(
    a: OperandRows,
    b: OperandRows,
    trees: Trees,
    lossy: tuple[Mask, Mask],
    columns: Integers,
) -> Integers:
    """Sum of the shifted block sums, in units of 2^-F, padded. ``lossy``: those vectors of both
    that are taken one block at a time where they meet, in ``columns`` of blocks."""
    unit = 2.0 ** (trees.product_bits - a.format.precision - b.format.precision)
    lossy_a, lossy_b = lossy
    aligned_a, aligned_b = a.aligned(a.elements * unit), b.aligned(b.elements)
    apart_a, apart_b = a.only(lossy_a) * unit, b.only(lossy_b)
    rest_a, rest_b = aligned_a - a.aligned(apart_a), aligned_b - b.aligned(apart_b)
    exact = rest_a @ aligned_b.swapaxes(1, 2) + (aligned_a - rest_a) @ rest_b.swapaxes(1, 2)
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


def _room(a: OperandRows, b: OperandRows) -> int:
    """Bits by which vectors of both together may reach down for all sums to be exact in float64:
    what is left of it by the bound of any sum, in units of the smallest product of two elements."""
    return FLOAT64_BITS - bits_of_sums(a.format, b.format, a.elements.shape[-1])


def bits_of_sums(a: Format, b: Format, contraction: int) -> int:
    """Bits of the largest sum of so many products, in units of the smallest of elements whose last
    places are alike."""
    first, second = (2**kind.precision - 1 for kind in (a, b))
    scales = 15 * 15 if a.two_level else 1
    return (contraction * first * second * scales).bit_length()


def _lossy(side: OperandRows, other: OperandRows, trees: Trees) -> Mask:
    """The vectors that, with some vector they meet, lose a bit or leave the bits of a float64."""
    return side.nonzero & (
        (side.reach + _largest(other.reach) > _room(side, other))
        | (side.deficits + _largest(other.deficits) > trees.fraction)
        | (side.extents + _largest(other.extents) > trees.product_bits)
    )


def _largest(of_vectors: Integers) -> Integers:
    """In each block of the contraction."""
    return of_vectors.max(axis=1, keepdims=True)


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
    count, rows, lanes = accumulated.shape
    block = elements.shape[2] // deficits.shape[2]
    height = max(1, SLAB_ELEMENTS // (count * lanes))
    shifted_sums = _sums_in_doubles if trees.sum_bits < FLOAT64_BITS else _sums_in_integers
    for column in columns:
        place = slice(column * block, (column + 1) * block)
        held = np.ascontiguousarray(b[0][:, :, place].swapaxes(1, 2))
        held_deficits = b[1][:, None, :, column]
        for top in range(0, rows, height):
            slab = slice(top, top + height)
            streamed = np.ascontiguousarray(elements[:, slab, place])
            if streamed.any():
                d = deficits[:, slab, column, None], held_deficits
                accumulated[:, slab] += shifted_sums(streamed, held, d, trees)


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
    count = max(len(streamed), len(held))
    sums = np.zeros((count, streamed.shape[1], held.shape[2]))
    products = np.empty_like(sums)
    for c in range(held.shape[1]):
        np.multiply(streamed[:, :, c, None], held[:, c, None, :], out=products)
        np.rint(products, out=products)
        sums += products
    return sums
