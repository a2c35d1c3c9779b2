"""Model a step of a program in time: its commands, two in flight, and the causes of the array's
waits."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from diastole_sim.perf.chain_times import ChainTimes, estimate_chain
from diastole_sim.perf.chunk_walk import loops_of
from diastole_sim.perf.conversion_estimate import estimate_conversion, slot_cycles
from diastole_sim.perf.drained import estimate_drained
from diastole_sim.perf.modelled_machine import ModelledMachine
from diastole_sim.perf.modelled_vector import ChainTask, ModelledVector
from diastole_sim.perf.panel_counts import counting_cycles
from diastole_sim.perf.product_estimate import Estimate, estimate
from diastole_sim.perf.transfers import estimate_transfer
from diastole_sim.spec.chains import named_streams, walk_of
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_check import max_planes
from diastole_sim.spec.command_table import (
    CHAINED,
    COMMAND_BYTES,
    MULTIPLYING,
    SLOT_FIELDS,
    TRANSFERS,
    Opcode,
)
from diastole_sim.spec.formats import PLANE_BITS
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.loaded_tables import LoadedTables, Read
from diastole_sim.spec.micro import INPUTS
from diastole_sim.spec.nest import KEEP_VALUES, OUTER, Nest
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.sizes.uses import Widths

FETCHED = 4
"""Cycles of a command's fetch without memory latency and beats."""
RUN_OVERHEAD = 2
"""Cycles of a run outside its commands: before the first fetch, and after the end of the last
command."""
QUEUED = 1
"""Cycles from a command's start until the vector unit takes the command."""
ENDED = 1
"""Cycles from the last answer to a command to the end of the command."""


class ProgramState(LoadedTables):
    """Tables of a vector unit, with the chains of commands."""

    def task(self, command: Command, *, block: int, step: int) -> ChainTask:
        """Return the chain of a command."""
        program = [self.instructions[command.program + k] for k in range(command.program_length)]
        inputs, outputs = named_streams(program)
        first = command.streams
        return ChainTask(
            program=program,
            inputs={number: self.descriptors[first + number] for number in inputs},
            outputs={number: self.descriptors[first + INPUTS + number] for number in outputs},
            walk=walk_of(command, block),
            of_product=command.opcode in CHAINED,
            step=step,
        )


@dataclass(frozen=True, kw_only=True)
class CommandTimes:
    """Times of a command in a step, in cycles from the step's beginning, with counts.

    - ``started``, ``done``: start and end of the command.
    - ``slots``: vectors that enter the array.
    - ``loading``, ``stalled``: cycles in which the command's product waits for operands and for
      free space.
    - ``answering``: cycles at the end in which only answers are awaited.
    - ``beats``: beats over the bus, without the beats that a conversion reads and without the
      command's own 64 bytes.
    """

    number: int
    opcode: Opcode
    started: int
    done: int
    slots: int = 0
    loading: int = 0
    stalled: int = 0
    answering: int = 0
    update: bool = False
    beats: int = 0


@dataclass(frozen=True, kw_only=True)
class StepEstimate:
    """Times of a step. ``cycles``: cycles from one end of a step to the next. ``commands``: times
    of the commands in order."""

    cycles: int
    commands: tuple[CommandTimes, ...]

    @property
    def cause_cycles(self) -> dict[str, int]:
        """Cycles by cause, as the counters of a machine have them. A cycle in which a vector enters
        the array counts for ``busy_slots``. A cycle without a vector counts for the cause of the
        command's wait."""
        causes = Counter[str]()
        for each in self.command_causes():
            causes.update(each)
        causes["wait_command"] += self.cycles - self.commands[-1].done
        return dict(causes)

    def command_causes(self) -> list[Counter[str]]:
        """Return the cycles by cause of each command, from the end of the command before to the end
        of the command. A count is negative for vectors that entered before that."""
        every: list[Counter[str]] = []
        before, waited = 0, "wait_command"
        for each in self.commands:
            causes = Counter[str]()
            every.append(causes)
            here = each.done - before
            before = each.done
            causes["busy_slots"] += each.slots
            here -= each.slots
            if here < 0:  # vectors entered while the command before still waited
                causes[waited] += here
                here = 0
            product = each.opcode in CHAINED
            for cause, cycles in (
                ("wait_vector" if product else "wait_store", each.stalled),
                ("wait_load", each.loading),
                ("wait_command", each.answering),
            ):
                took = max(0, min(here, cycles))
                causes[cause] += took
                here -= took
            rest = "wait_update" if each.update else "wait_chain"
            if each.opcode == Opcode.CONVERT:
                rest = "wait_convert"
            elif each.opcode in MULTIPLYING and not product:
                rest = "wait_command"
            causes[rest] += here
            waited = rest
        return every


