"""The C driver of a machine, and a host that uses it."""

from pathlib import Path
from textwrap import fill

from diastole.product.facts import LICENCE
from diastole.product.host_view import HostView
from diastole_sim.spec.command_errors import ERROR_MEANINGS
from diastole_sim.spec.command_table import OPERAND_CLASSES, Field, Opcode, fields_of

TEXTS = Path(__file__).parent / "texts"


def c_driver(view: HostView) -> str:
    """Inline functions (C11, and C++) for one machine, whose names begin with the machine's."""
    text = _text("driver.h")
    commands = "".join(_encoder(view, opcode) for opcode in view.opcodes)
    errors = "\n".join(
        f'    case MACHINE_ERROR_{code.name}: return "{ERROR_MEANINGS[code]}";'
        for code in view.published.errors
    )
    return named(view, text.replace("@commands@\n", commands).replace("@errors@", errors))


def c_host(view: HostView) -> str:
    """A program that converts, multiplies and checks by the driver."""
    return named(view, _text("host.c"))


def c_board(view: HostView) -> str:
    """What that program runs on without hardware: C++ over the machine in Verilator."""
    memory = _text("memory.cpp")
    text = _text("board.cpp").replace(
        "@memories@\n", "".join(memory.replace("PORT", bus) for bus in view.buses)
    )
    for call in ("sample", "drive"):
        lines = [f"    {bus}_memory.{call}();" for bus in view.buses]
        text = text.replace(f"@{call}@", "\n".join(lines))
    return named(view, text)


def host_makefile(view: HostView) -> str:
    """What builds both."""
    heading = f"# SPDX-License-Identifier: {LICENCE}\n# {view.origin}; do not edit.\n"
    return heading + _text("host.mk").replace("MACHINE", view.name)


def _text(name: str) -> str:
    return (TEXTS / name).read_text(encoding="utf-8")


def named(view: HostView, text: str) -> str:
    """A text in C with the names of a machine, behind the lines that say what it is."""
    text = text.replace("machine_", f"{view.name}_").replace("MACHINE_", f"{view.prefix}_")
    text = text.replace('"machine.h"', f'"{view.name}.h"')
    return f"/* SPDX-License-Identifier: {LICENCE} */\n/* {view.origin}; do not edit. */\n{text}"


def _encoder(view: HostView, opcode: Opcode) -> str:
    """The arguments of an operation as a structure, and what makes the command of them."""
    name, fields = opcode.name.lower(), view.arguments(opcode)
    lines = [f"\ntypedef struct machine_{name}_args {{"]
    for field in fields:
        lines.append(_comment(field))
        lines.append(f"    uint{64 if field.bits > 32 else 32}_t {field.name};")
    lines += [f"}} machine_{name}_args;", ""]
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
    """The classes of a product's operands, where they are not 0."""
    if opcode == Opcode.CONVERT:
        return []
    places = ((field, OPERAND_CLASSES.get(field.name, 0)) for field in fields_of(opcode))
    return [(field, place) for field, place in places if place]


def _put(field: Field, value: str) -> str:
    upper = f"MACHINE_{field.name.upper()}"
    return f"wide |= machine_put(command, {upper}_WORD, {upper}_LOW, {upper}_BITS, {value});"


def _comment(field: Field) -> str:
    text = f"/* {field.meaning} */"
    return fill(text, 100, initial_indent="    ", subsequent_indent="       ")
