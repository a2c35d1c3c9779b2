"""The loops of a product as a command says them."""

from dataclasses import dataclass, fields
from typing import Any

from diastole_sim.spec.check import require_choice, require_int

MOST_BLOCKS = 4096
"""Of any length here: far beyond what an array can use, so that a slip is seen."""
OUTER = ("t", "l")


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

    A length of 0 is the machine's own. No nest changes a bit of a result. ValueError for a length
    out of range. ``str`` is what :meth:`parse` reads.
    """

    t_blocks: int = 0
    groups: int = 0
    chunk: int = 0
    outer: str = "t"

    def __post_init__(self) -> None:
        for name in ("t_blocks", "groups", "chunk"):
            require_int(name, getattr(self, name), 0, MOST_BLOCKS)
        require_choice("outer", self.outer, OUTER)

    def __str__(self) -> str:
        return ",".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))

    @classmethod
    def parse(cls, text: str) -> "Nest":
        """From ``t_blocks=8,groups=2,chunk=4,outer=l``; what is left out is the machine's own.

        ValueError that says what is accepted.
        """
        given: dict[str, Any] = {}
        names = [field.name for field in fields(cls)]
        for part in filter(None, text.split(",")):
            name, equals, value = (word.strip() for word in part.partition("="))
            if not equals or name not in names:
                raise ValueError(
                    f"a nest is NAME=VALUE,... with names {', '.join(names)}, not {part}"
                )
            if name != "outer":
                if not value.isdecimal():
                    raise ValueError(f"{name} must be a number of at least 0, not {value}")
                given[name] = int(value)
            else:
                given[name] = value
        return cls(**given)


@dataclass(frozen=True, kw_only=True)
class NestLimits:
    """The lengths that one operation may have on one machine, each ascending; as in ``Nest``."""

    t_blocks: tuple[int, ...]
    groups: tuple[int, ...]
    chunk: tuple[int, ...]

    def problem(self, nest: Nest) -> str | None:
        """Which length does not fit, and what would; None if all do."""
        for field in fields(self):
            accepted, value = getattr(self, field.name), getattr(nest, field.name)
            if value and value not in accepted:
                return f"{field.name} must be one of {', '.join(map(str, accepted))}, not {value}"
        return None

    def to_dict(self) -> dict[str, list[int]]:
        """For a manifest."""
        return {field.name: list(getattr(self, field.name)) for field in fields(self)}

    @classmethod
    def from_dict(cls, given: dict[str, list[int]]) -> "NestLimits":
        """The inverse of :meth:`to_dict`."""
        return cls(**{name: tuple(values) for name, values in given.items()})


@dataclass(frozen=True, kw_only=True)
class ProductNests:
    """The lengths that each product takes on one machine; the fused pass takes none."""

    forward: NestLimits
    dx: NestLimits
    dw: NestLimits

    def of(self, operation: str) -> NestLimits | None:
        """Of an operation by name; None if it takes no nest."""
        return getattr(self, operation, None)

    def to_dict(self) -> dict[str, dict[str, list[int]]]:
        """For a manifest."""
        return {field.name: getattr(self, field.name).to_dict() for field in fields(self)}

    @classmethod
    def from_dict(cls, given: dict[str, dict[str, list[int]]]) -> "ProductNests":
        """The inverse of :meth:`to_dict`."""
        return cls(**{name: NestLimits.from_dict(limits) for name, limits in given.items()})