def ended(times: ChainTimes) -> int:
    """Return when a command of the vector unit is done: in its last cycle, or when all writes are
    last_response."""
    return max(times.done - 1, times.last_response + ENDED)


def nest_of(command: Command) -> Nest:
    """Return the loop nest of a product's command."""
    return Nest(
        t_blocks=command.nest_t,
        groups=command.nest_groups,
        chunk=command.nest_chunk,
        outer=OUTER[command.nest_outer],
        keep=KEEP_VALUES[command.nest_keep],
    )


class StepModel:
    """Model commands of a program in sequence, on a machine with a vector unit. ``class_bits``:
    bits of magnitudes whose width a slot chooses; None for the most."""

    def __init__(
        self,
        machine: ModelledMachine,
        vector: ModelledVector,
        read: Read,
        *,
        class_bits: int | None = None,
    ):
        self.machine, self.vector, self.read = machine, vector, read
        self.class_bits = class_bits
        self.tables = ProgramState()
        self.converter_free = self.array_free = 0

    @property
    def fetch(self) -> int:
        """Cycles of a command's fetch, if its product keeps nothing on chip."""
        beats = ceil_div(COMMAND_BYTES, self.vector.beat_bytes)
        return FETCHED + self.vector.memory.read_cycles + beats

    def fetch_of(self, command: Command) -> int:
        """Return the cycles of the fetch of a command."""
        if not command.nest_keep:
            return self.fetch
        name, sizes = MULTIPLYING[Opcode(command.opcode)].name, (command.m, command.n, command.k)
        loops = loops_of(self.machine, name, *sizes, nest_of(command), self._widths(command))
        return self.fetch + counting_cycles(self.machine, loops)

    def step(self, commands: Sequence[Command], *, step: int = 0) -> StepEstimate:
        """Return the times of step number ``step`` in a program's training. The commands before the
        step have loaded tables."""
        end = next(n for n, each in enumerate(commands) if each.opcode == Opcode.NEXT)
        first = commands[end].target
        for each in commands[:first]:
            if each.opcode == Opcode.LOAD:
                self.tables.load(each, self.read)
        timed: list[CommandTimes] = []
        accepted, unit = 0, 0
        self.converter_free = self.array_free = 0
        for number in range(first, end):
            command = commands[number]
            before = [each.done for each in timed[-2:]]
            fetched = accepted + self.fetch_of(command)
            started = max([fetched, *(before[:-1] if command.ahead else before)])
            times, unit = self._command(number, command, started, unit, step)
            timed.append(
                times
                if not before or times.done > before[-1]
                else replace(times, done=before[-1] + 1)
            )
            accepted = started
        last = max(timed[-1].done, accepted + self.fetch) + 1
        return StepEstimate(cycles=last, commands=tuple(timed))

    def alone(self, commands: Sequence[Command], number: int) -> int:
        """Return the cycles of a run of a single command, with the fetch. Earlier commands have
        loaded tables."""
        for each in commands[:number]:
            if each.opcode == Opcode.LOAD:
                self.tables.load(each, self.read)
        self.converter_free = self.array_free = 0
        if commands[number].opcode == Opcode.NEXT:
            return RUN_OVERHEAD + self.fetch - 1
        times, _ = self._command(number, commands[number], 0, 0, 0)
        return RUN_OVERHEAD + self.fetch_of(commands[number]) + times.done

    def _command(
        self, number: int, command: Command, started: int, unit: int, step: int
    ) -> tuple[CommandTimes, int]:
        """Return the times of a command that starts in cycle ``started``, and the cycle from which
        the vector unit is free again. ``unit``: cycle from which the vector unit is free."""
        opcode = Opcode(command.opcode)
        now = max(started + QUEUED, unit)
        if opcode in TRANSFERS:
            if opcode == Opcode.LOAD:
                self.tables.load(command, self.read)
            times = estimate_transfer(self.vector, command, step=step, now=now)
            return self._unit_times(number, command, started, times)
        if opcode == Opcode.CHAIN:
            task = self.tables.task(command, block=self.vector.block, step=step)
            times = estimate_chain(self.vector, task, now, self.converter_free)
            self.converter_free = max(self.converter_free, times.converted)
            return self._unit_times(number, command, started, times)
        if opcode in CHAINED:
            return self._drained(number, command, started, now, step)
        if opcode == Opcode.CONVERT:
            numerics = self.vector.numerics
            conversion = estimate_conversion(
                numerics,
                CLASS_NAMES[command.class_x],
                command.m,
                command.n,
                data_width=self.vector.data_width,
                memory=self.vector.memory,
            )
            result = CommandTimes(
                number=number,
                opcode=opcode,
                started=started,
                done=started + conversion.cycles + slot_cycles(numerics, command.slot),
                beats=conversion.write_beats,
            )
            return result, unit
        name = MULTIPLYING[opcode].name
        product = estimate(
            self.machine,
            name,
            command.m,
            command.n,
            command.k,
            nest_of(command),
            self._widths(command),
        )
        begun = self._begun(started, product)
        return _product_times(number, opcode, started, begun + product.cycles, product), unit

    def _begun(self, started: int, product: Estimate) -> int:
        """Return the cycle in which a product begins that starts in cycle ``started``. The first
        vector enters the array after the last vector of the product before."""
        begun = max(started, self.array_free - product.waits["start"])
        self.array_free = begun + product.cycles - product.idle["tail"]
        return begun

    def _widths(self, command: Command) -> Widths:
        """Return the bits of magnitude of a product's operands; None for a class whose format has
        one width.

        A width that a slot says is ``class_bits``, or the widest if no other width is chosen.
        """
        fields, numerics = vars(command), self.machine.numerics

        def bits_of(name: str) -> int | None:
            if not numerics.tensor_class(name).format.planes:
                return None
            if fields[SLOT_FIELDS[name]] and self.class_bits:
                return self.class_bits
            return PLANE_BITS * max_planes(fields, name)

        x, w, dy = map(bits_of, CLASS_NAMES)
        return x, w, dy

    def _unit_times(
        self, number: int, command: Command, started: int, times: ChainTimes
    ) -> tuple[CommandTimes, int]:
        done = ended(times)
        result = CommandTimes(
            number=number,
            opcode=Opcode(command.opcode),
            started=started,
            done=done,
            answering=max(0, done - max(times.done, times.converted)),
            update=bool(command.update),
            beats=times.read_beats + times.write_beats,
        )
        return result, times.done

    def _drained(
        self, number: int, command: Command, started: int, now: int, step: int
    ) -> tuple[CommandTimes, int]:
        opcode = Opcode(command.opcode)
        drained = partial(
            estimate_drained,
            self.machine,
            self.vector,
            CHAINED[opcode].name,
            (command.m, command.n, command.k),
            self.tables.task(command, block=self.vector.block, step=step),
            nest=nest_of(command),
            widths=self._widths(command),
        )
        free = self.converter_free
        times = drained(unit_free=now - started, converter_free=free - started)
        begun = self._begun(started, times.product)
        if begun > started:
            times = drained(unit_free=now - begun, converter_free=free - begun)
        chain = times.chain
        self.converter_free = max(free, begun + chain.converted)
        done = begun + ended(chain)
        beats = chain.read_beats + chain.write_beats
        result = _product_times(number, opcode, started, done, times.product, beats)
        answering = max(0, done - begun - max(chain.done, chain.converted))
        return replace(result, stalled=times.stalled, answering=answering), begun + chain.done


def _product_times(
    number: int, opcode: Opcode, started: int, done: int, product: Estimate, beats: int = 0
) -> CommandTimes:
    return CommandTimes(
        number=number,
        opcode=opcode,
        started=started,
        done=done,
        slots=product.slots,
        loading=product.idle["load"],
        stalled=product.idle["accumulator"],
        beats=beats + product.read_beats + product.write_beats,
    )
