"""Survey a tensor in number formats: noise, range, and deficits of blocks.

A survey helps to choose formats for a user's own data, before any hardware is generated. The
deficit of a block is the distance of its exponent below the largest exponent of its row or column.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device.conversion import Conversion
from diastole_sim.device.interface import Floats
from diastole_sim.golden.convert import Quantised, quantise
from diastole_sim.golden.copies import Copy
from diastole_sim.spec.formats import SIGNIFICAND_FRACTION, Format, Grouping
from diastole_sim.spec.image import GROUP_BLOCKS
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics, TensorClass

Integers: TypeAlias = NDArray[np.int64]

USUAL = 99
"""Percentile in reports, beside the largest value."""
BINARY32 = np.finfo(np.float32)


@dataclass(frozen=True, kw_only=True)
class Bits:
    """Numbers of bits per group, whole numbers: the largest, and the number that 99 % do not
    exceed."""

    largest: int
    usual: int


@dataclass(frozen=True, kw_only=True)
class Survey:
    """One tensor in one format, over both copies if the tensor has two.

    ``counted``: elements that take part in the noise, in one copy. ``snr_db``: power of the counted
    elements over the power of the rounding errors, in decibels; None without errors, and without
    counted elements. ``saturated``, ``underflowed``: shares of all elements, 0 to 1. ``spread``:
    largest minus smallest exponent of the non-zero elements of each group, before rounding.
    ``row_deficit``, ``column_deficit``: distance of the exponent of each non-zero group below the
    largest of its row, or column, of blocks (vectors: of elements), with the default window. F
    should cover the sum of two operands' deficits. None if no group has an element.
    """

    format: str
    grouping: str
    copies: int
    counted: int
    snr_db: float | None
    saturated: float
    underflowed: float
    spread: Bits | None
    row_deficit: Bits | None
    column_deficit: Bits | None


def survey_numerics(name: str, block: int) -> Numerics:
    """Return numerics with all classes in one format, with default groups and scales, rounded to
    nearest."""
    plain = {"format": name, "rounding": "nearest"}
    sizes = {"block": block, "random_bits": 8, "fraction": 0, "headroom": 1}
    return Numerics.from_dict(sizes | dict.fromkeys(CLASS_NAMES, plain))


def survey(array: Floats, name: str, *, block: int, tensor_class: str = "x") -> Survey:
    """Survey a float32 matrix in the format called ``name``, with blocks of side ``block``, rounded
    to nearest, saturating.

    ``tensor_class``: ``x``, ``w`` or ``dy``, which decides the default groups of NVFP4. NaN, Inf
    and subnormals take no part in the noise. ValueError for an unknown format, block or class, or
    if the array is no float32 array with two axes, none empty.
    """
    numerics = survey_numerics(name, block)
    return survey_converted(array, quantise(array, Conversion(tensor_class), numerics, seed=0))


def survey_converted(array: Floats, result: Quantised) -> Survey:
    """Survey ``array`` as converted in ``result``."""
    grouping = result.storage.grouping
    elements = array.size * len(result.copies)
    oriented = [array.T if copy.transposed else array for copy in result.copies]
    rows, columns = deficits(result)
    return Survey(
        format=result.storage.format.name,
        grouping=str(grouping),
        copies=len(result.copies),
        counted=int(np.count_nonzero(counted_elements(array))),
        snr_db=noise(array, result),
        saturated=result.saturated / elements,
        underflowed=result.underflowed / elements,
        spread=_bits([spread(each, grouping) for each in oriented]),
        row_deficit=_bits(rows),
        column_deficit=_bits(columns),
    )


def counted_elements(array: Floats) -> NDArray[np.bool_]:
    """Return for each element whether the element takes part in the noise."""
    return np.isfinite(array) & ((array == 0) | (np.abs(array) >= BINARY32.tiny))


def noise(array: Floats, result: Quantised) -> float | None:
    """Return the ratio of signal to noise in dB, over all copies; None without an error."""
    wide = array.astype(np.float64)
    counted = counted_elements(array)
    signal = added = 0.0
    for number in range(len(result.copies)):
        stored = np.clip(result.values(number)[counted], BINARY32.min, BINARY32.max)
        signal += float(np.square(wide[counted]).sum())
        added += float(np.square(wide[counted] - stored).sum())
    return 10 * math.log10(signal / added) if added else None


def spread(array: Floats, grouping: Grouping) -> Integers:
    """Return the largest minus the smallest exponent of each group, with vectors along the rows.
    Groups without a finite element other than 0 are left out (subnormals count as 0)."""
    field = (np.ascontiguousarray(array).view(np.uint32) >> 23).astype(np.int64) & 0xFF
    counted = (field != 0) & (field != 0xFF)
    largest = _reduce(np.maximum, np.where(counted, field, 0), grouping, 0)
    smallest = _reduce(np.minimum, np.where(counted, field, 0xFF), grouping, 0xFF)
    return (largest - smallest)[largest != 0]


def deficits(result: Quantised) -> tuple[list[Integers], list[Integers]]:
    """Return the deficits of every non-zero group, along the tensor's rows and along its
    columns."""
    rows: list[Integers] = []
    columns: list[Integers] = []
    for copy in result.copies:
        along_rows = _below(copy, copy.row_max[:, None], result.storage.format)
        (columns if copy.transposed else rows).append(along_rows)
        if copy.col_max.size:
            columns.append(_below(copy, copy.col_max[None, :], result.storage.format))
    return rows, columns


def _below(copy: Copy, largest: NDArray[np.uint8], kind: Format) -> Integers:
    bits = _exponents(largest, kind) - _exponents(copy.exponents, kind)
    return bits[copy.exponents != 0]


def _exponents(stored: NDArray[np.uint8], kind: Format) -> Integers:
    """Return stored exponents with a common bias. For NVFP4 the exponents are in E4M3 codes."""
    wide = stored.astype(np.int64)
    return np.maximum(wide >> SIGNIFICAND_FRACTION, 1) if kind.two_level else wide


def _bits(parts: list[Integers]) -> Bits | None:
    every = np.concatenate(parts)
    if not every.size:
        return None
    usual = np.percentile(every, USUAL, method="inverted_cdf")
    return Bits(largest=int(every.max()), usual=int(usual))


def _reduce(function: np.ufunc, values: Integers, grouping: Grouping, padding: int) -> Integers:
    """Reduce the elements of each group by ``function``. ``padding`` fills the last groups up."""
    if grouping.kind == "tensor":
        return function.reduce(values, axis=None, keepdims=True)
    height, width = 1 if grouping.kind == "vector" else grouping.size, grouping.size
    rows, columns = values.shape
    padded = np.pad(values, ((0, -rows % height), (0, -columns % width)), constant_values=padding)
    tall, long = padded.shape
    tiles = padded.reshape(tall // height, height, long // width, width)
    return function.reduce(tiles, axis=(1, 3))


def element_range(format: Format) -> tuple[float, float]:
    """Return the largest and the smallest positive element with a scale of 1 (a shared exponent of
    0), exactly."""
    unit = 2.0 ** (format.top_exponent - format.precision + 1)
    return format.max_significand * unit, unit * 2.0**-format.depth


def bits_per_element(name: str, block: int, tensor_class: str = "x") -> tuple[float, float]:
    """Return :func:`stored_bits` of a class of tensors in a format, with default groups."""
    return stored_bits(survey_numerics(name, block).tensor_class(tensor_class), block)


def stored_bits(storage: TensorClass, block: int) -> tuple[float, float]:
    """Return the bits in memory of an element of a large tensor with its share of the exponents: in
    one copy, and in all copies.

    Every block has an exponent, however large the group. A vector has an exponent for each of its
    rows in a group of blocks of the memory image.
    """
    vector = min(storage.grouping.size, GROUP_BLOCKS * block)
    sharing = vector if storage.two_copies else block * block
    bits = storage.format.element_bits + 8 / sharing
    return bits, bits * (1 + storage.two_copies)
