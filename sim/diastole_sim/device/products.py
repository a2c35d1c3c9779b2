"""The four products of a device, over what each device does in its own way."""

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
"""A converted tensor as the device has it."""

AUTOMATIC_TAGS = 2**31
"""Tags that are numbered by themselves begin anew from here on; second copies have the others."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Lot(Generic[Own]):
    """Products of an operation that are done together, each of matrices of the same shapes.

    ``tensors``: by operand the matrices, converted; of those in ``fresh`` only now. ``uses``: by
    operand the number of the matrix that each product takes. ``count``: of products.
    """

    tensors: Mapping[str, Sequence[Own]]
    fresh: Collection[str]
    uses: Mapping[str, Sequence[int]]
    count: int

    def operands(self, index: int) -> dict[str, Own]:
        """Those of one product, by name."""
        return {name: each[self.uses[name][index]] for name, each in self.tensors.items()}

    def converted(self, index: int) -> list[Own]:
        """Those that were converted for a product, and not for one before it."""
        return [
            tensor
            for name, tensor in self.operands(index).items()
            if name in self.fresh and self.uses[name][index] not in self.uses[name][:index]
        ]


class Products(ABC, Generic[Own]):
    """The products of :class:`diastole_sim.device.interface.DeviceProtocol`.

    They check operands, convert those that are arrays and hand all to :meth:`_multiply`. A device
    adds :meth:`_convert`, :meth:`_own` and :meth:`_multiply`, and :meth:`_check_sizes` if it cannot
    take every size; :meth:`_convert_lot` and :meth:`_multiply_lot` if it does many at once better
    than one by one.
    """

    _layers: int = 0
    """Products and conversions so far whose tensors were numbered by themselves."""

    @abstractmethod
    def _convert(self, array: Floats, asked: Conversion) -> Own:
        """As :meth:`diastole_sim.device.interface.DeviceProtocol.convert`, of a float32 matrix."""

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

    def _names_over_time(self) -> bool:
        """Whether a tag says which tensor it is at every step, and must not be numbered anew."""
        return False

    def _convert_lot(self, arrays: Floats, asked: Sequence[Conversion]) -> Sequence[Own]:
        """Convert matrices, ``arrays`` (count, rows, columns). ``asked``: of each of them; they
        differ in their tags alone."""
        return [self._convert(array, each) for array, each in zip(arrays, asked, strict=True)]

    def _multiply_lot(
        self, operation: Operation, lot: Lot[Own], sizes: Mapping[str, int]
    ) -> list[ProductResult]:
        """:meth:`_multiply` of each product of a lot, whose operands are converted."""
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
        """As :meth:`diastole_sim.device.interface.DeviceProtocol.convert`."""
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
        """As :meth:`diastole_sim.device.interface.DeviceProtocol.convert_stack`."""
        taken = as_matrices(_name_of(tensor_class), array)
        leading = taken.array.shape[:-2]
        count = math.prod(leading)
        given = None if tag is None else (tag,)
        (tag,) = self._tags((OPERAND_OF[tensor_class].name,), given, count)
        asked = Conversion(tensor_class, tag=tag, step=step, scale=scale, width=width)
        return self._stack(taken.array, asked, range(count))

    def _stack(self, array: Floats, asked: Conversion, places: Sequence[int]) -> Stack[Own]:
        """A stack converted. ``asked``: with the tag of the first product; ``places``: of each
        matrix the number of its product."""
        matrices = array.reshape(-1, *array.shape[-2:])
        tags = [asked.tag + TAGS_PER_LAYER * place for place in places]
        require_int("the last tag of the stack", tags[-1], 0, MAX_TAG)
        tensors = self._convert_lot(matrices, [replace(asked, tag=tag) for tag in tags])
        return Stack(leading=array.shape[:-2], tensors=tuple(tensors))

    def _tags(
        self, names: Sequence[str], given: Sequence[int] | None, products: int
    ) -> Sequence[int]:
        """The tags of the first product's tensors, by their names: those that are given, or those
        of the next layer; ``products``: how many layers this takes."""
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
        """Y = X W."""
        return self._run("forward", (x, w), tags, step)

    def dx(
        self, w: Operand, dy: Operand, *, tags: tuple[int, int] | None = None, step: int = 0
    ) -> ProductResult:
        """dX = dY W^T."""
        return self._run("dx", (w, dy), tags, step)

    def dw(
        self, x: Operand, dy: Operand, *, tags: tuple[int, int] | None = None, step: int = 0
    ) -> ProductResult:
        """dW = X^T dY."""
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
        """dX and dW; ``exact`` only if both are, ``overflow`` if one has."""
        return self._run("backward", (x, w, dy), tags, step)

    def _run(
        self, name: str, given: Sequence[Operand], tags: Sequence[int] | None, step: int
    ) -> ProductResult:
        operation = OPERATIONS[name]
        named = zip(operation.operand_names, given, strict=True)
        held = {each: self._held(each, operand) for each, operand in named}
        shapes = {each: _shape(operand) for each, operand in held.items()}
        sizes = sizes_of({each: (shape[-2], shape[-1]) for each, shape in shapes.items()})
        leading = broadcast({each: shape[:-2] for each, shape in shapes.items()})
        self._check_sizes(operation, sizes)
        count = math.prod(leading)
        arrays = [each for each, operand in held.items() if isinstance(operand, Taken)]
        first: Sequence[int] = (0,) * len(held)
        if tags is not None or arrays:
            first = self._tags(operation.operand_names, tags, count)
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
        """An operand of a product of matrices alone."""
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
        """A product of every matrix of a stack; those that some operand has fewer of are converted
        with the tags of the first product that takes them."""
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
        """The operand as an array in float32, or as a tensor or a stack of tensors of this device
        that have its class; ValueError if it is neither."""
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
    """The operand of a class; ValueError if there is no such class."""
    return OPERAND_OF[require_choice("tensor class", tensor_class, CLASS_NAMES)].name
