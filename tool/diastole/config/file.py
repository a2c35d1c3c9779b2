"""Read and write the configuration file, and report all mistakes of the file at once."""

import difflib
import inspect
import json
import re
import textwrap
import tomllib
from collections.abc import Collection, Iterable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, TypeGuard, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from diastole.config.contradictions import contradicting_keys
from diastole.config.keys import MAX_NAME, Accepted, Config
from diastole.config.numbers import NUMBERS, numbers_of
from diastole.errors import BadInput
from diastole.files.content import read_toml
from diastole.nearest import suggestion
from diastole_sim.spec.formats import FAST, FORMAT_NAMES, parse_format
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.require import excerpt

_TABLES: dict[str, type[BaseModel]] = {
    name: field.annotation
    for name, field in Config.model_fields.items()
    if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
}
SECTIONS = tuple(_TABLES)
# Every key in written form ("array.rows"), with its description.
FIELDS: dict[str, FieldInfo] = {
    f"{name}.{key}": inner
    for name, table in _TABLES.items()
    for key, inner in table.model_fields.items()
} | {name: field for name, field in Config.model_fields.items() if name not in SECTIONS}

WIDTH = 100
"""Columns of the file from `init`."""

FAST_FRACTION = 14
"""Default F of a machine with planes, without the two bits for every bit of the widest
magnitudes."""
SAME_TABLE = 0.2
"""Likeness added for a key of the same table."""


def load_config(path: Path | str, overrides: Sequence[str] = ()) -> Config:
    """Return the configuration in a TOML file, changed by ``overrides`` ("array.rows=4").

    Raises :class:`BadInput` with one line for every mistake of the file and the overrides together.
    """
    document = read_toml(Path(path), "configuration")
    return from_document(document, overrides, source=str(path))


def from_document(
    document: dict[str, Any], overrides: Sequence[str] = (), *, source: str = "configuration"
) -> Config:
    """Return the configuration in a parsed document, as :func:`load_config` does. ``source`` begins
    every message about the document."""
    document = {key: dict(v) if _is_table(v) else v for key, v in document.items()}
    problems: list[str] = []
    overridden: set[str] = set()
    problems += _repeated(overrides)
    # Overrides of `numbers` go first: the remaining overrides then change the new numbers, in any
    # order of the arguments.
    for text in sorted(overrides, key=lambda text: not _is_numbers_file(text)):
        try:
            overridden.add(_override(document, text))
        except BadInput as error:
            problems += error.problems
        if _is_numbers_file(text) and (numbers := numbers_of(document)) is not None:
            document = numbers.instead(document)
            overridden.update(
                f"{table}.{key}" for table in numbers.keys for key in numbers.keys[table]
            )
    wrong: set[tuple[int | str, ...]] = set()
    try:
        config = Config.model_validate(document)
    except ValidationError as errors:
        for error in errors.errors(include_url=False, include_context=False):
            wrong.add(error["loc"][:2])
            by_set = _is_overridden(_written(error["loc"][:2]), overridden)
            text = _say_of_option(error) if by_set else _say(error)
            problems.append(f"{'--set' if by_set else source}: {text}")
        document = _without(document, wrong)
        config = Config.model_validate(document)
    config = _with_fraction(config, document)
    for keys, fault in contradicting_keys(config, {_written(location) for location in wrong}):
        named = {*keys, *re.findall(r"[a-z]+\.[a-z_]+", fault)}
        by_set = any(_is_overridden(key, overridden) for key in named)
        problems.append(f"{'--set' if by_set else source}: {fault}")
    if problems:
        raise BadInput(*problems)
    return config


def _repeated(overrides: Sequence[str]) -> list[str]:
    """Return the mistakes of overrides that set a key twice, or a table and a key of the table."""
    values: dict[tuple[str, ...], str] = {}
    problems: list[str] = []
    for text in overrides:
        key, _, value = (part.strip() for part in text.partition("="))
        parts = tuple(part.strip() for part in key.split("."))
        for other, before in values.items():
            if other == parts:
                problems.append(
                    f"--set: {key} is given twice, as {excerpt(before)} and {excerpt(value)}"
                )
            elif parts[: len(other)] == other or other[: len(parts)] == parts:
                problems.append(f"--set: {'.'.join(other)} and {key} give the same key twice")
        values[parts] = value
    return problems


def _is_overridden(key: str, overridden: Collection[str]) -> bool:
    """Return whether --set gives a key, or the table of the key."""
    return key in overridden or key.partition(".")[0] in overridden


