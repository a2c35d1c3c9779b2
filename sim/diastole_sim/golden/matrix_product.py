"""Compute matrix products by aligned accumulation, bit for bit as the array and its edge do.

C[t,l] is the sum over c of A[t,c] B[l,c]. Both operands are rows along the contraction, and the
contraction is cut into blocks k of side B. With w the bits of a product
(``Numerics.product_bits``)::

    product = round(sigA * sigB * 2^(w - pA - pB) / 2^(dA + dB)), half away from zero, signed
    s       = sum of the B products of a block;  NVFP4: times the significands of both scales
    d       = (maxA[t] - eA[t,k]) + (maxB[l] - eB[l,k])
    acc    += round((s << F) >> d)                         for every block k of the contraction
    value   = acc * 2^(maxA[t] + maxB[l] - F - (w - 2));   NVFP4: times 2^-6

The shift rounds every block sum once, to the nearest integer, ties upward. Integer addition is
associative, so no schedule changes a bit. ``value`` is rounded once more, to binary32.
:func:`diastole_sim.golden.operand_rows.read_operand_rows` says how NaN and Inf count.

If accumulators are floats, ``acc`` is the integer sum of one chunk of the contraction only, and
:mod:`diastole_sim.golden.float_sums` adds the chunks.

Operands in the format ``fast`` are sums of planes. Plane i is 2 i bits below the top. Every pair of
planes is a product with d larger by 2 (i + j), and ``acc`` is the sum over all pairs.

If no bit is lost before the last rounding, the sums are computed in float64, as integers scaled by
powers of two. Sums below 2^53 are exact in any order of addition. Vectors without this property are
added one block of the contraction at a time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from diastole_sim.device.interface import Floats
from diastole_sim.device.operand_shapes import require_contractions, sizes_of
from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.float_sums import DOUBLE_BITS, FloatSums
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
    MatrixProduct,
)

FLOAT64_BITS = DOUBLE_BITS
"""Bits below which sums are computed in float64."""
SLAB_ELEMENTS = 1 << 15
"""Number of results held at once while block sums are made and shifted, so that they stay in a near
cache."""
MAX_SHIFT = 63
ABOVE_ONE = 1 + 2.0**-50
"""Factor that moves ties beyond the half and moves nothing else; see :func:`_rounded_sums`."""
STICKY_BITS = 9
"""Bits that an accumulator of 62 bits has beyond the significand of a float64."""
MIN_NORMAL = 2.0**-126
FAR = 64
"""Binades by which small numbers are raised to a range with 24 bits."""
NAN_BITS = 0x7FC00000
"""Bits of the only NaN that a result can be."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ResultTensor:
    """Result of a product in float32. ``exact`` and ``overflow`` are as in
    ``device.interface.ProductResult``."""

    values: Floats
    exact: bool
    overflow: bool


def matrix_product(
    product: MatrixProduct, operands: Mapping[str, Quantised], numerics: Numerics
) -> ResultTensor:
    """Return the product of its factors among ``operands``, by name. ValueError if the shapes do
    not agree or the contraction is too long."""
    one = {tensor.name: [operands[tensor.name]] for tensor in product.factors}
    (result,) = stack_product(product, one, numerics)
    return result


def stack_product(
    product: MatrixProduct, operands: Mapping[str, Sequence[Quantised]], numerics: Numerics
) -> list[ResultTensor]:
    """Return the results of several products, each as :func:`matrix_product` computes it. A factor
    is as many tensors of one class and shape as there are products, or one tensor for all
    products."""
    factors = {tensor.name: operands[tensor.name] for tensor in product.factors}
    sizes = sizes_of({name: tensors[0].shape for name, tensors in factors.items()})
    require_contractions([product], sizes, numerics)
    poison = numerics.special == "poison"
    first, second = (
        read_operand_rows(factors[tensor.name], product.copy(tensor), poison=poison)
        for tensor in product.factors
    )
    streaming, stationary = (tensors[0].tensor_class for tensors in factors.values())
    return multiply(first, second, ProductParameters.of(streaming, stationary, numerics))


