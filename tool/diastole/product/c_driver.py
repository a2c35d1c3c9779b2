"""Write the C driver of a machine, and a host program that uses the driver."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill

from diastole.product.facts import LICENCE
from diastole.product.host_view import HostView
from diastole_sim.spec.command_errors import ERROR_MEANINGS
from diastole_sim.spec.command_table import OPERAND_CLASSES, Field, Opcode, fields_of
from diastole_sim.spec.micro import MicroField
from diastole_sim.spec.publish_programs import instruction_fields, stream_fields
from diastole_sim.spec.stream_table import StreamField

TEXTS = Path(__file__).parent / "texts"


def c_driver(view: HostView) -> str:
    """Return inline functions (C11 and C++) for a machine, with names that begin with the
    machine's."""
    text = _text("driver.h")
    commands = "".join(_encoder(view, opcode) for opcode in view.opcodes)
    errors = "\n".join(
        f'    case MACHINE_ERROR_{code.name}: return "{ERROR_MEANINGS[code]}";'
        for code in view.published.errors
    )
    text = text.replace("@commands@\n", commands).replace("@programs@\n", _programs(view))
    return named(view, text.replace("@errors@", errors))


def c_host(view: HostView) -> str:
    """Return a program that converts, multiplies, trains and checks through the driver. A machine
    with a vector unit computes whole training steps."""
    steps = _text("train_by_chains.c" if view.limits.has_vector else "train_by_products.c")
    return named(view, _text("host.c").replace("@train@\n", steps))


def c_board(view: HostView) -> str:
    """Return the board of the host program without hardware: C++ over the machine in Verilator."""
    memory = _text("memory.cpp")
    text = _text("board.cpp").replace(
        "@memories@\n", "".join(memory.replace("PORT", bus) for bus in view.buses)
    )
    for call in ("sample", "drive"):
        lines = [f"    {bus}_memory.{call}();" for bus in view.buses]
        text = text.replace(f"@{call}@", "\n".join(lines))
    return named(view, text)


def host_makefile(view: HostView) -> str:
    """Return the Makefile that builds the host program and the board."""
    heading = f"# SPDX-License-Identifier: {LICENCE}\n# {view.origin}; do not edit.\n"
    return heading + makefile("host.mk", view.name, inside="build")


def makefile(text: str, name: str, *, inside: str) -> str:
    """Return a Makefile of a machine. ``inside``: folder of the build, if the folder of the
    Makefile is writable and free of spaces."""
    scratch = _text("scratch.mk").replace("INSIDE", inside)
    return _text(text).replace("SCRATCH\n", scratch + "\n").replace("MACHINE", name)


def _text(name: str) -> str:
    return (TEXTS / name).read_text(encoding="utf-8")


def named(view: HostView, text: str) -> str:
    """Return a C text with the names of a machine, behind a heading with licence and origin."""
    text = text.replace("machine_", f"{view.name}_").replace("MACHINE_", f"{view.prefix}_")
    text = text.replace('"machine.h"', f'"{view.name}.h"')
    return f"/* SPDX-License-Identifier: {LICENCE} */\n/* {view.origin}; do not edit. */\n{text}"


AnyField = Field | MicroField | StreamField


def _structure(name: str, fields: Sequence[AnyField]) -> list[str]:
    """Return the lines of a structure with a member for every field."""
    lines = [f"\ntypedef struct machine_{name} {{"]
    for field in fields:
        lines.append(_comment(field))
        lines.append(f"    uint{64 if field.bits > 32 else 32}_t {field.name};")
    return [*lines, f"}} machine_{name};", ""]


def _programs(view: HostView) -> str:
    """Return structures for instructions and streams, with functions that encode table entries. The
    text is empty without a vector unit."""
    if not view.limits.has_vector:
        return ""
    text = _text("programs.h")
    text = text.replace("@instruction@", _entry("instruction", instruction_fields()))
    return text.replace("@stream@", _entry("stream", stream_fields(view.limits)))


def _entry(name: str, fields: Sequence[AnyField]) -> str:
    """Return a structure and the function that encodes the structure."""
    upper = f"MACHINE_{name.upper()}"
    return "\n".join(
        [
            *_structure(name, fields),
            f"static inline int machine_encode_{name}(uint8_t *entry, const machine_{name} *a)",
            "{",
            "    int wide = 0;",
            f"    memset(entry, 0, {upper}_BYTES);",
            *(f"    {_put(field, f'a->{field.name}', 'entry', upper)}" for field in fields),
            "    return wide;",
            "}",
        ]
    )


def _encoder(view: HostView, opcode: Opcode) -> str:
    """Return an operation's arguments as a structure, and the function that makes the command."""
    name, fields = opcode.name.lower(), view.arguments(opcode)
    lines = _structure(f"{name}_args", fields)
    lines += [
        f"static inline int machine_encode_{name}(uint8_t *command, const machine_{name}_args *a)",
        "{",
        "    int wide = 0;",
        f"    machine_begin_command(command, MACHINE_OP_{opcode.name});",
    ]
    lines += [f"    {_put(field, f'a->{field.name}')}" for field in fields]
    lines += [f"    {_put(field, str(place))}" for field, place in implied(opcode)]
    return "\n".join([*lines, "    return wide;", "}", "", ""])


def implied(opcode: Opcode) -> list[tuple[Field, int]]:
    """Return the class fields of a product's operands, with values. Zeros are left out."""
    if opcode == Opcode.CONVERT:
        return []
    places = ((field, OPERAND_CLASSES.get(field.name, 0)) for field in fields_of(opcode))
    return [(field, place) for field, place in places if place]


def _put(field: AnyField, value: str, into: str = "command", prefix: str = "MACHINE") -> str:
    upper = f"{prefix}_{field.name.upper()}"
    return f"wide |= machine_put({into}, {upper}_WORD, {upper}_LOW, {upper}_BITS, {value});"


def _comment(field: AnyField) -> str:
    text = f"/* {field.meaning} */"
    return fill(text, 100, initial_indent="    ", subsequent_indent="       ")
