"""Losses: the mean over all elements, or over all samples of a batch."""

from abc import abstractmethod
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from diastole_sim.graph.operations.operation import (
    Array,
    Attributes,
    LossOperation,
    LossUse,
    OperationUse,
    Shape,
    ShapeError,
    require_equal_shapes,
    text_of,
)
from diastole_sim.program.chain import Chain
from diastole_sim.program.chains.losses import (
    absolute_error,
    smooth_error,
    softmax_a,
    softmax_b,
    softmax_c,
    squared_error,
)
from diastole_sim.program.fusion import ChainPart
from diastole_sim.spec.stream_table import PanelOrder


class CrossEntropyOp(LossOperation):
    """Return the mean over the batch of -log softmax(input)[label], with input (batch, classes) and
    a label (batch) from 0 on for each sample."""

    name = "cross_entropy"
    labels = True
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

    def mean_over(self, rows: int, columns: int) -> int:
        return rows

    def parts(self, use: LossUse) -> list[ChainPart]:
        rows, columns = use.shape
        softmax = {
            "z": use.spare("z", PanelOrder.BLOCK, rows, columns),
            "m": use.spare("m", PanelOrder.BLOCK_ROW, rows, 1),
        }
        read = {**softmax, "label": use.target}
        return [
            ChainPart(
                chain=softmax_a(),
                shape=use.shape,
                inputs={"logits": use.result},
                outputs=softmax,
            ),
            ChainPart(
                chain=softmax_b(),
                shape=use.shape,
                inputs=read,
                outputs={**softmax, "loss": use.row_losses},
            ),
            ChainPart(
                chain=softmax_c(use.samples, scaled=use.scaled),
                shape=use.shape,
                inputs=read,
                outputs={"gradient": use.gradient},
            ),
        ]

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


class ElementLossOp(LossOperation):
    """Mean over all elements of a function of input and target, two tensors of one shape."""

    operands = "input", "target"

    def shape(self, shapes: Sequence[Shape], attributes: Attributes) -> Shape:
        require_equal_shapes(shapes, self.operands)
        return ()

    @abstractmethod
    def elements(self, z: Array, target: Array, attributes: Attributes) -> tuple[Array, Array]:
        """Return loss and derivative by z for every element."""

    @abstractmethod
    def chain(self, elements: int, attributes: Attributes, *, scaled: bool) -> Chain:
        """Return the chain of loss and gradient, for a mean over ``elements``."""

    def mean_over(self, rows: int, columns: int) -> int:
        return rows * columns

    def parts(self, use: LossUse) -> list[ChainPart]:
        elements = self.mean_over(use.samples, use.shape[1])
        return [
            ChainPart(
                chain=self.chain(elements, use.attributes, scaled=use.scaled),
                shape=use.shape,
                inputs={"z": use.result, "target": use.target},
                outputs={"gradient": use.gradient, "loss": use.row_losses},
                row_list=use.row_list,
            )
        ]

    def value(self, values: Sequence[Array], use: OperationUse) -> tuple[Array, Any]:
        losses, slope = self.elements(values[0], values[1], use.attributes)
        return losses.mean(dtype=losses.dtype), slope

    def gradient(self, above: Array, kept: Any, use: OperationUse) -> tuple[Array | None, ...]:
        return above * kept / kept.size, None


class DifferenceLossOp(ElementLossOp):
    """Mean over all elements of a function of the difference of input and target."""

    @abstractmethod
    def function(self, difference: Array, attributes: Attributes) -> tuple[Array, Array]:
        """Return loss and derivative for every element."""

    def elements(self, z: Array, target: Array, attributes: Attributes) -> tuple[Array, Array]:
        return self.function(z - target, attributes)


class MseLossOp(DifferenceLossOp):
    """Return the mean of the squared differences."""

    name = "mse_loss"

    def chain(self, elements: int, attributes: Attributes, *, scaled: bool) -> Chain:
        return squared_error(elements, scaled=scaled)

    def function(self, difference: Array, attributes: Attributes) -> tuple[Array, Array]:
        return difference * difference, 2 * difference


class L1LossOp(DifferenceLossOp):
    """Return the mean of the absolute differences. The derivative at 0 is 0."""

    name = "l1_loss"

    def chain(self, elements: int, attributes: Attributes, *, scaled: bool) -> Chain:
        return absolute_error(elements, scaled=scaled)

    def function(self, difference: Array, attributes: Attributes) -> tuple[Array, Array]:
        return np.abs(difference), np.sign(difference)


class SmoothL1LossOp(DifferenceLossOp):
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

    def chain(self, elements: int, attributes: Attributes, *, scaled: bool) -> Chain:
        return smooth_error(elements, float(attributes["beta"]), scaled=scaled)

    def function(self, difference: Array, attributes: Attributes) -> tuple[Array, Array]:
        beta = float(attributes["beta"])
        slope = np.clip(difference / beta, -1, 1)
        return slope * (difference - 0.5 * beta * slope), slope
