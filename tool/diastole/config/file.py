"""Reads and writes the configuration file, and says everything that is wrong with it at once."""

import difflib
import inspect
import json
import re
import textwrap
import tomllib
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, TypeGuard, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from diastole.config.contradictions import contradictions
from diastole.config.keys import Accepted, Config
from diastole.config.numbers import NUMBERS, numbers_of
from diastole.errors import BadInput
from diastole.files.content import read_toml
from diastole.nearest import meant
from diastole_sim.spec.formats import FAST, FORMAT_NAMES, parse_format
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.require import shown

_TABLES: dict[str, type[BaseModel]] = {
    name: field.annotation
    for name, field in Config.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
}
SECTIONS = tuple(_TABLES)
# Every key, as people write it, with its description: "array.rows" and so on.
FIELDS: dict[str, FieldInfo] = {
    f"{name}.{key}": inner
    for name, table in _TABLES.items()
    for key, inner in table.model_fields.items()
} | {name: field for name, field in Config.model_fields.items() if name not in SECTIONS}

WIDTH = 100
"""Columns of the file that `init` writes."""

FAST_FRACTION = 14
"""F of a machine of planes is this and two for each bit of its widest magnitudes, by default."""
SAME_TABLE = 0.2
"""By which a key of the same table is liker."""


def load_config(path: Path | str, overrides: Sequence[str] = ()) -> Config:
    """The configuration in a TOML file, after ``overrides`` ("array.rows=4") are laid over it.

    Raises :class:`BadInput` with one line for every mistake of the file and the overrides together.
    """
    document = read_toml(Path(path), "configuration")
    return from_document(document, overrides, source=str(path))


def from_document(
    document: dict[str, Any], overrides: Sequence[str] = (), *, source: str = "configuration"
) -> Config:
    """As :func:`load_config`, from a parsed document; ``source`` begins each message about it."""
    document = {key: dict(v) if _is_table(v) else v for key, v in document.items()}
    problems: list[str] = []
    overridden: set[str] = set()
    problems += _repeated(overrides)
    # What is laid over the file's numbers is laid over others too, wherever it stands.
    for text in sorted(overrides, key=lambda text: not _is_of_numbers(text)):
        try:
            overridden.add(_override(document, text))
        except BadInput as error:
            problems += error.problems
        if _is_of_numbers(text) and (chosen := numbers_of(document)) is not None:
            document = chosen.instead(document)
    wrong: set[tuple[int | str, ...]] = set()
    try:
        config = Config.model_validate(document)
    except ValidationError as errors:
        for error in errors.errors(include_url=False, include_context=False):
            wrong.add(error["loc"][:2])
            place = "--set" if _written(error["loc"][:2]) in overridden else source
            problems.append(f"{place}: {_say(error)}")
        document = _without(document, wrong)
        config = Config.model_validate(document)
    config = _with_fraction(config, document)
    faults = contradictions(config, {_written(location) for location in wrong})
    problems += (f"{source}: {fault}" for fault in faults)
    if problems:
        raise BadInput(*problems)
    return config


def _repeated(overrides: Sequence[str]) -> list[str]:
    """What is wrong with overrides of which two say the same key, or a table and a key of it."""
    said: dict[tuple[str, ...], str] = {}
    problems: list[str] = []
    for text in overrides:
        key, _, value = (part.strip() for part in text.partition("="))
        parts = tuple(part.strip() for part in key.split("."))
        for other, before in said.items():
            if other == parts:
                problems.append(
                    f"--set: {key} is given twice, as {shown(before)} and {shown(value)}"
                )
            elif parts[: len(other)] == other or other[: len(parts)] == parts:
                problems.append(f"--set: {'.'.join(other)} and {key} say the same key twice")
        said[parts] = value
    return problems


def _is_of_numbers(override: str) -> bool:
    return override.partition("=")[0].strip() == "numbers"


