"""Reference pages of the site, written from the descriptions that hardware and host share."""

from typing import Any

from diastole.backend import program_limits
from diastole.config.file import FIELDS, SECTIONS, accepted, value_text
from diastole.config.keys import Config
from diastole.config.presets import PRESETS
from diastole_sim.spec.program_reference import program_lines
from diastole_sim.spec.reference import reference, table

API = """\
# Python

Names of the package `diastole`. Each name is imported when it is first used.

```{eval-rst}
.. autoclass:: diastole.GoldenDevice
   :members:
   :inherited-members:

.. autoclass:: diastole.Device
   :members:

.. autofunction:: diastole.quantise

.. autofunction:: diastole.dequantise

.. autofunction:: diastole.load_config

.. autoexception:: diastole.RoundedWarning
```
"""


def configuration() -> str:
    """Return a page with a table of every section of the configuration: keys, ranges, defaults."""
    values = Config().to_dict()
    lines = ["# Configuration", ""]
    lines += ["`diastole init` writes a file with all keys, their meanings and their defaults.", ""]
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


def registers() -> str:
    """Return a page with all commands, error codes and registers."""
    return f"# Commands and registers\n\n{reference()}"


def programs() -> str:
    """Return a page with the tables of the vector unit."""
    lines = ["# Programs of the vector unit", "", "Lengths of tables are those of `nano`.", ""]
    return "\n".join([*lines, *program_lines(program_limits(PRESETS["nano"]))]) + "\n"


PAGES = {
    "configuration": configuration,
    "registers": registers,
    "programs": programs,
    "api": lambda: API,
}
