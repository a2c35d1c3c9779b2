"""Write a program as text: the plan of memory, the commands with the names of tensors, and the
texts of all chains."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from diastole_sim.program.assembly import disassemble
from diastole_sim.program.packing import peak_of
from diastole_sim.program.program import EVALUATION, TRAINING, TrainingProgram
from diastole_sim.program.relocation import address_fields, memory_image
from diastole_sim.spec.chains import named_streams
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import ADDRESS_BITS, CHAINS, Opcode, fields_of
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.loaded_tables import LoadedTables
from diastole_sim.spec.micro import INPUTS, Instruction, Source
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.stream_table import OFFSET_KINDS, Descriptor, Kind

_OMITTED = ("opcode", "version", "class_x", "class_w", "class_dy", "which", "program", "streams")
"""Fields that a line does not show, or shows in words."""


class ProgramListing:
    """Text of a program. ``cycles``: cycles of the commands of a step by number, if known."""

    def __init__(self, program: TrainingProgram, cycles: Mapping[int, int] | None = None):
        self.program, self.cycles = program, cycles or {}
        self._image = memory_image(program)
        self._texts: dict[tuple[Instruction, ...], int] = {}
        self._place = TRAINING, 0

    def __str__(self) -> str:
        lines = [*self._memory(), ""]
        for name, commands in (
            (TRAINING, self.program.training),
            (EVALUATION, self.program.evaluation),
        ):
            lines += [*self._commands(name, commands), ""]
        lines += self._programs()
        return "\n".join(lines) + "\n"

    def _memory(self) -> Iterator[str]:
        areas = sorted(self.program.areas.values(), key=lambda area: area.address)
        alive = peak_of(self.program).bytes
        yield (
            f"memory: {self.program.memory_bytes} bytes in {len(areas)} areas; at most {alive} "
            "bytes are alive at the same time"
        )
        yield f"{'address':>10} {'bytes':>10}  {'kind':12} {'shape':14} name"
        for area in areas:
            shape = " x ".join(map(str, area.shape))
            yield f"{area.address:#10x} {area.length:10}  {area.kind:12} {shape:14} {area.name}"
        for name, (first, end) in self.program.panel.items():
            place = f"{first}..{end - 1}"
            yield f"{'panel':>10} {end - first:10}  {'vectors':12} {place:14} {name}"

    def _commands(self, name: str, commands: Sequence[Command]) -> Iterator[str]:
        yield f"{name}: {len(commands)} commands"
        if name == TRAINING:
            (end,) = (n for n, each in enumerate(commands) if each.opcode == Opcode.NEXT)
            yield (
                f"the first run begins at 0, later runs at {self.program.resume}; a step is "
                f"{commands[end].target} to {end}"
            )
        tables = LoadedTables()
        for number, command in enumerate(commands):
            if command.opcode == Opcode.LOAD:
                tables.load(command, self._read)
            took = self.cycles.get(number) if name == TRAINING else None
            cycles = "" if took is None else f"  # {took} cycles"
            self._place = name, number
            yield f"{number:4}  {self._line(command, tables)}{cycles}"

    def _read(self, address: int, length: int) -> bytes:
        return self._image[address : address + length].tobytes()

    def _line(self, command: Command, tables: LoadedTables) -> str:
        opcode = Opcode(command.opcode)
        words = [f"{opcode.name.lower():13}"]
        addresses = list(address_fields(command))
        if opcode in (Opcode.LOAD, Opcode.STORE):
            words.append(VectorTable(command.which).name.lower())
        if opcode == Opcode.CONVERT:
            words.append(f"class {CLASS_NAMES[command.class_x]}")
        for field in fields_of(opcode):
            value = getattr(command, field.name)
            if field in addresses:
                words.append(f"{field.name.removeprefix('address_')} [{self._named(value)}]")
            elif field.bits != ADDRESS_BITS and field.name not in _OMITTED and value:
                words.append(f"{field.name} {value}" if field.bits > 1 else field.name)
        if opcode in CHAINS:
            words.append(self._chain(command, tables))
        return " ".join(words)

    def _chain(self, command: Command, tables: LoadedTables) -> str:
        """Return the streams of a chain and the number of the chain's text."""
        first, count = command.program, command.program_length
        text = tuple(tables.instructions[first + number] for number in range(count))
        number = self._texts.setdefault(text, len(self._texts))
        inputs, outputs = named_streams(text)
        streams = [
            f"{letter}{port} {self._stream(tables.descriptors[command.streams + offset + port])}"
            for letter, offset, ports in (("s", 0, inputs), ("o", INPUTS, outputs))
            for port in sorted(ports)
        ]
        return f"program {number}: {', '.join(streams)}"

    def _stream(self, stream: Descriptor) -> str:
        kind = Kind(stream.kind)
        name = kind.name.lower()
        if kind in OFFSET_KINDS:
            each = " of the step" if stream.per_step else ""
            return f"{name} [{self._named(stream.address)}]{each}"
        if kind == Kind.PANEL:
            named = (
                each
                for each, (first, end) in self.program.panel.items()
                if first <= stream.address < end
            )
            return f"{name} [{next(named, stream.address)}]"
        return f"{name} K[{stream.address}]" if kind == Kind.CONSTANT else name

    def _named(self, address: int) -> str:
        """Return the name of the area at an address, with the distance from its first byte."""
        for area in self.program.areas.values():
            alive = area.life is None or area.life.at(*self._place)
            if alive and area.address <= address < area.address + max(area.length, 1):
                rest = address - area.address
                return f"{area.name} + {rest}" if rest else area.name
        return hex(address)

    def _programs(self) -> Iterator[str]:
        constants = self._constants()
        for text, number in self._texts.items():
            yield f"program {number}"
            used = {each.k for each in text if Source.CONSTANT in (each.a, each.b, each.c)}
            names = {k: value for k, value in constants.items() if k in used}
            for line in disassemble(text).splitlines():
                yield f"    {line}"
            if names:
                yield "    # " + ", ".join(f"K[{k}] = {value}" for k, value in names.items())

    def _constants(self) -> dict[int, str]:
        """Return the constants that the first load of constants gives, by number."""
        loads = (each for each in self.program.training if each.opcode == Opcode.LOAD)
        load = next((each for each in loads if each.which == VectorTable.CONSTANTS), None)
        if load is None:
            return {}
        values = np.frombuffer(self._read(load.address_x, 4 * load.count), "<f4")
        return {load.first + number: f"{value:.9g}" for number, value in enumerate(values)}
