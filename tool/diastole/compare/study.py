"""Read the configurations to compare, with names, from options or from a plan in TOML.

A setting is a key of the machine's configuration ("rounding.dy"), or a table with a key for every
class ("format" is format.x, format.w and format.dy). ``preset`` and options of ``diastole train``
("precision") are settings too. The module does not know the names of keys and options.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from diastole.config.file import FIELDS, value_text, written
from diastole.errors import BadInput
from diastole.files.bundled_data import BUNDLED
from diastole.files.content import read_toml
from diastole.layers.sweep import every_choice, same_key
from diastole.nearest import suggestion
from diastole_sim.spec.limits import MAX_STEPS
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.require import excerpt

Settings = dict[str, str]
"""Values by key, as written in TOML or on the command line."""

PRESET = "preset"
MAX_SEED = 2**32 - 1
NAME, OVER, SET = "name", "over", "set"
WITH_FILES = ("optimizer", "activation", "graph", "loss")
"""Options with a possible value FILE.py:NAME."""
NETWORK = ("graph", "loss", "target", "standardize", "epochs", "batch", "init")
"""Options of `train` for a network of a user, besides data."""
KEYS = (
    "task", "data", *NETWORK, "steps", "seeds", "machine", PRESET, SET, OVER, "configuration",
)  # fmt: skip
"""Keys of a plan."""


@dataclass(frozen=True, kw_only=True)
class Named:
    """A configuration before a check of its keys. ``of_axes`` is True for a combination of axes,
    which may not exist."""

    name: str
    settings: Settings
    of_axes: bool = False


@dataclass(frozen=True, kw_only=True)
class ComparisonPlan:
    """Content of a plan file, with None for absent keys; all None without a file. ``settings`` hold
    for all configurations. ``network``: values of :data:`NETWORK` by name, as typed."""

    task: str | None = None
    data: str | None = None
    network: Settings = field(default_factory=dict[str, str])
    steps: int | None = None
    seeds: tuple[int, ...] | None = None
    machine: Path | None = None
    preset: str | None = None
    settings: Settings = field(default_factory=dict[str, str])
    configurations: tuple[Named, ...] = ()


def overrides_of(settings: Mapping[str, str], options: Sequence[str]) -> list[str]:
    """Return the settings of the machine's configuration as "KEY=VALUE". ``options`` are the names
    of options of `train`. A key of a class goes before the key of its table, which is for all
    classes."""
    values: dict[str, str] = {}
    for key, value in settings.items():
        if key in options or key == PRESET:
            continue
        by_class = [f"{key}.{name}" for name in CLASS_NAMES]
        if set(by_class) <= set(FIELDS):
            values |= {each: settings.get(each, value) for each in by_class}
        else:
            values[key] = value
    return [f"{key}={value}" for key, value in values.items()]


def parse_configuration(text: str) -> Named:
    """Parse "NAME: KEY=VALUE KEY=VALUE", with an optional name. BadInput for another form."""
    name, colon, rest = text.partition(":")
    if not colon or "=" in name:
        name, rest = "", text
    settings: Settings = {}
    for word in _words(rest):
        key, equals, value = word.partition("=")
        if not equals or not key or not value:
            raise BadInput(f"--configuration must be [NAME:] KEY=VALUE KEY=VALUE ..., not {text}")
        _put(settings, key, value)
    if not settings and not colon:
        raise BadInput(f"--configuration must be [NAME:] KEY=VALUE KEY=VALUE ..., not {text!r}")
    return Named(name=name.strip() or short_name(settings), settings=settings)


def _words(text: str) -> list[str]:
    """Split a text at spaces, except spaces within double quotes, which a file name may need."""
    return re.findall(r'(?:"[^"]*"|\S)+', text)


def with_axes(named: Sequence[Named], axes: Sequence[str]) -> list[Named]:
    """Return every configuration with every choice of the axes, written "KEY=A,B". Without a
    configuration, return the choices alone."""
    if not axes:
        return list(named)
    configurations: list[Named] = []
    for base in named or [Named(name="", settings={})]:
        for choice in every_choice(axes):
            values = dict(text.split("=", 1) for text in choice)
            _joined(base.settings, values)
            name = " ".join(filter(None, (base.name, short_name(values))))
            configurations.append(Named(name=name, settings=base.settings | values, of_axes=True))
    return configurations


def _put(settings: Settings, key: str, value: str) -> None:
    """Add a key. BadInput for a key that is present, in whatever spelling."""
    before = next((each for each in settings if same_key(each) == same_key(key)), None)
    if before is not None:
        raise BadInput(f"{key} is given twice, as {excerpt(settings[before])} and {excerpt(value)}")
    settings[key] = value


def _joined(one: Settings, other: Settings) -> Settings:
    """Return two sets of settings as one. BadInput for a key in both sets."""
    joined = dict(one)
    for key, value in other.items():
        _put(joined, key, value)
    return joined


def short_name(settings: Mapping[str, str]) -> str:
    """Return the values as a name, with the last part of the key before a number."""
    words: list[str] = []
    for key, value in settings.items():
        bare = value.strip('"')
        plain = re.fullmatch(r"[A-Za-z_][\w-]*|\d+x\d+", bare) and bare not in ("true", "false")
        words.append(bare if plain else f"{key.rpartition('.')[2]}={bare}")
    return " ".join(words)


def unique(named: Sequence[Named]) -> list[Named]:
    """Return the configurations. BadInput if there is none, or if two have an equal name."""
    names = [each.name for each in named]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise BadInput(
            *(
                f"two configurations have the name {name}: give each configuration a name that "
                "differs"
                for name in twice
            )
        )
    if not named:
        raise BadInput("nothing to compare: give --over, --configuration or --plan")
    return list(named)


def read_plan(path: Path, axes: Sequence[str] = ()) -> ComparisonPlan:
    """Read a plan. ``axes`` of the command, written "KEY=A,B", go before axes of the plan with the
    same key. BadInput with a line for every mistake of the file."""
    document = read_toml(path, "plan")
    try:
        return _plan_of(document, path.parent, [text.partition("=")[0] for text in axes])
    except BadInput as error:
        raise error.within(path) from None


def _plan_of(document: Mapping[str, Any], folder: Path, replaced: Sequence[str]) -> ComparisonPlan:
    """Return the content of a plan without axes of the ``replaced`` keys."""
    problems = [
        f"{key} is an unknown key; a plan has {', '.join(KEYS)}{suggestion(key, KEYS)}"
        for key in document
        if key not in KEYS
    ]

    def text(key: str) -> str | None:
        value = document.get(key)
        if value is not None and (not isinstance(value, str) or not value):
            problems.append(f"{key} must be a text that is not empty, not {value_text(value)}")
            return None
        return value

    steps = document.get("steps")
    if steps is not None and (type(steps) is not int or not 1 <= steps <= MAX_STEPS):
        problems.append(f"steps must be an integer in 1..{MAX_STEPS}, not {value_text(steps)}")
    seeds = document.get("seeds")
    if seeds is not None and not _are_seeds(seeds):
        problems.append(
            f"seeds must be a list of different integers in 0..{MAX_SEED}, not {value_text(seeds)}"
        )
    texts: dict[str, str | None] = {key: text(key) for key in ("task", "data", "machine", PRESET)}
    network: Settings = {}
    for key in NETWORK:
        value = document.get(key)
        if type(value) is int:
            network[key] = str(value)
        elif (given := text(key)) is not None:
            network[key] = given
    named: list[Named] = []
    entries: Any = document.get("configuration", [])
    if not isinstance(entries, list) or not all(
        isinstance(each, dict) for each in cast(list[Any], entries)
    ):
        problems.append("configuration must consist of tables [[configuration]]")
        entries = []
    for entry in cast(list[dict[str, Any]], entries):
        try:
            named += _configuration(entry, replaced)
        except BadInput as error:
            problems += error.problems
    settings: Settings = {}
    try:
        settings = _within(folder, _flat(_table(document, SET)))
        named = _with_own_axes(named, document, replaced)
        named = [replace(each, settings=_within(folder, each.settings)) for each in named]
    except BadInput as error:
        problems += error.problems
    if problems:
        raise BadInput(*problems)
    data, machine = texts["data"], texts["machine"]
    return ComparisonPlan(
        task=texts["task"],
        data=data if data is None or data in BUNDLED else str(folder / data),
        network=_within(folder, network),
        steps=steps,
        seeds=None if seeds is None else tuple(seeds),
        machine=None if machine is None else folder / machine,
        preset=texts[PRESET],
        settings=settings,
        configurations=tuple(named),
    )


def _within(folder: Path, settings: Settings) -> Settings:
    """Return the settings with paths of users' files in the folder of the plan."""
    placed = dict(settings)
    for key in placed.keys() & set(WITH_FILES):
        file, colon, name = placed[key].rpartition(":")
        if colon:
            placed[key] = f"{folder / file}:{name}"
    if "init" in placed:
        placed["init"] = str(folder / placed["init"])
    return placed


