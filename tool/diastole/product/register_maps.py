"""Document the registers and commands of a machine, for readers and for tools."""

from diastole.product.facts import Files, ProductFacts
from diastole.product.ipxact import ipxact
from diastole_hw.plan_limits import vector_limits
from diastole_sim.spec.command_table import COMMAND_BYTES
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.program_reference import program_lines
from diastole_sim.spec.reference import command_tables, error_table, register_table
from diastole_sim.spec.systemrdl import systemrdl

_REGISTERS = """\
## Registers

Registers are words of 32 bits on AXI4-Lite. A register of more bits has the upper part at the
offset of the register + 4. A driver reads a counter as upper, lower, upper part, and repeats the
reads until both upper parts are equal. An access to an offset without a register is answered with
DECERR.

- `constant` and `status`: read only. A write is answered with SLVERR.
- `setting`: read and written. A write while the machine is busy is answered with SLVERR and changes
  nothing.
- `state`: like `setting`, but the machine also changes the register.
- `special`: every bit has an access. `r` is read only. `rw` is read and written. `w` acts when 1 is
  written, and reads 0. `w1c` is read, and a write of 1 clears the bit.
"""
_COMMANDS = """\
## Commands

A command has {bytes} bytes: {words} little-endian words of 32 bits. A command begins on a beat of
{beat} bytes, and commands lie one behind the other. Fields that the operation does not use must be
0, and bits without a field must be 0. A field of more than 32 bits continues at bit 0 of the next
word.
"""


def register_maps(facts: ProductFacts) -> Files:
    """Return SystemRDL, IP-XACT, and Markdown with the encoding of commands. With a vector unit,
    add the encoding of programs."""
    name = facts.name
    rdl = facts.heading("//") + systemrdl(name, facts.machines)
    text = "\n".join([facts.heading("<!--", " -->"), f"# Registers and commands of {name}", ""])
    lines = [*registers(facts), "", *commands(facts), "", *errors(facts), ""]
    maps: Files = {
        f"regs/{name}.rdl": ("registers", rdl),
        f"regs/{name}.md": ("registers", text + "\n" + "\n".join(lines)),
        "regs/component.xml": ("registers", ipxact(facts)),
    }
    if facts.vector:
        maps[programs_path(facts)] = ("registers", programs(facts))
    return maps


def programs_path(facts: ProductFacts) -> str:
    """Return the path of the document on the vector unit's tables. Only machines with a vector unit
    have this document."""
    return f"regs/{facts.name}_programs.md"


def programs(facts: ProductFacts) -> str:
    """Return the encoding of programs and streams, as a document."""
    plan = facts.config.plan
    limits = Limits.of(
        plan.numerics, data_width=plan.data_width, nests=plan.nests, vector=vector_limits(plan)
    )
    head = [facts.heading("<!--", " -->"), f"# Programs of the vector unit of {facts.name}", ""]
    return "\n".join([*head, *program_lines(limits), ""])


def registers(facts: ProductFacts) -> list[str]:
    """Return the register map, as a section."""
    return [*_REGISTERS.splitlines(), "", *register_table(facts.machines)]


def commands(facts: ProductFacts) -> list[str]:
    """Return the description of commands, as a section."""
    words, beat = COMMAND_BYTES // 4, facts.config.bus.data_width // 8
    text = _COMMANDS.format(bytes=COMMAND_BYTES, words=words, beat=beat)
    return [*text.splitlines(), "", *command_tables(facts.machines)]


def errors(facts: ProductFacts) -> list[str]:
    """Return the error codes, as a section."""
    return ["## Errors", "", *error_table(facts.machines)]