def _with_fraction(config: Config, document: dict[str, Any]) -> Config:
    """With as many fraction bits as the planes of ``fast`` need for what is exact in the widest
    format of one plane, where the file says nothing of them."""
    said = document.get("accumulator", {})
    formats = (getattr(config.format, name) for name in CLASS_NAMES)
    if FAST.name not in formats or "fraction" in said:
        return config
    fraction = FAST_FRACTION + 2 * config.fast.widths[-1]
    accumulator = config.accumulator.model_copy(update={"fraction": fraction})
    return config.model_copy(update={"accumulator": accumulator})


def accepted(key: str) -> str:
    """The range of a key in words: "an integer in 1..64"."""
    if key in SECTIONS:
        return f"a table, [{key}]"
    if key == "name":
        return "[a-z][a-z0-9_]* and no Verilog or SystemVerilog keyword"
    field = FIELDS[key]
    for meaning in field.metadata:
        if isinstance(meaning, Accepted):
            return meaning.text
    if field.annotation is bool:
        return "true or false"
    if get_origin(field.annotation) is Literal:
        return "one of " + ", ".join(map(str, get_args(field.annotation)))
    low = next(limit.ge for limit in field.metadata if hasattr(limit, "ge"))
    high = next(limit.le for limit in field.metadata if hasattr(limit, "le"))
    return f"an integer in {low}..{high}"


def nearest(key: str) -> str:
    """The known key that is most like an unknown one, as a whole or in its last part; rather one of
    the same table."""
    table = key.rpartition(".")[0]

    def likeness(known: str) -> float:
        whole = difflib.SequenceMatcher(a=key, b=known).ratio()
        last = difflib.SequenceMatcher(a=_last(key), b=_last(known)).ratio()
        beside = bool(table) and known.rpartition(".")[0] == table
        return max(whole, 0.9 * last) + whole / 100 + SAME_TABLE * beside

    return max([*FIELDS, *SECTIONS], key=likeness)


def likely_format(given: object) -> str:
    """What an unknown format was meant to be, as the end of a sentence; empty if that is no guess:
    the one that begins so, or the one that is most like it."""
    if not isinstance(given, str):
        return ""
    text = given.strip().lower()
    if text != given and _is_format(text):
        return f"; did you mean {text}?"
    return meant(text, FORMAT_NAMES)


def _is_format(text: str) -> bool:
    try:
        parse_format(text)
    except ValueError:
        return False
    return True


def to_toml(config: Config) -> str:
    """A commented file that reads back as ``config``: each key with its meaning and its range.

    A key that is absent stays so: it stands in a comment, with the value that it has by default.
    """
    lines = [
        "# Configuration of a Diastole machine. A key that is left out has its default.",
        "# Any key can be changed for one command: --set array.rows=4",
    ]
    values = config.to_dict()
    for key in Config.model_fields:
        table = _TABLES.get(key)
        if table is not None:
            about = inspect.getdoc(table)
            assert about is not None
            about = about.splitlines()[0]
            lines += ["", f"# {about}", f"[{key}]"]
            said: dict[str, str] = {}
            for inner in table.model_fields:
                lines += _entry(f"{key}.{inner}", values[key][inner], config, said)
        else:
            lines += ["", *_entry(key, values[key], config, {})]
    return "\n".join(lines) + "\n"


def _entry(key: str, value: Any, config: Config, said: dict[str, str]) -> Iterable[str]:
    """The lines of a key; ``said`` has what is accepted, and where in the table that was said."""
    yield f"# {FIELDS[key].description}."
    words = f"Accepted: {accepted(key)}."
    if len(words) > WIDTH - 2 and words in said:
        words = f"Accepted: as for {said[words]}."
    said.setdefault(words, _last(key))
    yield from _comment(words)
    if value is not None:
        yield f"{_last(key)} = {value_shown(value)}"
        return
    if key == "numbers":
        yield "# Left out: the file tells all of them."
        yield f"# {key} = {value_shown(next(iter(NUMBERS)))}"
        return
    default = absent_value(key, config.numerics)
    if default is None:
        yield "# Left out: the format has its own and takes no other."
    elif key == "vector.special":
        yield f"# Left out: here {value_shown(default)}."
        yield f"# {_last(key)} = {value_shown(default)}"
    else:
        yield f"# Left out: the default of the format, here {value_shown(default)}."
        yield f"# {_last(key)} = {value_shown(default)}"


