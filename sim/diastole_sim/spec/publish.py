"""Write the tables of commands and registers as a C header."""

from dataclasses import dataclass

from diastole_sim.spec.command_errors import (
    COMMAND_VERSION,
    ERROR_MEANINGS,
    VECTOR_ERRORS,
    ErrorCode,
)
from diastole_sim.spec.command_table import (
    COMMAND_BYTES,
    Field,
    Opcode,
)
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.publish_programs import (
    instruction_names,
    place_names,
    stream_names,
    table_names,
)
from diastole_sim.spec.registers import MAGIC, VERSION, Register

FIELDS_ABOUT = (
    "/* Fields: the word that has the lowest bit, that bit in the word, and the width. A field",
    "   that does not end in its word says where it goes on. Shift and mask numbers of 64 bits:",
    "   some widths are 32 and more. The encoders of the driver's header do all of this. */",
)


@dataclass(frozen=True, kw_only=True)
class Constant:
    """Constant of a machine, needed by a program beside commands and registers."""

    name: str
    value: int | str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Published:
    """Content of the header of a machine. ``prefix``: prefix of all names. ``origin``: line about
    the source of the header. ``identification``: value of the register ``config_hash``."""

    prefix: str
    origin: str
    config_sha256: str
    identification: int
    limits: Limits
    opcodes: tuple[Opcode, ...]
    fields: tuple[Field, ...]
    registers: tuple[Register, ...]
    constants: tuple[Constant, ...]

    @property
    def errors(self) -> tuple[ErrorCode, ...]:
        """Errors of the machine."""
        vector = self.limits.has_vector
        return tuple(code for code in ErrorCode if vector or code not in VECTOR_ERRORS)

    def reset_value(self, register: Register) -> int:
        """Return the value of a register after a reset. Constants keep their values."""
        constants = {"magic": MAGIC, "version": VERSION, "config_hash": self.identification}
        return constants.get(register.name, 0)


def c_header(machine: Published) -> str:
    """Return a C header (C99) with the constants, opcodes, fields, error codes, registers and bits
    of one machine, without functions. Names begin with the machine's prefix, so a program may
    include two headers."""

    def define(name: str, value: object, meaning: str = "") -> str:
        comment = f" /* {meaning} */" if meaning else ""
        return f"#define {machine.prefix}_{name.upper()} {value}{comment}"

    guard = f"{machine.prefix}_H"
    lines = [
        "/* SPDX-License-Identifier: Apache-2.0 */",
        f"/* {machine.origin}; do not edit. */",
        *(f"#ifndef {guard}", f"#define {guard}", "", "/* The machine. */"),
        define("CONFIG_SHA256", f'"{machine.config_sha256}"'),
        *(define(each.name, each.value, each.meaning) for each in machine.constants),
        *("", "/* Commands: arrays of little-endian 32-bit words. */"),
        define("COMMAND_BYTES", COMMAND_BYTES),
        define("COMMAND_VERSION", COMMAND_VERSION),
        *(define(f"OP_{opcode.name}", int(opcode)) for opcode in machine.opcodes),
        *("", *FIELDS_ABOUT),
    ]
    for field in machine.fields:
        names = place_names(field.name, field.low, field.bits, field.meaning)
        lines += [define(*each) for each in names]
    if machine.limits.has_vector:
        for title, names in (
            ("Instructions of the vector unit: fields, and what they hold.", instruction_names()),
            ("Streams of its chains, likewise.", stream_names(machine.limits)),
            ("Its tables.", table_names(machine.limits)),
        ):
            lines += ["", f"/* {title} */", *(define(*each) for each in names)]
    lines += ["", "/* Error codes. */"]
    lines += [
        define(f"ERROR_{code.name}", int(code), ERROR_MEANINGS[code]) for code in machine.errors
    ]
    lines += [
        "",
        "/* Registers: byte offsets, and what they read after a reset; those of 40 and 64",
    ]
    lines += [
        "   bits go on in the next word. Access: constant and status are read only; a setting"
    ]
    lines += [
        "   is locked while the machine is busy, and so is state, which the machine changes. */"
    ]
    for register in machine.registers:
        name, offset = register.name, f"0x{register.offset:02X}"
        lines.append(define(f"REG_{name}", offset, f"{register.kind}: {register.meaning}"))
        lines.append(define(f"RESET_{name}", f"0x{machine.reset_value(register):X}u"))
        for bit in register.layout:
            bit_name = f"{register.name}_{bit.name}"
            lines.append(define(bit_name, f"(1u << {bit.low})", f"{bit.access}: {bit.meaning}"))
    return "\n".join([*lines, "", "#endif", ""])
