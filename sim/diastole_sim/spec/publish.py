"""The tables of commands and registers for those who program in C."""

from diastole_sim.spec.command_errors import (
    COMMAND_VERSION,
    ERROR_MEANINGS,
    VECTOR_ERRORS,
    ErrorCode,
)
from diastole_sim.spec.command_table import (
    COMMAND_BYTES,
    machine_fields,
    opcodes_of,
)
from diastole_sim.spec.registers import MAGIC, registers_of, version_of


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


def _define(name: str, value: object, meaning: str = "") -> str:
    comment = f" /* {meaning} */" if meaning else ""
    return f"#define DIASTOLE_{name.upper()} {value}{comment}"
