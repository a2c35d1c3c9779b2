"""Implement the four products of a device on top of the basic operations of a device."""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeGuard, TypeVar, cast

from diastole_sim.device.arrays import Float32Array, as_matrices, as_matrix
from diastole_sim.device.conversion import MAX_TAG, Conversion
from diastole_sim.device.interface import (
    TAGS_PER_LAYER,
    ConvertedTensor,
    Floats,
    Numbers,
    Operand,
    ProductResult,
)
from diastole_sim.device.operand_shapes import sizes_of
from diastole_sim.device.stack import Leading, Stack, broadcast, stacked, sum_counters, uses
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.operations import CLASSES, OPERAND_BY_CLASS, OPERATIONS, Operation
from diastole_sim.spec.require import require_choice, require_int

Tensor = TypeVar("Tensor", bound=ConvertedTensor)
"""Type of a converted tensor of the device."""

AUTOMATIC_TAGS = 2**31
"""Number at which automatic tags wrap to 0. Tags from this number on belong to second copies."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Batch(Generic[Tensor]):
    """Batch of products of one operation, computed together. All products have equal shapes.

    - ``tensors``: converted matrices by operand name.
    - ``fresh``: names of the operands converted for this batch.
    - ``uses``: by operand name, the number of the matrix for every product.
    - ``count``: number of products.
    """

    tensors: Mapping[str, Sequence[Tensor]]
    fresh: Collection[str]
    uses: Mapping[str, Sequence[int]]
    count: int

    def operands(self, index: int) -> dict[str, Tensor]:
        """Return the operands of one product, by name."""
        return {name: each[self.uses[name][index]] for name, each in self.tensors.items()}

    def converted(self, index: int) -> list[Tensor]:
        """Return the tensors converted for a product and for no earlier product."""
        return [
            tensor
            for name, tensor in self.operands(index).items()
            if name in self.fresh and self.uses[name][index] not in self.uses[name][:index]
        ]


class Products(ABC, Generic[Tensor]):
    """Implement the products of :class:`diastole_sim.device.interface.DeviceProtocol`.

    The methods check operands, convert arrays and pass all operands to :meth:`_multiply`. A device
    adds :meth:`_convert`, :meth:`_device_tensor` and :meth:`_multiply`. A device that cannot take
    every size adds :meth:`_check_sizes`. A device that is faster with many matrices at once adds
    :meth:`_convert_batch` and :meth:`_multiply_batch`.
    """

    _layers: int = 0
    """Number of products and conversions with automatic tags up to now."""

    @abstractmethod
    def _convert(self, array: Floats, request: Conversion) -> Tensor:
        """Convert a float32 matrix; see
        :meth:`diastole_sim.device.interface.DeviceProtocol.convert`."""

    @abstractmethod
    def _device_tensor(self, operand: object) -> Tensor | None:
        """Return the operand if the operand is a tensor of this device, else None."""

    @abstractmethod
    def _multiply(
        self,
        operation: Operation,
        operands: Mapping[str, Tensor],
        sizes: Mapping[str, int],
        converted: Sequence[Tensor],
    ) -> ProductResult:
        """Compute the products of an operation on checked ``operands`` (by name). ``sizes``: M, N
        and K by their small letters. ``converted``: the tensors of array operands."""

    def _check_sizes(self, operation: Operation, sizes: Mapping[str, int]) -> None:
        """Raise ValueError if the device cannot take products of these sizes."""

    def _check_stored(self, name: str, operand: Tensor) -> None:
        """Raise ValueError if the storage of an operand differs from the device's storage of the
        class."""

    def _tags_over_time(self) -> bool:
        """Return whether a tag names one tensor at every step. Automatic numbering must then assign
        no new tags."""
        return False

    def _convert_batch(self, arrays: Floats, requests: Sequence[Conversion]) -> Sequence[Tensor]:
        """Convert ``arrays`` (count, rows, columns). ``requests``: one request per matrix; only the
        tags differ."""
        return [self._convert(array, each) for array, each in zip(arrays, requests, strict=True)]

    def _multiply_batch(
        self, operation: Operation, batch: Batch[Tensor], sizes: Mapping[str, int]
    ) -> list[ProductResult]:
        """Call :meth:`_multiply` for every product of a batch of converted operands."""
        return [
            self._multiply(operation, batch.operands(index), sizes, batch.converted(index))
            for index in range(batch.count)
        ]

    # Conversions.

    def convert(
        self,
        array: Numbers,
        tensor_class: str,
        *,
        tag: int | None = None,
        step: int = 0,
        scale: int | None = None,
        width: int | None = None,
        overlap: bool = False,
    ) -> Tensor:
        """Convert a matrix; see :meth:`diastole_sim.device.interface.DeviceProtocol.convert`."""
        matrix = as_matrix(_name_of(tensor_class), array)
        (tag,) = self._tags(
            (OPERAND_BY_CLASS[tensor_class].name,), None if tag is None else (tag,), 1
        )
        request = Conversion(
            tensor_class, tag=tag, step=step, scale=scale, width=width, overlap=overlap
        )
        return self._convert(matrix.array, request)

    def convert_stack(
        self,
        array: Numbers,
        tensor_class: str,
        *,
        tag: int | None = None,
        step: int = 0,
        scale: int | None = None,
        width: int | None = None,
    ) -> Stack[Tensor]:
        """Convert a stack; see
        :meth:`diastole_sim.device.interface.DeviceProtocol.convert_stack`."""
        matrices = as_matrices(_name_of(tensor_class), array)
        leading = matrices.array.shape[:-2]
        count = math.prod(leading)
        tags = None if tag is None else (tag,)
        (tag,) = self._tags((OPERAND_BY_CLASS[tensor_class].name,), tags, count)
        request = Conversion(tensor_class, tag=tag, step=step, scale=scale, width=width)
        return self._stack(matrices.array, request, range(count))

    def _stack(self, array: Floats, request: Conversion, places: Sequence[int]) -> Stack[Tensor]:
        """Convert a stack. ``request``: request with the tag of the first product. ``places``: by
        matrix, the number of the product that the tag belongs to."""
        matrices = array.reshape(-1, *array.shape[-2:])
        tags = [request.tag + TAGS_PER_LAYER * place for place in places]
        require_int("the last tag of the stack", tags[-1], 0, MAX_TAG)
        tensors = self._convert_batch(matrices, [replace(request, tag=tag) for tag in tags])
        return Stack(leading=array.shape[:-2], tensors=tuple(tensors))

    def _tags(
        self, names: Sequence[str], tags: Sequence[int] | None, products: int
    ) -> Sequence[int]:
        """Return the tags of the first product's tensors, in the order of ``names``: the ``tags``
        tags, or the tags of the next layer. ``products``: number of layers that the call takes."""
        if tags is not None:
            if len(tags) != len(names):
                of = f"{', '.join(names[:-1])} and {names[-1]}"
                raise ValueError(f"tags must be {len(names)} integers, for {of}, not {tags!r}")
            return [require_int("tag", tag, 0, MAX_TAG) for tag in tags]
        first = 0
        if not self._tags_over_time():
            first, self._layers = self._layers, self._layers + products
        return [
            (TAGS_PER_LAYER * first + OPERAND_BY_CLASS[CLASSES[name]].number) % AUTOMATIC_TAGS
            for name in names
        ]

    # Products.

    def forward(
        self, x: Operand, w: Operand, *, tags: tuple[int, int] | None = None, step: int = 0
    ) -> ProductResult:
        """Return Y = X W."""
        return self._run("forward", (x, w), tags, step)

    def dx(
        self, w: Operand, dy: Operand, *, tags: tuple[int, int] | None = None, step: int = 0
    ) -> ProductResult:
        """Return dX = dY W^T."""
        return self._run("dx", (w, dy), tags, step)

    def dw(
        self, x: Operand, dy: Operand, *, tags: tuple[int, int] | None = None, step: int = 0
    ) -> ProductResult:
        """Return dW = X^T dY."""
        return self._run("dw", (x, dy), tags, step)

    def backward(
        self,
        x: Operand,
        w: Operand,
        dy: Operand,
        *,
        tags: tuple[int, int, int] | None = None,
        step: int = 0,
    ) -> ProductResult:
        """Return dX and dW. ``exact`` is True if both results are exact, ``overflow`` is True if
        either result overflowed."""
        return self._run("backward", (x, w, dy), tags, step)

    def _run(
        self, name: str, arguments: Sequence[Operand], tags: Sequence[int] | None, step: int
    ) -> ProductResult:
        operation = OPERATIONS[name]
        # Read arrays as float32, and check tensors of this device.
        named = zip(operation.operand_names, arguments, strict=True)
        checked = {each: self._checked(each, operand) for each, operand in named}
        shapes = {each: _shape(operand) for each, operand in checked.items()}
        sizes = sizes_of({each: (shape[-2], shape[-1]) for each, shape in shapes.items()})
        leading = broadcast({each: shape[:-2] for each, shape in shapes.items()})
        # Assign tags: a product without arrays takes no automatic tags.
        self._check_sizes(operation, sizes)
        count = math.prod(leading)
        arrays = [each for each, operand in checked.items() if isinstance(operand, Float32Array)]
        first: Sequence[int] = (0,) * len(checked)
        if tags is not None or arrays:
            first = self._tags(operation.operand_names, tags, count)
        # Multiply a stack, or convert the arrays and multiply two matrices.
        numbered = dict(zip(operation.operand_names, first, strict=True))
        if leading:
            result = self._run_stack(operation, checked, sizes, leading, numbered, step)
        else:
            operands = {
                each: self._converted(each, operand, numbered[each], step)
                for each, operand in checked.items()
            }
            fresh = [operands[each] for each in arrays]
            result = self._multiply(operation, operands, sizes, fresh)
        notes = [operand.note for operand in checked.values() if isinstance(operand, Float32Array)]
        texts = tuple(note for note in notes if note is not None)
        return replace(result, notes=texts) if texts else result

    def _converted(
        self, name: str, operand: "Float32Array | Tensor | Stack[Tensor]", tag: int, step: int
    ) -> Tensor:
        """Return an operand of a product without leading axes as a converted tensor."""
        if isinstance(operand, Float32Array):
            return self._convert(operand.array, Conversion(CLASSES[name], tag=tag, step=step))
        return cast(Tensor, operand)

    def _run_stack(
        self,
        operation: Operation,
        checked: Mapping[str, "Float32Array | Tensor | Stack[Tensor]"],
        sizes: Mapping[str, int],
        leading: Leading,
        tags: Mapping[str, int],
        step: int,
    ) -> ProductResult:
        """Multiply every matrix of a stack. A matrix of several products is converted once, with
        the tag of the first product."""
        operands: dict[str, Tensor | Stack[Tensor]] = {}
        used: dict[str, Sequence[int]] = {}
        tensors: dict[str, Sequence[Tensor]] = {}
        for name, operand in checked.items():
            axes = _shape(operand)[:-2]
            used[name], places = uses(axes, leading)
            if isinstance(operand, Float32Array) and axes:
                request = Conversion(CLASSES[name], tag=tags[name], step=step)
                operand = self._stack(operand.array, request, places)
            elif isinstance(operand, Float32Array):
                operand = self._converted(name, operand, tags[name], step)
            operands[name] = operand
            tensors[name] = operand.tensors if _is_stack(operand) else (cast(Tensor, operand),)
        batch = Batch(
            tensors=tensors,
            fresh=[name for name, operand in checked.items() if isinstance(operand, Float32Array)],
            uses=used,
            count=math.prod(leading),
        )
        results = self._multiply_batch(operation, batch, sizes)
        return ProductResult(
            op=operation.name,
            values={
                name: stacked([result.values[name] for result in results], leading)
                for name in operation.result_names
            },
            operands=operands,
            exact=all(result.exact for result in results),
            overflow=any(result.overflow for result in results),
            counters=sum_counters(result.counters for result in results),
        )

    def _checked(self, name: str, operand: Operand) -> "Float32Array | Tensor | Stack[Tensor]":
        """Return the operand as a float32 array, or as a tensor or a stack of tensors of this
        device. ValueError if the operand is neither or has another class."""
        if _is_stack(operand):
            tensors = [self._device_tensor(tensor) for tensor in operand.tensors]
            present = [tensor for tensor in tensors if tensor is not None]
            if len(present) == len(tensors):
                self._check_tensor(name, present[0])
                return Stack(leading=operand.leading, tensors=tuple(present))
        one = self._device_tensor(operand)
        if one is not None:
            self._check_tensor(name, one)
            return one
        if hasattr(type(operand), "copy_values"):
            raise ValueError(
                f"{name} must be an array or a tensor of this device, not a tensor of another "
                "device"
            )
        return as_matrices(name, operand)

    def _check_tensor(self, name: str, tensor: Tensor) -> None:
        if tensor.tensor_class != CLASSES[name]:
            raise ValueError(
                f"{name} must be a tensor of class {CLASSES[name]}, not {tensor.tensor_class}"
            )
        self._check_stored(name, tensor)


def _is_stack(operand: object) -> TypeGuard[Stack[Any]]:
    return isinstance(operand, Stack)


def _shape(operand: "Float32Array | ConvertedTensor") -> tuple[int, ...]:
    return operand.array.shape if isinstance(operand, Float32Array) else operand.shape


def _name_of(tensor_class: str) -> str:
    """Return the name of the operand of a class; ValueError if the class does not exist."""
    return OPERAND_BY_CLASS[require_choice("tensor class", tensor_class, CLASS_NAMES)].name
