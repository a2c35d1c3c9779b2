"""Binary32 products behind the interface of a device: what training without quantisation gives.

Not a model of any hardware. A product adds in ascending order of the contraction, one rounded
multiplication and one rounded addition per step, so that it too gives the same bits everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from diastole_sim.device_api import OPERATIONS, ConvertedTensor, Floats, ProductResult


@dataclass(frozen=True, kw_only=True, eq=False)
class FloatTensor:
    """A float32 tensor kept as it is."""

    array: Floats
    tensor_class: str
    nan: bool = False
    inf: bool = False
    saturated: int = 0
    underflowed: int = 0

    @property
    def shape(self) -> tuple[int, int]:
        return self.array.shape[0], self.array.shape[1]

    def values(self, copy: int = 0) -> Floats:
        return self.array

    def copy_values(self) -> Mapping[str, Floats]:
        return {"": self.array}


class FloatDevice:
    """The part of :class:`diastole_sim.device_api.Device` that training uses, in binary32.

    Operands are what :meth:`convert` returned.
    """

    def convert(self, array: Floats, tensor_class: str, *, tag: int, step: int = 0) -> FloatTensor:
        """Keep the tensor; nothing is rounded, so ``tag`` and ``step`` do not matter."""
        return FloatTensor(array=array, tensor_class=tensor_class)

    def forward(self, x: ConvertedTensor, w: ConvertedTensor) -> ProductResult:
        """Y = X W."""
        return _result("forward", (x, w), Y=product(x.values(), w.values()))

    def dw(self, x: ConvertedTensor, dy: ConvertedTensor) -> ProductResult:
        """dW = X^T dY."""
        return _result("dw", (x, dy), dW=product(x.values().T, dy.values()))

    def backward(
        self, x: ConvertedTensor, w: ConvertedTensor, dy: ConvertedTensor
    ) -> ProductResult:
        """dX = dY W^T and dW = X^T dY."""
        dx = product(dy.values(), w.values().T)
        return _result("backward", (x, w, dy), dX=dx, dW=product(x.values().T, dy.values()))


def product(a: Floats, b: Floats) -> Floats:
    """The matrix product (M, K) by (K, N), each sum in ascending order of k."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for column, row in zip(a.T, b, strict=True):
        total = total + column[:, None] * row
    return total


def _result(op: str, operands: tuple[ConvertedTensor, ...], **values: Floats) -> ProductResult:
    return ProductResult(
        op=op,
        values=values,
        operands=dict(zip(OPERATIONS[op], operands, strict=True)),
        exact=False,
        overflow=False,
    )
