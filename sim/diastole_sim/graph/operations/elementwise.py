"""Sums and products of tensors of one shape."""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from diastole_sim.graph.operations.operation import (
    Array,
    Attributes,
    ElementOperation,
    OperationUse,
    Shape,
    require_equal_shapes,
)
from diastole_sim.program.chain import Chain
from diastole_sim.program.chains import elementwise


class PairOp(ElementOperation):
    """Operation of two tensors of one shape."""

    operands = "input", "other"

    def shape(self, shapes: Sequence[Shape], attributes: Attributes) -> Shape:
        require_equal_shapes(shapes, self.operands)
        return shapes[0]


class SumOp(PairOp):
    """Add two tensors of one shape."""

    name = "add"

    def forward_chain(self, attributes: Attributes) -> Chain | None:
        return elementwise.added()

    def backward_chain(self, attributes: Attributes) -> Chain | None:
        return None

    def value(self, values: Sequence[Array], use: OperationUse) -> tuple[Array, Any]:
        return values[0] + values[1], None

    def gradient(self, above: Array, kept: Any, use: OperationUse) -> tuple[Array | None, ...]:
        return above, above


class MulOp(PairOp):
    """Multiply two tensors of one shape, element by element."""

    name = "mul"

    def forward_chain(self, attributes: Attributes) -> Chain | None:
        return elementwise.multiplied()

    def backward_chain(self, attributes: Attributes) -> Chain | None:
        return elementwise.multiplied_gradient()

    def value(self, values: Sequence[Array], use: OperationUse) -> tuple[Array, Any]:
        return values[0] * values[1], tuple(values)

    def gradient(self, above: Array, kept: Any, use: OperationUse) -> tuple[Array | None, ...]:
        first, second = kept
        return above * second, above * first


class MulScalarOp(ElementOperation):
    """Multiply a tensor by the number ``other``."""

    name = "mul_scalar"
    operands = ("input",)
    attributes = MappingProxyType({"other": 1.0})

    def shape(self, shapes: Sequence[Shape], attributes: Attributes) -> Shape:
        return shapes[0]

    def forward_chain(self, attributes: Attributes) -> Chain | None:
        return elementwise.scaled(float(attributes["other"]))

    def backward_chain(self, attributes: Attributes) -> Chain | None:
        return elementwise.scaled(float(attributes["other"]), gradient=True)

    def value(self, values: Sequence[Array], use: OperationUse) -> tuple[Array, Any]:
        return values[0] * float(use.attributes["other"]), None

    def gradient(self, above: Array, kept: Any, use: OperationUse) -> tuple[Array | None, ...]:
        return (above * float(use.attributes["other"]),)
