"""The tables of commands and registers as Markdown, for the documentation and for one machine."""

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
class Described:
    """Which machines the tables are of; all where nothing is said.

    ``planes``: with the format ``fast``; ``vector``: with a vector unit; ``choices``: that decide
    widths. ``config_hash``: of one machine, what that register reads.
    """

    planes: bool = True
    vector: bool = True
    choices: bool = True
    config_hash: int | None = None

    @property
    def opcodes(self) -> tuple[Opcode, ...]:
        """The operations that they have."""
        return opcodes_of(vector=self.vector)

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of their commands."""
        fields = machine_fields(vector=self.vector, choices=self.choices)
        return tuple(each for each in fields if self.planes or not each.name.startswith("width"))

    @property
    def errors(self) -> tuple[ErrorCode, ...]:
        """Why they stop or refuse a command."""
        return tuple(code for code in ErrorCode if self.vector or code not in VECTOR_ERRORS)

    @property
    def registers(self) -> tuple[Register, ...]:
        """What they have of the register map."""
        return registers_of(planes=self.planes, vector=self.vector)

    def reset_value(self, register: Register) -> int:
        """What a register reads after a reset."""
        constants = {
            "magic": MAGIC,
            "version": VERSION,
            "config_hash": self.config_hash or 0,
        }
        return constants.get(register.name, 0)


def reference() -> str:
    """Everything, of whatever machine."""
    described = Described()
    lines = [
        *("## Commands", ""),
        f"A command is {COMMAND_BYTES} bytes of little-endian 32-bit words, on a beat. What an",
        "operation does not use must be 0. Machines without a vector unit have the operations",
        f"below {VECTOR_OPCODES[0]}, and no slots; those that decide no widths have neither",
        "`by_slot` and `decides` nor slots of operands. Of a chain, `m` and `n` are the rows and",
        "columns of its tensor; `address_x` of a load and of a store is where it reads and writes.",
        *("", *command_tables(described), "", "## Errors", "", *error_table(described)),
        *("", "## Registers", ""),
        f"Those from {VECTOR[0].upper()} to {VECTOR[-1].upper()} are in machines with a vector",
        "unit. Settings are locked while the machine is busy, and so is state, which the machine",
        "changes.",
        *("", *register_table(described), ""),
    ]
    return "\n".join(lines)


def command_tables(described: Described) -> list[str]:
    """The operations, and the fields of commands."""
    operations = ((f"{op}", op.name.lower()) for op in described.opcodes)
    fields = (_field_row(field, described.opcodes) for field in described.fields)
    return [
        *table("opcode", "operation", rows=operations),
        "",
        *table("word", "bits", "field", "meaning", "used by", rows=fields),
    ]


def error_table(described: Described) -> list[str]:
    """The codes of errors, and which of several is reported."""
    order = [str(int(code)) for code in PRECEDENCE if code in described.errors]
    rows = ((f"{int(code)}", code.name, ERROR_MEANINGS[code]) for code in described.errors)
    return [
        "Of several faults of one command the first in this order is reported: "
        + ", ".join(order)
        + ".",
        "",
        *table("code", "name", "meaning", rows=rows),
    ]


def register_table(described: Described) -> list[str]:
    """The registers and their bits; of one machine with what they read after a reset."""
    rows: list[tuple[str, ...]] = []
    one = described.config_hash is not None
    for register in described.registers:
        offset, name = f"0x{register.offset:02X}", register.name.upper()
        reset = (f"0x{described.reset_value(register):X}",) if one else ()
        rows.append((offset, str(register.bits), name, register.kind, *reset, register.meaning))
        for bit in register.layout:
            rows.append(("", f"[{bit.low}]", bit.name, bit.access, *("0",) * one, bit.meaning))
    heads = ("offset", "bits", "name", "access", *("reset",) * one, "meaning")
    return table(*heads, rows=rows)


def locked(register: Register) -> bool:
    """Whether a host's write is refused while the machine is busy."""
    return register.kind in (SETTING, STATE)


def table(*heads: str, rows: Iterable[tuple[str, ...]]) -> list[str]:
    """The lines of a table of Markdown; bars in its cells are no borders."""
    lines = [heads, ("---",) * len(heads), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for cells in lines]


def _field_row(field: Field, opcodes: tuple[Opcode, ...]) -> tuple[str, ...]:
    word, low = divmod(field.low, 32)
    words = f"{word}" if field.bits <= 32 else f"{word}, {word + 1}"
    uses = [op.name.lower() for op in field.uses if op in opcodes]
    users = "all" if len(uses) == len(opcodes) else ", ".join(uses)
    return words, f"{low + field.bits - 1}:{low}", field.name, field.meaning, users
