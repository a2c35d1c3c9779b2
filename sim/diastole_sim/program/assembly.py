"""Assemble and disassemble the text of programs of the vector unit.

An instruction is a line. A comment begins with ``#``::

    r0 = add s0 -r1 fresh keep -> o0

A line has the following parts, in order:

- a register and ``=``, if the instruction writes a register;
- the operation;
- the operands in the order a, b, c (``sel``: b, a, c);
- flags in any order: ``fresh``, ``keep``, ``turn lanes 2``, ``turn rows 1``, ``when first``,
  ``when last``, ``when not last``;
- ``->`` and an output, if the instruction writes an output stream.

An operand is a register ``r0`` to ``r15``, an input stream ``s0`` to ``s3``, ``0``, ``1``,
``column``, ``row``, ``inside``, or a constant ``K[5]`` or ``K[name]``. A minus before an operand
flips the sign.

``turned add r1 lanes`` (or ``rows``; also ``max`` and similar operations) stands for the log2 B
instructions ``r1 = add r1 r1 turn lanes log2 B``, .., ``1``, after which every lane has the sum.
``turned`` takes ``when`` and an output, which the last instruction writes. For B = 1 only the write
of the output remains.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from diastole_sim.spec.micro import (
    CONSTANTS,
    INPUTS,
    NO_OUTPUT,
    NO_REGISTER,
    OUTPUTS,
    REGISTERS,
    USES,
    Instruction,
    MicroOp,
    Source,
    When,
    program_problems,
)
from diastole_sim.spec.require import whole_number

OPERAND_ORDER = {MicroOp.SEL: "bac"}
"""Order of the operands in the text, for operations without the order a, b, c."""
WHEN_WORDS = {
    ("first",): When.FIRST,
    ("last",): When.LAST,
    ("not", "last"): When.NOT_LAST,
}
_NAMED = {
    "0": Source.ZERO,
    "1": Source.ONE,
    "column": Source.COLUMN,
    "row": Source.ROW,
    "inside": Source.INSIDE,
}
_NAMES = {source: name for name, source in _NAMED.items()}
_OPERATIONS = {op.name.lower(): op for op in MicroOp}
_NUMBERED = re.compile(r"([rso])([0-9]{1,40})")
CONSTANT = re.compile(r"K\[([^\]\s]+)\]")
"""A constant in the text of an instruction; the group is its name."""
_SIZES = {"r": REGISTERS, "s": INPUTS, "o": OUTPUTS}
_LARGEST_BLOCK = 1 << 7


@dataclass(frozen=True, kw_only=True)
class TextProblem:
    """Broken rule of a program. ``line``: number of the line from 1, ``text``: text of the line.
    Both are None for a rule about the whole program."""

    line: int | None
    text: str | None
    rule: str

    def __str__(self) -> str:
        if self.line is None:
            return f"the program {self.rule}"
        return f"line {self.line}: {self.rule}: {self.text}"


class AssemblyError(ValueError):
    """Report all errors of a text that is no valid program, a line for each error."""

    def __init__(self, problems: Sequence[TextProblem]):
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class _WrongLine(Exception):
    """Report an error of one line. The message is the rule."""


def assemble(
    text: str,
    constants: Mapping[str, int] | None = None,
    *,
    block: int,
    panels: Sequence[int] = (),
    always_written: Sequence[int] = (),
) -> tuple[Instruction, ...]:
    """Return the instructions of a text, for a machine with B = ``block``.

    - ``constants``: numbers of the constants that the text names, by name.
    - ``panels``, ``always_written``: numbers of streams, as in
      :func:`diastole_sim.spec.micro.program_problems`.

    AssemblyError if a line cannot be read, or if the program breaks a rule of the machine.
    """
    program: list[Instruction] = []
    places: list[tuple[int, str]] = []
    problems: list[TextProblem] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].replace("->", " -> ").split()
        if not words:
            continue
        try:
            instructions = list(_Line(words, constants or {}, block).instructions())
        except _WrongLine as error:
            problems.append(TextProblem(line=number, text=line.strip(), rule=str(error)))
            continue
        program += instructions
        places += [(number, line.strip())] * len(instructions)
    if not problems:
        for place, rule in program_problems(
            program, block=block, panels=panels, always_written=always_written
        ):
            line, words = (None, None) if place is None else places[place]
            problems.append(TextProblem(line=line, text=words, rule=rule))
    if problems:
        raise AssemblyError(problems)
    return tuple(program)


class _Line:
    """Parser of one line, which takes words from the front."""

    def __init__(self, words: list[str], constants: Mapping[str, int], block: int):
        self.words = words
        self.constants = constants
        self.log2_block = block.bit_length() - 1

    def instructions(self) -> Iterator[Instruction]:
        """Yield the instructions of the line."""
        if self.words[0] == "turned":
            self._take("")
            yield from self._turned()
            return
        fields = {"d": self._result()}
        fields["op"] = op = self._operation()
        fields |= self._operands(op)
        yield self._instruction(fields | self._flags())

    def _take(self, expected: str) -> str:
        if not self.words:
            raise _WrongLine(f"the line ends where {expected} is expected")
        return self.words.pop(0)

    def _result(self) -> int:
        if len(self.words) < 2 or self.words[1] != "=":
            return NO_REGISTER
        register = self._register("the result is not a register")
        self._take("=")
        return register

    def _operation(self) -> MicroOp:
        word = self._take("an operation")
        if word not in _OPERATIONS:
            raise _WrongLine(f"there is no operation {word}, only {', '.join(_OPERATIONS)}")
        return _OPERATIONS[word]

    def _numbered(self, word: str, kinds: str, otherwise: str) -> tuple[str, int]:
        """Return the letter and the number of a register (r), an input (s) or an output (o)."""
        match = _NUMBERED.fullmatch(word)
        if match is None or match[1] not in kinds:
            raise _WrongLine(f"{otherwise}: {word}")
        kind, number, size = match[1], int(match[2]), _SIZES[match[1]]
        if number >= size:
            raise _WrongLine(f"there is no {word}, only {kind}0 to {kind}{size - 1}")
        return kind, number

    def _register(self, otherwise: str) -> int:
        return self._numbered(self._take("a register"), "r", otherwise)[1]

    def _operands(self, op: MicroOp) -> dict[str, int]:
        fields: dict[str, int] = {}
        for letter in OPERAND_ORDER.get(op, USES[op]):
            expected = f"operand {letter} of {op.name.lower()}"
            word = self._take(expected)
            if word == "->":
                raise _WrongLine(f"-> is written where {expected} is expected")
            fields[f"negate_{letter}"] = int(word.startswith("-"))
            source, k = self._source(word.removeprefix("-"), expected)
            fields[letter] = source
            if k is None:
                continue
            if fields.setdefault("k", k) != k:
                raise _WrongLine(
                    "an instruction reads at most one constant; copy another constant to a "
                    "register with `mov`"
                )
        return fields

    def _source(self, word: str, expected: str) -> tuple[int, int | None]:
        """Return the field of an operand, and the number of a constant."""
        if word in _NAMED:
            return _NAMED[word], None
        constant = CONSTANT.fullmatch(word)
        if constant is not None:
            return Source.CONSTANT, self._constant(constant[1])
        otherwise = f"{expected} is neither a register, an input, a constant nor a number"
        kind, number = self._numbered(word, "rs", otherwise)
        return (Source.S0 if kind == "s" else 0) + number, None

    def _constant(self, name: str) -> int:
        if name in self.constants:
            return self.constants[name]
        number = whole_number(name)
        if number is None:
            raise _WrongLine(f"no constant has the name {name}")
        if number >= CONSTANTS:
            raise _WrongLine(f"there is no constant {name}, only 0 to {CONSTANTS - 1}")
        return number

    def _flags(self) -> dict[str, int]:
        fields: dict[str, int] = {}
        while self.words:
            name, value = self._flag(self._take(""))
            if name in fields:
                raise _WrongLine(f"{name.replace('_', ' ')} is written twice")
            fields[name] = value
        output = fields.pop("output", NO_OUTPUT)
        return fields | {"o": output}

    def _flag(self, word: str) -> tuple[str, int]:
        """Return the field and the value of a flag."""
        if word in ("fresh", "keep"):
            return word, 1
        if word == "->":
            text = self._take("an output")
            return "output", self._numbered(text, "o", "the target after -> is not an output")[1]
        if word == "turn":
            axis = self._axis()
            amount = self._take("a number")
            lanes = whole_number(amount)
            if not lanes:
                raise _WrongLine(f"the amount of a `turn` must be at least 1, not {amount}")
            return f"turn_{axis}", lanes
        if word == "when":
            for words, value in WHEN_WORDS.items():
                if tuple(self.words[: len(words)]) == words:
                    del self.words[: len(words)]
                    return "when", value
            raise _WrongLine("first, last or not last must follow `when`")
        raise _WrongLine(f"{word} is not a flag, and the operation takes no further operand")

    def _axis(self) -> str:
        axis = self._take("lanes or rows")
        if axis not in ("lanes", "rows"):
            raise _WrongLine(f"`turn` and `turned` work on lanes or rows, not on {axis}")
        return axis

    def _turned(self) -> Iterator[Instruction]:
        op = self._operation()
        if USES[op] != "ac":
            raise _WrongLine(
                f"`turned` needs an operation with the operands a and c only, not {op.name.lower()}"
            )
        register = self._register("the operand of `turned` is not a register")
        axis = self._axis()
        flags = self._flags()
        if flags.keys() - {"when", "o"}:
            raise _WrongLine("`turned` takes only the flag `when` and an output")
        output = flags.pop("o")
        fields = flags | {"op": op, "a": register, "c": register, "d": register}
        for amount in range(self.log2_block, 0, -1):
            last = {"o": output} if amount == 1 else {}
            yield self._instruction(fields | last | {f"turn_{axis}": amount})
        if not self.log2_block and output != NO_OUTPUT:
            yield self._instruction(flags | {"op": MicroOp.MOV, "a": register, "o": output})

    @staticmethod
    def _instruction(fields: Mapping[str, int]) -> Instruction:
        try:
            return Instruction(**fields)
        except ValueError as error:
            raise _WrongLine(str(error)) from None


def disassemble(program: Sequence[Instruction], names: Mapping[int, str] | None = None) -> str:
    """Return the text of a program, a line for each instruction. ``names``: names of constants, by
    number.

    ValueError if an instruction breaks a rule that holds for every machine and all streams.
    """
    lines: list[str] = []
    for number, instruction in enumerate(program):
        problems = [rule for _, rule in program_problems([instruction], block=_LARGEST_BLOCK)]
        if problems:
            raise ValueError(f"instruction {number}: {problems[0]}")
        lines.append(_text(instruction, names or {}))
    return "".join(f"{line}\n" for line in lines)


def _text(instruction: Instruction, names: Mapping[int, str]) -> str:
    op = MicroOp(instruction.op)
    words = [] if instruction.d == NO_REGISTER else [f"r{instruction.d}", "="]
    words.append(op.name.lower())
    for letter in OPERAND_ORDER.get(op, USES[op]):
        sign = "-" if getattr(instruction, f"negate_{letter}") else ""
        words.append(sign + _operand(getattr(instruction, letter), instruction.k, names))
    words += [name for name in ("fresh", "keep") if getattr(instruction, name)]
    for axis in ("lanes", "rows"):
        if amount := getattr(instruction, f"turn_{axis}"):
            words += ["turn", axis, str(amount)]
    for text, value in WHEN_WORDS.items():
        if instruction.when == value:
            words += ["when", *text]
    words += [] if instruction.o == NO_OUTPUT else ["->", f"o{instruction.o}"]
    return " ".join(words)


def _operand(source: int, k: int, names: Mapping[int, str]) -> str:
    if source < REGISTERS:
        return f"r{source}"
    if source in _NAMES:
        return _NAMES[Source(source)]
    if source == Source.CONSTANT:
        return f"K[{names.get(k, k)}]"
    return f"s{source - Source.S0}"
