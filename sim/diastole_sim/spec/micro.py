"""Micro-instructions of the vector unit: 64 bits each, and the rules that a program obeys.

This table is the only description of their bits: assembler, golden interpreter, hardware and
documentation come from it. A *program* is up to 32 instructions; a *chain* is one program run over
every block of a tensor. Each instruction is done on a whole block, B x B numbers in binary32, and
sees the results of all before it.

The rules are those of :func:`program_problems`; a program that breaks one is refused by the machine
before it starts (``BAD_PROGRAM``), and by the assembler with the text.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from diastole_sim.spec.require import require_int

MICRO_BITS = 64
MOST_INSTRUCTIONS = 32
"""Of a program."""
REGISTERS = 16
"""Each a block."""
INPUTS = OUTPUTS = 4
"""Streams that a chain reads, and that it writes."""
FAR_TURN = 4
"""``turn_rows`` of the smallest turn, by 8 rows, that exchanges rows which are worked on more than
7 cycles apart."""
CONSTANTS = 256
SCALE, INVERSE = 252, 253
"""The constants that hold the scale of the loss: nothing that is loaded there stays."""
FLOOR = 255
"""A load of this constant sets the smallest scale of the loss: the exponent of what is loaded."""


class MicroOp(IntEnum):
    """What an instruction does with its operands a, b and c."""

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
"""Those that the special lanes do."""
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
"""The operands that an operation has."""
NEUTRAL = {
    MicroOp.MAD: 0x00000000,
    MicroOp.ADD: 0x00000000,
    MicroOp.EQ: 0x00000000,
    MicroOp.SEL: 0x00000000,
    MicroOp.MAX: 0xFF800000,
    MicroOp.GT: 0xFF800000,
    MicroOp.MIN: 0x7F800000,
}
"""By operation, what ``fresh`` puts in c's place in the first block of a line, binary32 bits."""


class Source(IntEnum):
    """Where an operand comes from; below :data:`REGISTERS` it is a register."""

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
    Source.ROW: "its row, likewise",
    Source.INSIDE: "1.0 inside the tensor, else +0",
}
NO_REGISTER = 31
"""In the field ``d``: no register is written."""
NO_OUTPUT = 7
"""In the field ``o``: no stream is."""


class When(IntEnum):
    """In which blocks of a line an instruction is done; in others it takes no cycles."""

    ALWAYS = 0
    LAST = 1
    FIRST = 2
    NOT_LAST = 3


@dataclass(frozen=True, kw_only=True)
class MicroField:
    """``bits`` bits of an instruction, the lowest at bit ``low``."""

    name: str
    low: int
    bits: int
    meaning: str


FIELDS = (
    MicroField(name="op", low=0, bits=5, meaning="operation"),
    MicroField(name="a", low=5, bits=5, meaning="operand a: 0-15 a register, else a source"),
    MicroField(name="b", low=10, bits=5, meaning="operand b, likewise"),
    MicroField(name="c", low=15, bits=5, meaning="operand c, likewise"),
    MicroField(name="d", low=20, bits=5, meaning="register that is written; 31: none"),
    MicroField(name="o", low=25, bits=3, meaning="output stream 0-3 that is written; 7: none"),
    MicroField(name="negate_a", low=28, bits=1, meaning="a with its sign flipped, but no NaN's"),
    MicroField(name="negate_b", low=29, bits=1, meaning="b likewise"),
    MicroField(name="negate_c", low=30, bits=1, meaning="c likewise"),
    MicroField(
        name="turn_lanes", low=31, bits=3, meaning="t > 0: lane l takes c of lane l XOR 2^(t-1)"
    ),
    MicroField(
        name="turn_rows",
        low=34,
        bits=3,
        meaning="t > 0: row slot r takes c of row slot r XOR 2^(t-1)",
    ),
    MicroField(
        name="fresh", low=37, bits=1, meaning="in a line's first block c is the neutral element"
    ),
    MicroField(name="keep", low=38, bits=1, meaning="outside the tensor the result is c"),
    MicroField(
        name="when",
        low=39,
        bits=2,
        meaning="0 every block, 1 a line's last, 2 its first, 3 all but the last",
    ),
    MicroField(name="k", low=41, bits=8, meaning="which constant"),
)
"""From the lowest bit on; bits that none covers are 0. c is turned, then negated, then fresh."""


