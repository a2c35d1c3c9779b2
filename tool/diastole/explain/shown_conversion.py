"""Explain how the converter made an element: shift, rounding, mantissa, shared exponent.

Every element is derived from its float32 and the stored exponent of the element's group. The
resulting code must be the code in the memory of the machine.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole.explain.shown_run import WavesDisagree
from diastole_sim.device.interface import Floats
from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.copies import Copy, Fields
from diastole_sim.golden.element_draws import element_draws
from diastole_sim.golden.magnitudes import (
    decode_magnitudes,
    encode_magnitudes,
    fold,
    is_negative,
    magnitudes,
)
from diastole_sim.golden.partition import Partition
from diastole_sim.golden.random import DrawKey
from diastole_sim.spec.formats import (
    BINARY32_SIGNIFICAND_BITS,
    SCALE_SIGNIFICAND_BITS,
    SIGNIFICAND_FRACTION,
    Format,
)
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.rounding import is_stochastic, round_quotient
from diastole_sim.spec.scales import (
    MAX_QUOTIENT_SHIFT,
    exponents_of,
    significands_of,
    stored_parts,
)

Integers = NDArray[Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class ShownConversion:
    """A copy of an operand, element by element, in the orientation of the tensor, unpadded.

    A stored element is ``significand`` * 2^(``exponent`` - ``depth`` - p + 1), with the sign in the
    significand; in NVFP4 also times ``scale`` / 8.

    - ``units``: magnitude of the float32 in units of the last place before rounding. The unit is
      2^``place`` (times ``scale`` / 8).
    - ``rounded``: ``units`` as an integer, at most the integer of the largest element.
    - ``draws``: random bits of the rounding, None where the class rounds to nearest.
    - ``folds``: number by which the exponent was lowered after rounding.

    All elements of a group have an equal ``exponent``, ``scale`` and ``folds``.
    """

    significand: Integers
    depth: Integers
    exponent: Integers
    folds: Integers
    scale: Integers
    place: Integers
    units: NDArray[np.float64]
    rounded: Integers
    draws: Integers | None

    def transposed(self) -> "ShownConversion":
        """Return the elements in the transposed orientation."""
        return ShownConversion(
            significand=self.significand.T,
            depth=self.depth.T,
            exponent=self.exponent.T,
            folds=self.folds.T,
            scale=self.scale.T,
            place=self.place.T,
            units=self.units.T,
            rounded=self.rounded.T,
            draws=None if self.draws is None else self.draws.T,
        )


def conversions_of(
    values: Floats, stored: Quantised, numerics: Numerics, *, seed: int, tag: int
) -> tuple[ShownConversion, ...]:
    """Explain each copy of ``stored``, which has the ``folds`` of the golden model, for step 0.

    :class:`WavesDisagree` if an element does not follow from its float32.
    """
    conversions: list[ShownConversion] = []
    for number, copy in enumerate(stored.copies):
        draws = None
        if is_stochastic(stored.storage.rounding):
            finite = Fields.of(values[None]).finite
            key = DrawKey(seed=seed, tags=(tag,), step=0, second=number == 1)
            (draws,) = element_draws(finite, numerics, key)
        if copy.transposed:
            transposed = None if draws is None else draws.T
            explained = _conversion(values.T, stored, copy, transposed, numerics)
            conversions.append(explained.transposed())
        else:
            conversions.append(_conversion(values, stored, copy, draws, numerics))
    return tuple(conversions)


def _conversion(
    values: Floats, stored: Quantised, copy: Copy, draws: Integers | None, numerics: Numerics
) -> ShownConversion:
    """Explain a copy. ``values`` and ``draws`` have the orientation of the copy."""
    storage, kind = stored.storage, stored.storage.format
    numbers = Fields.of(values)
    groups = _Groups.of(copy, stored)
    finite = np.where(groups.zeros, 0, numbers.finite.astype(np.int64))
    below = _binades_below(finite, groups)
    depth = np.clip(below, 0, kind.depth)
    place = groups.exponent - depth - kind.precision + 1
    above = (below < 0) & (finite != 0)
    rounded = _rounded(finite, groups, place, storage.rounding, draws, numerics.random_bits)
    rounded = np.where(above, kind.max_significand, rounded)

    code = encode_magnitudes(rounded, depth, kind)
    overflow = numerics.overflow_code(stored.tensor_class)
    code[above | (code > kind.max_code)] = kind.max_code if overflow is None else overflow
    code = fold(np.where(finite == 0, 0, code), groups.folds, kind)
    _require_stored(code, numbers.negative, copy, kind)

    significand, stored_depth = decode_magnitudes(code, kind)
    units = np.ldexp(
        significands_of(finite).astype(np.float64),
        (exponents_of(finite) - BINARY32_SIGNIFICAND_BITS + 1 - place).astype(np.int32),
    )
    return ShownConversion(
        significand=np.where(numbers.negative, -significand, significand),
        depth=stored_depth,
        exponent=groups.exponent - groups.folds,
        folds=groups.folds,
        scale=groups.scale,
        place=place,
        units=np.where(finite == 0, 0, units * 2**SIGNIFICAND_FRACTION / groups.scale),
        rounded=np.where(finite == 0, 0, rounded),
        draws=draws,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Groups:
    """Values of the group of every element: the ``exponent`` before folding, the ``scale``, the
    ``folds``, and whether all elements of the group are ``zeros``."""

    exponent: Integers
    scale: Integers
    folds: Integers
    zeros: NDArray[np.bool_]

    @classmethod
    def of(cls, copy: Copy, stored: Quantised) -> "_Groups":
        cells = Partition.cells(stored.storage.grouping, stored.block)
        exponents, scales = stored_parts(
            copy.exponents, stored.storage.format, stored.tensor_exponent
        )
        folds, zeros = copy.folds.astype(np.int64), copy.exponents == 0
        rows, columns = copy.shape
        exponent, scale, by = (
            cells.spread(part)[:rows, :columns]
            for part in (exponents + folds, np.maximum(scales, 1), folds)
        )
        none = cells.spread(zeros)[:rows, :columns]
        return cls(exponent=np.where(none, 0, exponent), scale=scale, folds=by, zeros=none)


def _binades_below(finite: Integers, groups: _Groups) -> Integers:
    """Return how far the exponent of a magnitude lies below the exponent of its group. The
    magnitude is divided by the significand of the scale first. Less than 0 for a magnitude that is
    too large."""
    lengths = np.array([number.bit_length() for number in range(1 << SCALE_SIGNIFICAND_BITS)])
    lead = SCALE_SIGNIFICAND_BITS - lengths[groups.scale]
    aligned = groups.scale << (lead + BINARY32_SIGNIFICAND_BITS - SCALE_SIGNIFICAND_BITS)
    borrow = significands_of(finite) < aligned
    return groups.exponent - exponents_of(finite) + borrow - lead


def _rounded(
    finite: Integers,
    groups: _Groups,
    place: Integers,
    rule: str,
    draws: Integers | None,
    bits: int,
) -> Integers:
    """Return magnitudes in units of their last places, rounded by the rule of their class."""
    shift = place - exponents_of(finite) + BINARY32_SIGNIFICAND_BITS - 1 - SIGNIFICAND_FRACTION
    divisor = groups.scale << np.clip(shift, 0, MAX_QUOTIENT_SHIFT)
    drawn = 0 if draws is None else draws
    return round_quotient(rule, significands_of(finite), divisor, drawn, bits)


def _require_stored(code: Integers, negative: NDArray[np.bool_], copy: Copy, kind: Format) -> None:
    """Raise :class:`WavesDisagree` unless these are the codes and signs of a copy."""
    rows, columns = copy.shape
    stored = copy.codes[:rows, :columns]
    signed = negative if kind.signed_zero else negative & (code != 0)
    wrong = (code != magnitudes(stored, kind)) | (signed != is_negative(stored, kind))
    if wrong.any():
        place = tuple(int(each) for each in np.argwhere(wrong)[0])
        raise WavesDisagree(
            f"element {place} of a converted tensor does not follow from its float32"
        )
