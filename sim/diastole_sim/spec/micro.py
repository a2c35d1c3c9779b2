"""Micro-instructions of the vector unit, 64 bits each, and the rules for programs.

The table of fields is the only description of the bits. Assembler, golden interpreter, hardware and
documentation are made from the table. A *program* is up to 32 instructions. A *chain* is one
program run over every block of a tensor. An instruction works on a whole block, B x B numbers in
binary32, and sees the results of all earlier instructions.

:func:`program_problems` checks the rules. If a program breaks a rule, the machine refuses the
program before the start (``BAD_PROGRAM``), and the assembler refuses it with the text of the rule.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from diastole_sim.spec.require import require_int

MICRO_BITS = 64
MAX_INSTRUCTIONS = 32
"""Most instructions of a program."""
OP_BITS = 5
"""Bits of an operation."""
REGISTERS = 16
"""Number of registers. A register holds a block."""
INPUTS = OUTPUTS = 4
"""Most streams read by a chain, and most streams written by a chain."""
FAR_ROTATION = 4
"""Smallest value of ``turn_rows`` for an exchange of rows more than 7 cycles apart: an exchange
over 8 rows."""
CONSTANTS = 256
SCALE, INVERSE = 252, 253
"""Constants with the scale of the loss and its inverse. A value loaded there does not stay."""
FLOOR = 255
"""Constant whose load sets the smallest scale of the loss: the exponent of the loaded value."""


class MicroOp(IntEnum):
    """Operations of an instruction on its operands a, b and c."""

    NOP = 0
    MAD = 1
    MUL = 2
    ADD = 3
    MAX = 4
    MIN = 5
    GT = 6
    EQ = 7
    SEL = 8
    MOV = 9
    EXP = 16
    RCP = 17
    RSQ = 18
    LGE = 19
    LGM = 20
    LGG = 21


SPECIALS = tuple(op for op in MicroOp if op >= MicroOp.EXP)
"""Operations of the special lanes."""
USES: Mapping[MicroOp, str] = {
    MicroOp.NOP: "",
    MicroOp.MAD: "abc",
    MicroOp.MUL: "ab",
    MicroOp.ADD: "ac",
    MicroOp.MAX: "ac",
    MicroOp.MIN: "ac",
    MicroOp.GT: "ac",
    MicroOp.EQ: "ac",
    MicroOp.SEL: "abc",
    MicroOp.MOV: "a",
} | dict.fromkeys(SPECIALS, "a")
"""Operands of every operation."""
NEUTRAL = {
    MicroOp.MAD: 0x00000000,
    MicroOp.ADD: 0x00000000,
    MicroOp.EQ: 0x00000000,
    MicroOp.SEL: 0x00000000,
    MicroOp.MAX: 0xFF800000,
    MicroOp.GT: 0xFF800000,
    MicroOp.MIN: 0x7F800000,
}
"""Neutral value by operation, as binary32 bits: ``fresh`` replaces c by this value in the first
block of a line."""


class Source(IntEnum):
    """Sources of an operand. A value below :data:`REGISTERS` is a register."""

    S0 = 16
    S1 = 17
    S2 = 18
    S3 = 19
    CONSTANT = 20
    ZERO = 21
    ONE = 22
    COLUMN = 23
    ROW = 24
    INSIDE = 25


SOURCE_MEANINGS = {
    Source.S0: "input stream 0",
    Source.S1: "input stream 1",
    Source.S2: "input stream 2",
    Source.S3: "input stream 3",
    Source.CONSTANT: "K[k]",
    Source.ZERO: "+0",
    Source.ONE: "1.0",
    Source.COLUMN: "column of the element in the tensor, as a number, exact below 2^24",
    Source.ROW: "row of the element in the tensor, as a number, exact below 2^24",
    Source.INSIDE: "1.0 inside the tensor, +0 outside",
}
NO_REGISTER = 31
"""Value of the field ``d`` if the instruction writes no register."""
NO_OUTPUT = 7
"""Value of the field ``o`` if the instruction writes no stream."""


class When(IntEnum):
    """Blocks of a line (a row or column of blocks) in which an instruction is done. In all
    remaining blocks the instruction takes no cycles."""

    ALWAYS = 0
    LAST = 1
    FIRST = 2
    NOT_LAST = 3


@dataclass(frozen=True, kw_only=True)
class MicroField:
    """Field of an instruction: ``bits`` bits, the lowest at bit ``low``."""

    name: str
    low: int
    bits: int
    meaning: str


FIELDS = (
    MicroField(name="op", low=0, bits=OP_BITS, meaning="operation"),
    MicroField(name="a", low=5, bits=5, meaning="operand a: 0-15 registers, from 16 on sources"),
    MicroField(name="b", low=10, bits=5, meaning="operand b: 0-15 registers, from 16 on sources"),
    MicroField(name="c", low=15, bits=5, meaning="operand c: 0-15 registers, from 16 on sources"),
    MicroField(name="d", low=20, bits=5, meaning="written register; 31: no register"),
    MicroField(name="o", low=25, bits=3, meaning="written output stream 0-3; 7: no stream"),
    MicroField(name="negate_a", low=28, bits=1, meaning="1: flip the sign of a, except of a NaN"),
    MicroField(name="negate_b", low=29, bits=1, meaning="1: flip the sign of b, except of a NaN"),
    MicroField(name="negate_c", low=30, bits=1, meaning="1: flip the sign of c, except of a NaN"),
    MicroField(
        name="turn_lanes", low=31, bits=3, meaning="t > 0: lane l reads c of lane l XOR 2^(t-1)"
    ),
    MicroField(
        name="turn_rows",
        low=34,
        bits=3,
        meaning="t > 0: row slot r reads c of row slot r XOR 2^(t-1)",
    ),
    MicroField(
        name="fresh",
        low=37,
        bits=1,
        meaning="1: c is the neutral element in the first block of a line",
    ),
    MicroField(name="keep", low=38, bits=1, meaning="1: the result outside the tensor is c"),
    MicroField(
        name="when",
        low=39,
        bits=2,
        meaning="0 every block, 1 last block of a line, 2 first block, 3 all but the last",
    ),
    MicroField(name="k", low=41, bits=8, meaning="number of the constant"),
)
"""Fields from the lowest bit on. Bits without a field are 0. c is permuted by the turns first, then
negated, then, with ``fresh``, replaced by the neutral value in the first block of a line."""


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One instruction with the fields of :data:`FIELDS`.

    Absent operands are 0. The signs of absent operands do not count, nor does k if no operand is a
    constant. A nop writes nothing, whatever d and o say, so 64 zeros are a nop. ValueError if a
    value does not fit in its field.
    """

    op: int = MicroOp.NOP
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = NO_REGISTER
    o: int = NO_OUTPUT
    negate_a: int = 0
    negate_b: int = 0
    negate_c: int = 0
    turn_lanes: int = 0
    turn_rows: int = 0
    fresh: int = 0
    keep: int = 0
    when: int = When.ALWAYS
    k: int = 0
    rest: int = 0

    def __post_init__(self) -> None:
        for field in FIELDS:
            require_int(field.name, getattr(self, field.name), 0, 2**field.bits - 1)

    def encode(self) -> int:
        """Return the 64 bits without a check: an instruction that breaks a rule can be encoded
        too."""
        return sum(getattr(self, field.name) << field.low for field in FIELDS) | self.rest

    @classmethod
    def decode(cls, word: int) -> "Instruction":
        """Return the instruction of a word: the inverse of :meth:`encode`. ``rest`` has the bits
        outside all fields."""
        values = {field.name: word >> field.low & (1 << field.bits) - 1 for field in FIELDS}
        covered = sum((1 << field.bits) - 1 << field.low for field in FIELDS)
        return cls(**values, rest=word & ~covered)

    @property
    def operands(self) -> str:
        """Letters of the operands of the operation; empty for an unknown operation."""
        return USES[MicroOp(self.op)] if self.op in tuple(MicroOp) else ""

    @property
    def sources(self) -> dict[str, int]:
        """Source of every operand, by letter."""
        return {letter: getattr(self, letter) for letter in self.operands}

    @property
    def output(self) -> int | None:
        """Output stream of the instruction; None for none."""
        return self.o if self.o < OUTPUTS and self.op != MicroOp.NOP else None

    @property
    def special(self) -> bool:
        """True if the special lanes do the operation."""
        return self.op in SPECIALS


