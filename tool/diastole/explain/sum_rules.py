"""Compute the array's sums in integers: products of mantissas, shifted by deficits and rounded.

Source: the definition in :mod:`diastole_sim.golden.matrix_product`. The integers are compared with
the partial sums in the waves, bit for bit.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole.explain.shown_conversion import ShownConversion
from diastole_sim.golden.convert import Quantised
from diastole_sim.golden.operand_rows import read_operand_rows
from diastole_sim.spec.formats import Format
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.operations import MatrixProduct

Integers = NDArray[Any]
MAX_SHIFT = 63
"""Shift from which on every sum rounds to 0: sums have 62 bits and a sign at most."""


@dataclass(frozen=True, kw_only=True, eq=False)
class SumSide:
    """A factor of a product, with rows along the contraction, padded to whole blocks.

    - ``significand``, ``depth``: values per element, with the sign in the significand.
    - ``deficit``: value per vector, the part of a row in one block of the contraction. The deficit
      is the largest exponent of the row less the exponent of the vector's group.
    - ``scale``: scale of the vector's group, 8 where scales are powers of two.
    - ``maximum``: largest exponent, per row.
    """

    significand: Integers
    depth: Integers
    deficit: Integers
    scale: Integers
    maximum: Integers
    format: Format

    @classmethod
    def of(
        cls, stored: Quantised, conversions: tuple[ShownConversion, ...], number: int
    ) -> "SumSide":
        """Return an operand as a product reads copy ``number``, or the only copy. Copy 1 is
        transposed."""
        rows = read_operand_rows([stored], number, poison=False)
        copy = conversions[number if len(conversions) > 1 else 0]
        copy = copy.transposed() if number == 1 else copy
        block = stored.block

        def padded(array: Integers) -> Integers:
            height, width = array.shape
            return np.pad(array.astype(np.int64), ((0, -height % block), (0, -width % block)))

        scale = padded(copy.scale)[:, ::block]
        return cls(
            significand=padded(copy.significand),
            depth=padded(copy.depth),
            deficit=rows.deficits[0].astype(np.int64),
            scale=scale,
            maximum=rows.maxima[0].astype(np.int64),
            format=stored.storage.format,
        )


@dataclass(frozen=True, kw_only=True)
class SumRule:
    """Rule of the integers of a product: ``product_bits`` w, ``fraction`` F, and whether the
    ``scales`` of groups have significands."""

    product_bits: int
    fraction: int
    scales: bool

    @classmethod
    def of(cls, product: MatrixProduct, numerics: Numerics) -> "SumRule":
        first, second = (factor.tensor_class for factor in product.factors)
        return cls(
            product_bits=numerics.product_bits(first, second),
            fraction=numerics.fraction,
            scales=numerics.scale_significands,
        )

    @property
    def unit(self) -> int:
        """Exponent of a sum of 1 where the largest exponents of both rows are 0."""
        return -self.fraction - (self.product_bits - 2) - 6 * self.scales


@dataclass(frozen=True, kw_only=True, eq=False)
class Factors:
    """The sides of a product in the array: the streaming and the stationary side.

    ``block``: side of a block.
    """

    streaming: SumSide
    stationary: SumSide
    rule: SumRule
    block: int

    def addends(self, vectors: slice, lanes: slice, number: int) -> Integers:
        """Return the addends of one cell over block ``number`` of the contraction, for ``vectors``
        (streaming rows) x ``lanes`` (stationary rows)."""
        first, second, rule = self.streaming, self.stationary, self.rule
        part = slice(number * self.block, (number + 1) * self.block)
        products = first.significand[vectors, None, part] * second.significand[None, lanes, part]
        depths = first.depth[vectors, None, part] + second.depth[None, lanes, part]
        grown = rule.product_bits - first.format.precision - second.format.precision
        sums = _rescaled(products, depths, grown).sum(axis=-1)
        if rule.scales:
            sums *= first.scale[vectors, None, number] * second.scale[None, lanes, number]
        deficits = first.deficit[vectors, None, number] + second.deficit[None, lanes, number]
        return shifted(sums << rule.fraction, deficits)


def _rescaled(products: Integers, depths: Integers, grown: int) -> Integers:
    """Return products of significands in units of the window, rounded half away from zero."""
    down = depths - grown
    magnitude = np.abs(products) << np.maximum(-down, 0)
    return np.sign(products) * shifted(magnitude, np.maximum(down, 0))


def shifted(numbers: Integers, by: Integers) -> Integers:
    """Return ``numbers`` / 2^``by`` rounded to the nearest integer, ties upward."""
    by = np.minimum(by, MAX_SHIFT)
    half = np.where(by > 0, np.int64(1) << np.maximum(by - 1, 0), 0)
    return (numbers + half) >> by
