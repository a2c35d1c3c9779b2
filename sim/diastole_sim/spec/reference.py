"""Write the tables of commands and registers as Markdown, for the documentation and for one
machine."""

from collections.abc import Iterable
from dataclasses import dataclass

from diastole_sim.spec.command_errors import (
    ERROR_MEANINGS,
    PRECEDENCE,
    VECTOR_ERRORS,
    ErrorCode,
)
from diastole_sim.spec.command_table import (
    COMMAND_BYTES,
    VECTOR_OPCODES,
    Field,
    Opcode,
    machine_fields,
    opcodes_of,
)
from diastole_sim.spec.registers import (
    MAGIC,
    SETTING,
    STATE,
    VECTOR,
    VERSION,
    Register,
    registers_of,
)


@dataclass(frozen=True, kw_only=True)
class MachineSet:
    """Machines described by the tables; by default all machines.

    ``planes``: machines with the format ``fast``. ``vector``: machines with a vector unit.
    ``choices``: machines that decide widths. ``config_hash``: value of the register ``config_hash``
    of a single machine; None in tables of several machines.
    """

    planes: bool = True
    vector: bool = True
    choices: bool = True
    config_hash: int | None = None

    @property
    def opcodes(self) -> tuple[Opcode, ...]:
        """Operations of the machines."""
        return opcodes_of(vector=self.vector)

    @property
    def fields(self) -> tuple[Field, ...]:
        """Fields of the machines' commands."""
        fields = machine_fields(vector=self.vector, choices=self.choices)
        return tuple(each for each in fields if self.planes or not each.name.startswith("width"))

    @property
    def errors(self) -> tuple[ErrorCode, ...]:
        """Errors with which the machines stop or refuse a command."""
        return tuple(code for code in ErrorCode if self.vector or code not in VECTOR_ERRORS)

    @property
    def registers(self) -> tuple[Register, ...]:
        """Registers of the machines."""
        return registers_of(planes=self.planes, vector=self.vector)

    def reset_value(self, register: Register) -> int:
        """Return the value of a register after a reset."""
        constants = {
            "magic": MAGIC,
            "version": VERSION,
            "config_hash": self.config_hash or 0,
        }
        return constants.get(register.name, 0)


def reference() -> str:
    """Return the tables of all commands, errors and registers, for any machine."""
    machines = MachineSet()
    lines = [
        *("## Commands", ""),
        f"A command is {COMMAND_BYTES} bytes of little-endian 32-bit words, from a beat on. Fields",
        "that an operation does not use must be 0. A machine without a vector unit has the",
        f"operations 1 to {VECTOR_OPCODES[0] - 1} only, and no scale slots. A machine that decides",
        "no widths has none of the fields `by_slot`, `decides`, `slot_x`, `slot_w` and `slot_dy`.",
        "In a chain, `m` and `n` are the rows and columns of the tensor. A load reads memory from",
        "`address_x` on, and a store writes memory from `address_x` on.",
        *("", *command_tables(machines), "", "## Errors", "", *error_table(machines)),
        *("", "## Registers", ""),
        f"Only machines with a vector unit have the registers {VECTOR[0].upper()} to",
        f"{VECTOR[-1].upper()}. Registers of the kinds setting and state are locked while the",
        "machine is busy. The machine changes registers of the kind state.",
        *("", *register_table(machines), ""),
    ]
    return "\n".join(lines)


def command_tables(machines: MachineSet) -> list[str]:
    """Return the lines of the tables of operations and of fields of commands."""
    operations = ((f"{op}", op.name.lower()) for op in machines.opcodes)
    fields = (_field_row(field, machines.opcodes) for field in machines.fields)
    return [
        *table("opcode", "operation", rows=operations),
        "",
        *table("word", "bits", "field", "meaning", "used by", rows=fields),
    ]


def error_table(machines: MachineSet) -> list[str]:
    """Return the lines of the table of error codes and of the order in which errors are
    reported."""
    order = [str(int(code)) for code in PRECEDENCE if code in machines.errors]
    rows = ((f"{int(code)}", code.name, ERROR_MEANINGS[code]) for code in machines.errors)
    return [
        "If a command has several faults, the machine reports the first fault of this order:",
        f"{', '.join(order)}.",
        "",
        *table("code", "name", "meaning", rows=rows),
    ]


def register_table(machines: MachineSet) -> list[str]:
    """Return the lines of the table of registers and bits. The table of a single machine has a
    column of reset values."""
    rows: list[tuple[str, ...]] = []
    one = machines.config_hash is not None
    for register in machines.registers:
        offset, name = f"0x{register.offset:02X}", register.name.upper()
        reset = (f"0x{machines.reset_value(register):X}",) if one else ()
        rows.append((offset, str(register.bits), name, register.kind, *reset, register.meaning))
        for bit in register.layout:
            rows.append(("", f"[{bit.low}]", bit.name, bit.access, *("0",) * one, bit.meaning))
    heads = ("offset", "bits", "name", "access", *("reset",) * one, "meaning")
    return table(*heads, rows=rows)


def locked(register: Register) -> bool:
    """Return whether a write by the host is refused while the machine is busy."""
    return register.kind in (SETTING, STATE)


def table(*heads: str, rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return the lines of a Markdown table. Bars in cells are escaped, because a bare bar is a
    border."""
    lines = [heads, ("---",) * len(heads), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for cells in lines]


def _field_row(field: Field, opcodes: tuple[Opcode, ...]) -> tuple[str, ...]:
    word, low = divmod(field.low, 32)
    words = f"{word}" if field.bits <= 32 else f"{word}, {word + 1}"
    uses = [op.name.lower() for op in field.uses if op in opcodes]
    users = "all" if len(uses) == len(opcodes) else ", ".join(uses)
    return words, f"{low + field.bits - 1}:{low}", field.name, field.meaning, users
