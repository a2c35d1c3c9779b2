"""Compute binary32 products with the interface of a device, for training without quantisation.

The device is no model of any hardware. A product adds in ascending order of the contraction, with
one rounded multiplication and one rounded addition per step. A product therefore gives the same
bits on every computer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from diastole_sim.device.conversion import Conversion
from diastole_sim.device.interface import Floats, ProductResult
from diastole_sim.device.products import Products
from diastole_sim.spec.operations import Operation, Tensor


@dataclass(frozen=True, kw_only=True, eq=False)
class FloatTensor:
    """Float32 tensor, kept unchanged."""

    array: Floats
    tensor_class: str
    nan: bool = False
    inf: bool = False
    saturated: int = 0
    underflowed: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        return self.array.shape[0], self.array.shape[1]

    @property
    def stored(self) -> int:
        return self.array.size

    def values(self, copy: int = 0) -> Floats:
        return self.array

    def copy_values(self) -> Mapping[str, Floats]:
        return {"": self.array}


class FloatDevice(Products[FloatTensor]):
    """Device in binary32, a :class:`diastole_sim.device.interface.DeviceProtocol`."""

    total_cycles: int | None = None
    """Cycles, None since the device has no clock."""

    def _convert(self, array: Floats, request: Conversion) -> FloatTensor:
        """Keep the tensor. Nothing is rounded or scaled, so further arguments of the conversion do
        not matter."""
        return FloatTensor(array=array, tensor_class=request.tensor_class)

    def _device_tensor(self, operand: object) -> FloatTensor | None:
        return operand if isinstance(operand, FloatTensor) else None

    def _multiply(
        self,
        operation: Operation,
        operands: Mapping[str, FloatTensor],
        sizes: Mapping[str, int],
        converted: Sequence[FloatTensor],
    ) -> ProductResult:
        def along(tensor: Tensor, axis: str) -> Floats:
            """Return an operand with the axis in the rows."""
            array = operands[tensor.name].array
            return array if tensor.rows == axis else array.T

        return ProductResult(
            op=operation.name,
            values={
                each.result.name: product(
                    along(each.streaming, each.result.rows),
                    along(each.stationary, each.contraction),
                )
                for each in operation.products
            },
            operands=operands,
            exact=False,
            overflow=False,
        )


def product(a: Floats, b: Floats) -> Floats:
    """Return the matrix product (M, K) by (K, N), with each sum in ascending order of k."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    term = np.empty_like(total)
    for column, row in zip(a.T, b, strict=True):
        np.multiply(column[:, None], row, out=term)
        np.add(total, term, out=total)
    return total
