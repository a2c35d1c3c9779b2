"""Decode an operand as a product reads it: rows along the contraction, with elements and deficits.

A *vector* is the part of a row inside one block of the contraction. Its elements share an exponent
in every grouping, so all formats and groupings are alike in this form. A *deficit* is the distance
from a vector's exponent up to the largest exponent of the row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.magnitudes import decode_magnitudes, is_inf, is_nan, is_negative
from diastole_sim.golden.partition import transpose
from diastole_sim.spec.formats import PLANE_BITS, SIGNIFICAND_FRACTION, Format
from diastole_sim.spec.scales import stored_parts

Integers = NDArray[Any]
Doubles = NDArray[np.float64]
Mask = NDArray[np.bool_]
Codes = NDArray[np.uint16]
Bytes = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Bounds over all vectors of an operand. ``deficits``, ``extents`` and ``reach``: largest
    values of the members of :class:`OperandRows`. ``contraction``: length of a row with padding."""

    deficits: int
    extents: int
    reach: int
    contraction: int
    format: Format


@dataclass(frozen=True, kw_only=True, eq=False)
class OperandRows:
    """Rows along the contraction for a stack of operands, padded to whole blocks of side ``block``.
    The first axis is the axis of the stack.

    Per element: ``elements``, (-1)^s * sig * 2^-d, in NVFP4 times the significand of the scale.

    Per vector (rows x blocks of the contraction): ``nonzero``, False if the group is a group of
    zeros or a NaN; ``deficits``, the row's maximum minus the group's exponent, 0 unless
    ``nonzero``; ``depths``, the largest d of a nonzero element, -1 if all elements are zeros.

    Per row: ``maxima``, the largest exponent; ``poisoned``, True if a NaN or an Inf poisons the
    row. ``length``: number of rows without padding.
    """

    elements: Doubles
    nonzero: Mask
    deficits: Integers
    depths: Integers
    maxima: Integers
    poisoned: Mask
    length: int
    format: Format
    block: int

    @cached_property
    def extents(self) -> Integers:
        """Bits from the top of every vector's group to the last place of its lowest element, 0 for
        zeros. If the extents of two vectors add up to at most w, their products are integers."""
        return np.where(self.depths < 0, 0, self.depths + self.format.precision)

    @cached_property
    def reach(self) -> Integers:
        """Bits from the last place of the row's largest element down to the last place of every
        vector's lowest element."""
        return np.maximum(self.depths, 0) + self.deficits

    @property
    def bounds(self) -> Bounds:
        """Largest deficit, extent and reach of all vectors."""
        return Bounds(
            deficits=int(self.deficits.max()),
            extents=int(self.extents.max()),
            reach=int(self.reach.max()),
            contraction=self.elements.shape[-1],
            format=self.format,
        )

    def only(self, vectors: Mask) -> Doubles:
        """Return ``elements``, with zeros outside ``vectors``."""
        return np.where(vectors.repeat(self.block, axis=-1), self.elements, 0.0)

    def aligned(self, elements: Doubles) -> Doubles:
        """Return ``elements`` times 2^-deficit."""
        return elements * power_of_two(-self.deficits).repeat(self.block, axis=-1)

    def values(self) -> Doubles:
        """Return the stored numbers."""
        unit = self.maxima + 1 - self.format.precision
        if self.format.two_level:
            unit -= SIGNIFICAND_FRACTION
        exponents = unit[..., None] - self.deficits
        return self.elements * power_of_two(exponents).repeat(self.block, axis=-1)

    def part(self, first: int, count: int) -> "OperandRows":
        """Return ``count`` blocks of the contraction from ``first`` on, or fewer at the end of the
        rows. Deficits still refer to the maxima of the whole rows."""
        blocks = slice(first, first + count)
        along = slice(first * self.block, (first + count) * self.block)
        return replace(
            self,
            elements=self.elements[..., along],
            nonzero=self.nonzero[..., blocks],
            deficits=self.deficits[..., blocks],
            depths=self.depths[..., blocks],
        )

    def planes(self) -> "list[OperandRows]":
        """Return the planes of operands in the format ``fast``, the top bits first. Every plane is
        an operand of 2 bits, and the deficits of plane i are larger by 2 i. Operands in another
        format are returned unchanged."""
        count = self.format.plane_count
        if count == 1:
            return [self]
        magnitudes, signs = np.abs(self.elements).astype(np.int64), np.sign(self.elements)
        planes: list[OperandRows] = []
        for number in range(count):
            chunks = magnitudes >> PLANE_BITS * (count - 1 - number) & (1 << PLANE_BITS) - 1
            planes.append(
                replace(
                    self,
                    elements=signs * chunks,
                    depths=_in_any(chunks != 0, self.block).astype(np.int32) - 1,
                    deficits=(self.deficits + PLANE_BITS * number) * self.nonzero,
                    format=self.format.at_width(PLANE_BITS),
                )
            )
        return planes


