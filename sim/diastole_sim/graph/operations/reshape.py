"""Operations that only give the elements of a tensor another shape."""

from collections.abc import Sequence
from math import prod
from types import MappingProxyType
from typing import Any

from diastole_sim.graph.operations.operation import (
    Array,
    Attributes,
    ElementOperation,
    OperationUse,
    Shape,
    ShapeError,
    text_of,
)
from diastole_sim.program.chain import Chain


class FlattenOp(ElementOperation):
    """Join the axes from ``start_dim`` to ``end_dim`` into one axis. The batch, axis 0, stays."""

    name = "flatten"
    operands = ("input",)
    attributes = MappingProxyType({"start_dim": 1, "end_dim": -1})

    def shape(self, shapes: Sequence[Shape], attributes: Attributes) -> Shape:
        shape, rank = shapes[0], len(shapes[0])
        first, last = (
            int(each) + rank * (int(each) < 0)
            for each in (attributes["start_dim"], attributes["end_dim"])
        )
        if rank == 1 or not 1 <= first <= last < rank:
            raise ShapeError(
                f"start_dim and end_dim must name axes from 1 on, in order, of {text_of(shape)}, "
                f"not {attributes['start_dim']} and {attributes['end_dim']}"
            )
        return *shape[:first], prod(shape[first : last + 1]), *shape[last + 1 :]

    def forward_chain(self, attributes: Attributes) -> Chain | None:
        return None

    def backward_chain(self, attributes: Attributes) -> Chain | None:
        return None

    def value(self, values: Sequence[Array], use: OperationUse) -> tuple[Array, Any]:
        shape = values[0].shape
        return values[0].reshape(self.shape([shape], use.attributes)), shape

    def gradient(self, above: Array, kept: Any, use: OperationUse) -> tuple[Array | None, ...]:
        return (above.reshape(kept),)
