"""Tensors and products by name, on one device or on two at once that must agree bit for bit."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from diastole_sim.device_api import ConvertedTensor, Floats, ProductResult
from diastole_sim.numerics import CLASS_NAMES

TENSOR_NAMES = {"x": "X", "w": "W", "dy": "dY"}


class Trainer(Protocol):
    """The part of :class:`diastole_sim.device_api.Device` that training uses."""

    def convert(
        self, array: Floats, tensor_class: str, *, tag: int, step: int = 0
    ) -> ConvertedTensor: ...
    def forward(self, x: ConvertedTensor, w: ConvertedTensor) -> ProductResult: ...
    def dw(self, x: ConvertedTensor, dy: ConvertedTensor) -> ProductResult: ...
    def backward(
        self, x: ConvertedTensor, w: ConvertedTensor, dy: ConvertedTensor
    ) -> ProductResult: ...


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """The first element that differs: where it is, and what each device says."""

    tensor: str
    step: int
    index: tuple[int, int]
    got: np.float32
    expected: np.float32

    def __str__(self) -> str:
        got, expected = (
            f"{value!s} ({bits_of(value):#010x})" for value in (self.got, self.expected)
        )
        return (
            f"first mismatch: tensor {self.tensor}, step {self.step}, "
            f"index [{self.index[0]}, {self.index[1]}]: {got}, expected {expected}"
        )


@dataclass(frozen=True, kw_only=True)
class Held:
    """A converted tensor as each device holds it; ``reference`` is None without one."""

    device: ConvertedTensor
    reference: ConvertedTensor | None


class Session:
    """Runs conversions and products on ``device``, and again on ``reference`` if there is one.

    Both get the same float32 data, that which ``device`` computed, so a difference shows in the
    tensor in which it arises. Every converted operand and every product of ``reference`` is
    compared with the one of ``device`` as bits; a difference is recorded and work goes on with
    what ``device`` says.

    Attributes: ``compared`` and ``mismatches`` count elements; ``first`` is the first difference
    in the order of work, then by row and column; ``cycles`` of the product commands, None while no
    product brought counters; ``macs`` multiplications and additions that the products needed,
    unpadded; ``inexact`` products that were rounded more than once; ``saturated`` and
    ``underflowed`` elements, over all copies.
    """

    def __init__(self, device: Trainer, reference: Trainer | None = None):
        self.device = device
        self.reference = reference
        self.compared = 0
        self.mismatches = 0
        self.first: Mismatch | None = None
        self.cycles: int | None = None
        self.macs = 0
        self.inexact = 0
        self.saturated = 0
        self.underflowed = 0

    def convert(self, array: Floats, tensor_class: str, *, layer: int, step: int) -> Held:
        """Quantise once, for all products; the tag of the draws is 4 * layer + class number."""
        tag = 4 * layer + CLASS_NAMES.index(tensor_class)
        held = self.device.convert(array, tensor_class, tag=tag, step=step)
        self.saturated += held.saturated
        self.underflowed += held.underflowed
        if self.reference is None:
            return Held(device=held, reference=None)
        expected = self.reference.convert(array, tensor_class, tag=tag, step=step)
        name, wanted = f"layer{layer}.{TENSOR_NAMES[tensor_class]}_q", expected.copy_values()
        for axis, values in held.copy_values().items():
            self._compare(name + (axis and f"_{axis}"), step, values, wanted[axis])
        return Held(device=held, reference=expected)

    def forward(self, x: Held, w: Held, *, layer: int, step: int) -> Floats:
        """Y = X W."""
        result = self._run("forward", (x, w), layer, step)
        self._count(result, x, w)
        return result.y

    def dw(self, x: Held, dy: Held, *, layer: int, step: int) -> Floats:
        """dW = X^T dY."""
        result = self._run("dw", (x, dy), layer, step)
        self._count(result, x, dy)
        return result.dw

    def backward(
        self, x: Held, w: Held, dy: Held, *, layer: int, step: int
    ) -> tuple[Floats, Floats]:
        """(dX, dW) = (dY W^T, X^T dY), in one command."""
        result = self._run("backward", (x, w, dy), layer, step)
        self._count(result, x, w, products=2)
        return result.dx, result.dw

    def _run(self, op: str, operands: tuple[Held, ...], layer: int, step: int) -> ProductResult:
        """The method ``op`` of the device, and of the reference."""
        result = getattr(self.device, op)(*(held.device for held in operands))
        if self.reference is not None:
            expected = getattr(self.reference, op)(*(held.reference for held in operands))
            for name, value in result.values.items():
                self._compare(f"layer{layer}.{name}", step, value, expected.values[name])
        return result

    def _count(self, result: ProductResult, a: Held, b: Held, products: int = 1) -> None:
        """``a`` and ``b``: two operands whose sides are the product's three lengths."""
        (rows, columns), other = a.device.shape, b.device.shape
        self.macs += products * rows * columns * other[1]
        self.inexact += not result.exact
        if result.counters is not None:
            self.cycles = (self.cycles or 0) + result.counters.cycles

    def _compare(self, tensor: str, step: int, got: Floats, expected: Floats) -> None:
        differs: NDArray[np.bool_] = bits_of(got) != bits_of(expected)
        self.compared += differs.size
        count = int(differs.sum())
        self.mismatches += count
        if count and self.first is None:
            row, column = (int(i) for i in np.unravel_index(int(differs.argmax()), differs.shape))
            self.first = Mismatch(
                tensor=tensor,
                step=step,
                index=(row, column),
                got=got[row, column],
                expected=expected[row, column],
            )


def bits_of(values: Floats | np.float32) -> NDArray[np.uint32]:
    """The binary32 patterns: tells +0 from -0, and one NaN equals itself."""
    return np.ascontiguousarray(values, np.float32).view(np.uint32).reshape(np.shape(values))[()]
