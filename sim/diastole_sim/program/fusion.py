"""Join several chains into one chain, which walks through the tensor once."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from diastole_sim.program.assembly import CONSTANT
from diastole_sim.program.chain import Chain, Port
from diastole_sim.program.chains.elementwise import IN_MEMORY, WRITTEN
from diastole_sim.program.memory_plan import BoundStream, PlannedImage
from diastole_sim.spec.micro import INPUTS, MAX_INSTRUCTIONS, OUTPUTS, REGISTERS, SPECIALS
from diastole_sim.spec.stream_table import Kind

Value: TypeAlias = str
"""Name of a tensor that one part computes and others read."""
Source: TypeAlias = Value | BoundStream
Target: TypeAlias = Value | BoundStream | PlannedImage
FLOATS = "floats"
"""Form in which memory receives a value as numbers. Each further form is the class of an image."""
_TO_REGISTERS = frozenset(op.name.lower() for op in SPECIALS)
"""Operations that write no output stream."""
_OPERAND = re.compile(r"(-?)([rs]\d+)")


class FusionError(Exception):
    """Report chains that one walk cannot do."""


@dataclass(frozen=True, kw_only=True)
class ChainPart:
    """Chain as a part of a longer chain.

    - ``shape``: rows and columns of the chain's tensor.
    - ``inputs``, ``outputs``: by name of the chain's stream, a value or a stream.
    - ``numbers``: numbers of constants, as in :class:`diastole_sim.program.writer.ChainCall`.
    - ``row_list``: list of gathered rows.
    - ``skip``, ``update``: fields of the command.
    - ``apart``: True for a chain that is joined with no other chain.
    """

    chain: Chain
    shape: tuple[int, int]
    inputs: Mapping[str, Source]
    outputs: Mapping[str, Target]
    numbers: Mapping[str, int] = field(default_factory=dict[str, int])
    row_list: BoundStream | None = None
    skip: bool = False
    update: bool = False
    apart: bool = False

    def reads(self) -> list[Value]:
        """Return the values that the part reads."""
        return [each for each in self.inputs.values() if isinstance(each, str)]

    def writes(self) -> list[Value]:
        """Return the values that the part computes."""
        return [each for each in self.outputs.values() if isinstance(each, str)]


@dataclass(frozen=True, kw_only=True)
class Fused:
    """Chain made of parts.

    - ``inputs``: by name of an input of the chain, the value or the stream.
    - ``outputs``: by name of an output, the stream or the image.
    - ``stored``: by name of a further output, a value and the form that memory receives.
    - ``numbers``: numbers of constants.
    """

    chain: Chain
    inputs: Mapping[str, Source]
    outputs: Mapping[str, BoundStream | PlannedImage]
    stored: Mapping[str, tuple[Value, str]]
    numbers: Mapping[str, int]


@dataclass(kw_only=True, eq=False)
class _Line:
    """Instruction as text. ``body``: operation with operands and flags."""

    register: str | None
    body: list[str]
    output: str | None = None

    def __str__(self) -> str:
        target = [self.register, "="] if self.register else []
        return " ".join([*target, *self.body, *(["->", self.output] if self.output else [])])

    @property
    def turned(self) -> bool:
        """True for a sum over lanes or row slots, which changes the register of the operand."""
        return self.body[0] == "turned"

    @property
    def written(self) -> str | None:
        """Register that the instruction writes."""
        return self.body[2] if self.turned else self.register

    @property
    def conditional(self) -> bool:
        """True if some blocks leave the instruction out."""
        return "when" in self.body

    @property
    def may_write(self) -> bool:
        """True if the instruction may write an output in every block."""
        return not (self.turned or self.conditional or self.body[0] in _TO_REGISTERS)

    def reads(self) -> list[str]:
        """Return the registers and input streams that the instruction reads."""
        return [found[2] for word in self.body if (found := _OPERAND.fullmatch(word))]

    def moved(self) -> str | None:
        """Return the operand of a plain move, None for another instruction."""
        plain = self.body[0] == "mov" and len(self.body) == 2 and not self.body[1].startswith("-")
        return self.body[1] if plain else None

    def renamed(self, names: Mapping[str, str]) -> "_Line":
        """Return the line with other names of registers and streams."""

        def new(word: str) -> str:
            found = _OPERAND.fullmatch(word)
            return found[1] + names.get(found[2], found[2]) if found else word

        register = self.register and names.get(self.register, self.register)
        return replace(self, register=register, body=[new(word) for word in self.body])


def _lines_of(text: str) -> list[_Line]:
    found: list[_Line] = []
    for each in text.splitlines():
        words = each.partition("#")[0].replace("->", " -> ").split()
        register = output = None
        if words[1:2] == ["="]:
            register, words = words[0], words[2:]
        if words[-2:-1] == ["->"]:
            output, words = words[-1], words[:-2]
        if words:
            found.append(_Line(register=register, body=words, output=output))
    return found


def fused(
    parts: Sequence[ChainPart],
    stored: Mapping[Value, Sequence[str]],
    *,
    block: int,
    head: Value | None = None,
) -> Fused:
    """Return one chain of all parts in order.

    - ``stored``: forms in which memory receives a value, by name of the value.
    - ``block``: B.
    - ``head``: product at whose drain the chain is.

    A value that a later part reads stays in a register. FusionError if registers, streams or
    instructions of the machine do not suffice, or if parts differ in tensor or walk.
    """
    if len({(each.shape, each.chain.by_columns) for each in parts}) > 1:
        raise FusionError("the parts walk through different tensors")
    fusion = _Fusion(parts, stored, block)
    if head is not None:
        fusion.store_product(head)
    return fusion.result()


class _Fusion:
    """Fusion of parts: the text so far, and the places of all values."""

    def __init__(
        self, parts: Sequence[ChainPart], stored: Mapping[Value, Sequence[str]], block: int
    ):
        self.parts, self.stored, self.block = parts, stored, block
        self.lines: list[_Line] = []
        self.inputs: dict[str, Port] = {}
        self.outputs: dict[str, Port] = {}
        self.sources: dict[str, Source] = {}
        self.targets: dict[str, BoundStream | PlannedImage] = {}
        self.forms: dict[str, tuple[Value, str]] = {}
        self.constants: dict[str, float | None] = {}
        self.numbers: dict[str, int] = {}
        self._places: dict[Value, str] = {}
        self._last: dict[Value, int] = {}
        self._used: set[str] = set()
        self._free: list[str] = []
        self._lasting: set[str] = set()
        self._order: dict[str, tuple[int, int]] = {}
        self._part = 0
        for number, part in enumerate(parts):
            self._last |= dict.fromkeys(part.reads(), number)

    def store_product(self, head: Value) -> None:
        """Append moves of a product to memory, if memory receives the product."""
        if self.stored.get(head):
            product = Port(number=0, kinds=IN_MEMORY, meaning="a product")
            self._places[head] = self._input(product, head)
            self._store(head, replace(product, kinds=WRITTEN))

    def result(self) -> Fused:
        for number, part in enumerate(self.parts):
            self._add(number, part)
        self._join_stores()
        self._drop_unread()
        turns = (self.block - 1).bit_length()
        length = sum(turns or bool(line.output) if line.turned else 1 for line in self.lines)
        if length > MAX_INSTRUCTIONS:
            raise FusionError(f"the parts have {length} instructions")
        self._number_outputs()
        text = "".join(f"{line}\n" for line in self.lines)
        chain = Chain(
            name=" + ".join(part.chain.name for part in self.parts) or "copied",
            text=text,
            inputs=self.inputs,
            outputs=self.outputs,
            constants={name: v for name, v in self.constants.items() if f"K[{name}]" in text},
            by_columns=any(part.chain.by_columns for part in self.parts),
        )
        return Fused(
            chain=chain,
            inputs=self.sources,
            outputs=self.targets,
            stored=self.forms,
            numbers={name: n for name, n in self.numbers.items() if name in chain.constants},
        )

    def _add(self, number: int, part: ChainPart) -> None:
        """Append the text of a part."""
        self._part = number
        lines, names = self._renamed(number, part)
        local = {names[each] for each in _registers(lines)} - set(self._places.values())
        by_output = {f"o{port.number}": name for name, port in part.chain.outputs.items()}
        for place, line in enumerate(lines):
            new, output = line.renamed(names), by_output.get(line.output or "")
            new.output = None
            self.lines.append(new)
            target = None if output is None else part.outputs.get(output)
            if output is None or target is None:
                continue
            port = part.chain.outputs[output]
            if not isinstance(target, str):
                new.output = self._output(target.name, port, target)
                continue
            if line.conditional:
                raise FusionError(f"{output} of {part.chain.name} is not a value of every block")
            later = {each.written for each in lines[place + 1 :]} - {None}
            self._keep(target, new, overwritten=line.written in later)
            self._store(target, port)
        self._release(number, local)

    def _renamed(self, number: int, part: ChainPart) -> tuple[list[_Line], dict[str, str]]:
        """Return the instructions of a part, and the new names of registers and streams."""
        ports = part.chain.inputs
        lines = _lines_of(self._with_constants(part))
        values = {
            f"s{ports[name].number}": source
            for name, source in part.inputs.items()
            if isinstance(source, str) and source in self._places
        }
        names = {stream: self._places[value] for stream, value in values.items()}
        for name, source in part.inputs.items():
            stream = f"s{ports[name].number}"
            if stream not in names:
                names[stream] = self._input(ports[name], source)
        lines = self._without_moves(number, lines, values, names)
        carried = _carried(lines)
        for register in _registers(lines):
            if register not in names:
                names[register] = self._register(lasting=register in carried)
        return lines, names

    def _keep(self, value: Value, line: _Line, *, overwritten: bool) -> None:
        """Note the register of a value that an instruction computes. ``overwritten``: True if the
        part writes the register again."""
        if line.written is None:
            line.register = self._register()
        register = line.written
        assert register is not None
        if overwritten and self._last.get(value, -1) > self._part:
            copied = self._register()
            self.lines.append(_Line(register=copied, body=["mov", register]))
            register = copied
        self._places[value] = register

    def _with_constants(self, part: ChainPart) -> str:
        """Return the text of a part, with other names for constants whose names stand for other
        numbers already."""
        renamed: dict[str, str] = {}
        for name, value in part.chain.constants.items():
            new, number = name, part.numbers.get(name)
            while new in self.constants and (
                self.constants[new] != value or self.numbers.get(new) != number
            ):
                new += "'"
            renamed[name] = new
            self.constants[new] = value
            if number is not None:
                self.numbers[new] = number
        return CONSTANT.sub(lambda found: f"K[{renamed.get(found[1], found[1])}]", part.chain.text)

    def _without_moves(
        self,
        number: int,
        lines: list[_Line],
        values: Mapping[str, Value],
        names: dict[str, str],
    ) -> list[_Line]:
        """Return the lines without moves of a value to a register that may be the value's own
        register. ``names`` receives the register."""
        kept: list[_Line] = []
        for line in lines:
            moved, register = line.moved(), line.register
            if moved is None or moved not in values or register in (None, *names) or line.output:
                kept.append(line)
                continue
            value = values[moved]
            place, streams = self._places[value], [s for s, v in values.items() if v == value]
            changed = any(each.written == register for each in lines if each is not line)
            alone = sum(each.reads().count(s) for each in lines for s in streams) == 1
            dies = self._last[value] == number and place not in self._lasting
            before = register in _registers(lines[: lines.index(line)])
            if place.startswith("r") and not before and (not changed or (dies and alone)):
                names[register] = place
            else:
                kept.append(line)
        return kept

    def _register(self, *, lasting: bool = False) -> str:
        """Take a register. ``lasting``: the register keeps a number from block to block, and no
        other part writes the register."""
        if self._free and not lasting:
            return self._free.pop(0)
        name = f"r{len(self._used)}"
        if len(self._used) == REGISTERS:
            raise FusionError("the parts need too many registers")
        self._used.add(name)
        if lasting:
            self._lasting.add(name)
        return name

    def _release(self, number: int, local: set[str]) -> None:
        """Free the registers of a part, and those of values that no later part reads."""
        alive = {
            place for value, place in self._places.items() if self._last.get(value, -1) > number
        }
        dead = local | {place for place in self._places.values() if place.startswith("r")}
        self._places = {value: place for value, place in self._places.items() if place in alive}
        free = dead - alive - self._lasting
        self._free = sorted({*self._free, *free}, key=lambda name: int(name[1:]))

    def _input(self, port: Port, source: Source) -> str:
        """Return the input stream of a value in memory, or of a stream."""
        own = source if isinstance(source, str) else source.name
        if own not in self.inputs:
            if len(self.inputs) == INPUTS:
                raise FusionError("the parts read too many streams")
            if Kind.DRAWS in port.kinds and any(
                Kind.DRAWS in each.kinds for each in self.inputs.values()
            ):
                raise FusionError("the parts read random numbers of two tensors")
            self.inputs[own] = replace(port, number=len(self.inputs))
            self.sources[own] = source
        return f"s{self.inputs[own].number}"

    def _output(
        self, name: str, port: Port, target: BoundStream | PlannedImage | tuple[Value, str]
    ) -> str:
        """Add an output and return a text that stands for the output's number."""
        if len(self.outputs) == OUTPUTS:
            raise FusionError("the parts write too many streams")
        self.outputs[name] = port
        self._order[name] = self._part, port.number
        if isinstance(target, tuple):
            self.forms[name] = target
        else:
            self.targets[name] = target
        return name

    def _store(self, value: Value, port: Port) -> None:
        """Append moves of a value to memory, in every stored form."""
        for form in self.stored.get(value, ()):
            kinds = tuple(each for each in port.kinds if each != Kind.IMAGE) or (Kind.F32,)
            if form != FLOATS:
                kinds = (Kind.IMAGE, Kind.F32)
                if any(written != FLOATS for _, written in self.forms.values()):
                    raise FusionError("the parts make two images")
            name = self._output(f"{value}, {form}", replace(port, kinds=kinds), (value, form))
            self.lines.append(_Line(register=None, body=["mov", self._places[value]], output=name))

    def _join_stores(self) -> None:
        """Let the instruction that computes a number write the number, in place of a move."""
        for line in [each for each in self.lines if each.output and not each.register]:
            moved = line.moved()
            place = next(n for n, each in enumerate(self.lines) if each is line)
            before = [each for each in self.lines[:place] if each.written == moved]
            if moved is None or not moved.startswith("r") or not before:
                continue
            maker = before[-1]
            if maker.output is None and maker.may_write:
                maker.output = line.output
                self.lines = [each for each in self.lines if each is not line]

    def _drop_unread(self) -> None:
        """Drop results that no instruction reads, and instructions without a result."""
        dropped = True
        while dropped:
            dropped = False
            for place, line in enumerate(self.lines):
                if line.written is None or self._is_read(place, line.written):
                    continue
                if line.output is None:
                    self.lines = [each for each in self.lines if each is not line]
                    dropped = True
                    break
                if not line.turned:
                    line.register = None

    def _is_read(self, place: int, register: str) -> bool:
        """Return whether an instruction reads the number that the instruction at ``place`` leaves
        in a register, in this block or a later block."""
        for line in [*self.lines[place + 1 :], *self.lines[: place + 1]]:
            if register in line.reads():
                return True
            if line.written == register and not line.conditional:
                return False
        return False

    def _number_outputs(self) -> None:
        """Replace the names of outputs by numbers, in the order of the parts and of their
        outputs."""
        written = {line.output for line in self.lines}
        names = [
            name for name in sorted(self._order, key=self._order.__getitem__) if name in written
        ]
        order = {name: number for number, name in enumerate(names)}
        self.outputs = {
            name: replace(self.outputs[name], number=number) for name, number in order.items()
        }
        for line in self.lines:
            line.output = line.output and f"o{order[line.output]}"


def _registers(lines: Sequence[_Line]) -> list[str]:
    """Return the registers of a text in the order of their appearance."""
    found: dict[str, None] = {}
    for line in lines:
        for each in [*line.reads(), line.written or ""]:
            if each.startswith("r"):
                found[each] = None
    return list(found)


def _carried(lines: Sequence[_Line]) -> set[str]:
    """Return the registers that keep numbers from block to block: registers that are read before
    they are written, or not written in every block."""
    written: set[str] = set()
    carried: set[str] = set()
    for line in lines:
        carried |= {each for each in line.reads() if each.startswith("r") and each not in written}
        if line.written and not line.conditional:
            written.add(line.written)
        elif line.written and line.written not in written:
            carried.add(line.written)
    return carried
