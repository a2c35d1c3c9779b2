"""Dropout of random elements in training."""

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from diastole_sim.graph.operations.operation import (
    Array,
    Attributes,
    ElementOperation,
    OperationUse,
    Shape,
    ShapeError,
)
from diastole_sim.program.chain import Chain
from diastole_sim.program.chains.elementwise import dropped
from diastole_sim.spec.rounding import DRAW_BITS


class DropoutOp(ElementOperation):
    """Set an element to 0 with the probability ``p`` in training, otherwise multiply the element by
    1 / (1 - p). An evaluation changes nothing.

    An element is 0 if its random number, a multiple of 2^-16 from 0, below 1, is less than ``p`` in
    binary32. The random number depends on seed, node, step, microbatch and number of the element.
    A dropped NaN or Inf is 0 too.
    Source: Srivastava et al., JMLR 15 (2014), in the inverted form of PyTorch.
    """

    name = "dropout"
    operands = ("input",)
    attributes = MappingProxyType({"p": 0.5})
    random = True

    def shape(self, shapes: Sequence[Shape], attributes: Attributes) -> Shape:
        if not 0 <= float(attributes["p"]) < 1:
            raise ShapeError(f"p must be a number from 0, below 1, not {attributes['p']}")
        return shapes[0]

    def forward_chain(self, attributes: Attributes) -> Chain | None:
        return _chain(attributes, gradient=False)

    def backward_chain(self, attributes: Attributes) -> Chain | None:
        return _chain(attributes, gradient=True)

    def value(self, values: Sequence[Array], use: OperationUse) -> tuple[Array, Any]:
        x = values[0]
        if use.draws is None:
            return x, np.ones_like(x, np.bool_)
        stays = use.draws.of(x.shape, use.tag) >= np.float32(use.attributes["p"]) * 2**DRAW_BITS
        return _scaled(x, stays, use), stays

    def gradient(self, above: Array, kept: Any, use: OperationUse) -> tuple[Array | None, ...]:
        return (above if use.draws is None else _scaled(above, kept, use),)


def _chain(attributes: Attributes, *, gradient: bool) -> Chain | None:
    """Return the chain of the values, or of the gradients; None if no element is dropped."""
    probability = float(attributes["p"])
    return dropped(probability, gradient=gradient) if probability else None


def _scaled(values: Array, stays: Array, use: OperationUse) -> Array:
    """Return the elements that stay, divided by 1 - p, and 0 for the other elements."""
    scaled: Array = np.where(stays, values / (1 - float(use.attributes["p"])), 0)
    return scaled.astype(values.dtype, copy=False)
