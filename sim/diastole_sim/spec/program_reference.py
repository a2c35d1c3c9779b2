"""Write the tables of the vector unit as Markdown: entries for `load`, and the meaning of the
bits."""

from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.limits import (
    Limits,
    SlotWord,
    VectorTable,
    entry_words,
    vector_tables,
)
from diastole_sim.spec.micro import (
    CONSTANTS,
    FAR_ROTATION,
    FIELDS,
    FLOOR,
    INPUTS,
    INVERSE,
    MAX_INSTRUCTIONS,
    MICRO_BITS,
    NO_OUTPUT,
    NO_REGISTER,
    OUTPUTS,
    REGISTERS,
    SCALE,
    SOURCE_MEANINGS,
    USES,
    MicroOp,
)
from diastole_sim.spec.reference import table
from diastole_sim.spec.stream_table import (
    CHOICE_FIELDS,
    DESCRIPTOR_BYTES,
    INPUT_KINDS,
    KIND_MEANINGS,
    PANEL_ORDER_MEANINGS,
    PanelOrder,
)
from diastole_sim.spec.stream_table import FIELDS as STREAM_FIELDS

RESULTS = {
    MicroOp.NOP: "nothing",
    MicroOp.MAD: "a * b + c, rounded after the product and after the sum",
    MicroOp.MUL: "a * b",
    MicroOp.ADD: "a + c",
    MicroOp.MAX: "the larger of a and c, NaN if one is NaN",
    MicroOp.MIN: "the smaller, likewise",
    MicroOp.GT: "1 if a > c, else 0",
    MicroOp.EQ: "1 if a = c, else 0",
    MicroOp.SEL: "a if b is not zero, else c",
    MicroOp.MOV: "a",
    MicroOp.EXP: "e^a; it and those below read a register, and write one",
    MicroOp.RCP: "1 / a",
    MicroOp.RSQ: "1 / sqrt(a)",
    MicroOp.LGE: "a part of a logarithm: log a = lge ln 2 + lgm lgg",
    MicroOp.LGM: "likewise",
    MicroOp.LGG: "likewise",
}
"""Result of every operation."""

_CHAINS = """\
## Chains

A *program* is up to {most} instructions. A *chain* is one program run over every block of a tensor,
{b} x {b} elements: by rows of blocks, or by columns, each a *line*. Every instruction is done on a
whole block, and sees the results of all before it. Numbers are binary32, rounded to nearest even;
those below 2^-126 are zeros. There are {registers} registers, each a block, undefined at first.
What breaks a rule is refused before the chain starts, as BAD_PROGRAM or BAD_STREAM.

## Tables

`load` fills, and `store` reads, `count` entries from `first` on; those of a table lie side by side
in memory, which begins on a beat.
"""
_INSTRUCTIONS = """\
## Instructions

{bits} bits, the lower word first. c is turned, then negated, then fresh. {d} in `d` and {o} in `o`
write nothing. Bits without a field, and operands that the operation has not, are 0. An instruction
reads one stream of the panel at most.
"""
_FAR_ROTATIONS = """\
An instruction that turns rows of register `d` by 8 or more, and writes `d`, does not both read the
panel and write a stream.
"""
_STREAMS = """\
## Streams

The {inputs} inputs of a chain are the slots from its field `streams` on, the {outputs} outputs
those behind them; a slot is {bytes} bytes, little-endian. Bits that a kind does not use are 0.
"""


def program_lines(limits: Limits) -> list[str]:
    """Return a document's lines for one machine. ValueError if the machine has no vector unit."""
    if limits.vector is None:
        raise ValueError("a machine without a vector unit has no programs")
    chains = _CHAINS.format(most=MAX_INSTRUCTIONS, b=limits.block, registers=REGISTERS)
    instructions = _INSTRUCTIONS.format(bits=MICRO_BITS, d=NO_REGISTER, o=NO_OUTPUT)
    if limits.block >= 1 << FAR_ROTATION:
        instructions += _FAR_ROTATIONS
    streams = _STREAMS.format(inputs=INPUTS, outputs=OUTPUTS, bytes=DESCRIPTOR_BYTES)
    return [
        *(*chains.splitlines(), "", *_tables(limits), ""),
        *(*instructions.splitlines(), "", *_fields(), "", *_operations(), "", *_sources(), ""),
        *(*streams.splitlines(), "", *_stream_fields(limits), "", *_kinds(), ""),
        *("`aux` of a panel:", "", *_orders()),
    ]


def _tables(limits: Limits) -> list[str]:
    rows: list[tuple[str, ...]] = []
    for vector_table in vector_tables(choices=limits.has_choices):
        loaded = limits.entries(Opcode.LOAD, vector_table)
        stored = limits.entries(Opcode.STORE, vector_table)
        about = {
            VectorTable.CONSTANTS: f"K, of {CONSTANTS} floats; {SCALE} and {INVERSE} are the scale "
            f"of the loss and its inverse; a load of {FLOOR} sets its smallest exponent",
            VectorTable.AMAX: _slots(limits),
            VectorTable.PANEL: "what programs keep on the chip, vectors of floats",
        }.get(vector_table, "")
        words = str(entry_words(vector_table, limits.block))
        name = vector_table.name.lower()
        rows.append(
            (str(int(vector_table)), name, str(loaded), words, "yes" if stored else "no", about)
        )
    return table("which", "table", "entries", "words of an entry", "stored", "", rows=rows)


def _slots(limits: Limits) -> str:
    """Return the description of the table of scale slots."""
    words = limits.slot_words
    if words == 1:
        return "by scale slot, the largest magnitude of the last tensor converted"
    before = words - SlotWord.BEFORE
    steps = "the step before" if before == 1 else f"each of the {before} steps before"
    return (
        f"{words} words of each scale slot, slot s from {words} s on: the largest magnitude of its "
        f"tensors in a step, as binary32 without a sign; the number of that step; the largest "
        f"magnitude in {steps}, which give the scale of the next conversion"
    )


def _fields() -> list[str]:
    rows = ((f"{f.low + f.bits - 1}:{f.low}", f.name, f.meaning) for f in FIELDS)
    return table("bits", "field", "meaning", rows=rows)


def _operations() -> list[str]:
    rows = ((str(int(op)), op.name.lower(), ", ".join(USES[op]), RESULTS[op]) for op in MicroOp)
    return table("op", "name", "operands", "result", rows=rows)


def _sources() -> list[str]:
    rows = [(f"0 to {REGISTERS - 1}", "a register")]
    rows += [(str(int(source)), meaning) for source, meaning in SOURCE_MEANINGS.items()]
    return table("operand", "what it is", rows=rows)


def _stream_fields(limits: Limits) -> list[str]:
    selected = (f for f in STREAM_FIELDS if limits.has_choices or f.name not in CHOICE_FIELDS)
    rows = ((f"{f.low + f.bits - 1}:{f.low}", f.name, f.meaning) for f in selected)
    return table("bits", "field of a stream", "meaning", rows=rows)


def _kinds() -> list[str]:
    rows = (
        (str(int(kind)), kind.name.lower(), "in" if kind in INPUT_KINDS else "", meaning)
        for kind, meaning in KIND_MEANINGS.items()
    )
    return table("kind", "name", "may be an input", "meaning", rows=rows)


def _orders() -> list[str]:
    rows = ((str(int(order)), PANEL_ORDER_MEANINGS[order]) for order in PanelOrder)
    return table("aux", "vectors of block (i, j)", rows=rows)
