"""Y = X W and its two gradients: tensors, products of tensors, and operations.

The module is the only definition of the axes and class of a tensor, of the streaming and the
stationary operand of a product, and of the tensors that an operation reads and writes::

    Y = X W:         M x N from M x K and K x N
    dX = dY W^T:     M x K from M x N and K x N
    dW = X^T dY:     K x N from M x K and M x N

The contraction of a product and the copies read by a product follow from these facts. (If vectors
share a scale, a tensor has two quantised copies. Copy 0 has groups along the tensor's rows. Copy 1
has groups down the columns, and is stored as a copy of the transposed tensor.)
"""

from collections.abc import Iterator
from dataclasses import dataclass

from diastole_sim.spec.numerics import CLASS_NAMES, Numerics

AXES = ("m", "n", "k")
"""Axes of products: rows and columns of every tensor run along M, N or K."""


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """Operand or result: the axes of ``rows`` and ``columns``, and the ``tensor_class``, which is
    ``""`` for a result. Results are binary32."""

    name: str
    rows: str
    columns: str
    tensor_class: str = ""

    @property
    def axes(self) -> tuple[str, str]:
        """Axes of rows and columns."""
        return self.rows, self.columns

    @property
    def number(self) -> int:
        """Number of the tensor's class; ValueError for a result."""
        return CLASS_NAMES.index(self.tensor_class)

    @property
    def copy_names(self) -> tuple[str, str]:
        """Names of copies 0 and 1 of a tensor with two copies: the axis along which the groups of
        the copy run."""
        return self.columns, self.rows


X = Tensor(name="X", rows="m", columns="k", tensor_class="x")
W = Tensor(name="W", rows="k", columns="n", tensor_class="w")
DY = Tensor(name="dY", rows="m", columns="n", tensor_class="dy")
Y = Tensor(name="Y", rows="m", columns="n")
DX = Tensor(name="dX", rows="m", columns="k")
DW = Tensor(name="dW", rows="k", columns="n")

OPERANDS = (X, W, DY)
"""Converted tensors, by the number of the class."""
CLASSES = {tensor.name: tensor.tensor_class for tensor in OPERANDS}
"""Class of every operand, by name."""
OPERAND_BY_CLASS = {tensor.tensor_class: tensor for tensor in OPERANDS}
"""Operands by class."""


@dataclass(frozen=True, kw_only=True)
class MatrixProduct:
    """Product C[t, l] = sum over c of A[t, c] * B[l, c]. A is the streaming operand, B the
    stationary operand. t and l, the lanes, are the rows and columns of the result."""

    result: Tensor
    streaming: Tensor
    stationary: Tensor

    @property
    def factors(self) -> tuple[Tensor, Tensor]:
        """Streaming and stationary operand, in the order of the equation."""
        return self.streaming, self.stationary

    @property
    def contraction(self) -> str:
        """Axis of the sum, common to both operands."""
        (axis,) = set(self.streaming.axes) & set(self.stationary.axes)
        return axis

    @property
    def loops(self) -> tuple[str, str, str]:
        """Axes t, l and c."""
        return self.result.rows, self.result.columns, self.contraction

    def stationary_by_lanes(self, *, grouped: bool) -> bool:
        """Return whether the rows of the stationary operand's image are the lanes. ``grouped``: the
        operand is in vector groups. It then has an image for every product, whose rows always are
        the lanes."""
        return grouped or self.stationary.rows == self.result.columns

    def copy(self, operand: Tensor) -> int:
        """Return the copy of a factor for the product, with groups along the contraction: 0 if the
        product contracts the factor's columns, 1 if the rows. A tensor with one copy is read along
        the contraction too."""
        return operand.copy_names.index(self.contraction)


FORWARD = MatrixProduct(result=Y, streaming=X, stationary=W)
INPUT_GRADIENT = MatrixProduct(result=DX, streaming=DY, stationary=W)
WEIGHT_GRADIENT = MatrixProduct(result=DW, streaming=X, stationary=DY)

PRODUCTS = {product.result.name: product for product in (FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT)}
"""Products by the name of the result."""


def summed_inside(numerics: Numerics, *, rows: int, cols: int, in_place: bool) -> dict[str, int]:
    """Return how many elements of a contraction the array adds before the accumulators, by the
    direction in which sums leave the array. Unused directions are absent. ``in_place``: the array
    transposes; otherwise all sums leave to the east."""
    by_lanes = {
        product.stationary_by_lanes(
            grouped=numerics.tensor_class(product.stationary.tensor_class).two_copies
        )
        for product in PRODUCTS.values()
    }
    sides = {"east": cols, "north": rows}
    used = {"north" if north and in_place else "east" for north in by_lanes}
    return {name: side * numerics.block for name, side in sides.items() if name in used}


@dataclass(frozen=True, kw_only=True)
class Read:
    """Copy of an operand for an operation, and the ``field`` of the copy's address in a command.

    ``second``: the operation reads two copies of the operand, and this copy is the second. A second
    copy has an address only if the tensor has two copies.
    """

    operand: Tensor
    copy: int
    field: str
    second: bool


@dataclass(frozen=True, kw_only=True)
class Operation:
    """Operation of one command: ``products``, and in ``result_fields`` the command's fields with
    the addresses of the results."""

    name: str
    products: tuple[MatrixProduct, ...]
    result_fields: tuple[str, ...]

    @property
    def operands(self) -> tuple[Tensor, ...]:
        """Operands in the order of arguments and of tags, which is the order of the classes."""
        return tuple(
            tensor
            for tensor in OPERANDS
            if any(tensor in product.factors for product in self.products)
        )

    @property
    def operand_names(self) -> tuple[str, ...]:
        """Names of :attr:`operands`."""
        return tuple(tensor.name for tensor in self.operands)

    @property
    def results(self) -> tuple[Tensor, ...]:
        """Tensors that the operation writes."""
        return tuple(product.result for product in self.products)

    @property
    def result_names(self) -> tuple[str, ...]:
        """Names of :attr:`results`."""
        return tuple(tensor.name for tensor in self.results)

    @property
    def contracted(self) -> tuple[str, ...]:
        """Axes that the operation sums over."""
        summed = {product.contraction for product in self.products}
        return tuple(axis for axis in AXES if axis in summed)

    @property
    def reads(self) -> tuple[Read, ...]:
        """Copies read by the operation."""
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
        """Address fields of the operation's command."""
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
"""Operations by name."""