def _is_numbers_file(override: str) -> bool:
    return override.partition("=")[0].strip() == "numbers"


def _with_fraction(config: Config, document: dict[str, Any]) -> Config:
    """Return the configuration with enough fraction bits for the planes of ``fast``. Results that
    are exact in the widest format of one plane are exact with planes. A number of bits in the file
    stays."""
    table = document.get("accumulator", {})
    formats = (getattr(config.format, name) for name in CLASS_NAMES)
    if FAST.name not in formats or "fraction" in table:
        return config
    fraction = FAST_FRACTION + 2 * config.fast.widths[-1]
    accumulator = config.accumulator.model_copy(update={"fraction": fraction})
    return config.model_copy(update={"accumulator": accumulator})


def accepted(key: str) -> str:
    """Return the range of a key in words: "an integer in 1..64"."""
    if key in SECTIONS:
        return f"a table, [{key}]"
    if key == "name":
        return (
            f"[a-z][a-z0-9_]* of at most {MAX_NAME} characters, and no Verilog or SystemVerilog "
            "keyword"
        )
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
    """Return the known key most like an unknown key, as a whole or in the last part. Keys of the
    same table are preferred."""
    table = key.rpartition(".")[0]

    def likeness(candidate: str) -> float:
        whole = difflib.SequenceMatcher(a=key, b=candidate).ratio()
        last = difflib.SequenceMatcher(a=_last(key), b=_last(candidate)).ratio()
        same_table = bool(table) and candidate.rpartition(".")[0] == table
        return max(whole, 0.9 * last) + whole / 100 + SAME_TABLE * same_table

    return max([*FIELDS, *SECTIONS], key=likeness)


def likely_format(name: object) -> str:
    """Return a guess for an unknown format, as the end of a sentence: formats that begin with the
    text, or the format most like the text. Empty if no format is likely."""
    if not isinstance(name, str):
        return ""
    text = name.strip().lower()
    if text != name and _is_format(text):
        return f"; did you mean {text}?"
    return suggestion(text, FORMAT_NAMES)


def _is_format(text: str) -> bool:
    try:
        parse_format(text)
    except ValueError:
        return False
    return True


