"""What each use of the array asks of memory, from its equation.

A product is C[t, l] = sum over c of A[t, c] B[l, c]: A streams, B is held, t and l are the axes of
the result. The image of a tensor in squares lies as the tensor does; of one in vector groups a copy
is read whose rows run along the contraction.

The array adds along what its columns (east) or its rows (north) hold. What is held goes in as it
lies: with the contraction in its rows the sums go east, with the lanes there they go north. Where
the edge transposes, all sums go east, and it is turned there. A streamed vector always runs along
the contraction.
"""

from dataclasses import dataclass

from diastole_hw.plan.modes import Mode
from diastole_hw.schedule.tokens import Region
from diastole_sim.spec.sizes.uses import DY, W, X

TENSORS = {X: "mk", W: "kn", DY: "mn"}
EQUATIONS = {  # result, streamed, held
    Mode.FORWARD: ("mn", X, W),  # Y[m,n] = sum over k of X[m,k] W[k,n]
    Mode.DX: ("mk", DY, W),  # dX[m,k] = sum over n of dY[m,n] W[k,n]
    Mode.DW: ("kn", X, DY),  # dW[k,n] = sum over m of X[m,k] dY[m,n]
}


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A rectangle of blocks, or the maxima along one side of it; axes are t, l and c.

    ``rows``, ``cols``: axes of the image. ``side``: of maxima, the axis that they stand along, else
    empty. ``banks``: of blocks, the axis that goes across the banks. ``due``: with which chunks it
    comes: ``first`` of their tiles, the first of all, ``once``, or those that load what is ``held``
    or the ``stream``.
    """

    step: int
    kind: Region
    cls: int
    rows: str
    cols: str
    due: str
    side: str = ""
    banks: str = ""
    transposed: bool = False

    @property
    def by_column(self) -> bool:
        return self.cols == self.banks


def pieces(mode: Mode, grouped, in_place: bool) -> list[Piece]:
    """In order; ``grouped``: whether the class is in vector groups, by its number."""
    if mode == Mode.FUSED:
        return _fused(grouped)
    (t, lanes), stream, held = EQUATIONS[mode]
    axes = {t: "t", lanes: "l"}
    stream_image = _image(stream, axes, "t", grouped)
    held_image = _image(held, axes, "l", grouped)
    by_lanes = held_image["rows"] == "l"
    north = by_lanes and in_place
    kinds = (Region.MAXIMA_SOUTH, Region.MAXIMA_EAST, Region.SOUTH)
    if north:
        kinds = (Region.MAXIMA_WEST, Region.MAXIMA_NORTH, Region.WEST)
    return [
        Piece(step=0, kind=kinds[0], cls=stream, **stream_image, due="first", side="t"),
        Piece(step=1, kind=kinds[1], cls=held, **held_image, due="first", side="l"),
        Piece(
            step=5, kind=Region.STATIONARY, cls=held, **held_image, due="stationary",
            banks="l" if north else "c", transposed=by_lanes and not in_place,
        ),
        Piece(
            step=6, kind=kinds[2], cls=stream, **stream_image, due="stream",
            banks="c", transposed=stream_image["rows"] == "c",
        ),
    ]  # fmt: skip


def _image(cls, axes, own, grouped):
    rows, cols = (axes.get(letter, "c") for letter in TENSORS[cls])
    if grouped[cls]:
        rows, cols = own, "c"
    return {"rows": rows, "cols": cols}


def _fused(grouped):
    """dW[t,l] = sum over c of X[c,t] dY[c,l] to the east; with the same dY in the cells,
    dX[c,t] = sum over l of dY[c,l] W[t,l] to the north."""
    x = {"rows": "t", "cols": "c"} if grouped[X] else {"rows": "c", "cols": "t"}
    dy = {"rows": "c", "cols": "l"}
    w = {"rows": "t", "cols": "l"}
    return [
        Piece(step=0, kind=Region.MAXIMA_SOUTH, cls=X, **x, due="first", side="t"),
        Piece(step=1, kind=Region.MAXIMA_EAST, cls=DY, **dy, due="once", side="l"),
        Piece(step=2, kind=Region.MAXIMA_WEST, cls=W, **w, due="first", side="t"),
        Piece(step=3, kind=Region.MAXIMA_NORTH, cls=DY, **dy, due="once", side="c"),
        Piece(step=4, kind=Region.WEST, cls=W, **w, due="first", banks="l"),
        Piece(step=5, kind=Region.STATIONARY, cls=DY, **dy, due="stationary", banks="c"),
        Piece(
            step=6, kind=Region.SOUTH, cls=X, **x, due="stream",
            banks="c", transposed=not grouped[X],
        ),
    ]  # fmt: skip
