"""Dropout of random elements in training."""

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
)
from diastole_sim.spec.rounding import DRAW_BITS


class DropoutOp(GraphOperation):
    """Set an element to 0 with the probability ``p`` in training, otherwise multiply the element by
    1 / (1 - p). An evaluation changes nothing.

    An element is 0 if its random number is less than p 2^16. The random number depends on seed,
    node, step and number of the element.
    Source: Srivastava et al., JMLR 15 (2014), in the inverted form of PyTorch.
    """

    name = "dropout"
    operands = ("input",)
    attributes = MappingProxyType({"p": 0.5})

    def shape(self, shapes: Sequence[Shape], attributes: Attributes) -> Shape:
        if not 0 <= float(attributes["p"]) < 1:
            raise ShapeError(f"p must be a number from 0, below 1, not {attributes['p']}")
        return shapes[0]

    def value(self, values: Sequence[Array], use: OperationUse) -> tuple[Array, Any]:
        x = values[0]
        if use.draws is None:
            return x, np.ones_like(x)
        p = float(use.attributes["p"])
        stays = use.draws.of(x.shape, use.tag) >= p * 2**DRAW_BITS
        factor = np.where(stays, 1 / (1 - p), 0).astype(x.dtype)
        return x * factor, factor

    def gradient(self, above: Array, kept: Any, use: OperationUse) -> tuple[Array | None, ...]:
        return (above * kept,)
