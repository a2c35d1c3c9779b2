"""Combine formats for trials, and configure a machine for every combination."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from diastole.config.file import from_document
from diastole.errors import BadInput
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics

Formats = tuple[str, str, str]
"""Formats of x, w and dy."""

SOURCE = "formats"
TABLES = {"rounding": "rounding", "scale": "scale", "grouping": "block"}
"""Table of the configuration that a setting changes, by setting."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings that all mixtures share. ``block``: side of a block. ``kind``: kind of random bits,
    None for the default. ``rounding``, ``scale``, ``grouping``: settings by class that differ from
    the defaults of the configuration."""

    block: int
    kind: str | None = None
    rounding: Mapping[str, str] = field(default_factory=dict[str, str])
    scale: Mapping[str, str] = field(default_factory=dict[str, str])
    grouping: Mapping[str, str] = field(default_factory=dict[str, str])

    def document(self, formats: Formats) -> dict[str, Any]:
        """Return the keys of a configuration file."""
        tables = {table: dict(getattr(self, name)) for name, table in TABLES.items()}
        if self.kind is not None:
            tables["rounding"]["kind"] = self.kind
        return {
            "array": {"block": self.block},
            "format": dict(zip(CLASS_NAMES, formats, strict=True)),
        } | tables

    def overrides(self, formats: Formats) -> list[str]:
        """Return the keys as arguments of ``--set``."""
        return [
            f"{table}.{key}={value}"
            for table, values in self.document(formats).items()
            for key, value in values.items()
        ]


@dataclass(frozen=True, kw_only=True)
class Mixture:
    """Formats of the classes, and all settings that decide the bits of a machine with these
    formats."""

    formats: Formats
    numerics: Numerics

    @property
    def uniform(self) -> bool:
        """True if all classes have equal formats."""
        return len(set(self.formats)) == 1

    @property
    def name(self) -> str:
        """Names of the formats of X, W and dY, joined by :func:`name_of`."""
        return name_of(self.formats)


def name_of(formats: Formats) -> str:
    """Return ``bfp4``, or ``bfp4/bfp4/fp8_e5m2`` for different formats of X, W and dY."""
    return formats[0] if len(set(formats)) == 1 else "/".join(formats)


def combine(
    names: Sequence[str], values: Mapping[str, Sequence[str]], present: Collection[str]
) -> list[Formats]:
    """Return the mixtures of the formats in ``values``, by class, in all combinations.

    A class that is ``present`` and not in ``values`` takes every format of ``names``. A class that
    is neither takes a format of another class. The list is empty if nothing is given.
    """
    if not values:
        return []
    open_classes = [name for name in CLASS_NAMES if name in present and name not in values]
    mixtures: list[Formats] = []
    for choice in product(*values.values()):
        fixed = dict(zip(values, choice, strict=True))
        for other in names if open_classes else choice[:1]:
            x, w, dy = (fixed.get(name, other) for name in CLASS_NAMES)
            mixtures.append((x, w, dy))
    return list(dict.fromkeys(mixtures))


def make_mixtures(
    requested: Iterable[Formats], settings: Settings, *, strict: bool = False
) -> tuple[list[Mixture], list[str]]:
    """Return mixtures of the requested formats, and notes about formats that do not go together.

    :class:`BadInput` if no formats go together, or with ``strict`` if any formats do not.
    """
    mixtures: list[Mixture] = []
    problems: list[str] = []
    for formats in requested:
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