def program_problems(
    program: Sequence[Instruction],
    *,
    block: int,
    panels: Sequence[int] = (),
    always_written: Sequence[int] = (),
) -> list[tuple[int | None, str]]:
    """Return every broken rule of a program: the number of the instruction (None: the whole
    program), and a text.

    ``panels``: numbers of the input streams in the panel. ``always_written``: numbers of the output
    streams with exactly one write in every block.
    """
    problems: list[tuple[int | None, str]] = []
    if not 1 <= len(program) <= MAX_INSTRUCTIONS:
        problems.append((None, f"has {len(program)} instructions, not 1 to {MAX_INSTRUCTIONS}"))
    for number, instruction in enumerate(program):
        problems += [(number, text) for text in _faults(instruction, block, panels)]
    for stream in always_written:
        for when in (When.LAST, When.NOT_LAST):
            times = [
                each.when
                for each in program
                if each.output == stream and each.when in (When.ALWAYS, when, When.FIRST)
            ]
            if len(times) != 1 or times[0] == When.FIRST:
                problems.append(
                    (None, f"must write output stream {stream} exactly once in every block")
                )
                break
    return problems


def _faults(instruction: Instruction, block: int, panels: Sequence[int]) -> Iterator[str]:
    """Yield the broken rules of one instruction."""
    if instruction.op not in tuple(MicroOp):
        yield f"there is no operation {instruction.op}"
        return
    name, uses = MicroOp(instruction.op).name.lower(), instruction.operands
    if instruction.rest:
        yield "bits above the last field are not 0"
    for letter in "abc":
        source = getattr(instruction, letter)
        if letter not in uses:
            if source:
                yield f"{name} has no operand {letter}"
        elif source >= REGISTERS and source not in tuple(Source):
            yield f"there is no source {source}"
    yield from _operand_c_faults(instruction, name, block)
    yield from _result_faults(instruction, name)
    streams = {source - Source.S0 for source in instruction.sources.values()} & set(panels)
    if len(streams) > 1:
        yield "an instruction reads at most one stream of the panel, not two"
    far = instruction.turn_rows >= FAR_ROTATION and "c" in uses and instruction.c == instruction.d
    if streams and far and instruction.o != NO_OUTPUT:
        yield (
            f"an instruction that turns register {instruction.d} by 8 rows or more into the same "
            "register cannot both read the panel and write a stream; take another "
            "register, or two instructions"
        )


