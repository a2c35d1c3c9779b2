"""An operand of the page: the given values, the stored values, and the conversion."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from diastole.explain.shown_conversion import ShownConversion
from diastole.explain.sum_rules import Factors, SumRule, SumSide
from diastole_sim.device.interface import Floats
from diastole_sim.golden.convert import Quantised
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.operations import MatrixProduct, Tensor

Doubles = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class ShownOperand:
    """An operand: the float32 ``floats``, the tensor ``stored`` by the machine, and the
    ``conversions`` of all copies."""

    floats: Floats
    stored: Quantised
    conversions: tuple[ShownConversion, ...]

    @property
    def copies(self) -> int:
        """Number of copies: one, or two with vector groups."""
        return len(self.conversions)

    def copy(self, number: int) -> int:
        """Return the number of the copy that stands for copy ``number``: 0 for an operand with one
        copy."""
        return number if self.copies > 1 else 0

    def values(self, number: int) -> Doubles:
        """Return the numbers of a copy, or of the only copy, in the orientation of the tensor."""
        return self.stored.values(self.copy(number)).astype(np.float64)


Operands: TypeAlias = Mapping[str, ShownOperand]
"""Operands by name."""


def factors_of(
    product: MatrixProduct,
    streamed: Tensor,
    stationary: Tensor,
    operands: Operands,
    numerics: Numerics,
) -> Factors:
    """Return the streaming and the stationary side of a product."""
    first, second = (
        SumSide.of(operands[each.name].stored, operands[each.name].conversions, product.copy(each))
        for each in (streamed, stationary)
    )
    rule = SumRule.of(product, numerics)
    return Factors(streaming=first, stationary=second, rule=rule, block=numerics.block)
