"""The tables of commands and registers for those who do not read Python: C, and Markdown."""

from collections.abc import Iterable

from diastole_sim.spec.command_errors import (
    COMMAND_VERSION,
    ERROR_MEANINGS,
    PRECEDENCE,
    VECTOR_ERRORS,
    ErrorCode,
)
from diastole_sim.spec.command_table import (
    COMMAND_BYTES,
    FIELDS,
    VECTOR_OPCODES,
    Field,
    Opcode,
    machine_fields,
    opcodes_of,
)
from diastole_sim.spec.registers import MAGIC, REGISTERS, VECTOR, registers_of, version_of


def c_header(*, vector: bool) -> str:
    """A C header (C99) with every opcode, field, error code, register and bit; no functions.
    ``vector``: those of machines with a vector unit too."""
    errors = [code for code in ErrorCode if vector or code not in VECTOR_ERRORS]
    lines = [
        "/* Commands and registers of Diastole; generated, do not edit. */",
        "#ifndef DIASTOLE_H",
        "#define DIASTOLE_H",
        "",
        "/* Commands: arrays of little-endian 32-bit words. */",
        _define("COMMAND_BYTES", COMMAND_BYTES),
        _define("COMMAND_VERSION", COMMAND_VERSION),
        *(_define(f"OP_{opcode.name}", int(opcode)) for opcode in opcodes_of(vector=vector)),
        "",
        "/* Fields: word, lowest bit in it, width; addresses go on in the next word. */",
    ]
    for field in machine_fields(vector=vector):
        lines += [
            _define(f"{field.name}_WORD", field.low // 32, field.meaning),
            _define(f"{field.name}_LOW", field.low % 32),
            _define(f"{field.name}_BITS", field.bits),
        ]
    lines += ["", "/* Error codes. */"]
    lines += [_define(f"ERROR_{code.name}", int(code), ERROR_MEANINGS[code]) for code in errors]
    lines += [
        "",
        "/* Registers: byte offsets; those of 40 and 64 bits go on in the next word. */",
        _define("MAGIC", f"0x{MAGIC:08X}u"),
        _define("VERSION", f"0x{version_of(planes=True, vector=vector):08X}u"),
    ]
    for register in registers_of(planes=True, vector=vector):
        offset = f"0x{register.offset:02X}"
        lines.append(_define(f"REG_{register.name}", offset, register.meaning))
        for bit in register.layout:
            name = f"{register.name}_{bit.name}"
            lines.append(_define(name, f"(1u << {bit.low})", bit.meaning))
    return "\n".join([*lines, "", "#endif", ""])


def reference() -> str:
    """The same as Markdown tables, for the documentation."""
    lines = [
        "## Commands",
        "",
        f"A command is {COMMAND_BYTES} bytes of little-endian 32-bit words, on a beat. What an",
        "operation does not use must be 0. Machines without a vector unit have the operations",
        f"below {VECTOR_OPCODES[0]}, and no slots; those that decide no widths have neither",
        "`by_slot` and `decides` nor slots of operands. Of a chain, `m` and `n` are the rows and",
        "columns of its tensor; `address_x` of a load and of a store is where it reads and writes.",
        "",
        *_table("opcode", "operation", rows=((f"{op}", op.name.lower()) for op in Opcode)),
        "",
        *_table("word", "bits", "field", "meaning", "used by", rows=map(_field_row, FIELDS)),
        "",
        "## Errors",
        "",
        "Of several faults of one command the first in this order is reported: "
        + ", ".join(str(int(code)) for code in PRECEDENCE)
        + ".",
        "",
        *_table(
            "code",
            "name",
            "meaning",
            rows=((f"{int(code)}", code.name, ERROR_MEANINGS[code]) for code in ErrorCode),
        ),
        "",
        "## Registers",
        "",
        f"Those from {VECTOR[0].upper()} on are in machines with a vector unit. Settings are",
        "locked while the machine is busy, and so is state, which the machine changes.",
        "",
    ]
    rows: list[tuple[str, ...]] = []
    for register in REGISTERS:
        offset, name = f"0x{register.offset:02X}", register.name.upper()
        rows.append((offset, str(register.bits), name, register.kind, register.meaning))
        for bit in register.layout:
            rows.append(("", f"[{bit.low}]", bit.name, bit.access, bit.meaning))
    return "\n".join(
        [*lines, *_table("offset", "bits", "name", "access", "meaning", rows=rows), ""]
    )


def _define(name: str, value: object, meaning: str = "") -> str:
    comment = f" /* {meaning} */" if meaning else ""
    return f"#define DIASTOLE_{name.upper()} {value}{comment}"


def _field_row(field: Field) -> tuple[str, ...]:
    word, low = divmod(field.low, 32)
    words = f"{word}" if field.bits <= 32 else f"{word}, {word + 1}"
    uses = "all" if field.uses == tuple(Opcode) else ", ".join(op.name.lower() for op in field.uses)
    return words, f"{low + field.bits - 1}:{low}", field.name, field.meaning, uses


def _table(*heads: str, rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [heads, ("---",) * len(heads), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]
