"""The loops of a product as a command says them."""

from dataclasses import dataclass, fields
from math import ceil
from typing import Any

from diastole_sim.spec.require import require_choice, require_int, shown, whole_number

MOST_BLOCKS = 4096
"""Of any length here: far beyond what an array can use, so that a slip is seen."""
OUTER = ("t", "l")
KEPT = ("none", "stream", "held", "both")
"""By the bits of a command: bit 0 for what streams, bit 1 for what is held."""
LENGTHS = ("t_blocks", "groups", "chunk")


@dataclass(frozen=True, kw_only=True)
class Nest:
    """How the loops of a product are cut and ordered; C[t, l] = sum over c of A[t, c] * B[l, c].

    t_blocks
        Blocks of a tile of what streams.
    groups
        Slices of lanes in an output tile: of rows of the array where sums leave to the east, of
        columns where they leave to the north.
    chunk
        Blocks of the contraction that are loaded at a time.
    outer
        The loop over tiles that is outermost: ``t``, or ``l``, the lanes.
    keep
        What stays on chip while the loop over tiles goes on that it does not depend on, and so is
        loaded once where it would be loaded for each of them: ``stream``, ``held``, ``both`` or
        ``none``. Of the inner of both loops that takes a tile's part of the operand, of the outer
        one all of it.

    A length of 0 is the machine's own. No nest changes a bit of a result. ValueError for a length
    out of range. ``str`` is what :meth:`parse` reads.
    """

    t_blocks: int = 0
    groups: int = 0
    chunk: int = 0
    outer: str = "t"
    keep: str = "none"

    def __post_init__(self) -> None:
        for name in LENGTHS:
            require_int(name, getattr(self, name), 0, MOST_BLOCKS)
        require_choice("outer", self.outer, OUTER)
        require_choice("keep", self.keep, KEPT)

    @property
    def keeps_stream(self) -> bool:
        return bool(KEPT.index(self.keep) & 1)

    @property
    def keeps_held(self) -> bool:
        return bool(KEPT.index(self.keep) & 2)

    def __str__(self) -> str:
        return ",".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))

    @classmethod
    def parse(cls, text: str) -> "Nest":
        """From ``t_blocks=8,groups=2,chunk=4,outer=l,keep=both``; what is left out is the
        machine's own.

        ValueError that says what is accepted.
        """
        given: dict[str, Any] = {}
        names = [field.name for field in fields(cls)]
        for part in filter(None, text.split(",")):
            name, equals, value = (word.strip() for word in part.partition("="))
            if not equals or name not in names:
                raise ValueError(
                    f"a nest is NAME=VALUE,... with names {', '.join(names)}, not {shown(part)}"
                )
            if name in given:
                raise ValueError(f"{name} is given twice, {given[name]} and {shown(value)}")
            given[name] = whole_number(value) if name in LENGTHS else value
            if given[name] is None:
                raise ValueError(f"{name} must be a number of at least 0, not {shown(value)}")
        return cls(**given)


@dataclass(frozen=True, kw_only=True)
class NestLimits:
    """What the nest of one operation may be on one machine.

    ``t_blocks``, ``groups``, ``chunk``: the accepted lengths, each ascending, as in ``Nest``; the
    longest is the machine's own. ``chunk_side``, ``lane_side``: blocks of a slice of the
    contraction and of the lanes. What streams and what is held stand in memories of
    ``stream_blocks`` and ``held_blocks`` blocks a bank; a slice of lanes takes ``pass_blocks`` of
    the latter for each slice of the contraction.
    """

    t_blocks: tuple[int, ...]
    groups: tuple[int, ...]
    chunk: tuple[int, ...]
    chunk_side: int
    lane_side: int
    stream_blocks: int
    held_blocks: int
    pass_blocks: int

    def filled(self, nest: Nest) -> Nest:
        """With the machine's own lengths where it has none."""
        if nest.t_blocks and nest.groups and nest.chunk:
            return nest
        own = {name: getattr(nest, name) or getattr(self, name)[-1] for name in LENGTHS}
        return Nest(**own, outer=nest.outer, keep=nest.keep)

    def slabs(self, nest: Nest) -> tuple[int, int]:
        """Blocks of a bank that a chunk takes: of what streams, and of what is held."""
        nest = self.filled(nest)
        slices = nest.chunk // self.chunk_side
        return slices * nest.t_blocks, slices * nest.groups * self.pass_blocks

    def panels(
        self, nest: Nest, blocks: tuple[int, int, int], planes: tuple[int, int] = (1, 1)
    ) -> tuple[int, int]:
        """Blocks of a bank that stay where the nest keeps what streams, and what is held;
        ``blocks`` of the product: along what streams, the lanes and the contraction. ``planes`` of
        what streams and of what is held."""
        own = self.filled(nest)
        chunks = ceil(blocks[2] / own.chunk)
        stream, held = (
            chunks * slab * count for slab, count in zip(self.slabs(own), planes, strict=True)
        )
        if nest.outer == "l":
            return stream * ceil(blocks[0] / own.t_blocks), held
        return stream, held * ceil(blocks[1] / (own.groups * self.lane_side))

    def problem(
        self,
        nest: Nest,
        blocks: tuple[int, int, int] | None = None,
        planes: tuple[int, int] = (1, 1),
    ) -> str | None:
        """Which length does not fit, and what would; None if all do. What a nest keeps is looked at
        where ``blocks`` of the product are given, as of :meth:`panels`, with ``planes``."""
        for name in LENGTHS:
            accepted, value = getattr(self, name), getattr(nest, name)
            if value and value not in accepted:
                return f"{name} must be one of {', '.join(map(str, accepted))}, not {value}"
        if blocks is None:
            return None
        stream, held = self.panels(nest, blocks, planes)
        for keeps, operand, panel, room in (
            (nest.keeps_stream, "streams", stream, self.stream_blocks),
            (nest.keeps_held, "is held", held, self.held_blocks),
        ):
            if keeps and panel > room:
                return (
                    f"keep={nest.keep} needs {panel} blocks in every bank of what {operand}, which "
                    f"has {room}; keep=none fits, and so may shorter tiles or another outer loop"
                )
        return None

    def to_dict(self) -> dict[str, list[int] | int]:
        """For a manifest."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        return given | {name: list(given[name]) for name in LENGTHS}

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> "NestLimits":
        """The inverse of :meth:`to_dict`."""
        lengths: dict[str, Any] = {name: tuple(given[name]) for name in LENGTHS}
        return cls(**given | lengths)


@dataclass(frozen=True, kw_only=True)
class ProductNests:
    """The lengths that each product takes on one machine; the fused pass takes none."""

    forward: NestLimits
    dx: NestLimits
    dw: NestLimits

    def of(self, operation: str) -> NestLimits | None:
        """Of an operation by name; None if it takes no nest."""
        return getattr(self, operation, None)

    def to_dict(self) -> dict[str, dict[str, list[int] | int]]:
        """For a manifest."""
        return {field.name: getattr(self, field.name).to_dict() for field in fields(self)}

    @classmethod
    def from_dict(cls, given: dict[str, dict[str, Any]]) -> "ProductNests":
        """The inverse of :meth:`to_dict`."""
        return cls(**{name: NestLimits.from_dict(limits) for name, limits in given.items()})
