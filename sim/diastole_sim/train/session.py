"""Run named conversions and products on one device, or on two devices that must agree bit for
bit."""

import math
from dataclasses import dataclass
from typing import Protocol

from diastole_sim.device.interface import ConvertedTensor, Floats, ProductResult
from diastole_sim.golden.compare import GoldenComparison
from diastole_sim.spec.operations import OPERAND_BY_CLASS, OPERATIONS
from diastole_sim.train.history import History
from diastole_sim.train.precision import Widths


class Trainer(Protocol):
    """Part of :class:`diastole_sim.device.interface.DeviceProtocol` that training uses."""

    @property
    def total_cycles(self) -> int | None: ...
    def convert(
        self,
        array: Floats,
        tensor_class: str,
        *,
        tag: int,
        step: int = 0,
        width: int | None = None,
        overlap: bool = False,
    ) -> ConvertedTensor: ...
    def forward(self, x: ConvertedTensor, w: ConvertedTensor) -> ProductResult: ...
    def dw(self, x: ConvertedTensor, dy: ConvertedTensor) -> ProductResult: ...
    def backward(
        self, x: ConvertedTensor, w: ConvertedTensor, dy: ConvertedTensor
    ) -> ProductResult: ...


@dataclass(frozen=True, kw_only=True)
class PendingTensor:
    """Converted tensor that is not yet compared with the reference. The conversion itself may still
    wait, to run at the same time as a product."""

    name: str
    layer: int
    operand: "ConvertedOperand"
    step: int


@dataclass(frozen=True, kw_only=True)
class ConvertedOperand:
    """Converted tensor on each device. ``reference``: None without a reference device. ``width``:
    width chosen for the tensor, None without a choice."""

    device: ConvertedTensor
    reference: ConvertedTensor | None
    width: int | None = None