@dataclass(frozen=True, kw_only=True)
class Instruction:
    """One instruction; fields as in :data:`FIELDS`, operands that the operation has not are 0; of
    these the sign does not count, nor does k where no operand is a constant. A nop writes nothing,
    whatever d and o say: so 64 zeros are one. ValueError if a value does not fit in its field."""

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
        """Its 64 bits, unchecked: what breaks a rule can be written too."""
        return sum(getattr(self, field.name) << field.low for field in FIELDS) | self.rest

    @classmethod
    def decode(cls, word: int) -> "Instruction":
        """The inverse of :meth:`encode`; ``rest``: bits that no field covers."""
        values = {field.name: word >> field.low & (1 << field.bits) - 1 for field in FIELDS}
        covered = sum((1 << field.bits) - 1 << field.low for field in FIELDS)
        return cls(**values, rest=word & ~covered)

    @property
    def operands(self) -> str:
        """The letters of those that its operation has; none of an unknown operation."""
        return USES[MicroOp(self.op)] if self.op in tuple(MicroOp) else ""

    @property
    def sources(self) -> dict[str, int]:
        """By an operand's letter, where it comes from."""
        return {letter: getattr(self, letter) for letter in self.operands}

    @property
    def output(self) -> int | None:
        """The output stream that it writes; None for none."""
        return self.o if self.o < OUTPUTS and self.op != MicroOp.NOP else None

    @property
    def special(self) -> bool:
        """Whether the special lanes do it."""
        return self.op in SPECIALS


def program_problems(
    program: Sequence[Instruction],
    *,
    block: int,
    panels: Sequence[int] = (),
    always_written: Sequence[int] = (),
) -> list[tuple[int | None, str]]:
    """Every rule that a program breaks: the number of the instruction (None: the whole), a text.

    ``panels``: the numbers of its input streams that are in the panel. ``always_written``: of its
    output streams that must be written once in every block.
    """
    found: list[tuple[int | None, str]] = []
    if not 1 <= len(program) <= MOST_INSTRUCTIONS:
        found.append((None, f"has {len(program)} instructions, not 1 to {MOST_INSTRUCTIONS}"))
    for number, instruction in enumerate(program):
        found += [(number, text) for text in _faults(instruction, block, panels)]
    for stream in always_written:
        for when in (When.LAST, When.NOT_LAST):
            times = [
                each.when
                for each in program
                if each.output == stream and each.when in (When.ALWAYS, when, When.FIRST)
            ]
            if len(times) != 1 or times[0] == When.FIRST:
                found.append((None, f"output stream {stream} is not written once in every block"))
                break
    return found


def _faults(it: Instruction, block: int, panels: Sequence[int]) -> Iterator[str]:
    """The rules of one instruction."""
    if it.op not in tuple(MicroOp):
        yield f"there is no operation {it.op}"
        return
    name, uses = MicroOp(it.op).name.lower(), it.operands
    if it.rest:
        yield "bits above the last field are not 0"
    for letter in "abc":
        source = getattr(it, letter)
        if letter not in uses:
            if source:
                yield f"{name} has no operand {letter}"
        elif source >= REGISTERS and source not in tuple(Source):
            yield f"there is no source {source}"
    yield from _faults_of_c(it, name, block)
    yield from _faults_of_results(it, name)
    streams = {source - Source.S0 for source in it.sources.values()} & set(panels)
    if len(streams) > 1:
        yield "two operands are different streams of the panel"
    turned = it.turn_rows >= FAR_TURN and "c" in uses and it.c == it.d
    if streams and turned and it.o != NO_OUTPUT:
        yield (
            f"turns register {it.d} by 8 rows or more into itself, reads the panel and writes a "
            "stream; take another register, or two instructions"
        )


def _faults_of_c(it: Instruction, name: str, block: int) -> Iterator[str]:
    """Turns, fresh and keep."""
    asked = [field for field in ("turn_lanes", "turn_rows", "fresh", "keep") if getattr(it, field)]
    if asked and "c" not in it.operands:
        yield f"{name} has no operand c for {asked[0].replace('_', ' ')}"
        return
    most = block.bit_length() - 1
    for field in ("turn_lanes", "turn_rows"):
        if getattr(it, field) > most:
            yield f"{field.replace('_', ' ')} {getattr(it, field)} is more than log2 B, {most}"
    if it.turn_rows and it.c >= REGISTERS:
        yield "rows are turned of what is no register"


def _faults_of_results(it: Instruction, name: str) -> Iterator[str]:
    """Registers and streams that are written."""
    if it.d >= REGISTERS and it.d != NO_REGISTER:
        yield f"there is no register {it.d}"
    if it.o >= OUTPUTS and it.o != NO_OUTPUT:
        yield f"there is no output stream {it.o}"
    if not it.special:
        return
    if it.a >= REGISTERS:
        yield f"the operand of {name} is no register"
    if it.o != NO_OUTPUT:
        yield f"{name} writes no stream"
    if it.d == NO_REGISTER:
        yield f"{name} writes no register"
