"""Run an activation or a loss that a user wrote as texts for the vector unit."""

import json
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from diastole_sim.graph.operations.losses import ElementLossOp
from diastole_sim.graph.operations.operation import (
    Array,
    Attributes,
    ElementOperation,
    OperationUse,
    Shape,
)
from diastole_sim.program.chain import Chain
from diastole_sim.program.chains.activations import Activation
from diastole_sim.program.chains.losses import ElementLoss
from diastole_sim.program.evaluate import in_float64
from diastole_sim.spec.stream_table import Kind


class OwnActivationOp(ElementOperation):
    """Function of one element by the two texts of an
    :class:`diastole_sim.program.chains.activations.Activation`.

    The attributes hold the whole activation: ``kept`` is the kind of the kept values, and
    ``constants`` is a JSON object of numbers by name. :func:`attributes_of` makes the attributes.
    """

    name = "own_activation"
    operands = ("input",)
    attributes = MappingProxyType(
        {"title": "own", "forward": "", "backward": "", "kept": "f32", "constants": "{}"}
    )

    def shape(self, shapes: Sequence[Shape], attributes: Attributes) -> Shape:
        return shapes[0]

    def forward_chain(self, attributes: Attributes) -> Chain | None:
        return _activation(attributes).forward_chain()

    def backward_chain(self, attributes: Attributes) -> Chain | None:
        return _activation(attributes).backward_chain()

    def value(self, values: Sequence[Array], use: OperationUse) -> tuple[Array, Any]:
        found = _computed(_activation(use.attributes).forward_chain(), input=values[0])
        return found["value"], found["kept"]

    def gradient(self, above: Array, kept: Any, use: OperationUse) -> tuple[Array | None, ...]:
        found = _computed(_activation(use.attributes).backward_chain(), above=above, kept=kept)
        return (found["input"],)


class OwnLossOp(ElementLossOp):
    """Return the mean over all elements of a loss by the text of an
    :class:`diastole_sim.program.chains.losses.ElementLoss`. The attributes hold the whole loss;
    :func:`loss_attributes` makes the attributes."""

    name = "own_loss"
    attributes = MappingProxyType({"title": "own", "text": "", "constants": "{}"})

    def chain(self, elements: int, attributes: Attributes, *, scaled: bool) -> Chain:
        return _loss(attributes).chain(elements, scaled=scaled)

    def elements(self, z: Array, target: Array, attributes: Attributes) -> tuple[Array, Array]:
        found = _computed(_loss(attributes).element_chain(), z=z, target=target)
        return found["loss"], found["derivative"]


def loss_attributes(loss: ElementLoss) -> dict[str, str]:
    """Return the attributes of a node that computes a loss."""
    return {
        "title": loss.name,
        "text": loss.text,
        "constants": json.dumps(dict(loss.constants)),
    }


def _loss(attributes: Attributes) -> ElementLoss:
    return ElementLoss(
        name=str(attributes["title"]),
        text=str(attributes["text"]),
        constants=json.loads(str(attributes["constants"])),
    )


def attributes_of(activation: Activation) -> dict[str, str]:
    """Return the attributes of a node that computes an activation."""
    return {
        "title": activation.name,
        "forward": activation.forward,
        "backward": activation.backward,
        "kept": activation.kept[0].name.lower(),
        "constants": json.dumps(dict(activation.constants)),
    }


def _activation(attributes: Attributes) -> Activation:
    return Activation(
        name=str(attributes["title"]),
        forward=str(attributes["forward"]),
        backward=str(attributes["backward"]),
        kept=(Kind[str(attributes["kept"]).upper()],),
        constants=json.loads(str(attributes["constants"])),
    )


def _computed(chain: Chain, **inputs: Array) -> dict[str, Array]:
    """Return the outputs of a chain for arrays of one shape, in the arrays' type."""
    first = next(iter(inputs.values()))
    rows = (first.shape[0], int(np.prod(first.shape[1:])))
    flat = {name: each.reshape(rows) for name, each in inputs.items()}
    found = in_float64(chain, flat, shape=rows)
    return {name: each.astype(first.dtype).reshape(first.shape) for name, each in found.items()}
