"""Fully connected layers."""

from collections.abc import Sequence
from typing import Any

from diastole_sim.graph.operations.operation import (
    Array,
    Attributes,
    GraphOperation,
    OperationUse,
    Shape,
    ShapeError,
    text_of,
)


class LinearOp(GraphOperation):
    """Multiply by a matrix: y = x weight^T + bias, with x (batch, in), weight (out, in) and bias
    (out)."""

    name = "linear"
    operands = "input", "weight", "bias"
    optional = 1

    def shape(self, shapes: Sequence[Shape], attributes: Attributes) -> Shape:
        x, weight, *bias = shapes
        if len(x) != 2:
            raise ShapeError(
                f"the input has the shape {text_of(x)}, but a linear layer reads batch x features: "
                "flatten the input first"
            )
        if len(weight) != 2 or weight[1] != x[1]:
            raise ShapeError(
                f"the input has {x[1]} features, but the weight has the shape {text_of(weight)}: "
                f"a weight of outputs x {x[1]} is needed"
            )
        if bias and bias[0] != weight[:1]:
            raise ShapeError(
                f"the bias has the shape {text_of(bias[0])}, but the layer has {weight[0]} outputs"
            )
        return x[0], weight[0]

    def value(self, values: Sequence[Array], use: OperationUse) -> tuple[Array, Any]:
        x, weight, *bias = values
        product = x @ weight.T
        return product + bias[0] if bias else product, (x, weight, bool(bias))

    def gradient(self, above: Array, kept: Any, use: OperationUse) -> tuple[Array | None, ...]:
        x, weight, has_bias = kept
        by_bias = (above.sum(axis=0),) if has_bias else ()
        return above @ weight, above.T @ x, *by_bias
