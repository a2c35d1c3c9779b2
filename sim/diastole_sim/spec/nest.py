"""Loop nest of a product, as a command gives it."""

from dataclasses import dataclass, fields
from math import ceil
from typing import Any

from diastole_sim.spec.require import excerpt, require_choice, require_int, whole_number

MAX_BLOCKS = 4096
"""Most blocks of any length of a nest: far beyond the use of any array, so that a slip is seen."""
OUTER = ("t", "l")
KEEP_VALUES = ("none", "stream", "stationary", "both")
"""Values of ``keep`` by the bits of a command: bit 0 for the streaming operand, bit 1 for the
stationary operand."""
LENGTHS = ("t_blocks", "groups", "chunk")


@dataclass(frozen=True, kw_only=True)
class Nest:
    """Lengths and order of the loops of a product C[t, l] = sum over c of A[t, c] * B[l, c].

    t_blocks
        Blocks of a tile of the streaming operand.
    groups
        Slices of lanes in an output tile: slices of rows of the array if sums leave to the east, of
        columns if sums leave to the north.
    chunk
        Blocks of the contraction in one load.
    outer
        Outermost loop over tiles: ``t``, or ``l``, the lanes.
    keep
        Operands that stay on chip: ``stream``, ``stationary``, ``both`` or ``none``. Each operand
        is independent of one of the two loops over tiles. If the operand is kept, it is loaded once
        for all tiles of that loop: if that loop is the inner loop, a tile's part of the operand
        stays on chip; if it is the outer loop, all of the operand.

    A length of 0 is the machine's own length. No nest changes a bit of a result. ValueError for a
    length out of range. :meth:`parse` reads the text of ``str``.
    """

    t_blocks: int = 0
    groups: int = 0
    chunk: int = 0
    outer: str = "t"
    keep: str = "none"

    def __post_init__(self) -> None:
        for name in LENGTHS:
            require_int(name, getattr(self, name), 0, MAX_BLOCKS)
        require_choice("outer", self.outer, OUTER)
        require_choice("keep", self.keep, KEEP_VALUES)

    @property
    def keeps_stream(self) -> bool:
        return bool(KEEP_VALUES.index(self.keep) & 1)

    @property
    def keeps_stationary(self) -> bool:
        return bool(KEEP_VALUES.index(self.keep) & 2)

    def __str__(self) -> str:
        return ",".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))

    @classmethod
    def parse(cls, text: str) -> "Nest":
        """Return the nest in a text such as ``t_blocks=8,groups=2,chunk=4,outer=l,keep=both``.
        Absent names have the machine's own values.

        ValueError if the text is no nest; the message says what is accepted.
        """
        values: dict[str, Any] = {}
        names = [field.name for field in fields(cls)]
        for part in filter(None, text.split(",")):
            name, equals, value = (word.strip() for word in part.partition("="))
            if not equals or name not in names:
                raise ValueError(
                    f"a nest must be NAME=VALUE,... with the names {', '.join(names)}, not "
                    f"{excerpt(part)}"
                )
            if name in values:
                raise ValueError(f"{name} is given twice, {values[name]} and {excerpt(value)}")
            values[name] = whole_number(value) if name in LENGTHS else value
            if values[name] is None:
                raise ValueError(f"{name} must be an integer of at least 0, not {excerpt(value)}")
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class NestLimits:
    """Accepted nests of one operation on one machine.

    ``t_blocks``, ``groups``, ``chunk``: accepted lengths of :class:`Nest`, ascending; the longest
    is the machine's own. ``chunk_side``, ``lane_side``: blocks of a slice of the contraction and of
    the lanes. ``stream_blocks``, ``stationary_blocks``: blocks of a memory bank of the streaming
    and of the stationary operand. ``pass_blocks``: blocks of a stationary bank for a slice of lanes
    and a slice of the contraction.
    """

    t_blocks: tuple[int, ...]
    groups: tuple[int, ...]
    chunk: tuple[int, ...]
    chunk_side: int
    lane_side: int
    stream_blocks: int
    stationary_blocks: int
    pass_blocks: int

    def with_defaults(self, nest: Nest) -> Nest:
        """Return the nest with the machine's own lengths instead of zeros."""
        if nest.t_blocks and nest.groups and nest.chunk:
            return nest
        lengths = {name: getattr(nest, name) or getattr(self, name)[-1] for name in LENGTHS}
        return Nest(**lengths, outer=nest.outer, keep=nest.keep)

    def slabs(self, nest: Nest) -> tuple[int, int]:
        """Return the blocks of a chunk in a bank: of the streaming and of the stationary
        operand."""
        nest = self.with_defaults(nest)
        slices = nest.chunk // self.chunk_side
        return slices * nest.t_blocks, slices * nest.groups * self.pass_blocks

    def panels(
        self, nest: Nest, blocks: tuple[int, int, int], planes: tuple[int, int] = (1, 1)
    ) -> tuple[int, int]:
        """Return the blocks that stay in a bank if the nest keeps the streaming operand, and if the
        nest keeps the stationary operand.

        ``blocks``: blocks of the product along the streaming operand, the lanes and the
        contraction. ``planes``: planes of the streaming and of the stationary operand.
        """
        lengths = self.with_defaults(nest)
        chunks = ceil(blocks[2] / lengths.chunk)
        stream, stationary = (
            chunks * slab * count for slab, count in zip(self.slabs(lengths), planes, strict=True)
        )
        if nest.outer == "l":
            return stream * ceil(blocks[0] / lengths.t_blocks), stationary
        return stream, stationary * ceil(blocks[1] / (lengths.groups * self.lane_side))

    def problem(
        self,
        nest: Nest,
        blocks: tuple[int, int, int] | None = None,
        planes: tuple[int, int] = (1, 1),
    ) -> str | None:
        """Return a text about a length that does not fit, with the accepted values. None if all
        lengths fit. Kept operands are checked if ``blocks`` are given; ``blocks`` and ``planes`` as
        in :meth:`panels`."""
        for name in LENGTHS:
            accepted, value = getattr(self, name), getattr(nest, name)
            if value and value not in accepted:
                return f"{name} must be one of {', '.join(map(str, accepted))}, not {value}"
        if blocks is None:
            return None
        stream, stationary = self.panels(nest, blocks, planes)
        for keeps, operand, panel, space in (
            (nest.keeps_stream, "streaming", stream, self.stream_blocks),
            (nest.keeps_stationary, "stationary", stationary, self.stationary_blocks),
        ):
            if keeps and panel > space:
                return (
                    f"keep={nest.keep} needs {panel} blocks of the {operand} operand in "
                    f"every bank, but a bank has {space}; use keep=none, shorter tiles or "
                    "another outer loop"
                )
        return None

    def to_dict(self) -> dict[str, list[int] | int]:
        """Return the limits as plain values for a manifest."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return values | {name: list(values[name]) for name in LENGTHS}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "NestLimits":
        """Return the limits written by :meth:`to_dict`."""
        lengths: dict[str, Any] = {name: tuple(values[name]) for name in LENGTHS}
        return cls(**values | lengths)


@dataclass(frozen=True, kw_only=True)
class ProductNests:
    """Accepted nests of every product on one machine. The fused pass takes no nest."""

    forward: NestLimits
    dx: NestLimits
    dw: NestLimits

    def of(self, operation: str) -> NestLimits | None:
        """Return the limits of an operation by name. None if the operation takes no nest."""
        return getattr(self, operation, None)

    def to_dict(self) -> dict[str, dict[str, list[int] | int]]:
        """Return the limits as plain values for a manifest."""
        return {field.name: getattr(self, field.name).to_dict() for field in fields(self)}

    @classmethod
    def from_dict(cls, values: dict[str, dict[str, Any]]) -> "ProductNests":
        """Return the limits written by :meth:`to_dict`."""
        return cls(**{name: NestLimits.from_dict(limits) for name, limits in values.items()})
