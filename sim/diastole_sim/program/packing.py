"""Pack the memory of a program: tensors that are never alive at the same time share memory.

A *temporary* is an area that a step, or an evaluation, writes before reading. A temporary is alive
from the first command that uses the area to the last. At most two commands are in flight, so a
temporary may take the place of another temporary whose last command is at least two commands
earlier. All further areas stay alive: samples, tables, parameters, the state of the training, and
areas of which bytes are read that no command writes.

Places are taken in descending order of sizes, each the first place that is free for the whole life.
An image and its second copy stay together, since a descriptor has their distance.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from diastole_sim.program.memory_plan import LINE_BYTES, Life, PlannedArea
from diastole_sim.program.program import EVALUATION, LOSSES, OUTPUT, TRAINING, TrainingProgram
from diastole_sim.program.relocation import address_fields, memory_image
from diastole_sim.spec.chains import named_streams
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import CHAINS, Opcode
from diastole_sim.spec.image import round_up
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.loaded_tables import LoadedTables
from diastole_sim.spec.micro import INPUTS
from diastole_sim.spec.stream_table import DESCRIPTOR_BYTES, OFFSET_KINDS, Descriptor

SECOND = ", second copy"
IN_FLIGHT = 2
"""Most commands that run at the same time."""
RESULTS = ("out_a", "out_b")


def packed(program: TrainingProgram) -> TrainingProgram:
    """Return the program with the same commands at other addresses."""
    lives = lives_of(program)
    areas = _placed(program, lives)
    moved = _Moved(program, areas)
    initial = {**program.initial, **moved.tables()}
    training, evaluation = map(moved.commands, (program.training, program.evaluation))
    for name, commands in ((TRAINING, training), (EVALUATION, evaluation)):
        if name in initial:
            initial[name] = b"".join(command.encode() for command in commands)
    return replace(
        program,
        training=training,
        evaluation=evaluation,
        areas=areas,
        initial=initial,
        memory_bytes=max(area.end for area in areas.values()),
    )


@dataclass(frozen=True, kw_only=True)
class Peak:
    """Command at which most bytes are alive. ``run``, ``number``: the command, as in a
    :class:`diastole_sim.program.memory_plan.Life`. ``areas``: areas that are alive there, the
    largest first."""

    run: str
    number: int
    areas: tuple[PlannedArea, ...]

    @property
    def bytes(self) -> int:
        return sum(round_up(area.length, LINE_BYTES) for area in self.areas)


def peak_of(program: TrainingProgram) -> Peak:
    """Return the command of a program at which most bytes are alive."""
    begins = {(each.life.run, each.life.first) for each in program.areas.values() if each.life}
    peaks = [
        Peak(run=run, number=number, areas=_alive(program, run, number))
        for run, number in sorted(begins) or [(EVALUATION, 0)]
    ]
    return max(peaks, key=lambda peak: peak.bytes)


def _alive(program: TrainingProgram, run: str, number: int) -> tuple[PlannedArea, ...]:
    alive = (
        area for area in program.areas.values() if area.life is None or area.life.at(run, number)
    )
    return tuple(sorted(alive, key=lambda area: -area.length))


def lives_of(program: TrainingProgram) -> dict[str, Life]:
    """Return the lives of all temporaries, by the name of the area."""
    uses = _Uses(program)
    zeros = (name for name, area in program.areas.items() if area.zeros)
    # A rounding belongs to a place: no other tensor may be there.
    kept = {*program.initial, *program.state, *program.parameters, *program.roundings, *zeros}
    kept.add(LOSSES)
    lives: dict[str, Life] = {}
    for unit, names in _units(program.areas).items():
        life = None if kept.intersection(names) else uses.life(unit)
        if life is not None:
            lives |= dict.fromkeys(names, life)
    return lives


def _units(areas: Collection[str]) -> dict[str, list[str]]:
    """Return the names of areas that stay together, by the name of the first."""
    units: dict[str, list[str]] = defaultdict(list)
    for name in areas:
        units[name.removesuffix(SECOND)].append(name)
    return units


class _Uses:
    """Commands that read and write each unit of areas."""

    def __init__(self, program: TrainingProgram):
        self.program = program
        self.image = memory_image(program)
        self.reads: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self.writes: dict[str, list[tuple[str, int]]] = defaultdict(list)
        self._note(TRAINING, program.training)
        self._note(EVALUATION, program.evaluation)

    def life(self, unit: str) -> Life | None:
        """Return the life of a unit; None if the unit is used by both runs, outside of the step, or
        is read before all writes."""
        reads, writes = self.reads[unit], self.writes[unit]
        runs = {run for run, _ in (*reads, *writes)}
        if len(runs) != 1 or not writes:
            return None
        (run,) = runs
        first = min(number for _, number in writes)
        last = max(number for _, number in (*reads, *writes))
        inside = self._inside(run)
        if first not in inside or last not in inside or any(n <= first for _, n in reads):
            return None
        if unit == OUTPUT:  # the host reads the result after the run
            last = inside.stop
        return Life(run=run, first=first, last=last)

    def _inside(self, run: str) -> range:
        """Return the numbers of the commands of a step, or of an evaluation."""
        if run == EVALUATION:
            return range(len(self.program.evaluation))
        training = self.program.training
        (end,) = (n for n, each in enumerate(training) if each.opcode == Opcode.NEXT)
        return range(training[end].target, end)

    def _note(self, run: str, commands: Sequence[Command]) -> None:
        tables = LoadedTables()
        for number, command in enumerate(commands):
            if command.opcode == Opcode.LOAD:
                tables.load(command, self._read)
            for written, address in self._addresses(command, tables):
                unit = area_at(self.program.areas, address).name.removesuffix(SECOND)
                (self.writes if written else self.reads)[unit].append((run, number))

    def _addresses(self, command: Command, tables: LoadedTables) -> Iterator[tuple[bool, int]]:
        """Yield the addresses of a command, each with True if the command writes there."""
        opcode = Opcode(command.opcode)
        for field in address_fields(command):
            written = field.name in RESULTS or opcode == Opcode.STORE
            if opcode == Opcode.CONVERT:
                written = field.name != "address_x"
            yield written, getattr(command, field.name)
        if opcode not in CHAINS:
            return
        text = [tables.instructions[command.program + n] for n in range(command.program_length)]
        inputs, outputs = named_streams(text)
        for written, ports in ((False, inputs), (True, [INPUTS + port for port in outputs])):
            for port in ports:
                stream = tables.descriptors[command.streams + port]
                if stream.kind in OFFSET_KINDS:
                    yield written, stream.address

    def _read(self, address: int, length: int) -> bytes:
        return self.image[address : address + length].tobytes()


def area_at(areas: Mapping[str, PlannedArea], address: int) -> PlannedArea:
    """Return the area at an address. LookupError without one."""
    for area in areas.values():
        if area.address <= address < area.address + max(area.length, 1):
            return area
    raise LookupError(f"no area is at {address:#x}")


@dataclass(frozen=True, kw_only=True)
class _Unit:
    """Areas that stay together: ``names`` in the order of their addresses."""

    names: tuple[str, ...]
    size: int
    life: Life | None


def _placed(program: TrainingProgram, lives: Mapping[str, Life]) -> dict[str, PlannedArea]:
    """Return all areas at their new addresses."""
    first: dict[str, int] = {}
    temporaries: list[_Unit] = []
    end = min((area.address for area in program.areas.values()), default=0)
    for unit, names in _units(program.areas).items():
        size = sum(round_up(program.areas[name].length, LINE_BYTES) for name in names)
        if unit in lives:
            temporaries.append(_Unit(names=tuple(names), size=size, life=lives[unit]))
        else:
            first[unit] = end
            end += size
    base, placed = end, list[tuple[int, _Unit]]()
    for unit in sorted(temporaries, key=lambda each: -each.size):
        address = _free_place(unit, placed, base)
        placed.append((address, unit))
        first[unit.names[0]] = address
    areas: dict[str, PlannedArea] = {}
    for unit, names in _units(program.areas).items():
        address = first[unit]
        for name in names:
            area = program.areas[name]
            areas[name] = replace(area, address=address, life=lives.get(name))
            address += round_up(area.length, LINE_BYTES)
    return areas


def _free_place(unit: _Unit, placed: Sequence[tuple[int, _Unit]], base: int) -> int:
    """Return the first address from ``base`` on that is free for the life of a unit."""
    assert unit.life is not None
    busy = sorted(
        (address, address + other.size)
        for address, other in placed
        if other.life is not None and other.life.meets(unit.life, apart=IN_FLIGHT)
    )
    address = base
    for first, end in busy:
        if address + unit.size <= first:
            break
        address = max(address, end)
    return address


class _Moved:
    """Commands and tables of a program with the addresses of moved areas."""

    def __init__(self, program: TrainingProgram, areas: Mapping[str, PlannedArea]):
        self.program, self.areas = program, areas

    def address(self, old: int) -> int:
        """Return the new address of a byte."""
        area = area_at(self.program.areas, old)
        return self.areas[area.name].address + old - area.address

    def commands(self, commands: Sequence[Command]) -> tuple[Command, ...]:
        """Return the commands with new addresses."""
        return tuple(
            replace(
                command,
                **{
                    field.name: self.address(getattr(command, field.name))
                    for field in address_fields(command)
                },
            )
            for command in commands
        )

    def tables(self) -> dict[str, bytes]:
        """Return the tables of descriptors with new addresses, by name of the area."""
        found: dict[str, bytearray] = {}
        for command in (*self.program.training, *self.program.evaluation):
            if command.opcode != Opcode.LOAD or command.which != VectorTable.DESCRIPTORS:
                continue
            area = area_at(self.program.areas, command.address_x)
            if area.name in found:
                continue
            data = found[area.name] = bytearray(self.program.initial[area.name])
            for place in range(0, len(data), DESCRIPTOR_BYTES):
                entry = Descriptor.decode(bytes(data[place : place + DESCRIPTOR_BYTES]))
                if entry.kind in OFFSET_KINDS:
                    moved = replace(entry, address=self.address(entry.address))
                    data[place : place + DESCRIPTOR_BYTES] = moved.encode()
        return {name: bytes(data) for name, data in found.items()}
