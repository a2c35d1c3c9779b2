"""The four products of a device, over what each device does in its own way."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np

from diastole_sim.device.interface import ConvertedTensor, Floats, Operand, ProductResult
from diastole_sim.device.operands import require_matrix, sizes_of
from diastole_sim.spec.operations import CLASSES, OPERATIONS, Operation

Own = TypeVar("Own", bound=ConvertedTensor)
"""A converted tensor as the device has it."""


class Products(ABC, Generic[Own]):
    """The products of :class:`diastole_sim.device.interface.DeviceProtocol`.

    They check operands, convert those that are arrays and hand all to :meth:`_multiply`. A device
    adds :meth:`convert`, :meth:`_own` and :meth:`_multiply`, and :meth:`_check_sizes` if it cannot
    take every size.
    """

    @abstractmethod
    def convert(
        self,
        array: Floats,
        tensor_class: str,
        *,
        tag: int,
        step: int = 0,
        scale: int | None = None,
        beside: bool = False,
    ) -> Own:
        """As :meth:`diastole_sim.device.interface.DeviceProtocol.convert`."""

    @abstractmethod
    def _own(self, operand: object) -> Own | None:
        """The operand, if it is a tensor of this device."""

    @abstractmethod
    def _multiply(
        self,
        operation: Operation,
        operands: Mapping[str, Own],
        sizes: Mapping[str, int],
        converted: Sequence[Own],
    ) -> ProductResult:
        """The products of an operation on checked operands, by name; ``sizes``: M, N and K by their
        small letters; ``converted``: those of the operands that were arrays."""

    def _check_sizes(self, operation: Operation, sizes: Mapping[str, int]) -> None:
        """ValueError if the device cannot take products of these sizes."""

    def _check_stored(self, name: str, operand: Own) -> None:
        """ValueError if an operand that the device has is not stored as it stores its class."""

    def forward(
        self, x: Operand, w: Operand, *, tags: tuple[int, int] = (0, 1), step: int = 0
    ) -> ProductResult:
        """Y = X W."""
        return self._run("forward", (x, w), tags, step)

    def dx(
        self, w: Operand, dy: Operand, *, tags: tuple[int, int] = (1, 2), step: int = 0
    ) -> ProductResult:
        """dX = dY W^T."""
        return self._run("dx", (w, dy), tags, step)

    def dw(
        self, x: Operand, dy: Operand, *, tags: tuple[int, int] = (0, 2), step: int = 0
    ) -> ProductResult:
        """dW = X^T dY."""
        return self._run("dw", (x, dy), tags, step)

    def backward(
        self,
        x: Operand,
        w: Operand,
        dy: Operand,
        *,
        tags: tuple[int, int, int] = (0, 1, 2),
        step: int = 0,
    ) -> ProductResult:
        """dX and dW; ``exact`` only if both are, ``overflow`` if one has."""
        return self._run("backward", (x, w, dy), tags, step)

    def _run(
        self, name: str, given: Sequence[Operand], tags: Sequence[int], step: int
    ) -> ProductResult:
        operation = OPERATIONS[name]
        named = dict(zip(operation.operand_names, given, strict=True))
        held = {each: self._held(each, operand) for each, operand in named.items()}
        sizes = sizes_of({each: _shape(operand) for each, operand in named.items()})
        self._check_sizes(operation, sizes)
        operands: dict[str, Own] = {}
        converted: list[Own] = []
        for (each, operand), tag in zip(held.items(), tags, strict=True):
            if isinstance(operand, np.ndarray):
                operand = self.convert(operand, CLASSES[each], tag=tag, step=step)
                converted.append(operand)
            operands[each] = operand
        return self._multiply(operation, operands, sizes, converted)

    def _held(self, name: str, operand: Operand) -> Floats | Own:
        """The operand as an array, or as a tensor of this device and of the class that it must
        have; ValueError if it is neither."""
        if isinstance(operand, np.ndarray):
            require_matrix(operand)
            return operand
        own = self._own(operand)
        if own is None:
            raise ValueError(f"{name} must be a float32 array or a tensor of this device")
        if own.tensor_class != CLASSES[name]:
            raise ValueError(
                f"{name} must be a tensor of class {CLASSES[name]}, not {own.tensor_class}"
            )
        self._check_stored(name, own)
        return own


def _shape(operand: Operand) -> tuple[int, int]:
    rows, columns = operand.shape
    return rows, columns
