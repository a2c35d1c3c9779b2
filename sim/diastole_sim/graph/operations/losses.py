"""Losses: the mean over all elements, or over all samples of a batch."""

from abc import abstractmethod
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from diastole_sim.graph.operations.operation import (
    Array,
    Attributes,
    GraphOperation,
    OperationUse,
    Shape,
    ShapeError,
    require_equal_shapes,
    text_of,
)


class CrossEntropyOp(GraphOperation):
    """Return the mean over the batch of -log softmax(input)[label], with input (batch, classes) and
    a label (batch) from 0 on for each sample."""

    name = "cross_entropy"
    operands = "input", "target"

    def shape(self, shapes: Sequence[Shape], attributes: Attributes) -> Shape:
        logits, labels = shapes
        if len(logits) != 2 or labels != logits[:1]:
            raise ShapeError(
                f"the input has the shape {text_of(logits)} and the target has the shape "
                f"{text_of(labels)}, but cross-entropy reads batch x classes and a label for each "
                "sample"
            )
        return ()

    def value(self, values: Sequence[Array], use: OperationUse) -> tuple[Array, Any]:
        logits, labels = values
        rows = np.arange(len(labels))
        shifted = logits - logits.max(axis=1, keepdims=True)
        powers = np.exp(shifted)
        sums = powers.sum(axis=1, keepdims=True)
        losses = np.log(sums[:, 0]) - shifted[rows, labels]
        return losses.mean(dtype=logits.dtype), (powers / sums, labels)

    def gradient(self, above: Array, kept: Any, use: OperationUse) -> tuple[Array | None, ...]:
        shares, labels = kept
        gradient = shares.copy()
        gradient[np.arange(len(labels)), labels] -= 1
        return above * gradient / len(labels), None


class ElementLossOp(GraphOperation):
    """Mean over all elements of a function of the difference of input and target, two tensors of
    one shape."""

    operands = "input", "target"

    def shape(self, shapes: Sequence[Shape], attributes: Attributes) -> Shape:
        require_equal_shapes(shapes, self.operands)
        return ()

    @abstractmethod
    def function(self, difference: Array, attributes: Attributes) -> tuple[Array, Array]:
        """Return loss and derivative for every element."""

    def value(self, values: Sequence[Array], use: OperationUse) -> tuple[Array, Any]:
        losses, slope = self.function(values[0] - values[1], use.attributes)
        return losses.mean(dtype=losses.dtype), slope

    def gradient(self, above: Array, kept: Any, use: OperationUse) -> tuple[Array | None, ...]:
        return above * kept / kept.size, None


class MseLossOp(ElementLossOp):
    """Return the mean of the squared differences."""

    name = "mse_loss"

    def function(self, difference: Array, attributes: Attributes) -> tuple[Array, Array]:
        return difference * difference, 2 * difference


class L1LossOp(ElementLossOp):
    """Return the mean of the absolute differences. The derivative at 0 is 0."""

    name = "l1_loss"

    def function(self, difference: Array, attributes: Attributes) -> tuple[Array, Array]:
        return np.abs(difference), np.sign(difference)


class SmoothL1LossOp(ElementLossOp):
    """Return the mean of d^2 / (2 beta) where |d| < ``beta``, otherwise |d| - beta / 2."""

    name = "smooth_l1_loss"
    attributes = MappingProxyType({"beta": 1.0})

    def shape(self, shapes: Sequence[Shape], attributes: Attributes) -> Shape:
        if not float(attributes["beta"]) > 0:
            raise ShapeError(
                f"beta must be a number above 0, not {attributes['beta']}; l1_loss is the loss "
                "with a beta of 0"
            )
        return super().shape(shapes, attributes)

    def function(self, difference: Array, attributes: Attributes) -> tuple[Array, Array]:
        beta = float(attributes["beta"])
        slope = np.clip(difference / beta, -1, 1)
        return slope * (difference - 0.5 * beta * slope), slope
