"""Tiled loops of products played tile by tile on a scratchpad: what is moved, what is held.

Independent of the counts that it judges: places hold sets of elements, a place is filled when a
step wants what it has not, and every result knows the terms that it still lacks.
"""

from dataclasses import dataclass, field
from itertools import product

from diastole_sim.spec.integers import ceil_div

Element = tuple[int, int]


@dataclass
class Place:
    """What it holds, and how often it was filled."""

    held: frozenset[Element] = frozenset()
    fills: int = 0
    most: int = 0

    def has(self, wanted: frozenset[Element]) -> bool:
        return wanted <= self.held

    def fill(self, wanted: frozenset[Element]) -> None:
        self.held = wanted
        self.fills += 1
        self.most = max(self.most, len(wanted))

    @property
    def elements(self) -> int:
        """That the scratchpad must have: twice the largest, if it is filled more than once."""
        return self.most * min(2, self.fills)


@dataclass
class Played:
    """Elements by tensor: loaded, written as sums, written as results, held at most."""

    loaded: dict[str, int] = field(default_factory=dict)
    sums_read: dict[str, int] = field(default_factory=dict)
    sums_written: dict[str, int] = field(default_factory=dict)
    results: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)


def play(sizes, tiles, order, tensors, kept):
    """``sizes``, ``tiles``: elements by axis. ``tensors``: name, axes, whether a result. ``kept``:
    names of tensors of which all stays that a turn of the loop wants that they do not depend on."""
    counts = {axis: ceil_div(sizes[axis], tiles[axis]) for axis in order}
    places = {name: Place() for name, _, _ in tensors}
    lacking = {
        name: dict.fromkeys(
            product(*(range(sizes[axis]) for axis in axes)), sizes[(set(order) - set(axes)).pop()]
        )
        for name, axes, result in tensors
        if result
    }
    played = Played()
    for numbers in product(*(range(counts[axis]) for axis in order)):
        step = dict(zip(order, numbers, strict=True))
        for name, axes, result in tensors:
            (over,) = set(order) - set(axes)
            tile = span(sizes, tiles, axes, step)
            if not places[name].has(tile):
                inside = order[order.index(over) + 1 :] if name in kept else ""
                free = {axis: number for axis, number in step.items() if axis not in inside}
                wanted = span(sizes, tiles, axes, free)
                if result:
                    leave(played, name, places[name].held, lacking[name])
                    begun = sum(lacking[name][each] < sizes[over] for each in wanted)
                    add(played.sums_read, name, begun)
                else:
                    add(played.loaded, name, len(wanted))
                places[name].fill(wanted)
            if result:
                terms = len(range(sizes[over])[step[over] * tiles[over] :][: tiles[over]])
                for each in tile:
                    lacking[name][each] -= terms
    for name, _, result in tensors:
        played.held[name] = places[name].elements
        if result:
            leave(played, name, places[name].held, lacking[name])
            assert not any(lacking[name].values()), f"{name} lacks terms"
    return played


def span(sizes, tiles, axes, step):
    """The elements of a tensor at a step; all of an axis that the step does not name."""
    ranges = (
        range(sizes[axis])[step[axis] * tiles[axis] :][: tiles[axis]]
        if axis in step
        else range(sizes[axis])
        for axis in axes
    )
    return frozenset(product(*ranges))


def leave(played, name, held, lacking):
    done = sum(not lacking[each] for each in held)
    add(played.results, name, done)
    add(played.sums_written, name, len(held) - done)


def add(counts, name, number):
    counts[name] = counts.get(name, 0) + number
