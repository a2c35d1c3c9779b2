"""The uses of the array: which operand streams, which is held, and how their images lie.

Every product is C[t, l] = sum over c of A[t, c] * B[l, c]; A streams, B is held. A tensor in vector
groups has an image whose rows run along the contraction for each product that reads it, so nothing
of it is ever turned; one in squares has one image, whose rows may be the contraction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from diastole_sim.spec.operations import OPERANDS, OPERATIONS, Operation

X, W, DY = (operand.number for operand in OPERANDS)
"""The classes by number."""
PRODUCTS = tuple(operation for operation in OPERATIONS.values() if len(operation.products) == 1)
"""The operations that are one product."""
Widths: TypeAlias = tuple[int | None, int | None, int | None]
"""Bits of magnitude that x, w and dy were converted to; None: the widest, or the format has one."""
WIDEST: Widths = (None, None, None)


@dataclass(frozen=True, kw_only=True)
class Use:
    """One product on the array.

    ``stream``, ``held``: classes. ``t``, ``lanes``, ``contraction``: which of ``m``, ``n``, ``k``.
    ``north``: vectors come from the west and sums leave to the north, else from the south to the
    east. ``stream_turned``, ``held_turned``: the rows of the image are the contraction (the lanes),
    and its blocks are turned on their way in. ``held_by_lanes``: the rows of the held image are the
    lanes.
    """

    stream: int
    held: int
    t: str
    lanes: str
    contraction: str
    north: bool
    stream_turned: bool
    held_by_lanes: bool

    @property
    def held_turned(self) -> bool:
        """Only at the edge: what is held must have the contraction in its rows to go east."""
        return self.held_by_lanes and not self.north


def use_of(operation: Operation, grouped: Sequence[bool], in_place: bool) -> Use:
    """The one product of ``operation``, given which classes are in vector groups.

    ``in_place`` False (transposition at the edge): everything goes from south to east.
    """
    (product,) = operation.products
    stream, held = product.streamed, product.held
    held_by_lanes = product.held_by_lanes(grouped=grouped[held.number])
    return Use(
        stream=stream.number,
        held=held.number,
        t=product.result.rows,
        lanes=product.result.columns,
        contraction=product.contraction,
        north=held_by_lanes and in_place,
        stream_turned=not grouped[stream.number] and stream.rows == product.contraction,
        held_by_lanes=held_by_lanes,
    )