class Session:
    """Run conversions and products on ``device``, and again on ``reference``, if any.

    Both devices get the same float32 data, the results of ``device``. A difference therefore shows
    in the tensor in which it arises. Every converted operand, every product and all reports of
    ``reference`` are compared with ``device`` bit by bit. A difference is recorded, and work
    continues with the results of ``device``.

    - ``comparison``: differences in the order of work.
    - ``cycles``: cycles of the product commands, None while no product has counters.
    - ``macs``: multiplications and additions of the products, without padding.
    - ``inexact``: number of products that were rounded more than once.
    - ``products``: number of all products.
    - ``saturated``, ``underflowed``: elements among the ``converted`` elements, over all copies.
    - ``overflowed``: True if a converted gradient had a NaN or Inf, or a result was too large,
      since the caller last set False.
    - ``widths``: chooses the widths of conversions, None without a choice.

    After :meth:`watch`, a history records the first operand or result that is not finite.
    """

    def __init__(
        self, device: Trainer, reference: Trainer | None = None, widths: Widths | None = None
    ):
        self.device = device
        self.reference = reference
        self.widths = widths
        self.comparison = GoldenComparison()
        self.cycles: int | None = None
        self.macs = 0
        self.inexact = 0
        self.products = 0
        self.saturated = 0
        self.underflowed = 0
        self.converted = 0
        self.overflowed = False
        self.cycles_before: int | None = None
        self._history: History | None = None
        self._depth = 0
        self._unseen: list[PendingTensor] = []

    @property
    def total_cycles(self) -> int | None:
        """Cycles of all work of the device so far, including conversions, plus ``cycles_before``,
        the cycles of the run that this run continues. None without a clock."""
        own = self.device.total_cycles
        return own if own is None else own + (self.cycles_before or 0)

    def convert(
        self, array: Floats, tensor_class: str, *, layer: int, step: int, overlap: bool = False
    ) -> ConvertedOperand:
        """Quantise a tensor once, for all products. The tag of the random bits is 4 * layer + class
        number.

        ``overlap``: True to convert while the next product runs. The product must not read this
        tensor.
        """
        tensor = OPERAND_BY_CLASS[tensor_class]
        self._look(tensor.name, array, layer, step)
        tag = 4 * layer + tensor.number
        width = None if self.widths is None else self.widths.choose(tensor_class, layer, step)
        own = self.device.convert(
            array, tensor_class, tag=tag, step=step, width=width, overlap=overlap
        )
        expected = None
        if self.reference is not None:
            expected = self.reference.convert(array, tensor_class, tag=tag, step=step, width=width)
        operand = ConvertedOperand(device=own, reference=expected, width=width)
        self._unseen.append(
            PendingTensor(name=tensor.name, layer=layer, operand=operand, step=step)
        )
        if not overlap:
            self._see()
        return operand

    def watch(self, history: History, depth: int) -> None:
        """Record in ``history`` the first tensor that is not finite, from this call on. Results
        computed from the tensor are not finite either. ``depth``: number of layers of the network.
        Layers of evaluations are numbered after the network's layers."""
        self._history, self._depth = history, depth

    def _look(self, name: str, values: Floats, layer: int, step: int) -> None:
        if self._history is None or self._history.not_finite:
            return
        evaluation, number = divmod(layer, self._depth)
        of = " of the held-out samples" if evaluation else ""
        self._history.look_at(f"layer {number} {name}{of}", values, f"step {step}")

    def _see(self) -> None:
        """Count and compare the finished conversions."""
        for unseen in self._unseen:
            own, expected = unseen.operand.device, unseen.operand.reference
            self.saturated += own.saturated
            self.underflowed += own.underflowed
            self.converted += own.stored
            if own.tensor_class == "dy":
                self.overflowed |= own.nan or own.inf
            if self.widths is not None:
                self.widths.see(own.tensor_class, unseen.layer, unseen.step, own)
            if expected is not None:
                name = f"layer{unseen.layer}.{unseen.name}"
                self.comparison.operand(name, own, expected, unseen.step)
        self._unseen.clear()

    def forward(self, x: ConvertedOperand, w: ConvertedOperand, *, layer: int, step: int) -> Floats:
        """Return Y = X W."""
        return self._run("forward", (x, w), layer, step).y

    def dw(self, x: ConvertedOperand, dy: ConvertedOperand, *, layer: int, step: int) -> Floats:
        """Return dW = X^T dY."""
        return self._run("dw", (x, dy), layer, step).dw

    def backward(
        self,
        x: ConvertedOperand,
        w: ConvertedOperand,
        dy: ConvertedOperand,
        *,
        layer: int,
        step: int,
    ) -> tuple[Floats, Floats]:
        """Return (dX, dW) = (dY W^T, X^T dY), by one command."""
        result = self._run("backward", (x, w, dy), layer, step)
        return result.dx, result.dw

    def _run(
        self, op: str, operands: tuple[ConvertedOperand, ...], layer: int, step: int
    ) -> ProductResult:
        """Call the method ``op`` of the device and of the reference."""
        result: ProductResult = getattr(self.device, op)(*(operand.device for operand in operands))
        self.overflowed |= result.overflow
        if self.reference is not None:
            expected = getattr(self.reference, op)(*(operand.reference for operand in operands))
            self.comparison.result(result, expected, prefix=f"layer{layer}.", step=step)
        self._see()
        self._count(result, operands, layer)
        for name, values in result.values.items():
            self._look(name, values, layer, step)
        return result

    def _count(
        self, result: ProductResult, operands: tuple[ConvertedOperand, ...], layer: int
    ) -> None:
        operation = OPERATIONS[result.op]
        lengths: dict[str, int] = {}
        for tensor, operand in zip(operation.operands, operands, strict=True):
            lengths.update(zip(tensor.axes, operand.device.shape, strict=True))
        if self.widths is not None:
            names = zip(operation.operand_names, operands, strict=True)
            widths = {name: operand.width for name, operand in names}
            self.widths.count(operation, widths, lengths, layer)
        self.macs += len(operation.products) * math.prod(lengths.values())
        self.inexact += not result.exact
        self.products += 1
        if result.counters is not None:
            self.cycles = (self.cycles or 0) + result.counters.cycles