@dataclass(frozen=True, kw_only=True)
class ProductParameters:
    """Parameters that decide the bits of a product of two operands.

    - ``product_bits``: w.
    - ``rounds``: True if a product may lose bits at w.
    - ``sum_bits``: SW.
    - ``fraction``: F.
    - ``significands``: True if elements are multiplied by the significands of their scales.
    - ``accumulator``: floats in which chunks are added, None if the whole sum is an integer.
    """

    product_bits: int
    rounds: bool
    sum_bits: int
    fraction: int
    significands: bool
    accumulator: FloatAccumulator | None = None

    @classmethod
    def of(cls, first: str, second: str, numerics: Numerics) -> "ProductParameters":
        """Return the parameters of two tensor classes."""
        return cls(
            product_bits=numerics.product_bits(first, second),
            rounds=numerics.is_windowed(first, second),
            sum_bits=numerics.block_sum_bits,
            fraction=numerics.fraction,
            significands=numerics.scale_significands,
            accumulator=numerics.accumulator,
        )


def multiply(a: OperandRows, b: OperandRows, parameters: ProductParameters) -> list[ResultTensor]:
    """Return a b^T for two stacks of operands, one result for each product of the stack.

    ``a`` has rows of (products, M, K) elements and ``b`` of (products, N, K); the last axis is the
    contraction. Each result is M x N. Either stack may have one operand for all products.
    """
    if parameters.accumulator is None:
        sums, exact = _sums(a, b, parameters)
    else:
        sums, exact = _float_sums(a, b, parameters, parameters.accumulator)
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


def _sums(a: OperandRows, b: OperandRows, parameters: ProductParameters) -> tuple[Doubles, Mask]:
    """Return the sums of an integer accumulator over all of the operands' blocks, without padding.
    Bits below the 53rd are merged into the last bit (sticky). The mask is True for every matrix of
    the stack in which no bit can be lost."""
    exact = np.ones(max(len(a.elements), len(b.elements)), np.bool_)
    sums = None
    pairs = [(first, second) for first in a.planes() for second in b.planes()]
    lowest = pairs[-1]
    if _may_lose(*lowest, parameters) or _leaves_doubles(a, b):
        exact = _is_exact(*lowest, parameters)
        sums = _sums_with_losses(pairs, parameters)
    if sums is None:
        sums = a.values() @ b.values().swapaxes(1, 2)
    return sums[:, : a.length, : b.length], exact


def _float_sums(
    a: OperandRows, b: OperandRows, parameters: ProductParameters, accumulator: FloatAccumulator
) -> tuple[Doubles, Mask]:
    """Return sums and mask as :func:`_sums` does, with chunks of the contraction added as
    floats."""
    blocks = accumulator.blocks(a.block)
    total = FloatSums(precision=accumulator.precision)
    exact = np.ones(max(len(a.elements), len(b.elements)), np.bool_)
    for first in range(0, a.deficits.shape[-1], blocks):
        sums, no_loss = _sums(a.part(first, blocks), b.part(first, blocks), parameters)
        exact &= no_loss
        total.add(sums)
    return total.sums, exact & total.exact


def to_binary32(accumulated: Integers, scale: Integers) -> tuple[Floats, bool]:
    """Apply :func:`round_sums` to ``accumulated`` * 2^``scale``; |accumulated| < 2^62."""
    return round_sums(_as_doubles(accumulated, scale))


def round_sums(sums: Doubles) -> tuple[Floats, bool]:
    """Round numbers to binary32, to nearest even, and return whether a number became Inf.

    A number below 2^-126 after rounding to 24 bits with unbounded exponent is +0, as is a zero.
    """
    with np.errstate(over="ignore"):
        values = sums.astype(np.float32)
    values += np.float32(0)  # clears the sign of zeros
    small = np.abs(values) < 2 * MIN_NORMAL
    if small.any():  # binary32 has fewer bits below 2^-126
        larger = (sums[small] * 2.0**FAR).astype(np.float32)
        larger[np.abs(larger) < MIN_NORMAL * 2.0**FAR] = 0
        values[small] = larger * np.float32(2.0**-FAR)
    return values, bool(np.isinf(values).any())


def _as_doubles(accumulated: Integers, scale: Integers) -> Doubles:
    """Return ``accumulated`` * 2^``scale``, exactly up to 53 bits. Of a wider number the dropped
    bits are merged into the last kept bit, so that a rounding to fewer bits has the same result."""
    wide = np.abs(accumulated) >> DOUBLE_BITS != 0
    if wide.any():
        dropped = accumulated & ((1 << STICKY_BITS) - 1)
        merged = (accumulated - dropped) | (dropped != 0).astype(np.int64) << STICKY_BITS
        accumulated = np.where(wide, merged, accumulated)
    return np.ldexp(accumulated.astype(np.float64), scale.astype(np.int32))