def _configuration(entry: Mapping[str, Any], replaced: Sequence[str]) -> list[Named]:
    """Read a table with ``name``, ``over`` and ``set``. All further keys are settings too."""
    rest = {key: value for key, value in entry.items() if key not in (NAME, OVER, SET)}
    settings = _joined(_flat(_table(entry, SET)), _flat(rest))
    name = entry.get(NAME, short_name(settings))
    if not isinstance(name, str) or not name:
        raise BadInput(f"name must be a text that is not empty, not {value_text(name)}")
    return _with_own_axes([Named(name=name, settings=settings)], entry, replaced)


def _with_own_axes(
    named: Sequence[Named], table: Mapping[str, Any], replaced: Sequence[str]
) -> list[Named]:
    """Return every configuration with every choice of the axes of a table of the plan, without axes
    of the ``replaced`` keys and of keys of ``replaced`` tables."""
    keys = {same_key(key) for key in replaced}
    axes = [
        axis
        for axis in _axes(_table(table, OVER))
        if not keys & {same_key(axis.partition("=")[0]), same_key(axis.partition(".")[0])}
    ]
    try:
        return with_axes(named, axes)
    except BadInput as error:
        texts = (text.replace("--over: ", "over.") for text in error.problems)
        raise BadInput(*(text.replace("a single --over", "one list") for text in texts)) from None