def to_toml(config: Config) -> str:
    """Return a commented file for ``config``: every key with meaning and range. The file reads back
    as an equal configuration.

    An absent key stays absent: a comment holds the key with its default value.
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
            first_keys: dict[str, str] = {}
            for inner in table.model_fields:
                lines += _entry(f"{key}.{inner}", values[key][inner], config, first_keys)
        else:
            lines += ["", *_entry(key, values[key], config, {})]
    return "\n".join(lines) + "\n"


def _entry(key: str, value: Any, config: Config, first_keys: dict[str, str]) -> Iterable[str]:
    """Yield the lines of a key. ``first_keys`` maps a text of accepted values to the key of the
    table that has the text already."""
    yield f"# {FIELDS[key].description}."
    words = f"Accepted: {accepted(key)}."
    if len(words) > WIDTH - 2 and words in first_keys:
        words = f"Accepted: as for {first_keys[words]}."
    first_keys.setdefault(words, _last(key))
    yield from _comment(words)
    if value is not None:
        yield f"{_last(key)} = {value_text(value)}"
        return
    if key == "numbers":
        yield "# Left out: the keys below set formats, roundings and sums."
        yield f"# {key} = {value_text(next(iter(NUMBERS)))}"
        return
    default = absent_value(key, config.numerics)
    if default is None:
        yield "# Left out: the format has its own and takes no other."
    elif key == "vector.special":
        yield f"# Left out: here {value_text(default)}."
        yield f"# {_last(key)} = {value_text(default)}"
    else:
        yield f"# Left out: the default of the format, here {value_text(default)}."
        yield f"# {_last(key)} = {value_text(default)}"


def absent_value(key: str, numerics: Numerics) -> str | int | None:
    """Return the value of an absent key as the other keys decide, in the form of the file.

    None where the format takes no value. ``key`` is a key with the default None.
    """
    if key == "cell.window":
        pairs = list(combinations(CLASS_NAMES, 2))
        windowed = any(numerics.is_windowed(a, b) for a, b in pairs)
        return max(numerics.product_bits(a, b) for a, b in pairs) if windowed else 0
    if key == "vector.special":
        return max(1, numerics.block // 4)
    section, _, name = key.partition(".")
    storage = numerics.tensor_class(name)
    if section == "block":
        return str(storage.grouping)
    return storage.scale if storage.format.scale_rules else None


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
    """Set a key from "KEY=VALUE" in the document, and return the key."""
    key, equals, value = text.partition("=")
    parts = [part.strip() for part in key.split(".")]
    if not equals or not all(parts):
        raise BadInput(f"--set must be KEY=VALUE, not {value_text(text)}")
    table = document
    for part in parts[:-1]:
        inner = table.setdefault(part, {})
        if not _is_table(inner):
            if part in SECTIONS:  # a mistake of the file, reported as a mistake of the file
                return ".".join(parts)
            name = ".".join(parts)
            raise BadInput(f"--set: {name} is an unknown key; the nearest is {nearest(name)}")
        table = inner
    table[parts[-1]] = toml_value(value.strip())
    return ".".join(parts)


def _is_table(value: object) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def toml_value(text: str) -> Any:
    """Return the value of a text in TOML, or the text itself if the text is no TOML value."""
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _say(error: Any) -> str:
    """Return a line about an error of pydantic: the accepted values, whatever the type of the
    error."""
    key = _written(error["loc"])
    if error["type"] == "extra_forbidden":
        return f"{key} is an unknown key; the nearest is {nearest(key)}"
    hint = _hint(key, error["input"])
    return f"{key} must be {accepted(key)}, not {value_text(error['input'])}{hint}"


def _say_of_option(error: Any) -> str:
    """Return a line about an error of pydantic in an option: KEY is seldom meant to be a table."""
    table = error["loc"][0]
    if len(error["loc"]) > 1 or table not in SECTIONS:
        return _say(error)
    keys = [f"{table}.{key}" for key in _TABLES[table].model_fields]
    if tuple(_TABLES[table].model_fields) == CLASS_NAMES:
        return f"{table} is a table: set {', '.join(keys[:-1])} and {keys[-1]}"
    return f"{table} is a table: set keys of the table, such as {keys[0]}"


def value_mistake(key: str, text: str) -> str | None:
    """Return the mistake of "KEY=TEXT", whatever values all other keys have; None for a possible
    value. ``key`` may be a table with a key for every class: the value is for every class."""
    first = f"{key}.{CLASS_NAMES[0]}"
    single = first if first in FIELDS else key
    document: dict[str, Any] = {}
    try:
        _override(document, f"{single}={text}")
        Config.model_validate(document)
    except BadInput as error:
        return error.problems[0]
    except ValidationError as errors:
        (error, *_) = errors.errors(include_url=False, include_context=False)
        return key + _say_of_option(error).removeprefix(single)
    return None


def _hint(key: str, value: object) -> str:
    """Return a guess for a wrong value of a key that takes only names."""
    if key.startswith("format."):
        return likely_format(value)
    return suggestion(value, choices_of(key))


def choices_of(key: str) -> list[str]:
    """Return the names that a key takes. Empty if a key takes other values."""
    kind, _, names = accepted(key).partition("one of ") if key in FIELDS else ("", "", "")
    words = [] if kind else names.split(", ")
    return [word for word in words if re.fullmatch(r"[a-z][\w-]*", word)]


def _without(document: dict[str, Any], wrong: set[tuple[Any, ...]]) -> dict[str, Any]:
    """Return the document without wrong keys and tables, for the defaults of the keys and
    tables."""
    remaining: dict[str, Any] = {}
    for key, value in document.items():
        if (key,) in wrong:
            continue
        if _is_table(value):
            value = {inner: v for inner, v in value.items() if (key, inner) not in wrong}
        remaining[key] = value
    return remaining


def _written(location: Sequence[Any]) -> str:
    """Return a key as people write the key. Parts that are no bare keys are quoted: a key stays on
    a line."""
    return ".".join(
        str(part) if re.fullmatch(r"[A-Za-z0-9_-]+", str(part)) else json.dumps(str(part))
        for part in location
    )


def written(value: Any) -> str:
    """Return a value as TOML writes the value, where possible."""
    try:
        if isinstance(value, float):
            return str(value)
        # TOML has no bare DEL in a text.
        return json.dumps(value, default=str, ensure_ascii=False).replace("\x7f", "\\u007f")
    except ValueError:  # Python does not write integers of more than 4300 digits
        return "a huge integer"


def value_text(value: Any) -> str:
    """Return a value for a message: as written, and shortened if too long."""
    return excerpt(written(value))


def _last(key: str) -> str:
    return key.rpartition(".")[2]
