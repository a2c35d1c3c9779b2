"""Write the tables of the vector unit as Markdown: entries for `load`, and the meaning of the
bits."""

import re

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
    OUTPUT_KINDS,
    PANEL_ORDER_MEANINGS,
    PanelOrder,
)
from diastole_sim.spec.stream_table import FIELDS as STREAM_FIELDS

RESULTS = {
    MicroOp.NOP: "nothing",
    MicroOp.MAD: "a * b + c, rounded after the product and after the sum",
    MicroOp.MUL: "a * b",
    MicroOp.ADD: "a + c",
    MicroOp.MAX: "the larger of a and c, NaN if a or c is NaN",
    MicroOp.MIN: "the smaller of a and c, NaN if a or c is NaN",
    MicroOp.GT: "1 if a > c, otherwise 0",
    MicroOp.EQ: "1 if a = c, otherwise 0",
    MicroOp.SEL: "a if b is not zero, otherwise c",
    MicroOp.MOV: "a",
    MicroOp.EXP: "e^a; `exp` and the operations below read a register and write a register",
    MicroOp.RCP: "1 / a",
    MicroOp.RSQ: "1 / sqrt(a)",
    MicroOp.LGE: "E of a = (1 + d) 2^E, with -1/4 <= d < 1/2; log a = lge ln 2 + lgm lgg",
    MicroOp.LGM: "d of a = (1 + d) 2^E",
    MicroOp.LGG: "log(1 + d) / d of a = (1 + d) 2^E",
}
"""Result of every operation."""
_DIRECTIONS = re.compile("^(in|out|in, out): ")
"""Beginning of a kind's meaning, for which the table has columns."""

_CHAINS = """\
## Chains

A *program* is up to {most} instructions. A *chain* is a program that runs over every block of a
tensor, {b} x {b} elements, by rows or by columns of blocks. A row of blocks, or a column in a walk
by columns, is a *line*. Every instruction works on a whole block, and sees the results of all
earlier instructions. Numbers are binary32, and numbers below 2^-126 are zeros. Each of the
{registers} registers holds a block, undefined at first. If a program or stream breaks a rule, the
machine refuses the chain before the start, with BAD_PROGRAM or BAD_STREAM.

## Tables

`load` fills `count` entries of a table from entry `first` on, and `store` writes entries to memory.
Entries are contiguous in memory, from a beat on.
"""
_INSTRUCTIONS = """\
## Instructions

An instruction has {bits} bits, the lower word first. c is permuted by the turns first, then
negated, then replaced by `fresh`. {d} in `d` and {o} in `o` write nothing. Bits without a field,
and operands that the operation does not have, are 0. An instruction reads at most one stream of the
panel. Results are rounded to nearest even, except results of `exp`, `rcp`, `rsq` and `lgg`: section
*Numbers* in the README of a product has the largest errors.
"""
_FAR_ROTATIONS = """\
An instruction with `turn_rows` of 8 rows or more, from register `d` to register `d`, must not both
read the panel and write a stream.
"""
_STREAMS = """\
## Streams

The {inputs} inputs of a chain are the slots from the command's field `streams` on, and the
{outputs} outputs are the next slots. A slot has {bytes} bytes, little-endian. Bits that a kind does
not use are 0. After *in*, a meaning is of inputs only; after *out*, of outputs only.
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
            VectorTable.CONSTANTS: f"K, {CONSTANTS} floats; K[{SCALE}] is the loss scale and "
            f"K[{INVERSE}] the inverse; a load of K[{FLOOR}] sets the smallest exponent of the "
            "loss scale",
            VectorTable.AMAX: _slots(limits),
            VectorTable.PANEL: "vectors of floats on the chip",
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
        return "by scale slot, the largest magnitude of the last converted tensor"
    before = words - SlotWord.BEFORE
    steps = "the step before" if before == 1 else f"each of the {before} steps before"
    return (
        f"{words} words for each scale slot, slot s from entry {words} s on: the largest magnitude "
        f"of the slot's tensors in a step, as binary32 without a sign; the number of the step; the "
        f"largest magnitude in {steps}. Magnitudes give the scale of the next conversion"
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
        (
            str(int(kind)),
            kind.name.lower(),
            "yes" if kind in INPUT_KINDS else "no",
            "yes" if kind in OUTPUT_KINDS else "no",
            _DIRECTIONS.sub("", meaning),
        )
        for kind, meaning in KIND_MEANINGS.items()
    )
    return table("kind", "name", "input", "output", "meaning", rows=rows)


def _orders() -> list[str]:
    rows = ((str(int(order)), PANEL_ORDER_MEANINGS[order]) for order in PanelOrder)
    return table("aux", "vectors of block (i, j)", rows=rows)
