"""Convert one copy of a tensor: the tensor, or its transpose, for the products that read the copy.

All functions work on a stack of matrices at once, (..., rows, columns), every matrix as if alone. A
value per matrix is an array of the leading axes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device.conversion import Conversion
from diastole_sim.device.interface import Floats
from diastole_sim.golden.element import round_elements, round_quotients
from diastole_sim.golden.magnitudes import (
    decode_magnitudes,
    fold,
    is_inf,
    is_nan,
    is_negative,
    smallest_depth,
)
from diastole_sim.golden.partition import Partition, nonzeros, transpose
from diastole_sim.golden.two_scales import prefers_four
from diastole_sim.spec.formats import (
    BINARY32_SIGNIFICAND_BITS,
    EXPONENT_BIAS,
    FOUR_OVER_SIX,
    SIGNIFICAND_FRACTION,
    Format,
)
from diastole_sim.spec.numerics import Numerics, TensorClass
from diastole_sim.spec.rounding import is_stochastic
from diastole_sim.spec.scales import (
    group_exponents,
    scale_codes,
    stored_parts,
)

Integers = NDArray[Any]
"""Integer array, of 32 bits if its entries belong to elements."""
Mask = NDArray[np.bool_]

SPECIAL = 0x7F800000
"""Magnitude bits of Inf; a NaN has larger magnitude bits."""
MIN_NORMAL = 1 << (BINARY32_SIGNIFICAND_BITS - 1)
"""Magnitude bits of 2^-126."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Copy:
    """Elements of a tensor, or of its transpose, with the exponents of their groups.

    - ``shape``: numbers of rows and columns as the copy stores them, without padding; RB x CB whole
      blocks of side B hold the elements.
    - ``codes``: RB*B x CB*B stored elements, with the sign in the top bit; 0 in the padding.
    - ``exponents``: stored bytes, RB x CB, or RB*B x ceil(CB*B / g) with vector groups of g
      columns. A byte is e + 127 with e the exponent of the top binade after folding, or the E4M3
      code of an NVFP4 scale; 0 for a group of zeros, and the format's ``nan_byte`` for a group that
      is not a number.
    - ``row_max``, ``col_max``: largest byte in every row and in every column of ``exponents``, with
      NaN counted as 0; vector groups have no ``col_max``.
    - ``folds``: amount by which each exponent was lowered.

    In a stack all arrays have the leading axes of the stack.
    """

    transposed: bool
    shape: tuple[int, int]
    codes: NDArray[np.uint16]
    exponents: NDArray[np.uint8]
    row_max: NDArray[np.uint8]
    col_max: NDArray[np.uint8]
    folds: NDArray[np.uint8]

    def matrix(self, index: int) -> "Copy":
        """Return one matrix of a stack with one leading axis. The arrays of the matrix are
        read-only."""
        return replace(
            self,
            codes=_frozen(self.codes[index]),
            exponents=_frozen(self.exponents[index]),
            row_max=_frozen(self.row_max[index]),
            col_max=_frozen(self.col_max[index]),
            folds=_frozen(self.folds[index]),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Counts:
    """Counts of finite elements in every matrix, without the groups that are not numbers."""

    saturated: Integers
    underflowed: Integers


@dataclass(frozen=True, kw_only=True, eq=False)
class Fields:
    """Fields of binary32 numbers that the converter reads. ``negative``: sign. ``finite``: the 31
    magnitude bits, 0 for anything but a normal number. ``nan``, ``inf``: True for a NaN or an
    Inf."""

    negative: Mask
    finite: Integers
    nan: Mask
    inf: Mask

    @classmethod
    def of(cls, array: Floats) -> "Fields":
        bits = np.ascontiguousarray(array).view(np.int32)
        magnitude = bits & 0x7FFFFFFF
        nan, inf = magnitude > SPECIAL, magnitude == SPECIAL
        magnitude[magnitude < MIN_NORMAL] = 0
        fields = cls(negative=bits < 0, finite=magnitude, nan=nan, inf=inf)
        if fields.special:
            magnitude[nan | inf] = 0
        return fields

    @cached_property
    def special(self) -> bool:
        """True if an element is NaN or Inf."""
        return bool(self.nan.any() or self.inf.any())

    def each(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> "Fields":
        """Apply ``change`` to every array."""
        return Fields(
            negative=change(self.negative),
            finite=change(self.finite),
            nan=change(self.nan),
            inf=change(self.inf),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredGroups:
    """Measurements per group of a ``partition``, or per block if the scale belongs to the tensor.

    - ``e``: exponent.
    - ``significand``: 4-bit significand of the scale.
    - ``stored``: byte before folding, 0 if every element becomes zero.
    - ``poisoned``: True if the group is not a number.
    """

    partition: Partition
    e: Integers
    significand: Integers
    stored: Integers
    poisoned: Mask


def convert_copy(
    fields: Fields,
    draws: Integers,
    numerics: Numerics,
    request: Conversion,
    tensor_exponent: int | Integers | None,
    transposed: bool,
) -> tuple[Copy, Counts]:
    """Convert a tensor, or its transpose; see :func:`diastole_sim.golden.convert.quantise`.

    ``fields``, ``draws``: arrays of the untransposed tensor, without padding; ``draws`` may be a
    single 0. ``tensor_exponent``: exponent that replaces the scale in ``request``; in a stack every
    matrix may have its own, (..., 1, 1).
    """
    tensor_class, block = request.tensor_class, numerics.block
    storage = numerics.converted_class(tensor_class, request.width)
    partition = Partition.groups(storage.grouping, block)
    if transposed:
        fields, draws = fields.each(transpose), transpose(draws)
    rows, columns = fields.finite.shape[-2:]
    padding = (-rows % max(partition.rows, block), -columns % max(partition.columns, block))
    fields = fields.each(lambda elements: _pad(elements, padding))
    if is_stochastic(storage.rounding):
        draws = _pad(draws, padding)

    # Measure, round and fold the groups, with padding up to whole groups.
    groups = _measure(fields, partition, storage, tensor_exponent, numerics.special)
    code = _round(fields, groups, storage, draws, numerics.random_bits)
    limit = numerics.overflow_code(tensor_class)
    code, negative, counts = _replace_specials(
        code, fields, groups, storage.format, numerics.special, limit
    )
    stored, by = groups.stored, np.zeros_like(groups.stored)
    if numerics.folds(tensor_class):
        code, stored, by = _fold(code, fields, stored, partition, storage.format)
    stored = np.where(groups.poisoned, storage.format.nan_byte, stored)

    # Cut the padding down to whole blocks.
    high, wide = (-(-side // block) * block for side in (rows, columns))
    elements = _signed(code[..., :high, :wide], negative[..., :high, :wide], storage.format)
    exponents = _per_cell(stored, storage, block, (high, wide))
    row_max, col_max = _maxima(exponents, storage)
    copy = Copy(
        transposed=transposed,
        shape=(rows, columns),
        codes=elements,
        exponents=exponents,
        row_max=row_max,
        col_max=col_max,
        folds=_per_cell(by, storage, block, (high, wide)),
    )
    return copy, counts


def copy_values(
    copy: Copy, storage: TensorClass, block: int, tensor_exponent: int | None
) -> Floats:
    """Return the stored numbers in the orientation of the copy, without padding.

    Every number is exact in float32 (some are subnormals), except numbers of NVFP4 from 2^128 on,
    which are Inf. Codes of Inf and NaN become Inf and NaN. Every element of a group that is not a
    number is NaN.
    """
    kind, cells = storage.format, Partition.cells(storage.grouping, block)
    rows, columns = copy.shape
    codes = copy.codes[:rows, :columns]
    e, significand = stored_parts(copy.exponents, kind, tensor_exponent)
    sig, d = decode_magnitudes(codes, kind)
    sig *= cells.spread(significand)[:rows, :columns]
    ulp = cells.spread(e)[:rows, :columns] - d - (kind.precision - 1) - SIGNIFICAND_FRACTION
    values = np.ldexp(sig.astype(np.float64), ulp.astype(np.int32))
    values[is_inf(codes, kind)] = np.inf
    poisoned = cells.spread(copy.exponents == kind.nan_byte)[:rows, :columns]
    values[is_nan(codes, kind) | poisoned] = np.nan
    np.negative(values, out=values, where=is_negative(codes, kind))
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def _measure(
    fields: Fields,
    partition: Partition,
    storage: TensorClass,
    tensor_exponent: int | Integers | None,
    special: str,
) -> MeasuredGroups:
    kind = storage.format
    amax = partition.reduce(np.maximum, fields.finite).astype(np.int64)
    poisoned = np.zeros(amax.shape, dtype=np.bool_)
    if special == "poison" and kind.nan_code is None and fields.special:
        poisoned = partition.reduce(np.logical_or, fields.nan | fields.inf)
    if kind.two_level:
        assert tensor_exponent is not None
        stored = scale_codes(amax, tensor_exponent, storage)
        if storage.scale == FOUR_OVER_SIX:
            four = scale_codes(amax, tensor_exponent, storage, largest=4)
            takes = prefers_four(fields.finite, stored, four, tensor_exponent, partition)
            stored = np.where(takes, four, stored)
        e, significand = stored_parts(stored, kind, tensor_exponent)
        return MeasuredGroups(
            partition=partition, e=e, significand=significand, stored=stored, poisoned=poisoned
        )
    if tensor_exponent is None:
        e = group_exponents(amax, storage)
    else:
        e = np.zeros_like(amax) + tensor_exponent
    counts = amax != 0
    if special == "flag" and storage.grouping.kind == "tensor" and fields.special:
        # The exponent does not depend on the block, so an Inf needs no finite number beside it.
        counts |= partition.reduce(np.logical_or, fields.inf)
    present = counts & (e >= kind.lowest_exponent)
    stored = np.where(present, e + EXPONENT_BIAS, 0)
    significand = np.full_like(amax, 1 << SIGNIFICAND_FRACTION)
    return MeasuredGroups(
        partition=partition, e=e, significand=significand, stored=stored, poisoned=poisoned
    )


def _round(
    fields: Fields,
    groups: MeasuredGroups,
    storage: TensorClass,
    draws: Integers,
    bits: int,
) -> Integers:
    """Return the magnitude codes of the finite elements. Codes of elements that do not fit are too
    large."""
    finite, present, partition = fields.finite, groups.stored != 0, groups.partition
    if not present.all():
        finite = np.where(partition.spread(present), finite, 0)
    e = partition.spread(groups.e.astype(np.int32))
    if not storage.format.two_level:
        return round_elements(finite, e, storage, draws, bits)
    significand = partition.spread(np.maximum(groups.significand, 1))
    return round_quotients(finite, e, significand, storage, draws, bits)


def _replace_specials(
    code: Integers,
    fields: Fields,
    groups: MeasuredGroups,
    kind: Format,
    special: str,
    overflow: int | None,
) -> tuple[Integers, Mask, Counts]:
    """Replace overflows, NaN, Inf and zeros by their codes. Return magnitude codes, signs and
    counts. ``overflow``: result of :meth:`Numerics.overflow_code`."""
    beyond = code > kind.max_code
    if beyond.any():
        code[beyond] = kind.max_code if overflow is None else overflow
    negative, finite, plain = fields.negative, fields.finite, code
    if groups.poisoned.any():
        counted = ~groups.partition.spread(groups.poisoned)
        beyond, finite, plain = beyond & counted, finite * counted, code * counted
        negative = negative & counted
    # A nonzero code belongs to a nonzero element.
    counts = Counts(saturated=nonzeros(beyond), underflowed=nonzeros(finite) - nonzeros(plain))
    code = plain
    if fields.special and special == "flag":
        code[fields.inf & groups.partition.spread(groups.stored != 0)] = kind.max_code
        negative = negative & ~fields.nan
    elif fields.special and kind.nan_code is not None and kind.overflow_code is not None:
        code[fields.inf] = kind.overflow_code
        code[fields.nan] = kind.nan_code
    if not kind.signed_zero:
        negative = negative & (code != 0)
    return code, negative, counts


def _fold(
    code: Integers, fields: Fields, stored: Integers, partition: Partition, kind: Format
) -> tuple[Integers, Integers, Integers]:
    """Return the folded codes and stored exponents of the same values, and by how much every block
    was lowered. A block without a finite nonzero element is a block of zeros. A finite number that
    is stored as Inf or NaN counts as the largest element."""
    limited = np.where(fields.finite == 0, 0, kind.max_code)
    counted = np.where(code > kind.max_code, limited, code)
    by = partition.reduce(np.minimum, smallest_depth(counted, kind))
    zeros = by > kind.depth
    by[zeros] = 0
    return fold(code, partition.spread(by), kind), np.where(zeros, 0, stored - by), by


def _signed(code: Integers, negative: Mask, kind: Format) -> NDArray[np.uint16]:
    """Return stored elements: magnitude codes with the sign in the top bit."""
    elements = code.astype(np.uint16)
    elements |= negative.astype(np.uint16) << kind.magnitude_bits
    return elements


def _per_cell(
    groups: Integers, storage: TensorClass, block: int, padded: tuple[int, int]
) -> NDArray[np.uint8]:
    """Return the stored bytes of a copy. A square larger than a block repeats its byte."""
    cells = Partition.cells(storage.grouping, block)
    repeat = Partition.groups(storage.grouping, block).over(cells)
    rows, columns = padded[0] // cells.rows, -(-padded[1] // cells.columns)
    return repeat.spread(groups)[..., :rows, :columns].astype(np.uint8)


def _maxima(
    exponents: NDArray[np.uint8], storage: TensorClass
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    numbers = np.where(exponents == storage.format.nan_byte, 0, exponents).astype(np.uint8)
    if storage.two_copies:
        return numbers.max(axis=-1), np.zeros((*numbers.shape[:-2], 0), dtype=np.uint8)
    return numbers.max(axis=-1), numbers.max(axis=-2)


def _pad(elements: NDArray[Any], padding: tuple[int, int]) -> NDArray[Any]:
    if not any(padding):
        return elements
    *leading, rows, columns = elements.shape
    padded = np.zeros((*leading, rows + padding[0], columns + padding[1]), elements.dtype)
    padded[..., :rows, :columns] = elements
    return padded


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array
