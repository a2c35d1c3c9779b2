"""One copy of a tensor: the tensor, or its transpose, converted for the products that read it.

All of it is done for a stack of matrices at once, (..., rows, columns), each as if it were alone:
what belongs to a matrix is an array of the axes in front.
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
from diastole_sim.golden.partition import Partition, nonzeros, turned
from diastole_sim.golden.two_scales import takes_four
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
"""Of 32 bits where they are of elements."""
Mask = NDArray[np.bool_]

SPECIAL = 0x7F800000
"""Magnitude bits of Inf; those of NaN are above."""
MIN_NORMAL = 1 << (BINARY32_SIGNIFICAND_BITS - 1)
"""Magnitude bits of 2^-126."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Copy:
    """The elements of a tensor, or of its transpose, with the exponents of their groups.

    ``shape``: rows and columns as they lie here, unpadded; RB x CB whole blocks of side B hold
    them. ``codes``: RB*B x CB*B stored elements, the sign on top; 0 in the padding. ``exponents``:
    RB x CB, or with vector groups of g columns RB*B x ceil(CB*B / g), stored bytes: e + 127 with e
    the exponent of the top binade after folding, or an NVFP4 scale's E4M3 code; 0 for a group of
    zeros, the format's ``nan_byte`` for one that is not a number. ``row_max``, ``col_max``: the
    largest of each row and column of them, NaN counted as 0; with vector groups no ``col_max``.
    ``folds``: by how much each exponent was lowered. Of a stack all have its axes in front.
    """

    transposed: bool
    shape: tuple[int, int]
    codes: NDArray[np.uint16]
    exponents: NDArray[np.uint8]
    row_max: NDArray[np.uint8]
    col_max: NDArray[np.uint8]
    folds: NDArray[np.uint8]

    def matrix(self, index: int) -> "Copy":
        """One matrix of a stack with one axis in front; it cannot be written to."""
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
    """Of finite elements of each matrix, without those of groups that are not numbers."""

    saturated: Integers
    underflowed: Integers


