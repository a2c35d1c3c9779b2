"""Read the choice of trials from the words of a command line."""

from dataclasses import dataclass
from typing import Any

from diastole.config.file import accepted, likely_format
from diastole.errors import BadInput
from diastole.nearest import suggestion
from diastole.trials.mixtures import TABLES, Settings
from diastole_sim.spec.formats import SCALE_CODE_RULES, SCALE_RULES, parse_format, parse_grouping
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.require import excerpt, quoted_excerpt
from diastole_sim.spec.rounding import KINDS, RULES

RULES_BY_KEY = {"rounding": tuple(RULES), "scale": (*SCALE_RULES, *SCALE_CODE_RULES)}
"""Accepted values by setting. A grouping has no list of values."""
KIND = "rounding-kind"
"""Option for the source of random bits, common to all classes."""


@dataclass(frozen=True, kw_only=True)
class Choices:
    """Choices of a command line. ``names``: formats that all classes use alike. ``mixed``: formats
    of mixtures, by class. ``settings``: settings common to all trials."""

    names: list[str]
    mixed: dict[str, list[str]]
    settings: Settings


def parse_choices(
    names: str, options: dict[str, str], block: int, kind: str | None = None
) -> Choices:
    """Return the choices in the text of ``--formats`` and in ``options`` for classes
    and settings. ``kind``: kind of random bits. :class:`BadInput` with a line for every error."""
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name, text in {"formats": names, **options}.items():
        try:
            parse = parse_by_class if name in TABLES else parse_names
            values[name] = parse(name, text)
        except BadInput as error:
            problems += error.problems
    if kind is not None and kind not in KINDS:
        problems.append(
            f"--{KIND} must be {accepted('rounding.kind')}, not {quoted_excerpt(kind)}"
            + suggestion(kind, KINDS)
        )
    if problems:
        raise BadInput(*problems)
    settings = {name: values[name] for name in TABLES if name in values}
    return Choices(
        names=values["formats"],
        mixed={name: values[name] for name in CLASS_NAMES if name in values},
        settings=Settings(block=block, kind=kind, **settings),
    )


def parse_names(option: str, text: str) -> list[str]:
    """Return the formats of "a,b" without duplicates. ``option``: name in messages.
    :class:`BadInput` with a line for every unknown format and for ``fast``."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    problems: list[str] = []
    for name in names:
        try:
            if parse_format(name).planes:
                problems.append(
                    f"--{option} must not have {name}: at 2 and at 4 bits it stores what bfp2 and "
                    "bfp4 do, in planes; try these"
                )
        except ValueError:
            problem = f"--{option} must each be {accepted('format.x')}, not {quoted_excerpt(name)}"
            problems.append(problem + likely_format(name))
    if problems:
        raise BadInput(*problems)
    return names


def parse_by_class(option: str, text: str) -> dict[str, str]:
    """Return the values of "V", or of "x=V,dy=V", by class. :class:`BadInput` with a line for every
    wrong value."""
    values: dict[str, str] = {}
    problems: list[str] = []
    for part in text.split(","):
        key, equals, value = (word.strip() for word in part.rpartition("="))
        classes = [key.lower()] if equals else list(CLASS_NAMES)
        if not set(classes) <= set(CLASS_NAMES):
            problems.append(
                f'--{option} accepts only {", ".join(CLASS_NAMES)} before "=", '
                f"not {quoted_excerpt(key)}"
            )
        elif set(classes) & set(values):
            problems.append(
                f"--{option} must give each of {', '.join(CLASS_NAMES)} a single value, "
                f"not {excerpt(text)}"
            )
        elif not _is_value(option, value):
            words = accepted(f"{TABLES[option]}.x")
            problems.append(
                f"--{option} must be {words}, not {quoted_excerpt(value)}"
                + _suggestion(option, value)
            )
        else:
            values |= dict.fromkeys(classes, value)
    if problems:
        raise BadInput(*problems)
    return values


def _is_value(option: str, value: str) -> bool:
    if option in RULES_BY_KEY:
        return value in RULES_BY_KEY[option]
    try:
        parse_grouping(value)
    except ValueError:
        return False
    return True


def _suggestion(option: str, value: str) -> str:
    return suggestion(value, RULES_BY_KEY.get(option, ()))