def _is_exact(a: OperandRows, b: OperandRows, parameters: ProductParameters) -> Mask:
    """Return whether no bit can be lost. In every block of the contraction every vector of A meets
    every vector of B, so the largest values of both sides decide."""
    meet = a.nonzero.any(axis=1) & b.nonzero.any(axis=1)
    d = a.deficits.max(axis=1) + b.deficits.max(axis=1)
    first, second = a.extents.max(axis=1), b.extents.max(axis=1)
    rounded = (first != 0) & (second != 0) & (first + second > parameters.product_bits)
    return ~((meet & (d > parameters.fraction)) | rounded).any(axis=1)


def is_one_product(a: Bounds, b: Bounds, parameters: ProductParameters) -> bool:
    """Return whether no bit is lost and no sum exceeds the bits of a float64, even if the worst
    vectors of both sides meet. The sums are then one float64 product of the stored numbers."""
    return (
        fits(a, b, FLOAT64_BITS)
        and a.deficits + b.deficits <= parameters.fraction
        and a.extents + b.extents <= parameters.product_bits
    )


def fits(a: Bounds, b: Bounds, bits: int) -> bool:
    """Return whether every sum fits in ``bits`` bits in any order of addition, even if the worst
    vectors of both sides meet."""
    return a.reach + b.reach <= bits - bits_of_sums(a.format, b.format, a.contraction)


def _may_lose(a: OperandRows, b: OperandRows, parameters: ProductParameters) -> bool:
    """Return whether a bit can be lost, or a sum can exceed the bits of a float64, if the worst
    vectors of both sides meet."""
    return not is_one_product(a.bounds, b.bounds, parameters)


def _leaves_doubles(a: OperandRows, b: OperandRows) -> bool:
    """Return whether a sum can exceed the bits of a float64 if the worst vectors of both sides
    meet."""
    return bool(a.reach.max() + b.reach.max() > _spare_bits(a, b))


def _sums_with_losses(
    pairs: Sequence[tuple[OperandRows, OperandRows]], parameters: ProductParameters
) -> Doubles | None:
    """Return the sums over all pairs of planes. Return None if there is one pair only and no two
    vectors that lose a bit meet."""
    a, b = pairs[0]
    accumulated: Integers | None = None
    for first, second in pairs:
        lossy = _lossy(first, second, parameters), _lossy(second, first, parameters)
        columns = np.flatnonzero((lossy[0].any(axis=1) & lossy[1].any(axis=1)).any(axis=0))
        if len(pairs) == 1 and not columns.size:
            return None
        sums = _accumulate(first, second, parameters, lossy, columns)
        accumulated = sums if accumulated is None else accumulated + sums
    assert accumulated is not None
    bound = a.maxima[:, :, None] + b.maxima[:, None, :] - 6 * parameters.significands
    return _as_doubles(accumulated, bound - (parameters.fraction + parameters.product_bits - 2))


def _accumulate(
    a: OperandRows,
    b: OperandRows,
    parameters: ProductParameters,
    lossy: tuple[Mask, Mask],
    columns: Integers,
) -> Integers:
    """Return the sums of the shifted block sums, in units of 2^-F, with padding. ``lossy``: vectors
    of both sides that are processed one block at a time where they meet, in ``columns`` of
    blocks."""
    unit = 2.0 ** (parameters.product_bits - a.format.precision - b.format.precision)
    lossy_a, lossy_b = lossy
    aligned_a, aligned_b = a.aligned(a.elements * unit), b.aligned(b.elements)
    apart_a, apart_b = a.only(lossy_a) * unit, b.only(lossy_b)
    rest_a, rest_b = aligned_a - a.aligned(apart_a), aligned_b - b.aligned(apart_b)
    exact = rest_a @ aligned_b.swapaxes(1, 2) + (aligned_a - rest_a) @ rest_b.swapaxes(1, 2)
    accumulated = (exact * 2.0**parameters.fraction).astype(np.int64)
    whole = 2.0**b.format.depth  # makes B's elements integers, and A's if no product is rounded
    _add_block_sums(
        accumulated,
        (apart_a / whole, a.deficits),
        (apart_b * whole, b.deficits),
        columns,
        parameters,
    )
    return accumulated


def _spare_bits(a: OperandRows, b: OperandRows) -> int:
    """Return how many bits the vectors of both sides may reach down together if all sums are exact
    in float64: the bits that remain above the bound of any sum, in units of the smallest product of
    two elements."""
    return FLOAT64_BITS - bits_of_sums(a.format, b.format, a.elements.shape[-1])