@dataclass(frozen=True, kw_only=True, eq=False)
class Fields:
    """What the converter reads of binary32: the sign, the 31 magnitude bits (``finite``; 0 for
    what is no normal number), and whether it is NaN or Inf."""

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
        """Whether there is a NaN or an Inf."""
        return bool(self.nan.any() or self.inf.any())

    def each(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> "Fields":
        """``change`` of every array."""
        return Fields(
            negative=change(self.negative),
            finite=change(self.finite),
            nan=change(self.nan),
            inf=change(self.inf),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredGroups:
    """Per group of a ``partition``, or with a tensor scale per block: ``e``, the scale's 4-bit
    ``significand``, the ``stored`` byte before folding (0 where every element becomes zero), and
    whether the group is no number."""

    partition: Partition
    e: Integers
    significand: Integers
    stored: Integers
    poisoned: Mask


def convert_copy(
    fields: Fields,
    draws: Integers,
    numerics: Numerics,
    asked: Conversion,
    tensor_exponent: int | Integers | None,
    transposed: bool,
) -> tuple[Copy, Counts]:
    """Convert a tensor, or its transpose; see :func:`diastole_sim.golden.convert.quantise`.

    ``fields``, ``draws``: of the tensor itself, unpadded; ``draws`` may be one 0. Of a stack each
    matrix may have a ``tensor_exponent`` of its own, (..., 1, 1); it stands for the scale that is
    ``asked``.
    """
    tensor_class, block = asked.tensor_class, numerics.block
    chosen = numerics.converted_class(tensor_class, asked.width)
    partition = Partition.groups(chosen.grouping, block)
    if transposed:
        fields, draws = fields.each(turned), turned(draws)
    rows, columns = fields.finite.shape[-2:]
    padding = (-rows % max(partition.rows, block), -columns % max(partition.columns, block))
    fields = fields.each(lambda elements: _pad(elements, padding))
    if is_stochastic(chosen.rounding):
        draws = _pad(draws, padding)

    groups = _measure(fields, partition, chosen, tensor_exponent, numerics.special)
    code = _round(fields, groups, chosen, draws, numerics.random_bits)
    limit = numerics.overflow_code(tensor_class)
    code, negative, counts = _settle(code, fields, groups, chosen.format, numerics.special, limit)
    stored, by = groups.stored, np.zeros_like(groups.stored)
    if numerics.folds(tensor_class):
        code, stored, by = _fold(code, fields, stored, partition, chosen.format)
    stored = np.where(groups.poisoned, chosen.format.nan_byte, stored)

    high, wide = (-(-side // block) * block for side in (rows, columns))
    elements = _signed(code[..., :high, :wide], negative[..., :high, :wide], chosen.format)
    exponents = _per_cell(stored, chosen, block, (high, wide))
    row_max, col_max = _maxima(exponents, chosen)
    copy = Copy(
        transposed=transposed,
        shape=(rows, columns),
        codes=elements,
        exponents=exponents,
        row_max=row_max,
        col_max=col_max,
        folds=_per_cell(by, chosen, block, (high, wide)),
    )
    return copy, counts


def copy_values(copy: Copy, chosen: TensorClass, block: int, tensor_exponent: int | None) -> Floats:
    """The stored numbers as they lie, unpadded.

    Each is exact in float32 (some are subnormals), but those of NVFP4 from 2^128 on, which are Inf.
    Inf and NaN codes are what they say; every element of a group that is not a number is NaN.
    """
    kind, cells = chosen.format, Partition.cells(chosen.grouping, block)
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
    chosen: TensorClass,
    tensor_exponent: int | Integers | None,
    special: str,
) -> MeasuredGroups:
    kind = chosen.format
    amax = partition.reduce(np.maximum, fields.finite).astype(np.int64)
    poisoned = np.zeros(amax.shape, dtype=np.bool_)
    if special == "poison" and kind.nan_code is None and fields.special:
        poisoned = partition.reduce(np.logical_or, fields.nan | fields.inf)
    if kind.two_level:
        assert tensor_exponent is not None
        stored = scale_codes(amax, tensor_exponent, chosen)
        if chosen.scale == FOUR_OVER_SIX:
            four = scale_codes(amax, tensor_exponent, chosen, largest=4)
            takes = takes_four(fields.finite, stored, four, tensor_exponent, partition)
            stored = np.where(takes, four, stored)
        e, significand = stored_parts(stored, kind, tensor_exponent)
        return MeasuredGroups(
            partition=partition, e=e, significand=significand, stored=stored, poisoned=poisoned
        )
    if tensor_exponent is None:
        e = group_exponents(amax, chosen)
    else:
        e = np.zeros_like(amax) + tensor_exponent
    counts = amax != 0
    if special == "flag" and chosen.grouping.kind == "tensor" and fields.special:
        # The exponent does not hang on the block: there Inf needs no number beside it.
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
    chosen: TensorClass,
    draws: Integers,
    bits: int,
) -> Integers:
    """Magnitude codes of the finite elements, too large where they do not fit."""
    finite, present, partition = fields.finite, groups.stored != 0, groups.partition
    if not present.all():
        finite = np.where(partition.spread(present), finite, 0)
    e = partition.spread(groups.e.astype(np.int32))
    if not chosen.format.two_level:
        return round_elements(finite, e, chosen, draws, bits)
    significand = partition.spread(np.maximum(groups.significand, 1))
    return round_quotients(finite, e, significand, chosen, draws, bits)


def _settle(
    code: Integers,
    fields: Fields,
    groups: MeasuredGroups,
    kind: Format,
    special: str,
    overflow: int | None,
) -> tuple[Integers, Mask, Counts]:
    """What overflow, NaN, Inf and zeros become: magnitude codes, signs and counts. ``overflow``: as
    :meth:`Numerics.overflow_code`."""
    beyond = code > kind.max_code
    if beyond.any():
        code[beyond] = kind.max_code if overflow is None else overflow
    negative, finite, kept = fields.negative, fields.finite, code
    if groups.poisoned.any():
        counted = ~groups.partition.spread(groups.poisoned)
        beyond, finite, kept = beyond & counted, finite * counted, code * counted
        negative = negative & counted
    # A code that is not 0 is of an element that is not.
    counts = Counts(saturated=nonzeros(beyond), underflowed=nonzeros(finite) - nonzeros(kept))
    code = kept
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
    """Codes and stored exponents of the same values, and by how much each block was lowered; a
    block without an element that is finite and not zero is one of zeros. A finite number that is
    stored as Inf or NaN counts as the largest element."""
    limited = np.where(fields.finite == 0, 0, kind.max_code)
    counted = np.where(code > kind.max_code, limited, code)
    by = partition.reduce(np.minimum, smallest_depth(counted, kind))
    zeros = by > kind.depth
    by[zeros] = 0
    return fold(code, partition.spread(by), kind), np.where(zeros, 0, stored - by), by


def _signed(code: Integers, negative: Mask, kind: Format) -> NDArray[np.uint16]:
    """Stored elements: magnitude codes with their signs on top."""
    elements = code.astype(np.uint16)
    elements |= negative.astype(np.uint16) << kind.magnitude_bits
    return elements


def _per_cell(
    groups: Integers, chosen: TensorClass, block: int, padded: tuple[int, int]
) -> NDArray[np.uint8]:
    """The stored bytes of a copy: a square that is larger than a block repeats its own."""
    cells = Partition.cells(chosen.grouping, block)
    repeat = Partition.groups(chosen.grouping, block).over(cells)
    rows, columns = padded[0] // cells.rows, -(-padded[1] // cells.columns)
    return repeat.spread(groups)[..., :rows, :columns].astype(np.uint8)


def _maxima(
    exponents: NDArray[np.uint8], chosen: TensorClass
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    numbers = np.where(exponents == chosen.format.nan_byte, 0, exponents).astype(np.uint8)
    if chosen.two_copies:
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
