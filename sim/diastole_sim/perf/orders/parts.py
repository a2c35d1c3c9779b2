"""A layer cut along one axis, for one machine after the other or for several at once.

Cut along M, every part has all of dW to add to; along N, all of dX; along K, all of Y in the
forward pass. What parts add to is a sum until the last has done so.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from diastole_sim.perf.orders.loops import Matrix
from diastole_sim.perf.orders.search import Schedule, Shape, Work
from diastole_sim.perf.orders.systolic import SystolicMachine
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.require import require_choice, require_int

AXES = ("m", "n", "k")
MOST_PARTS = 1 << 16


@dataclass(frozen=True)
class Part:
    """The ``index``-th of ``count`` pieces along ``axis``."""

    axis: str
    index: int
    count: int


def part(sizes: Shape, at: Part, side: int) -> Shape | None:
    """Of as many whole sides of the array as the others, but the last; None where none is left.

    ValueError if there is no such axis, or no such piece.
    """
    require_choice("axis", at.axis, AXES)
    require_int("count", at.count, 1, MOST_PARTS)
    require_int("index", at.index, 0, at.count - 1)
    size = sizes._asdict()[at.axis]
    length = ceil_div(ceil_div(size, at.count), side) * side
    left = size - at.index * length
    return sizes._replace(**{at.axis: min(length, left)}) if left > 0 else None


def parts(sizes: Shape, axis: str, count: int, side: int) -> list[Shape]:
    """All that are not empty; together they are the whole."""
    found = (part(sizes, Part(axis, index, count), side) for index in range(count))
    return [each for each in found if each is not None]


def in_turn(
    machine: SystolicMachine,
    sizes: Shape,
    cut: tuple[str, int],
    best: Callable[[Shape], Schedule],
    results: tuple[Matrix, ...],
) -> Schedule:
    """One machine does part after part, each by its ``best`` schedule; ``cut``: axis and count.

    Of the one of ``results`` that lacks the axis, each part but the last leaves sums, and each but
    the first takes them.
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


def at_once(
    machine: SystolicMachine,
    sizes: Shape,
    cut: tuple[str, int],
    best: Callable[[Shape], Schedule],
    results: tuple[Matrix, ...],
) -> Schedule:
    """Several machines like this one, each with its own port to memory, a part each: what the
    slowest does, whose part is the first.

    Of the one of ``results`` that lacks the axis, each machine finishes an equal share: it writes
    its sums of the others' shares, reads the others' sums of its own, and writes that as results.
    """
    axis, count = cut
    pieces = parts(sizes, axis, count, machine.side)
    shared = shared_elements(sizes, axis, results)
    own = ceil_div(shared, len(pieces))
    summed = (shared - own) + (len(pieces) - 1) * own
    extra = summed * machine.sum_bytes - (shared - own) * machine.result_bytes
    chosen = best(pieces[0])
    name = f"{axis.upper()} over {len(pieces)}, {chosen.name}"
    return Schedule(name, tuple(_with(chosen.work, axis, extra)))


def _with(work: tuple[Work, ...], axis: str, extra: int) -> list[Work]:
    """``extra`` bytes with the product whose contraction is cut; of two apart, dX comes first."""
    changed = list(work)
    at = 0 if axis == "n" else -1
    changed[at] = changed[at]._replace(moved_bytes=changed[at].moved_bytes + extra)
    return changed


def shared_elements(sizes: Shape, axis: str, results: tuple[Matrix, ...]) -> int:
    """Of the results that every part along ``axis`` adds to."""
    by_axis = sizes._asdict()
    return sum(
        by_axis[each.axes[0]] * by_axis[each.axes[1]] for each in results if axis not in each.axes
    )


def cuts(sizes: Shape, counts: tuple[int, ...], side: int) -> Iterator[tuple[str, int]]:
    """Axes and counts that leave a whole side of the array to every part."""
    for axis in AXES:
        for count in counts:
            if len(parts(sizes, axis, count, side)) == count:
                yield axis, count