def _table(of: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = of.get(key, {})
    if not isinstance(value, dict):
        raise BadInput(f"{key} must be a table, not {value_text(value)}")
    return cast(Mapping[str, Any], value)


def _flat(table: Mapping[str, Any], before: str = "") -> Settings:
    """Return nested tables as keys with points, with values as written."""
    flat: Settings = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat = _joined(flat, _flat(cast(Mapping[str, Any], value), f"{before}{key}."))
        else:
            _put(flat, before + key, value if isinstance(value, str) else written(value))
    return flat


def _axes(table: Mapping[str, Any], before: str = "") -> list[str]:
    """Return lists of values as "KEY=A,B"."""
    axes: list[str] = []
    for key, value in table.items():
        if isinstance(value, dict):
            axes += _axes(cast(Mapping[str, Any], value), f"{before}{key}.")
        elif isinstance(value, list):
            values = cast(list[Any], value)
            if not values or "" in values:
                raise BadInput(f"over.{before}{key} needs a value")
            texts = [
                each if isinstance(each, str) and "," not in each else written(each)
                for each in values
            ]
            axes.append(f"{before}{key}={','.join(texts)}")
        else:
            raise BadInput(f"over.{before}{key} must be a list, not {value_text(value)}")
    return axes


def _are_seeds(value: object) -> bool:
    if not isinstance(value, list) or not value:
        return False
    seeds = cast(list[Any], value)
    kinds = all(type(each) is int and 0 <= each <= MAX_SEED for each in seeds)
    return kinds and len(set(seeds)) == len(seeds)
