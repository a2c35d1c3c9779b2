"""Activations: functions of one element. The backward pass keeps the derivative."""

from abc import abstractmethod
from collections.abc import Sequence
from math import pi, sqrt
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
from diastole_sim.program.chains import activations
from diastole_sim.program.chains.activations import Activation


class ActivationOp(ElementOperation):
    """Function of one element, with its derivative."""

    operands = ("input",)

    def shape(self, shapes: Sequence[Shape], attributes: Attributes) -> Shape:
        return shapes[0]

    @abstractmethod
    def function(self, z: Array, attributes: Attributes) -> tuple[Array, Array]:
        """Return value and derivative for every element."""

    @abstractmethod
    def activation(self, attributes: Attributes) -> Activation:
        """Return the texts of the function for the vector unit."""

    def forward_chain(self, attributes: Attributes) -> Chain | None:
        return self.activation(attributes).forward_chain()

    def backward_chain(self, attributes: Attributes) -> Chain | None:
        return self.activation(attributes).backward_chain()

    def value(self, values: Sequence[Array], use: OperationUse) -> tuple[Array, Any]:
        return self.function(values[0], use.attributes)

    def gradient(self, above: Array, kept: Any, use: OperationUse) -> tuple[Array | None, ...]:
        return (above * kept,)


class ReluOp(ActivationOp):
    """Return z where z > 0, otherwise 0. The derivative at 0 is 0."""

    name = "relu"

    def activation(self, attributes: Attributes) -> Activation:
        return activations.relu()

    def function(self, z: Array, attributes: Attributes) -> tuple[Array, Array]:
        return np.maximum(z, 0), (z > 0).astype(z.dtype)


class LeakyReluOp(ActivationOp):
    """Return z where z > 0, otherwise ``negative_slope`` times z."""

    name = "leaky_relu"
    attributes = MappingProxyType({"negative_slope": 0.01})

    def activation(self, attributes: Attributes) -> Activation:
        return activations.leaky_relu(float(attributes["negative_slope"]))

    def function(self, z: Array, attributes: Attributes) -> tuple[Array, Array]:
        slope = np.where(z > 0, 1.0, float(attributes["negative_slope"])).astype(z.dtype)
        return z * slope, slope


class SigmoidOp(ActivationOp):
    """Return 1 / (1 + exp(-z))."""

    name = "sigmoid"

    def activation(self, attributes: Attributes) -> Activation:
        return activations.sigmoid()

    def function(self, z: Array, attributes: Attributes) -> tuple[Array, Array]:
        s = _sigmoid(z)
        return s, s * _sigmoid(-z)


class SiluOp(ActivationOp):
    """Return z times the sigmoid of z."""

    name = "silu"

    def activation(self, attributes: Attributes) -> Activation:
        return activations.silu()

    def function(self, z: Array, attributes: Attributes) -> tuple[Array, Array]:
        s = _sigmoid(z)
        return z * s, s + z * s * _sigmoid(-z)


class TanhOp(ActivationOp):
    """Return the hyperbolic tangent of z."""

    name = "tanh"

    def activation(self, attributes: Attributes) -> Activation:
        return activations.tanh()

    def function(self, z: Array, attributes: Attributes) -> tuple[Array, Array]:
        t = np.tanh(z)
        return t, 1 - t * t


class GeluOp(ActivationOp):
    """Return z / 2 (1 + tanh(sqrt(2 / pi) (z + 0.044715 z^3))): GELU with ``approximate`` tanh, the
    only form that the machine computes."""

    name = "gelu"
    attributes = MappingProxyType({"approximate": "tanh"})

    def shape(self, shapes: Sequence[Shape], attributes: Attributes) -> Shape:
        if attributes["approximate"] != "tanh":
            raise ShapeError(
                f"approximate must be tanh, not {attributes['approximate']}: the machine computes "
                'GELU in the tanh form only, so write GELU(approximate="tanh")'
            )
        return shapes[0]

    def activation(self, attributes: Attributes) -> Activation:
        return activations.gelu()

    def function(self, z: Array, attributes: Attributes) -> tuple[Array, Array]:
        scale, cubic = sqrt(2 / pi), 0.044715
        t = np.tanh(scale * (z + cubic * z**3))
        inner = scale * (1 + 3 * cubic * z * z)
        return 0.5 * z * (1 + t), 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * inner


def _sigmoid(z: Array) -> Array:
    """Return 1 / (1 + exp(-z)) without overflow."""
    power = np.exp(-np.abs(z))
    return np.where(z >= 0, 1, power) / (1 + power)
