"""Cut a layer along one axis, for one machine that computes part after part, or for several
machines.

Cut along M, every part adds to all of dW. Cut along N, every part adds to all of dX. Cut along K,
every part adds to all of Y in the forward pass. A shared result is a partial sum until the last
part has been added.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from diastole_sim.perf.orders.loops import Matrix
from diastole_sim.perf.orders.search import Schedule, Shape, Work
from diastole_sim.perf.orders.systolic import SystolicMachine
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.require import require_choice, require_int

AXES = ("m", "n", "k")
MAX_PARTS = 1 << 16


@dataclass(frozen=True)
class Part:
    """Piece number ``index`` of ``count`` pieces along ``axis``."""

    axis: str
    index: int
    count: int


def part(sizes: Shape, at: Part, side: int) -> Shape | None:
    """Return the shape of a piece. All pieces but the last have the same number of whole sides of
    the array. Return None if nothing is left for the piece.

    ValueError if the axis or the piece does not exist.
    """
    require_choice("axis", at.axis, AXES)
    require_int("count", at.count, 1, MAX_PARTS)
    require_int("index", at.index, 0, at.count - 1)
    size = sizes._asdict()[at.axis]
    length = ceil_div(ceil_div(size, at.count), side) * side
    left = size - at.index * length
    return sizes._replace(**{at.axis: min(length, left)}) if left > 0 else None


def parts(sizes: Shape, axis: str, count: int, side: int) -> list[Shape]:
    """Return all pieces that are not empty. The pieces together are the whole layer."""
    candidates = (part(sizes, Part(axis, index, count), side) for index in range(count))
    return [each for each in candidates if each is not None]


def sequential(
    machine: SystolicMachine,
    sizes: Shape,
    cut: tuple[str, int],
    best: Callable[[Shape], Schedule],
    results: tuple[Matrix, ...],
) -> Schedule:
    """Return the schedule of a machine that computes part after part, every part by its ``best``
    schedule. ``cut``: axis and count.

    The result in ``results`` that lacks the axis is shared. Every part but the last stores sums of
    the shared result, and every part but the first loads them.
    """
    axis, count = cut
    pieces = parts(sizes, axis, count, machine.side)
    shared = shared_elements(sizes, axis, results)
    work: list[Work] = []
    for number, piece in enumerate(pieces):
        extra = shared * machine.sum_bytes if number else 0
        if number < len(pieces) - 1:
            extra += shared * (machine.sum_bytes - machine.result_bytes)
        work += _with(best(piece).work, axis, extra)
    return Schedule(f"{axis.upper()} in {len(pieces)}", tuple(work))


def parallel(
    machine: SystolicMachine,
    sizes: Shape,
    cut: tuple[str, int],
    best: Callable[[Shape], Schedule],
    results: tuple[Matrix, ...],
) -> Schedule:
    """Return the schedule of several machines like ``machine``, with a port to memory and a part
    for every machine. The schedule is that of the slowest machine, which has the first part.

    The result in ``results`` that lacks the axis is shared. Every machine finishes an equal share
    of the shared result: the machine writes its sums of the other shares, reads the other machines'
    sums of its own share, and writes its own share as results.
    """
    axis, count = cut
    pieces = parts(sizes, axis, count, machine.side)
    shared = shared_elements(sizes, axis, results)
    own = ceil_div(shared, len(pieces))
    summed = (shared - own) + (len(pieces) - 1) * own
    extra = summed * machine.sum_bytes - (shared - own) * machine.result_bytes
    work = best(pieces[0])
    name = f"{axis.upper()} over {len(pieces)}, {work.name}"
    return Schedule(name, tuple(_with(work.work, axis, extra)))


def _with(work: tuple[Work, ...], axis: str, extra: int) -> list[Work]:
    """Add ``extra`` bytes to the product whose contraction is cut. Of two separate products dX
    comes first."""
    changed = list(work)
    at = 0 if axis == "n" else -1
    changed[at] = changed[at]._replace(moved_bytes=changed[at].moved_bytes + extra)
    return changed


def shared_elements(sizes: Shape, axis: str, results: tuple[Matrix, ...]) -> int:
    """Return the number of elements of the results that every part along ``axis`` adds to."""
    by_axis = sizes._asdict()
    return sum(
        by_axis[each.axes[0]] * by_axis[each.axes[1]] for each in results if axis not in each.axes
    )


def cuts(sizes: Shape, counts: tuple[int, ...], side: int) -> Iterator[tuple[str, int]]:
    """Yield axes and counts for which every part has at least a whole side of the array."""
    for axis in AXES:
        for count in counts:
            if len(parts(sizes, axis, count, side)) == count:
                yield axis, count
