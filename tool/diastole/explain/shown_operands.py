"""An operand as the page shows it: what was given, what is stored, and how one became the other."""

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
    """An operand: the float32 that were ``given``, what the machine ``stored``, and the
    ``conversions`` from one to the other, one for each copy."""

    given: Floats
    stored: Quantised
    conversions: tuple[ShownConversion, ...]

    @property
    def copies(self) -> int:
        """One, or two with vector groups."""
        return len(self.conversions)

    def copy(self, number: int) -> int:
        """The copy that stands for copy ``number``: the only one, where there is one."""
        return number if self.copies > 1 else 0

    def values(self, number: int) -> Doubles:
        """The numbers of a copy, or of the only one, in the orientation of the tensor."""
        return self.stored.values(self.copy(number)).astype(np.float64)


Operands: TypeAlias = Mapping[str, ShownOperand]
"""By name."""


def factors_of(
    product: MatrixProduct, streamed: Tensor, held: Tensor, operands: Operands, numerics: Numerics
) -> Factors:
    """The sides of a product, of which the array streams one and holds the other."""
    first, second = (
        SumSide.of(operands[each.name].stored, operands[each.name].conversions, product.copy(each))
        for each in (streamed, held)
    )
    rule = SumRule.of(product, numerics)
    return Factors(streamed=first, held=second, rule=rule, block=numerics.block)
