"""Share an operation among several machines: every machine computes a part of the results."""

from collections.abc import Iterable
from dataclasses import dataclass

from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.operations import AXES, Operation, Tensor
from diastole_sim.spec.require import excerpt, require_choice, require_int, whole_number

MAX_PARTS = 4096


@dataclass(frozen=True, kw_only=True)
class ProductPart:
    """Part number ``index`` of ``count`` parts along ``axis``: ``m``, ``n`` or ``k``.

    The lengths of two parts differ by one unit at most, and longer parts come first. ValueError for
    an unknown axis and for a number out of range. :meth:`parse` reads the text of ``str``.
    """

    axis: str
    index: int
    count: int

    def __post_init__(self) -> None:
        require_choice("axis", self.axis, AXES)
        require_int("count", self.count, 1, MAX_PARTS)
        require_int("index", self.index, 0, self.count - 1)

    def __str__(self) -> str:
        return f"{self.axis},{self.index},{self.count}"

    @classmethod
    def parse(cls, text: str) -> "ProductPart":
        """Return the part described by a text: ``m,0,4`` is the first of four parts along M.

        ValueError if the text is no part; the message says what is accepted.
        """
        words = [word.strip() for word in text.split(",")]
        numbers = [whole_number(word) for word in words[1:]]
        if len(words) != 3 or None in numbers:
            raise ValueError(f"a part must be AXIS,INDEX,COUNT, such as m,0,4, not {excerpt(text)}")
        index, count = numbers
        assert index is not None
        assert count is not None
        return cls(axis=words[0].lower(), index=index, count=count)

    def bounds(self, size: int, unit: int) -> tuple[int, int]:
        """Return the first element of the part on an axis of ``size`` elements, and the first
        element behind the part. ``unit`` elements stay together. ValueError if the axis has fewer
        units than parts."""
        units = -(-size // unit)
        if units < self.count:
            raise ValueError(
                f"COUNT must be at most {units} for {self.axis.upper()} = {size}, not "
                f"{self.count}: {unit} elements stay together"
            )
        least, longer = divmod(units, self.count)
        first = self.index * least + min(self.index, longer)
        last = first + least + (self.index < longer)
        return first * unit, min(last * unit, size)


def free_axes(operation: Operation) -> tuple[str, ...]:
    """Return the axes that may be cut into parts: no product of the operation sums over these
    axes."""
    return tuple(axis for axis in AXES if axis not in operation.contracted)


def require_free(part: ProductPart, operation: Operation) -> None:
    """Raise ValueError if the results of the parts of an operation would have to be added."""
    free = free_axes(operation)
    if part.axis not in free:
        raise ValueError(
            f"{operation.name} sums over {part.axis.upper()}, and parts of a sum would "
            f"have to be added; cut {operation.name} along "
            f"{' or '.join(axis.upper() for axis in free)}"
        )


def unit_of(axis: str, operands: Iterable[Tensor], numerics: Numerics) -> int:
    """Return how many elements of an axis stay together: a block, or the longest group of an
    operand along the axis. Lengths of blocks and groups are powers of two."""
    lengths = [numerics.block]
    for tensor in operands:
        storage = numerics.tensor_class(tensor.tensor_class)
        if axis in tensor.axes and storage.two_copies:
            lengths.append(storage.grouping.size)
    return max(lengths)