def read_operand_rows(tensors: Sequence[Quantised], number: int, *, poison: bool) -> OperandRows:
    """Return tensors of one class and shape as a product reads copy ``number``: along their rows
    for 0, down their columns for 1. A tensor with a single copy is transposed for 1.

    A group that is not a number counts as a group of zeros. A NaN element counts as 0. An infinite
    element counts as the largest element of its group, or as 0 with ``poison``. With ``poison``
    every NaN group, NaN element and infinite element poisons its row.
    """
    tensor = tensors[0]
    codes, scales, stored_maxima = _stored(tensors, number)
    kind, block = tensor.storage.format, tensor.block
    not_numbers = scales == kind.nan_byte
    nonzero = (scales != 0) & ~not_numbers
    of_tensors = np.array([each.tensor_exponent or 0 for each in tensors])[:, None]
    exponents, significands = stored_parts(scales, kind, of_tensors[..., None])
    maxima, _ = stored_parts(stored_maxima, kind, of_tensors)

    decoded = decoded_codes(kind, poison)
    elements = decoded.elements.take(codes)
    if not nonzero.all():
        elements = np.where(nonzero.repeat(block, axis=-1), elements, 0.0)
    depths = _depths(decoded, codes, elements, block)
    if kind.two_level:
        elements *= significands.repeat(block, axis=-1)
    poisoned = np.zeros(codes.shape[:-1], dtype=np.bool_)
    if poison:
        poisoned = not_numbers.any(axis=-1)
        if kind.specials != "none":
            poisoned |= decoded.special.take(codes).any(axis=-1)
    return OperandRows(
        elements=elements,
        nonzero=nonzero,
        deficits=(maxima[..., None] - exponents) * nonzero,
        depths=depths,
        maxima=maxima,
        poisoned=poisoned,
        length=tensor.shape[number],
        format=kind,
        block=block,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class DecodedCodes:
    """Meaning of every stored code: an element, its d (-1 for a zero), and True for a NaN or an
    Inf. ``deepest``: largest d."""

    elements: Doubles
    depths: NDArray[np.int32]
    special: Mask
    deepest: int


@cache
def decoded_codes(kind: Format, poison: bool) -> DecodedCodes:
    """Decode all codes of a format. An infinite element is 0 with ``poison``, else the largest
    element."""
    codes = np.arange(2 << kind.magnitude_bits)
    sig, d = decode_magnitudes(codes, kind)
    infinite = is_inf(codes, kind)
    if not poison:
        sig[infinite] = kind.max_significand
    signed = np.where(is_negative(codes, kind), -sig, sig).astype(np.float64)
    return DecodedCodes(
        elements=signed * power_of_two(-d),
        depths=np.where(sig == 0, -1, d).astype(np.int32),
        special=is_nan(codes, kind) | infinite,
        deepest=kind.depth,
    )


def _depths(decoded: DecodedCodes, codes: Codes, elements: Doubles, block: int) -> Integers:
    """Return the largest d in every vector, -1 if all elements of the vector are zeros."""
    if not decoded.deepest:
        return _in_any(elements != 0, block).astype(np.int32) - 1
    element_depths = decoded.depths.take(codes)  # -1 for a zero
    if not elements.all():
        element_depths[elements == 0] = -1
    vectors = element_depths.reshape(*codes.shape[:-1], -1, block)
    depths = vectors[..., 0].copy()
    for place in range(1, block):
        np.maximum(depths, vectors[..., place], out=depths)
    return depths


def _in_any(elements: Mask, block: int) -> Mask:
    """Return whether every vector has a true element. Several bytes are tested as one number."""
    together = min(block, 8)
    words = elements.view(f"u{together}") != 0
    return words.reshape(*words.shape[:-1], -1, block // together).any(axis=-1)


def _stored(tensors: Sequence[Quantised], number: int) -> tuple[Codes, Bytes, Bytes]:
    """Return the elements, the stored exponent of every vector, and the largest stored exponent of
    every row."""
    first = tensors[0]
    block, two_copies = first.block, first.storage.two_copies
    copies = [tensor.copies[number if two_copies else 0] for tensor in tensors]
    transposed = number == 1 and not two_copies
    codes = np.stack([copy.codes for copy in copies])
    exponents = np.stack([copy.exponents for copy in copies])
    maxima = np.stack([copy.col_max if transposed else copy.row_max for copy in copies])
    if transposed:
        codes, exponents = transpose(codes), transpose(exponents)
    if two_copies:
        per_vector = exponents.repeat(first.storage.grouping.size // block, axis=-1)
        return codes, per_vector[..., : codes.shape[-1] // block], maxima
    return codes, exponents.repeat(block, axis=-2), maxima.repeat(block, axis=-1)


def power_of_two(exponents: Integers) -> Doubles:
    """Return 2^``exponents`` exactly; ``**`` does not promise exact results."""
    return np.ldexp(1.0, exponents.astype(np.int32))
