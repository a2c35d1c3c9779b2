"""Uses of the array: the streaming operand, the stationary operand, and the layout of their images.

Every product is C[t, l] = sum over c of A[t, c] * B[l, c]. A streams, B is stationary. A tensor in
vector groups has an image for each product that reads the tensor, with rows along the contraction,
so no block of the tensor is ever transposed. A tensor in squares has one image, whose rows may be
the contraction.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from diastole_sim.spec.operations import OPERANDS, OPERATIONS, Operation

X, W, DY = (operand.number for operand in OPERANDS)
"""Numbers of the classes."""
PRODUCTS = tuple(operation for operation in OPERATIONS.values() if len(operation.products) == 1)
"""Operations of a single product."""
Widths: TypeAlias = tuple[int | None, int | None, int | None]
"""Bits of magnitude of x, w and dy after conversion. None: the widest, or the format has one
width."""
WIDEST: Widths = (None, None, None)


@dataclass(frozen=True, kw_only=True)
class Use:
    """One product on the array.

    ``stream``, ``stationary``: classes of the streaming and of the stationary operand. ``t``,
    ``lanes``, ``contraction``: axes, each of ``m``, ``n``, ``k``. ``north``: vectors enter from the
    west and sums leave to the north; otherwise from the south to the east. ``stream_transposed``:
    the rows of the streaming image are the contraction, and its blocks are transposed on entry.
    ``stationary_transposed``: the rows of the stationary image are the lanes, and its blocks are
    transposed on entry. ``stationary_by_lanes``: the rows of the stationary image are the lanes.
    """

    stream: int
    stationary: int
    t: str
    lanes: str
    contraction: str
    north: bool
    stream_transposed: bool
    stationary_by_lanes: bool

    @property
    def stationary_transposed(self) -> bool:
        """True only for transposition at the edge: the stationary operand must have the contraction
        in its rows if sums leave to the east."""
        return self.stationary_by_lanes and not self.north


def use_of(operation: Operation, grouped: Sequence[bool], in_place: bool) -> Use:
    """Return the use of the only product of ``operation``. ``grouped``: for every class, whether
    the class is in vector groups.

    With ``in_place`` False (transposition at the edge) all vectors go from south to east.
    """
    (product,) = operation.products
    stream, stationary = product.streaming, product.stationary
    stationary_by_lanes = product.stationary_by_lanes(grouped=grouped[stationary.number])
    return Use(
        stream=stream.number,
        stationary=stationary.number,
        t=product.result.rows,
        lanes=product.result.columns,
        contraction=product.contraction,
        north=stationary_by_lanes and in_place,
        stream_transposed=not grouped[stream.number] and stream.rows == product.contraction,
        stationary_by_lanes=stationary_by_lanes,
    )
