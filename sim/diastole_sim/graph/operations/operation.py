"""Describe an operation of a graph: shape of the result, value, and gradient."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.random import tensor_draws
from diastole_sim.program.chain import Chain
from diastole_sim.program.fusion import ChainPart
from diastole_sim.program.memory_plan import BoundStream
from diastole_sim.spec.rounding import DRAW_BITS
from diastole_sim.spec.stream_table import PanelOrder

Shape: TypeAlias = tuple[int, ...]
Array: TypeAlias = NDArray[Any]
Attribute: TypeAlias = bool | int | float | str
Attributes: TypeAlias = Mapping[str, Attribute]


class ShapeError(ValueError):
    """Report operands or attributes that an operation does not accept. The message is a sentence
    without the name of the node."""


@dataclass(frozen=True, kw_only=True)
class StepDraws:
    """Random numbers of a training step, in 0 to 65535, as the machine draws the numbers: from
    seed, tag of the tensor, step, and number of the element.

    ``microbatches``: parts of equal length in the batch. ``tags``: distance of a tensor's tags from
    microbatch to microbatch.
    """

    seed: int
    step: int
    microbatches: int = 1
    tags: int = 1

    def of(self, shape: Shape, tag: int) -> Array:
        """Return a number for each element of a tensor."""
        rows = (shape[0] // self.microbatches, int(np.prod(shape[1:])))
        drawn = [
            tensor_draws(rows, seed=self.seed, tag=each, step=self.step, bits=DRAW_BITS)
            for each in range(tag, tag + self.microbatches * self.tags, self.tags)
        ]
        return np.concatenate(drawn).reshape(shape)


@dataclass(frozen=True, kw_only=True)
class OperationUse:
    """Use of an operation by a node.

    - ``attributes``: every attribute of the operation.
    - ``tag``: number of the node's random numbers.
    - ``draws``: source of the random numbers in training; None in an evaluation.
    """

    attributes: Attributes
    tag: int
    draws: StepDraws | None


class GraphOperation(ABC):
    """Operation with the meaning of PyTorch's ATen operator of the same name.

    - ``name``: name in a graph.
    - ``operands``: names of the operands, in order. The last ``optional`` operands may be absent.
    - ``attributes``: all attributes with their defaults.

    Values and gradients have the floating-point type of the operands. Axis 0 of a tensor is the
    batch.
    """

    name: ClassVar[str]
    operands: ClassVar[tuple[str, ...]]
    optional: ClassVar[int] = 0
    attributes: ClassVar[Attributes] = MappingProxyType({})

    @abstractmethod
    def shape(self, shapes: Sequence[Shape], attributes: Attributes) -> Shape:
        """Return the shape of the result. ShapeError if the operation does not accept the shapes or
        the attributes."""

    @abstractmethod
    def value(self, values: Sequence[Array], use: OperationUse) -> tuple[Array, Any]:
        """Return the result, and everything that :meth:`gradient` needs."""

    @abstractmethod
    def gradient(self, above: Array, kept: Any, use: OperationUse) -> tuple[Array | None, ...]:
        """Return the gradient by each operand, None for an operand without gradient.

        ``above``: gradient by the result.
        """


class ElementOperation(GraphOperation):
    """Operation that computes each element of the result from the same elements of the operands.

    ``random``: True if the operation needs a random number for each element in training, and
    changes nothing in an evaluation. The chains then have an input ``draws`` of the same random
    numbers.
    """

    random: ClassVar[bool] = False

    @abstractmethod
    def forward_chain(self, attributes: Attributes) -> Chain | None:
        """Return the chain of the operation. The inputs have the names of the operands. The output
        ``value`` is the result, and an output ``kept`` is for the gradient.

        None if the result is the operand.
        """

    @abstractmethod
    def backward_chain(self, attributes: Attributes) -> Chain | None:
        """Return the chain of the gradients. The input ``above`` is the gradient by the result, and
        further inputs are ``kept`` or operands. The outputs have the names of the operands.

        None if the gradient by every operand is the gradient by the result.
        """


@dataclass(frozen=True, kw_only=True)
class LossUse:
    """Use of a loss by a training program.

    - ``attributes``: every attribute of the operation.
    - ``shape``: rows and columns of the network's result.
    - ``samples``: samples of a step, over which the loss is a mean; at least the rows.
    - ``result``, ``gradient``: names of the network's result and of the gradient by the result.
    - ``target``: labels, or numbers to learn.
    - ``row_list``: list of gathered rows of the target; None for labels.
    - ``row_losses``: sums of the loss over the elements of each row.
    - ``scaled``: True if the gradient is multiplied by the scale of the loss.
    - ``spare``: function that returns a tensor or a vector for numbers between two chains, from a
      name, an order and a shape.
    """

    attributes: Attributes
    shape: tuple[int, int]
    samples: int
    result: str
    gradient: str
    target: BoundStream
    row_list: BoundStream | None
    row_losses: BoundStream
    scaled: bool
    spare: Callable[[str, PanelOrder, int, int], BoundStream]


class LossOperation(GraphOperation):
    """Operation whose result is the mean of the losses of all samples, or of all elements."""

    labels: ClassVar[bool] = False
    """True if the target is a label for every sample, False for a number for every element."""

    @abstractmethod
    def mean_over(self, rows: int, columns: int) -> int:
        """Return how many losses the mean is over, for a network's result of this shape."""

    @abstractmethod
    def parts(self, use: LossUse) -> list[ChainPart]:
        """Return the parts that compute the losses of the rows and the gradient."""


def require_equal_shapes(shapes: Sequence[Shape], names: Sequence[str]) -> None:
    """ShapeError unless all shapes are equal."""
    for shape, name in zip(shapes[1:], names[1:], strict=True):
        if shape != shapes[0]:
            raise ShapeError(
                f"{names[0]} has the shape {text_of(shapes[0])} and {name} has the shape "
                f"{text_of(shape)}, but both shapes must be equal"
            )


def text_of(shape: Shape) -> str:
    """Return a shape for people, such as 64 x 3 x 8."""
    return " x ".join(map(str, shape)) or "a single number"