def _operand_c_faults(instruction: Instruction, name: str, block: int) -> Iterator[str]:
    """Yield the broken rules of turns, fresh and keep."""
    changes = [
        field
        for field in ("turn_lanes", "turn_rows", "fresh", "keep")
        if getattr(instruction, field)
    ]
    if changes and "c" not in instruction.operands:
        yield f"{name} has no operand c for {changes[0].replace('_', ' ')}"
        return
    limit = block.bit_length() - 1
    for field in ("turn_lanes", "turn_rows"):
        if getattr(instruction, field) > limit:
            value = getattr(instruction, field)
            yield (f"{field.replace('_', ' ')} must be at most log2 B = {limit}, not {value}")
    if instruction.turn_rows and instruction.c >= REGISTERS:
        yield "only the rows of a register can be turned"


def _result_faults(instruction: Instruction, name: str) -> Iterator[str]:
    """Yield the broken rules of written registers and streams."""
    if instruction.d >= REGISTERS and instruction.d != NO_REGISTER:
        yield f"there is no register {instruction.d}"
    if instruction.o >= OUTPUTS and instruction.o != NO_OUTPUT:
        yield f"there is no output stream {instruction.o}"
    if not instruction.special:
        return
    if instruction.a >= REGISTERS:
        yield f"the operand of {name} is not a register"
    if instruction.o != NO_OUTPUT:
        yield f"{name} writes no stream"
    if instruction.d == NO_REGISTER:
        yield f"{name} writes no register"
