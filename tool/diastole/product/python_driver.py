"""Write the Python driver of a machine: a stand-alone file."""

import json
import re
from pathlib import Path
from typing import cast

from diastole.product.c_driver import implied
from diastole.product.facts import LICENCE
from diastole.product.host_view import HostView
from diastole_sim.spec.command_errors import COMMAND_VERSION, ERROR_MEANINGS
from diastole_sim.spec.command_table import COMMAND_BYTES
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.operations import OPERAND_BY_CLASS

TEXT = Path(__file__).parent / "texts" / "driver.py.txt"
CLASS_CONSTANTS = (
    *("COPIES", "MAX_PLANES", "ELEMENT_BITS", "VECTOR", "TENSOR_SCALE", "SCALE_BIAS"),
    *("HEADER_BYTES", "EXPONENT_BYTES", "EXPONENT_RUNS", "GROUP_BYTES"),
)
"""Constants of a class that the driver contains."""


def python_driver(view: HostView) -> str:
    """Return the text of ``texts/driver.py.txt``, with the machine's values behind the
    declarations."""
    text = TEXT.read_text(encoding="utf-8")
    for name, value in _values(view).items():
        text, count = re.subn(
            rf"^{name}: .*$",
            lambda match, value=value: f"{match[0]} = {_literal(value)}",
            text,
            flags=re.MULTILINE,
        )
        assert count == 1, name
    heading = f"# SPDX-License-Identifier: {LICENCE}\n# {view.origin}; do not edit.\n"
    return heading + text


def _literal(value: object) -> str:
    """Return a value as Python source. A table has a line per entry."""
    if isinstance(value, tuple):
        items = cast(tuple[object, ...], value)
        return f"({', '.join(map(json.dumps, items))}{',' * (len(items) == 1)})"
    if not isinstance(value, dict):
        return json.dumps(value)
    table = cast(dict[object, object], value)
    lines = (
        f"    {json.dumps(key)}: {json.dumps(item) if isinstance(item, dict) else _literal(item)},"
        for key, item in table.items()
    )
    return "\n".join(["{", *lines, "}"])


def _values(view: HostView) -> dict[str, object]:
    published = view.published
    constants = {each.name: each.value for each in published.constants}
    return {
        "CONFIG_SHA256": view.config_sha256,
        "BLOCK": view.block,
        "BEAT_BYTES": view.beat_bytes,
        "COMMAND_BYTES": COMMAND_BYTES,
        "COMMAND_VERSION": COMMAND_VERSION,
        "OPCODES": {opcode.name.lower(): int(opcode) for opcode in view.opcodes},
        "FIELDS": {field.name: (field.low, field.bits) for field in view.fields},
        "ARGUMENTS": {
            opcode.name.lower(): tuple(field.name for field in view.arguments(opcode))
            for opcode in view.opcodes
        },
        "IMPLIED": {
            opcode.name.lower(): {field.name: place for field, place in implied(opcode)}
            for opcode in view.opcodes
        },
        "REGISTERS": {
            each.name: (each.offset, each.bits, published.reset_value(each))
            for each in view.registers
        },
        "BITS": {
            each.name: {bit.name: 1 << bit.low for bit in each.layout}
            for each in view.registers
            if each.layout
        },
        "ERRORS": {int(code): ERROR_MEANINGS[code] for code in published.errors},
        "CLASSES": {
            name: {
                key: constants[f"{OPERAND_BY_CLASS[name].name.upper()}_{key}"]
                for key in CLASS_CONSTANTS
            }
            for name in CLASS_NAMES
        },
    }
