"""Stand for a tensor while a network is traced."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from diastole_sim.graph.graph import GraphError
from diastole_sim.graph.operations.operation import Attribute, Shape

Record: TypeAlias = "Callable[..., Symbol]"


class Tracer(Protocol):
    """Recorder of a network: calls a module, and records the operations under the module's name."""

    def call(self, module: Any, inputs: "Sequence[Symbol]") -> "Symbol": ...


TRACER: ContextVar[Tracer] = ContextVar("the recorder of a network")
"""Recorder of the network that is traced at the moment."""


@dataclass(frozen=True, eq=False)
class Symbol:
    """Tensor of a graph under construction. A symbol has a shape but no numbers.

    - ``name``: name of the tensor in the graph.
    - ``shape``: shape, with the batch as axis 0.

    Symbols are added, multiplied by symbols of the same shape, and multiplied by numbers.
    """

    name: str
    shape: Shape
    _record: Record

    def apply(self, operation: str, *others: object, **attributes: Attribute) -> "Symbol":
        """Return the result of an operation of this symbol and further operands."""
        return self._record(operation, (self, *others), attributes)

    def __add__(self, other: object) -> "Symbol":
        return self.apply("add", _operand(other, "add"))

    def __mul__(self, other: object) -> "Symbol":
        if isinstance(other, (int, float)):
            return self.apply("mul_scalar", other=float(other))
        return self.apply("mul", _operand(other, "multiply"))

    __rmul__ = __mul__

    if not TYPE_CHECKING:  # a checker shall see which names are absent

        def __getattr__(self, name: str) -> object:
            """Raise AttributeError with the operations that symbols have."""
            raise AttributeError(
                f"a tensor of a network has no {name}: use +, * and the functions of "
                "diastole.nn.functional"
            )

    def __bool__(self) -> bool:
        raise GraphError(
            f"{self.name}: a network cannot decide by the numbers of a tensor: the machine runs "
            "the same commands for all samples"
        )

    def __iter__(self) -> None:
        raise GraphError(f"{self.name}: a network cannot walk through the samples of a tensor")


def _operand(other: object, verb: str) -> Symbol:
    if isinstance(other, Symbol):
        return other
    raise GraphError(
        f"a network can {verb} two tensors of one shape, not a tensor and {other!r:.60}"
    )
