"""Y = X W and its two gradients: tensors, the products of them, and what each operation does.

This is the only place that says which tensor has which axes and class, which operand of a product
streams through the array and which is held in it, and which operation reads and writes what::

    Y = X W          M x N from M x K and K x N
    dX = dY W^T      M x K from M x N and K x N
    dW = X^T dY      K x N from M x K and M x N

The rest follows: the axis that a product contracts, and the copies that it reads. (Where vectors
share a scale, a tensor has two quantised copies: copy 0 has its groups along the tensor's rows,
copy 1 down its columns; it is stored as a copy of the transposed tensor.)
"""

from collections.abc import Iterator
from dataclasses import dataclass

from diastole_sim.spec.numerics import CLASS_NAMES, Numerics

AXES = ("m", "n", "k")
"""M, N and K: what rows and columns of tensors count."""


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """An operand or a result: what its ``rows`` and ``columns`` count, and its ``tensor_class``,
    ``""`` for a result, which is binary32."""

    name: str
    rows: str
    columns: str
    tensor_class: str = ""

    @property
    def axes(self) -> tuple[str, str]:
        """What rows and columns count."""
        return self.rows, self.columns

    @property
    def number(self) -> int:
        """Of its class; ValueError for a result."""
        return CLASS_NAMES.index(self.tensor_class)

    @property
    def copy_names(self) -> tuple[str, str]:
        """What copies 0 and 1 of two are called: the axis that their groups run along."""
        return self.columns, self.rows


X = Tensor(name="X", rows="m", columns="k", tensor_class="x")
W = Tensor(name="W", rows="k", columns="n", tensor_class="w")
DY = Tensor(name="dY", rows="m", columns="n", tensor_class="dy")
Y = Tensor(name="Y", rows="m", columns="n")
DX = Tensor(name="dX", rows="m", columns="k")
DW = Tensor(name="dW", rows="k", columns="n")

OPERANDS = (X, W, DY)
"""What is converted, by the number of its class."""
CLASSES = {tensor.name: tensor.tensor_class for tensor in OPERANDS}
"""By an operand's name, its class."""
OPERAND_OF = {tensor.tensor_class: tensor for tensor in OPERANDS}
"""By class."""


@dataclass(frozen=True, kw_only=True)
class MatrixProduct:
    """C[t, l] = sum over c of A[t, c] * B[l, c]: A streams, B is held, and t and l, the lanes, are
    the rows and columns of the result."""

    result: Tensor
    streamed: Tensor
    held: Tensor

    @property
    def factors(self) -> tuple[Tensor, Tensor]:
        """Both operands, as the equation has them."""
        return self.streamed, self.held

    @property
    def contraction(self) -> str:
        """The axis that is summed over: both operands have it."""
        (axis,) = set(self.streamed.axes) & set(self.held.axes)
        return axis

    @property
    def loops(self) -> tuple[str, str, str]:
        """The axes t, l and c."""
        return self.result.rows, self.result.columns, self.contraction

    def held_by_lanes(self, *, grouped: bool) -> bool:
        """Whether the rows of the held image are the lanes: of a tensor in vector groups, which has
        an image for each product, they always are."""
        return grouped or self.held.rows == self.result.columns

    def copy(self, operand: Tensor) -> int:
        """The copy of a factor that is read, its groups along the contraction: 0 if its columns are
        contracted, 1 if its rows. A tensor of one copy is read along the same axis."""
        return operand.copy_names.index(self.contraction)


FORWARD = MatrixProduct(result=Y, streamed=X, held=W)
INPUT_GRADIENT = MatrixProduct(result=DX, streamed=DY, held=W)
WEIGHT_GRADIENT = MatrixProduct(result=DW, streamed=X, held=DY)

PRODUCTS = {product.result.name: product for product in (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT)}
"""By the name of the result."""


def summed_inside(numerics: Numerics, *, rows: int, cols: int, in_place: bool) -> dict[str, int]:
    """Elements of a contraction that are summed inside the array before they are accumulated, by
    the direction in which sums leave it, of those that are used. ``in_place``: the array
    transposes; else all leave to the east."""
    by_lanes = {
        product.held_by_lanes(grouped=numerics.tensor_class(product.held.tensor_class).two_copies)
        for product in PRODUCTS.values()
    }
    sides = {"east": cols, "north": rows}
    used = {"north" if north and in_place else "east" for north in by_lanes}
    return {name: side * numerics.block for name, side in sides.items() if name in used}


@dataclass(frozen=True, kw_only=True)
class Read:
    """A copy of an operand that an operation reads, and the ``field`` of its address in a command.

    ``second``: of an operand whose both copies are read it is the one that comes second, and has an
    address only where there are two.
    """

    operand: Tensor
    copy: int
    field: str
    second: bool


@dataclass(frozen=True, kw_only=True)
class Operation:
    """``products`` that one command asks for; ``result_fields``: where the addresses of their
    results stand in it."""

    name: str
    products: tuple[MatrixProduct, ...]
    result_fields: tuple[str, ...]

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """What it reads, in the order of its arguments and of their tags: that of the classes."""
        return tuple(
            tensor
            for tensor in OPERANDS
            if any(tensor in product.factors for product in self.products)
        )

    @property
    def operand_names(self) -> tuple[str, ...]:
        """Of :attr:`operands`."""
        return tuple(tensor.name for tensor in self.operands)

    @property
    def results(self) -> tuple[Tensor, ...]:
        """What it writes."""
        return tuple(product.result for product in self.products)

    @property
    def result_names(self) -> tuple[str, ...]:
        """Of :attr:`results`."""
        return tuple(tensor.name for tensor in self.results)

    @property
    def contracted(self) -> tuple[str, ...]:
        """The axes that it sums over."""
        summed = {product.contraction for product in self.products}
        return tuple(axis for axis in AXES if axis in summed)

    @property
    def reads(self) -> tuple[Read, ...]:
        """The copies that it reads."""
        return tuple(self._reads())

    def _reads(self) -> Iterator[Read]:
        for operand in self.operands:
            readers = [product for product in self.products if operand in product.factors]
            copies = dict.fromkeys(product.copy(operand) for product in readers)
            for place, copy in enumerate(copies):
                field = f"address_{operand.tensor_class}"
                if place:
                    field += f"_{operand.copy_names[copy]}"
                yield Read(operand=operand, copy=copy, field=field, second=place > 0)

    @property
    def fields(self) -> tuple[str, ...]:
        """The address fields of its command."""
        return (*(read.field for read in self.reads), *self.result_fields)


OPERATIONS = {
    operation.name: operation
    for operation in (
        Operation(name="forward", products=(FORWARD,), result_fields=("out_a",)),
        Operation(name="dx", products=(INPUT_GRADIENT,), result_fields=("out_a",)),
        Operation(name="dw", products=(WEIGHT_GRADIENT,), result_fields=("out_a",)),
        Operation(
            name="backward",
            products=(INPUT_GRADIENT, WEIGHT_GRADIENT),
            result_fields=("out_b", "out_a"),
        ),
    )
}
"""By name."""
