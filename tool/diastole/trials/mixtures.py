"""The formats that are tried together, as the machine of a configuration would have them."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from diastole.config.file import from_document
from diastole.errors import BadInput
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics

Formats = tuple[str, str, str]
"""Of x, w and dy."""

SOURCE = "formats"
TABLES = {"rounding": "rounding", "scale": "scale", "grouping": "block"}
"""By setting, the table of the configuration that it changes."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What all mixtures have: the side of a block and, by class, what is not left to the defaults
    of the configuration; ``kind``: of draws, None for the default."""

    block: int
    kind: str | None = None
    rounding: Mapping[str, str] = field(default_factory=dict[str, str])
    scale: Mapping[str, str] = field(default_factory=dict[str, str])
    grouping: Mapping[str, str] = field(default_factory=dict[str, str])

    def document(self, formats: Formats) -> dict[str, Any]:
        """The keys of a configuration file."""
        chosen = {table: dict(getattr(self, name)) for name, table in TABLES.items()}
        if self.kind is not None:
            chosen["rounding"]["kind"] = self.kind
        return {
            "array": {"block": self.block},
            "format": dict(zip(CLASS_NAMES, formats, strict=True)),
        } | chosen

    def overrides(self, formats: Formats) -> list[str]:
        """The same as ``--set`` takes them."""
        return [
            f"{table}.{key}={value}"
            for table, values in self.document(formats).items()
            for key, value in values.items()
        ]


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """A format for each class, and all that decides the bits of a machine that has them."""

    formats: Formats
    numerics: Numerics

    @property
    def uniform(self) -> bool:
        """Whether all classes have one format."""
        return len(set(self.formats)) == 1

    @property
    def name(self) -> str:
        """As :func:`name_of` has it."""
        return name_of(self.formats)


def name_of(formats: Formats) -> str:
    """``bfp4``, or ``bfp4/bfp4/fp8_e5m2`` of X, W and dY."""
    return formats[0] if len(set(formats)) == 1 else "/".join(formats)


def combine(
    names: Sequence[str], given: Mapping[str, Sequence[str]], present: Collection[str]
) -> list[Formats]:
    """The mixtures of formats that are ``given`` by class, in all combinations.

    A class for which none is given takes each of ``names`` if it is ``present``; one that is not
    takes what another has. None where nothing is given.
    """
    if not given:
        return []
    open_classes = [name for name in CLASS_NAMES if name in present and name not in given]
    found: list[Formats] = []
    for chosen in product(*given.values()):
        fixed = dict(zip(given, chosen, strict=True))
        for other in names if open_classes else chosen[:1]:
            x, w, dy = (fixed.get(name, other) for name in CLASS_NAMES)
            found.append((x, w, dy))
    return list(dict.fromkeys(found))


def make_mixtures(
    wanted: Iterable[Formats], settings: Settings, *, strict: bool = False
) -> tuple[list[Mixture], list[str]]:
    """Machines of these formats, and notes about those that do not go together.

    :class:`BadInput` if none do, or with ``strict`` if one does not.
    """
    mixtures: list[Mixture] = []
    problems: list[str] = []
    for formats in wanted:
        try:
            config = from_document(settings.document(formats), source=SOURCE)
        except BadInput as error:
            reasons = (problem.removeprefix(f"{SOURCE}: ") for problem in error.problems)
            problems.append(f"{name_of(formats)}: {'; '.join(reasons)}")
            continue
        mixtures.append(Mixture(formats=formats, numerics=config.numerics))
    if problems and (strict or not mixtures):
        raise BadInput(*problems)
    return mixtures, problems