def absent_value(key: str, numerics: Numerics) -> str | int | None:
    """The value that a key which is left out has by what else is said, as it would be written.

    None where the format takes none. ``key``: one of those whose default is None.
    """
    if key == "cell.window":
        pairs = list(combinations(CLASS_NAMES, 2))
        windowed = any(numerics.is_windowed(a, b) for a, b in pairs)
        return max(numerics.product_bits(a, b) for a, b in pairs) if windowed else 0
    if key == "vector.special":
        return max(1, numerics.block // 4)
    section, _, name = key.partition(".")
    chosen = numerics.tensor_class(name)
    if section == "block":
        return str(chosen.grouping)
    return chosen.scale if chosen.format.scale_rules else None


def _comment(text: str) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent="# ",
        subsequent_indent="# ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _override(document: dict[str, Any], text: str) -> str:
    """Sets one key from "KEY=VALUE" in the document and returns the key."""
    key, equals, value = text.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or not all(parts):
        raise BadInput(f"--set: must be KEY=VALUE, not {value_shown(text)}")
    table = document
    for part in parts[:-1]:
        inner = table.setdefault(part, {})
        if not _is_table(inner):
            if part in SECTIONS:  # the file's own mistake, reported as such
                return ".".join(parts)
            known = ".".join(parts)
            raise BadInput(f"--set: {known} is an unknown key; the nearest is {nearest(known)}")
        table = inner
    table[parts[-1]] = toml_value(value.strip())
    return ".".join(parts)


def _is_table(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def toml_value(text: str) -> Any:
    """Return the value that a text has in TOML; the text itself where TOML has none for it."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _say(error: Any) -> str:
    """One line about one of pydantic's errors; whatever its type, we say what is accepted."""
    key = _written(error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{key} is an unknown key; the nearest is {nearest(key)}"
    hint = _hint(key, error["input"])
    return f"{key} must be {accepted(key)}, not {value_shown(error['input'])}{hint}"


def _hint(key: str, given: object) -> str:
    """What a value was meant to be, where a key takes some names alone."""
    if key.startswith("format."):
        return likely_format(given)
    return meant(given, choices_of(key))


def choices_of(key: str) -> list[str]:
    """Return the names that a key takes; none where it takes anything else."""
    kind, _, names = accepted(key).partition("one of ") if key in FIELDS else ("", "", "")
    words = [] if kind else names.split(", ")
    return [word for word in words if re.fullmatch(r"[a-z][\w-]*", word)]


def _without(document: dict[str, Any], wrong: set[tuple[Any, ...]]) -> dict[str, Any]:
    """The document without its wrong keys and tables, which then have their defaults."""
    kept: dict[str, Any] = {}
    for key, value in document.items():
        if (key,) in wrong:
            continue
        if _is_table(value):
            value = {inner: v for inner, v in value.items() if (key, inner) not in wrong}
        kept[key] = value
    return kept


def _written(location: Sequence[Any]) -> str:
    """A key as people write it; parts that are no bare keys are quoted, so it stays on a line."""
    return ".".join(
        str(part) if re.fullmatch(r"[A-Za-z0-9_-]+", str(part)) else json.dumps(str(part))
        for part in location
    )


def written(value: Any) -> str:
    """Return a value as TOML writes it, where that is possible."""
    try:
        return json.dumps(value, default=str) if not isinstance(value, float) else str(value)
    except ValueError:  # Python does not write integers of more than 4300 digits
        return "a huge integer"


def value_shown(value: Any) -> str:
    """Return a value as a message shows it: as it is written, and not too long."""
    return shown(written(value))


def _last(key: str) -> str:
    return key.rpartition(".")[2]
