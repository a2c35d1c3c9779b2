"""Micro-instructions of the vector unit: 64 bits apart, together, and what makes a program bad."""

from dataclasses import dataclass

NOP = 0
MAD, MUL, ADD, MAX, MIN, GT, EQ, SEL, MOV = range(1, 10)
EXP, RCP, RSQ, LGE, LGM, LGG = range(16, 22)
SPECIALS = (EXP, RCP, RSQ, LGE, LGM, LGG)
OPERANDS = {NOP: "", MAD: "abc", MUL: "ab", SEL: "abc", MOV: "a"}
OPERANDS |= dict.fromkeys((ADD, MAX, MIN, GT, EQ), "ac") | dict.fromkeys(SPECIALS, "a")
"""By operation, the operands that it uses."""

STREAM = 16
"""Source of input stream 0; 1, 2 and 3 follow."""
CONSTANT, NOUGHT, UNIT, COLUMN_NUMBER, ROW_NUMBER, INSIDE, TAP = range(20, 27)
NO_REGISTER, NO_OUTPUT = 31, 7
EVERY, LAST, FIRST, NOT_LAST = range(4)

(
    KIND_NONE, KIND_PRODUCT, KIND_F32, KIND_BF16, KIND_U8, KIND_MASK, KIND_COLUMN, KIND_ROW,
    KIND_GATHERED_F32, KIND_GATHERED_U8, KIND_LABELS, KIND_PANEL, KIND_IMAGE, KIND_CONSTANT,
    KIND_DRAWS,
) = range(15)  # fmt: skip
WHOLE = (KIND_F32, KIND_BF16, KIND_U8, KIND_MASK, KIND_IMAGE)
"""Kinds of outputs that are written once in every block."""

FIELDS = {
    "op": (0, 5), "a": (5, 5), "b": (10, 5), "c": (15, 5), "d": (20, 5), "o": (25, 3),
    "negate": (28, 3), "turn_lanes": (31, 3), "turn_rows": (34, 3), "fresh": (37, 1),
    "keep": (38, 1), "when": (39, 2), "k": (41, 8), "rest": (49, 15),
}  # fmt: skip
"""First bit and number of bits."""


@dataclass(frozen=True)
class Instruction:
    """The fields as numbers; ``negate``: bit 0 of a, 1 of b, 2 of c."""

    op: int = NOP
    a: int = 0
    b: int = 0
    c: int = 0
    d: int = NO_REGISTER
    o: int = NO_OUTPUT
    negate: int = 0
    turn_lanes: int = 0
    turn_rows: int = 0
    fresh: int = 0
    keep: int = 0
    when: int = EVERY
    k: int = 0
    rest: int = 0

    @property
    def word(self):
        word = 0
        for name, (first, bits) in FIELDS.items():
            value = getattr(self, name)
            assert 0 <= value < 1 << bits, f"{name} has {bits} bits, {value} does not fit"
            word |= value << first
        return word

    @property
    def sources(self):
        """By operand that the operation uses, its source."""
        return {name: getattr(self, name) for name in OPERANDS[self.op]}


def decoded(word):
    return Instruction(
        **{name: word >> first & ((1 << bits) - 1) for name, (first, bits) in FIELDS.items()}
    )


def problems(words, block, kinds):
    """Why a program is refused, a line each; empty if it is not.

    ``kinds``: of the four input streams, then of the four outputs. Bits that the operation does not
    use and that no rule names (d, o, negate and k of a nop; negate of an absent operand) are free.
    """
    found = []
    if not 1 <= len(words) <= 32:
        found.append(f"{len(words)} instructions")
    instructions = [decoded(word) for word in words]
    for place, each in enumerate(instructions):
        for text in _of_codes(each) or _of_instruction(each, block, kinds):
            found.append(f"instruction {place}: {text}")
    for number, kind in enumerate(kinds[4:]):
        whens = [each.when for each in instructions if each.o == number and each.op != NOP]
        if whens and kind in WHOLE and not _once_in_every_block(whens):
            found.append(f"output {number}, of kind {kind}: not once in every block")
    return found


def _of_codes(each):
    """Codes and bits that the table does not have."""
    found = []
    if each.op not in OPERANDS:
        found.append(f"no operation {each.op}")
    for name in "abc":
        if getattr(each, name) > TAP:
            found.append(f"no source {getattr(each, name)}")
        elif name not in OPERANDS.get(each.op, "abc") and getattr(each, name):
            found.append(f"{name} is not used")
    if 16 <= each.d < NO_REGISTER:
        found.append(f"no register {each.d}")
    if 4 <= each.o < NO_OUTPUT:
        found.append(f"no output {each.o}")
    if each.rest:
        found.append("bits beyond 48")
    return found


def _of_instruction(each, block, kinds):
    found = []
    sources = set(each.sources.values())
    panels = [n for n in range(4) if kinds[n] == KIND_PANEL and STREAM + n in sources]
    if len(panels) > 1:
        found.append("two panels")
    if "c" not in each.sources:
        for name in ("turn_lanes", "turn_rows", "fresh", "keep"):
            if getattr(each, name):
                found.append(f"{name} without c")
    for turn in (each.turn_lanes, each.turn_rows):
        if turn and 1 << turn > block:
            found.append(f"turn {turn} beyond a block of {block}")
    if each.turn_rows > 3 and each.c == each.d and panels and each.o != NO_OUTPUT:
        found.append("a far turn into itself, with a panel and an output")
    if each.turn_rows and each.c >= STREAM:
        found.append("turn_rows of no register")
    if each.op in SPECIALS:
        if each.a >= STREAM:
            found.append("special of no register")
        if each.o != NO_OUTPUT:
            found.append("special with an output")
        if each.d == NO_REGISTER:
            found.append("special without a register for its result")
    return found


def _once_in_every_block(whens):
    """Whether exactly one holds in a block that is the first, the last, both or neither."""
    return all(
        sum(holds(when, first, last) for when in whens) == 1
        for first in (False, True)
        for last in (False, True)
    )


def holds(when, first, last):
    """Whether an instruction counts in the first or last block of a line."""
    return {EVERY: True, LAST: last, FIRST: first, NOT_LAST: not last}[when]
