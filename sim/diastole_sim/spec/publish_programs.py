"""List the names of instructions, streams and tables of the vector unit for programs in C."""

from collections.abc import Iterator

from diastole_sim.spec.limits import Limits, SlotWord, vector_tables
from diastole_sim.spec.micro import (
    CONSTANTS,
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
    MicroField,
    MicroOp,
    Source,
    When,
)
from diastole_sim.spec.micro import FIELDS as INSTRUCTION_FIELDS
from diastole_sim.spec.stream_table import (
    CHOICE_FIELDS,
    DESCRIPTOR_BYTES,
    KIND_MEANINGS,
    PANEL_ORDER_MEANINGS,
    SLOTS,
    STREAMS,
    Kind,
    PanelOrder,
    StreamField,
)
from diastole_sim.spec.stream_table import FIELDS as STREAM_FIELDS

Name = tuple[str, int, str]
"""Name without the machine's prefix, value, and meaning."""


def instruction_fields() -> tuple[MicroField, ...]:
    """Return the fields of an instruction, equal in every machine with a vector unit."""
    return INSTRUCTION_FIELDS


def stream_fields(limits: Limits) -> tuple[StreamField, ...]:
    """Return the fields of a stream of a machine."""
    return tuple(
        field for field in STREAM_FIELDS if limits.has_choices or field.name not in CHOICE_FIELDS
    )


def instruction_names() -> Iterator[Name]:
    """Yield names for the values and the places of an instruction's fields."""
    yield (
        "INSTRUCTION_BYTES",
        MICRO_BITS // 8,
        "bytes of an instruction in the table of instructions",
    )
    yield "MOST_INSTRUCTIONS", MAX_INSTRUCTIONS, "most instructions of a program"
    yield "REGISTERS", REGISTERS, "operands from 0 on, each a block"
    for op in MicroOp:
        yield f"MICRO_{op.name}", int(op), "operation" * (op == MicroOp.NOP)
    for source in Source:
        yield f"FROM_{source.name}", int(source), f"operand: {SOURCE_MEANINGS[source]}"
    yield "NO_REGISTER", NO_REGISTER, "in the field d"
    yield "NO_OUTPUT", NO_OUTPUT, "in the field o"
    for when in When:
        yield (
            f"WHEN_{when.name}",
            int(when),
            "blocks of a line in which the instruction is done" * (not when),
        )
    yield from _places("INSTRUCTION", instruction_fields())


def stream_names(limits: Limits) -> Iterator[Name]:
    """Yield names for the values and the places of a stream's fields."""
    yield "STREAM_BYTES", DESCRIPTOR_BYTES, "bytes of a descriptor in the table of streams"
    yield "STREAM_SLOTS", SLOTS, "slots of the table of streams"
    yield "CHAIN_STREAMS", STREAMS, "slots of a chain: inputs, then outputs"
    yield "STREAM_INPUTS", INPUTS, ""
    yield "STREAM_OUTPUTS", OUTPUTS, ""
    for kind in Kind:
        yield f"KIND_{kind.name}", int(kind), KIND_MEANINGS[kind]
    for order in PanelOrder:
        yield f"PANEL_{order.name}", int(order), f"aux of a panel: {PANEL_ORDER_MEANINGS[order]}"
    yield from _places("STREAM", stream_fields(limits))


def table_names(limits: Limits) -> Iterator[Name]:
    """Yield names of the tables for ``load`` and ``store``, of scale slots, and of constants."""
    for table in vector_tables(choices=limits.has_choices):
        yield f"TABLE_{table.name}", int(table), "in the field which" * (not table)
    yield "SLOT_WORDS", limits.slot_words, "entries of a scale slot in the table amax"
    if limits.slot_words > 1:
        yield (
            "SLOT_LARGEST",
            int(SlotWord.LARGEST),
            "entry of a slot: largest magnitude of the step",
        )
        yield "SLOT_STEP", int(SlotWord.STEP), "entry of a slot: number of the step"
        yield (
            "SLOT_BEFORE",
            int(SlotWord.BEFORE),
            "entry of a slot: largest magnitude of the step before; earlier steps follow",
        )
    yield "CONSTANTS", CONSTANTS, "number of constants from K[0] on, floats"
    yield "SCALE_CONSTANT", SCALE, "constant that the machine writes: the loss scale"
    yield (
        "INVERSE_CONSTANT",
        INVERSE,
        "constant that the machine writes: the inverse of the loss scale",
    )
    yield (
        "FLOOR_CONSTANT",
        FLOOR,
        "constant whose load sets the smallest exponent of the loss scale",
    )


def _places(what: str, fields: tuple[MicroField, ...] | tuple[StreamField, ...]) -> Iterator[Name]:
    for field in fields:
        name = f"{what}_{field.name.upper()}"
        yield from place_names(name, field.low, field.bits, field.meaning)


def place_names(name: str, low: int, bits: int, meaning: str) -> Iterator[Name]:
    """Yield names for the place of a field: word and bit of the lowest bit, and the width. If the
    field continues in the next word, the meaning of the width names the bits there."""
    word, bit = divmod(low, 32)
    over = bit + bits - 32
    highest = f"bits 0 to {over - 1}" if over > 1 else "bit 0"
    yield f"{name}_WORD", word, meaning
    yield f"{name}_LOW", bit, ""
    yield (
        f"{name}_BITS",
        bits,
        f"the field continues in {highest} of word {word + 1}" if over > 0 else "",
    )
