"""An operand as a product sees it: rows along the contraction, elements and deficits decoded.

The part of a row inside one block of the contraction is a *vector*; its elements share an exponent
whatever the grouping is, so here all formats and groupings become alike.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.magnitudes import decode_magnitudes, is_inf, is_nan, is_negative
from diastole_sim.spec.formats import Format
from diastole_sim.spec.scales import stored_parts

Integers = NDArray[np.int64]
Doubles = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class OperandRows:
    """Rows along the contraction, padded to whole blocks of side ``block``.

    Per element: ``elements``, (-1)^s * sig * 2^-d, in NVFP4 times the scale's significand. Per
    vector (rows x blocks of the contraction): ``nonzero``, whether its group is neither of zeros
    nor a NaN; ``deficits``, the row's maximum minus the group's exponent, 0 unless ``nonzero``;
    ``depths``, the largest d of an element that is not zero, -1 if all are. Per row: ``maxima``,
    the largest exponent; ``poisoned``. ``length``: rows, unpadded.
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

    @property
    def extents(self) -> Integers:
        """Bits from the top of each vector's group to the last place of its lowest element, 0 for
        zeros: where those of two vectors add up to at most w, their products are integers."""
        return np.where(self.depths < 0, 0, self.depths + self.format.precision)

    @property
    def reach(self) -> Integers:
        """Bits that the last place of each vector's lowest element is below that of the row's
        largest one."""
        return np.maximum(self.depths, 0) + self.deficits

    def only(self, vectors: Mask) -> Doubles:
        """``elements``, with zeros outside ``vectors``."""
        return np.where(vectors.repeat(self.block, axis=1), self.elements, 0.0)

    def aligned(self, elements: Doubles) -> Doubles:
        """``elements`` times 2^-deficit."""
        return elements * power_of_two(-self.deficits).repeat(self.block, axis=1)


def read_operand_rows(tensor: Quantised, number: int, *, poison: bool) -> OperandRows:
    """A tensor as the product that reads its copy ``number`` has it: along the tensor's rows for 0,
    down its columns for 1. A tensor that has one copy only is turned for 1.

    A group that is not a number is one of zeros. An element that is NaN counts as 0, one that is
    infinite as the largest of its group, or with ``poison`` as 0; with ``poison`` each of these
    poisons its row.
    """
    kind, block = tensor.chosen.format, tensor.block
    codes, scales, stored_maxima = _stored(tensor, number)
    not_numbers = scales == kind.nan_byte
    nonzero = (scales != 0) & ~not_numbers
    exponents, significands = stored_parts(scales, kind, tensor.tensor_exponent)
    maxima, _ = stored_parts(stored_maxima, kind, tensor.tensor_exponent)

    sig, d = decode_magnitudes(codes, kind)
    infinite = is_inf(codes, kind)
    if not poison:
        sig[infinite] = kind.max_significand
    sig[~nonzero.repeat(block, axis=1)] = 0
    depths = np.where(sig == 0, -1, d).reshape(*scales.shape, block).max(axis=2)
    if kind.two_level:
        sig *= significands.repeat(block, axis=1)
    signed = np.where(is_negative(codes, kind), -sig, sig).astype(np.float64)
    special = (is_nan(codes, kind) | infinite).any(axis=1) | not_numbers.any(axis=1)
    return OperandRows(
        elements=signed * power_of_two(-d),
        nonzero=nonzero,
        deficits=np.where(nonzero, maxima[:, None] - exponents, 0),
        depths=depths,
        maxima=maxima,
        poisoned=special & poison,
        length=tensor.shape[number],
        format=kind,
        block=block,
    )


def _stored(
    tensor: Quantised, number: int
) -> tuple[NDArray[np.uint16], NDArray[np.uint8], NDArray[np.uint8]]:
    """Elements, the stored exponent of every vector, and the largest one of every row."""
    block = tensor.block
    if tensor.chosen.two_copies:
        copy = tensor.copies[number]
        per_vector = copy.exponents.repeat(tensor.chosen.grouping.size // block, axis=1)
        return copy.codes, per_vector[:, : copy.codes.shape[1] // block], copy.row_max
    (copy,) = tensor.copies
    codes, exponents, maxima = copy.codes, copy.exponents, copy.row_max
    if number == 1:
        codes, exponents, maxima = codes.T, exponents.T, copy.col_max
    return codes, exponents.repeat(block, axis=0), maxima.repeat(block)


def power_of_two(exponents: Integers) -> Doubles:
    """2^``exponents``, exactly, which ``**`` does not promise."""
    return np.ldexp(1.0, exponents.astype(np.int32))