def bits_of_sums(a: Format, b: Format, contraction: int) -> int:
    """Return the bits of the largest sum of ``contraction`` products, in units of the smallest
    product of elements with equal last places."""
    first, second = (2**kind.precision - 1 for kind in (a, b))
    scales = 15 * 15 if a.two_level else 1
    return (contraction * first * second * scales).bit_length()


def _lossy(side: OperandRows, other: OperandRows, parameters: ProductParameters) -> Mask:
    """Return the vectors of ``side`` that lose a bit, or exceed the bits of a float64, with some
    vector of ``other``."""
    return side.nonzero & (
        (side.reach + _largest(other.reach) > _spare_bits(side, other))
        | (side.deficits + _largest(other.deficits) > parameters.fraction)
        | (side.extents + _largest(other.extents) > parameters.product_bits)
    )


def _largest(of_vectors: Integers) -> Integers:
    """Return the largest value in every block of the contraction."""
    return of_vectors.max(axis=1, keepdims=True)


def _add_block_sums(
    accumulated: Integers,
    a: tuple[Doubles, Integers],
    b: tuple[Doubles, Integers],
    columns: Integers,
    parameters: ProductParameters,
) -> None:
    """Add the shifted block sums of every listed block of the contraction to ``accumulated``.

    ``a``, ``b``: elements and deficits of both sides.
    """
    elements, deficits = a
    count, rows, lanes = accumulated.shape
    block = elements.shape[2] // deficits.shape[2]
    height = max(1, SLAB_ELEMENTS // (count * lanes))
    shifted_sums = _sums_in_doubles if parameters.sum_bits < FLOAT64_BITS else _sums_in_integers
    for column in columns:
        place = slice(column * block, (column + 1) * block)
        stationary = np.ascontiguousarray(b[0][:, :, place].swapaxes(1, 2))
        stationary_deficits = b[1][:, None, :, column]
        for top in range(0, rows, height):
            slab = slice(top, top + height)
            streaming = np.ascontiguousarray(elements[:, slab, place])
            if streaming.any():
                d = deficits[:, slab, column, None], stationary_deficits
                accumulated[:, slab] += shifted_sums(streaming, stationary, d, parameters)


def _sums_in_doubles(
    streaming: Doubles,
    stationary: Doubles,
    d: tuple[Integers, Integers],
    parameters: ProductParameters,
) -> Integers:
    """Return the shifted block sums of a slab (consecutive rows of the streaming operand), for SW
    <= 52. ``d``: deficits of both sides, which broadcast.

    All operations but the addition of the half are exact. The addition is inexact only where the
    error cannot matter: below 2^-53 of a half, and above 2^52, where every number is whole and
    stays the same.
    """
    scales = power_of_two(parameters.fraction - d[0]), power_of_two(-d[1])
    if parameters.rounds:
        sums = _rounded_sums(streaming, stationary)
        sums *= scales[0]
        sums *= scales[1]
    else:
        sums = (streaming * scales[0]) @ (stationary * scales[1])
    sums += 0.5
    return np.floor(sums, out=sums).astype(np.int64)


def _sums_in_integers(
    streaming: Doubles,
    stationary: Doubles,
    d: tuple[Integers, Integers],
    parameters: ProductParameters,
) -> Integers:
    """Return the shifted block sums as :func:`_sums_in_doubles` does, for any SW. With SW + F <= 62
    a bit more than the result fits too."""
    if parameters.rounds:
        sums = _rounded_sums(streaming, stationary).astype(np.int64)
    else:
        sums = streaming.astype(np.int64) @ stationary.astype(np.int64)
    sums <<= parameters.fraction + 1
    sums >>= np.minimum(d[0] + d[1], MAX_SHIFT)
    sums += 1
    sums >>= 1
    return sums


def _rounded_sums(streaming: Doubles, stationary: Doubles) -> Doubles:
    """Return block sums of products that are rounded, half away from zero.

    The products have at most 16 bits and are below 2^48. A factor of 1 + 2^-50 moves them by less
    than a quarter and by less than their last place. Rounding to nearest even then gives the
    result: a former tie is more than a half, and no other product has reached a half.
    """
    streaming = streaming * ABOVE_ONE
    count = max(len(streaming), len(stationary))
    sums = np.zeros((count, streaming.shape[1], stationary.shape[2]))
    products = np.empty_like(sums)
    for c in range(stationary.shape[1]):
        np.multiply(streaming[:, :, c, None], stationary[:, c, None, :], out=products)
        np.rint(products, out=products)
        sums += products
    return sums
