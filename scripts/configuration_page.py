"""The reference page of the configuration: keys, ranges and defaults."""

from typing import Any

from diastole.config.file import FIELDS, SECTIONS, absent_value, accepted, value_text
from diastole.config.keys import Config
from diastole_sim.spec.reference import table

_DEFAULTS = Config()
_FORMAT = _DEFAULTS.format.x


def configuration() -> str:
    """Return a page with a table of every section of the configuration: keys, ranges, defaults."""
    lines = ["# Configuration", ""]
    lines += [
        "`diastole init` writes a file with all keys, their meanings, and the values of the preset",
        "`nano`, or of another `--preset`. This page has the defaults of keys that a file leaves",
        "out.",
        "",
    ]
    lines += [
        f"Some defaults follow from the format. The tables have the defaults of `{_FORMAT}`; the",
        "[table of formats](../formats.md#formats) has the defaults of every format.",
        "",
    ]
    for section in ["", *SECTIONS]:
        keys = [key for key in FIELDS if key.rpartition(".")[0] == section and key not in SECTIONS]
        if section:
            lines += ["", f"## {section}", ""]
        rows = [
            (
                f"`{key}`",
                _escaped(FIELDS[key].description),
                _escaped(accepted(key)),
                _default(key),
            )
            for key in keys
        ]
        lines += table("key", "meaning", "accepted", "default", rows=rows)
    return "\n".join(lines) + "\n"


def _escaped(text: object) -> str:
    return str(text).replace("<", "&lt;")


def _default(key: str) -> str:
    values: Any = _DEFAULTS.to_dict()
    for part in key.split("."):
        values = values[part]
    if values is not None:
        return f"`{value_text(values)}`"
    if key == "numbers":
        return "none"
    default = f"`{value_text(absent_value(key, _DEFAULTS.numerics))}`"
    if key == "vector.special":
        return f"a quarter of `array.block`, here {default}"
    return f"by format, {default} for `{_FORMAT}`"
