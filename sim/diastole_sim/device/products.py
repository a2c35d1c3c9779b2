"""Implement the four products of a device on top of the basic operations of a device."""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeGuard, TypeVar, cast

from diastole_sim.device.arrays import Taken, as_matrices, as_matrix
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
from diastole_sim.device.stack import Leading, Stack, added, broadcast, stacked, uses
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.operations import CLASSES, OPERAND_OF, OPERATIONS, Operation
from diastole_sim.spec.require import require_choice, require_int

Own = TypeVar("Own", bound=ConvertedTensor)
"""Type of a converted tensor of the device."""

AUTOMATIC_TAGS = 2**31
"""Number at which automatic tags wrap to 0. Tags from this number on belong to second copies."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Lot(Generic[Own]):
    """Batch of products of one operation, computed together. All products have equal shapes.

    - ``tensors``: converted matrices by operand name.
    - ``fresh``: names of the operands converted for this batch.
    - ``uses``: by operand name, the number of the matrix for every product.
    - ``count``: number of products.
    """

    tensors: Mapping[str, Sequence[Own]]
    fresh: Collection[str]
    uses: Mapping[str, Sequence[int]]
    count: int

    def operands(self, index: int) -> dict[str, Own]:
        """Return the operands of one product, by name."""
        return {name: each[self.uses[name][index]] for name, each in self.tensors.items()}

    def converted(self, index: int) -> list[Own]:
        """Return the tensors converted for a product and for no earlier product."""
        return [
            tensor
            for name, tensor in self.operands(index).items()
            if name in self.fresh and self.uses[name][index] not in self.uses[name][:index]
        ]


class Products(ABC, Generic[Own]):
    """Implement the products of :class:`diastole_sim.device.interface.DeviceProtocol`.

    The methods check operands, convert arrays and pass all operands to :meth:`_multiply`. A device
    adds :meth:`_convert`, :meth:`_own` and :meth:`_multiply`. A device that cannot take every size
    adds :meth:`_check_sizes`. A device that is faster with many matrices at once adds
    :meth:`_convert_lot` and :meth:`_multiply_lot`.
    """

    _layers: int = 0
    """Number of products and conversions with automatic tags up to now."""

    @abstractmethod
    def _convert(self, array: Floats, asked: Conversion) -> Own:
        """Convert a float32 matrix; see
        :meth:`diastole_sim.device.interface.DeviceProtocol.convert`."""

    @abstractmethod
    def _own(self, operand: object) -> Own | None:
        """Return the operand if the operand is a tensor of this device, else None."""

    @abstractmethod
    def _multiply(
        self,
        operation: Operation,
        operands: Mapping[str, Own],
        sizes: Mapping[str, int],
        converted: Sequence[Own],
    ) -> ProductResult:
        """Compute the products of an operation on checked ``operands`` (by name). ``sizes``: M, N
        and K by their small letters. ``converted``: the tensors of array operands."""

    def _check_sizes(self, operation: Operation, sizes: Mapping[str, int]) -> None:
        """Raise ValueError if the device cannot take products of these sizes."""

    def _check_stored(self, name: str, operand: Own) -> None:
        """Raise ValueError if the storage of an operand differs from the device's storage of the
        class."""

    def _names_over_time(self) -> bool:
        """Return whether a tag names one tensor at every step. Automatic numbering must then assign
        no new tags."""
        return False

    def _convert_lot(self, arrays: Floats, asked: Sequence[Conversion]) -> Sequence[Own]:
        """Convert ``arrays`` (count, rows, columns). ``asked``: one request per matrix; only the
        tags differ."""
        return [self._convert(array, each) for array, each in zip(arrays, asked, strict=True)]

    def _multiply_lot(
        self, operation: Operation, lot: Lot[Own], sizes: Mapping[str, int]
    ) -> list[ProductResult]:
        """Call :meth:`_multiply` for every product of a batch of converted operands."""
        return [
            self._multiply(operation, lot.operands(index), sizes, lot.converted(index))
            for index in range(lot.count)
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
        beside: bool = False,
    ) -> Own:
        """Convert a matrix; see :meth:`diastole_sim.device.interface.DeviceProtocol.convert`."""
        taken = as_matrix(_name_of(tensor_class), array)
        (tag,) = self._tags((OPERAND_OF[tensor_class].name,), None if tag is None else (tag,), 1)
        asked = Conversion(
            tensor_class, tag=tag, step=step, scale=scale, width=width, beside=beside
        )
        return self._convert(taken.array, asked)

    def convert_stack(
        self,
        array: Numbers,
        tensor_class: str,
        *,
        tag: int | None = None,
        step: int = 0,
        scale: int | None = None,
        width: int | None = None,
    ) -> Stack[Own]:
        """Convert a stack; see
        :meth:`diastole_sim.device.interface.DeviceProtocol.convert_stack`."""
        taken = as_matrices(_name_of(tensor_class), array)
        leading = taken.array.shape[:-2]
        count = math.prod(leading)
        given = None if tag is None else (tag,)
        (tag,) = self._tags((OPERAND_OF[tensor_class].name,), given, count)
        asked = Conversion(tensor_class, tag=tag, step=step, scale=scale, width=width)
        return self._stack(taken.array, asked, range(count))

    def _stack(self, array: Floats, asked: Conversion, places: Sequence[int]) -> Stack[Own]:
        """Convert a stack. ``asked``: request with the tag of the first product. ``places``: by
        matrix, the number of the product that the tag belongs to."""
        matrices = array.reshape(-1, *array.shape[-2:])
        tags = [asked.tag + TAGS_PER_LAYER * place for place in places]
        require_int("the last tag of the stack", tags[-1], 0, MAX_TAG)
        tensors = self._convert_lot(matrices, [replace(asked, tag=tag) for tag in tags])
        return Stack(leading=array.shape[:-2], tensors=tuple(tensors))

    def _tags(
        self, names: Sequence[str], given: Sequence[int] | None, products: int
    ) -> Sequence[int]:
        """Return the tags of the first product's tensors, in the order of ``names``: the ``given``
        tags, or the tags of the next layer. ``products``: number of layers that the call takes."""
        if given is not None:
            if len(given) != len(names):
                of = f"{', '.join(names[:-1])} and {names[-1]}"
                raise ValueError(f"tags must be {len(names)} integers, of {of}, not {given!r}")
            return [require_int("tag", tag, 0, MAX_TAG) for tag in given]
        first = 0
        if not self._names_over_time():
            first, self._layers = self._layers, self._layers + products
        return [
            (TAGS_PER_LAYER * first + OPERAND_OF[CLASSES[name]].number) % AUTOMATIC_TAGS
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
        self, name: str, given: Sequence[Operand], tags: Sequence[int] | None, step: int
    ) -> ProductResult:
        operation = OPERATIONS[name]
        # Read arrays as float32, and check tensors of this device.
        named = zip(operation.operand_names, given, strict=True)
        held = {each: self._held(each, operand) for each, operand in named}
        shapes = {each: _shape(operand) for each, operand in held.items()}
        sizes = sizes_of({each: (shape[-2], shape[-1]) for each, shape in shapes.items()})
        leading = broadcast({each: shape[:-2] for each, shape in shapes.items()})
        # Assign tags: a product without arrays takes no automatic tags.
        self._check_sizes(operation, sizes)
        count = math.prod(leading)
        arrays = [each for each, operand in held.items() if isinstance(operand, Taken)]
        first: Sequence[int] = (0,) * len(held)
        if tags is not None or arrays:
            first = self._tags(operation.operand_names, tags, count)
        # Multiply a stack, or convert the arrays and multiply two matrices.
        numbered = dict(zip(operation.operand_names, first, strict=True))
        if leading:
            result = self._run_stack(operation, held, sizes, leading, numbered, step)
        else:
            operands = {
                each: self._converted(each, operand, numbered[each], step)
                for each, operand in held.items()
            }
            fresh = [operands[each] for each in arrays]
            result = self._multiply(operation, operands, sizes, fresh)
        notes = [operand.note for operand in held.values() if isinstance(operand, Taken)]
        said = tuple(note for note in notes if note is not None)
        return replace(result, notes=said) if said else result

    def _converted(
        self, name: str, operand: "Taken | Own | Stack[Own]", tag: int, step: int
    ) -> Own:
        """Return an operand of a product without leading axes as a converted tensor."""
        if isinstance(operand, Taken):
            return self._convert(operand.array, Conversion(CLASSES[name], tag=tag, step=step))
        return cast(Own, operand)

    def _run_stack(
        self,
        operation: Operation,
        held: Mapping[str, "Taken | Own | Stack[Own]"],
        sizes: Mapping[str, int],
        leading: Leading,
        tags: Mapping[str, int],
        step: int,
    ) -> ProductResult:
        """Multiply every matrix of a stack. A matrix of several products is converted once, with
        the tag of the first product."""
        operands: dict[str, Own | Stack[Own]] = {}
        used: dict[str, Sequence[int]] = {}
        tensors: dict[str, Sequence[Own]] = {}
        for name, operand in held.items():
            own = _shape(operand)[:-2]
            used[name], places = uses(own, leading)
            if isinstance(operand, Taken) and own:
                asked = Conversion(CLASSES[name], tag=tags[name], step=step)
                operand = self._stack(operand.array, asked, places)
            elif isinstance(operand, Taken):
                operand = self._converted(name, operand, tags[name], step)
            operands[name] = operand
            tensors[name] = operand.tensors if _is_stack(operand) else (cast(Own, operand),)
        lot = Lot(
            tensors=tensors,
            fresh=[name for name, operand in held.items() if isinstance(operand, Taken)],
            uses=used,
            count=math.prod(leading),
        )
        results = self._multiply_lot(operation, lot, sizes)
        return ProductResult(
            op=operation.name,
            values={
                name: stacked([result.values[name] for result in results], leading)
                for name in operation.result_names
            },
            operands=operands,
            exact=all(result.exact for result in results),
            overflow=any(result.overflow for result in results),
            counters=added(result.counters for result in results),
        )

    def _held(self, name: str, operand: Operand) -> "Taken | Own | Stack[Own]":
        """Return the operand as a float32 array, or as a tensor or a stack of tensors of this
        device. ValueError if the operand is neither or has another class."""
        if _is_stack(operand):
            own = [self._own(tensor) for tensor in operand.tensors]
            found = [tensor for tensor in own if tensor is not None]
            if len(found) == len(own):
                self._check_held(name, found[0])
                return Stack(leading=operand.leading, tensors=tuple(found))
        one = self._own(operand)
        if one is not None:
            self._check_held(name, one)
            return one
        if hasattr(type(operand), "copy_values"):
            raise ValueError(f"{name} must be an array or a tensor of this device, not of another")
        return as_matrices(name, operand)

    def _check_held(self, name: str, own: Own) -> None:
        if own.tensor_class != CLASSES[name]:
            raise ValueError(
                f"{name} must be a tensor of class {CLASSES[name]}, not {own.tensor_class}"
            )
        self._check_stored(name, own)


def _is_stack(operand: object) -> TypeGuard[Stack[Any]]:
    return isinstance(operand, Stack)


def _shape(operand: "Taken | ConvertedTensor") -> tuple[int, ...]:
    return operand.array.shape if isinstance(operand, Taken) else operand.shape


def _name_of(tensor_class: str) -> str:
    """Return the name of the operand of a class; ValueError if the class does not exist."""
    return OPERAND_OF[require_choice("tensor class", tensor_class, CLASS_NAMES)].name
