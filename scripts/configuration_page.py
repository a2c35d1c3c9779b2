"""The reference page of the configuration: keys, ranges and defaults."""

from typing import Any

from diastole.config.file import FIELDS, SECTIONS, accepted, value_text
from diastole.config.keys import Config
from diastole_sim.spec.reference import table


def configuration() -> str:
    """Return a page with a table of every section of the configuration: keys, ranges, defaults."""
    values = Config().to_dict()
    lines = ["# Configuration", ""]
    lines += ["`diastole init` writes a file with all keys, meanings and defaults.", ""]
    for section in ["", *SECTIONS]:
        keys = [key for key in FIELDS if key.rpartition(".")[0] == section and key not in SECTIONS]
        if section:
            lines += ["", f"## {section}", ""]
        rows = [
            (
                f"`{key}`",
                _escaped(FIELDS[key].description),
                _escaped(accepted(key)),
                _default(key, values),
            )
            for key in keys
        ]
        lines += table("key", "meaning", "accepted", "default", rows=rows)
    return "\n".join(lines) + "\n"


def _escaped(text: object) -> str:
    return str(text).replace("<", "&lt;")


def _default(key: str, values: Any) -> str:
    for part in key.split("."):
        values = values[part]
    return "" if values is None else f"`{value_text(values)}`"
