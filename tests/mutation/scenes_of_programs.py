"""Scenes of a machine with a vector unit: random chains, those at products and over the step's
places, whole training steps, and what the machine refuses. It and the golden machine do the same
commands in the same memory, which must be the same when they end.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, replace
from pathlib import Path
from random import Random

import numpy as np

from diastole_sim.golden.golden_machine import GoldenMachine, Outcome
from diastole_sim.golden.loss_scale import LossScale
from diastole_sim.graph.perceptron import perceptron_graph
from diastole_sim.host.vector_machine import VectorMachine
from diastole_sim.lowering.program import training_program
from diastole_sim.lowering.recipe import TrainingRecipe
from diastole_sim.machines.verilator.simulation import Simulation
from diastole_sim.machines.verilator.verilator_machine import VerilatorMachine
from diastole_sim.program.program import EVALUATION, TRAINING, TrainingProgram
from diastole_sim.program.recipe import Adam, Optimiser, RmsProp, Sgd
from diastole_sim.spec.command import Command, ProgramPlace
from diastole_sim.spec.command_table import COMMAND_BYTES, Opcode
from diastole_sim.spec.image import round_up
from diastole_sim.spec.limits import STORABLE_TABLES, VectorTable, entry_words
from diastole_sim.spec.micro import Instruction, MicroOp, Source, When
from diastole_sim.spec.registers import registers_of
from diastole_sim.spec.stream_table import Descriptor, Kind
from diastole_sim.train.loss_scaling import LossScaling
from mutation.watch import LIMIT, SEED, Log, Noticed
from support.golden_machines import Bench, Converted, K, M, N, PlacedScene, tensors
from support.golden_scenes import scene_of_product, sound
from support.random_programs import SPECIAL_PATTERNS, random_scene
from support.small_programs import samples

MEMORY_BYTES = 1 << 18
COMMANDS, TABLES, STORES = 0x30000, 0x32000, 0x39000
"""Where in memory commands, what tables are loaded with, and what is stored of them lie."""


class Pair:
    """The hardware, and a golden machine that is run beside it where there is no fault."""

    def __init__(self, bell: VectorMachine, log: Log):
        self.bell, self.log = bell, log
        self.golden: GoldenMachine

    def begin(self, golden: GoldenMachine) -> None:
        """Everything as this golden machine has it, and the log's too."""
        self.golden, bell = golden, self.bell
        bell.memory[:] = 0
        bell.write(0, golden.memory.read(0, golden.memory.size))
        bell.loss = golden.loss
        for name in ("step", "step_end", "command_first"):
            setattr(bell, name, getattr(golden, name))

    def run(
        self, commands: list[Command], place: int = COMMANDS, *, registers: bool = True
    ) -> None:
        """Do commands, and compare; reading the ``registers`` takes longer than what is refused."""
        data = b"".join(each.encode() for each in commands)
        for machine in (self.golden, self.bell):
            machine.write(place, np.frombuffer(data, np.uint8))
        self.ring(place, len(commands), registers=registers)

    def ring(self, place: int, count: int, *, registers: bool = True) -> None:
        """Do commands that lie in memory, and compare."""
        bell, golden = self.bell, self.golden
        meant = golden.run_at(place, count) if self.log.expected is None else None
        try:
            outcome = bell.run_at(place, count, limit=LIMIT)
        except ValueError as error:  # a code that no error has
            raise Noticed(str(error)) from error
        reported = bell.reported()
        loss = bell.loss  # once: reading it takes cycles
        seen = (outcome.error, outcome.index, bell.step, loss)
        memory = bell.memory[: golden.memory.size]
        if meant is not None:
            assert (outcome.error, outcome.index) == (meant.error, meant.index)
            assert (bell.step, loss) == (golden.step, golden.loss)
            if meant == Outcome(done=meant.done):
                assert reported == golden.reported()
                assert np.array_equal(memory, golden.memory.read(0, memory.size))
        self.log.note("outcome", repr(seen))
        self.log.note("memory", hashlib.sha256(memory.tobytes()).hexdigest())
        there = registers_of(planes=False, vector=True) if registers else ()
        self.log.note("registers", tuple((r.name, bell.control.read(r.name)) for r in there))
        traffic, state = bell.machine.traffic(), bell.machine.state
        self.log.note("bus", astuple(traffic))
        self.log.note("pins", (state.cycle, state.irq, state.open_reads, state.open_writes))


@contextmanager
def paired(product: Path, log: Log, **options) -> Iterator[Pair]:
    """A pair with no golden machine yet."""
    chosen = {"memory_base": 0, "memory_bytes": 1 << 21, "watchdog_cycles": 20_000}
    with VectorMachine(
        VerilatorMachine(product, Simulation(**chosen | options)), seed=SEED
    ) as bell:
        yield Pair(bell, log)


class ScenesBench(Bench):
    """A bench with a golden machine of the numerics and limits of a pair."""

    def __init__(self, pair: Pair, size: int = MEMORY_BYTES):
        bell = pair.bell
        self.machine = GoldenMachine(bell.numerics, bell.limits, memory_bytes=size, seed=SEED)
        self.machine.memory.write(0, np.full(size, 0xA5, np.uint8))
        self.beat = bell.limits.data_width // 8
        self.end = 0

    def commands(self) -> list[Command]:
        """Write the contents of every table to memory; return commands that load the tables."""
        machine, found, place = self.machine, [], TABLES
        for table in (
            VectorTable.INSTRUCTIONS,
            VectorTable.CONSTANTS,
            VectorTable.AMAX,
            VectorTable.PANEL,
            VectorTable.DESCRIPTORS,
        ):
            count = machine.limits.entries(Opcode.LOAD, table)
            data = machine.tables.bytes_of(table, 0, count)
            machine.memory.write(place, data)
            found.append(Command.load(table, address=place, first=0, count=count))
            place += round_up(data.size, self.beat)
        assert place <= STORES
        return found

    def stores(self) -> list[Command]:
        """Return commands that store every table, to compare the results of chains in tables."""
        found, place = [], STORES
        limits = self.machine.limits
        for table in STORABLE_TABLES:
            count = limits.entries(Opcode.STORE, table)
            found.append(Command.store(table, address=place, first=0, count=count))
            place += round_up(4 * entry_words(table, limits.block) * count, self.beat)
        return found


WALKS = ("rows", "columns", "rows", "columns", "rows", "columns", "rows", "columns")


def chains(product: Path, log: Log) -> None:
    """Run random chains over memory and panel one after another, at steps 0 and 3."""
    _chains(product, log, 11, WALKS)


def stalled_chains(product: Path, log: Log) -> None:
    """Run other random chains as :func:`chains`, with a memory that stalls."""
    _chains(product, log, 12, WALKS, stalls=3)


def chains_with_draws(product: Path, log: Log) -> None:
    """Run random chains that read random numbers, at steps 0 and 3, and then at products."""
    _chains(product, log, 14, WALKS, draws=True)
    _chains(product, log, 15, WALKS[:4], draws=True, stalls=3)
    _drained_chains(product, log, 16, draws=True)


def _chains(
    product: Path, log: Log, seed: int, walks: tuple[str, ...], *, draws: bool = False, **options
) -> None:
    rng = Random(seed)
    with paired(product, log, **options) as pair:
        for number, walk in enumerate(walks):
            bench = ScenesBench(pair)
            block = bench.machine.limits.block
            scene = sound(random_scene(rng, block, walk=walk, length=32, draws=draws))
            placed = PlacedScene(bench, scene, rng, step=3 * (number % 2))
            done_between(pair, bench, [placed.command()])


def done_between(pair: Pair, bench: ScenesBench, commands: list[Command]) -> None:
    """Load the tables, run ``commands``, and store the tables."""
    before, after = bench.commands(), bench.stores()
    pair.begin(bench.machine)
    pair.run([*before, *commands, *after])


DRAINED = {
    Opcode.FORWARD_CHAIN: (M, N),
    Opcode.DX_CHAIN: (M, K),
    Opcode.DW_CHAIN: (K, N),
}


def drained_chains(product: Path, log: Log) -> None:
    """Run random chains on the results of products."""
    _drained_chains(product, log, 13)


def _drained_chains(product: Path, log: Log, seed: int, *, draws: bool = False) -> None:
    rng, numbers = Random(seed), np.random.default_rng(seed)
    with paired(product, log) as pair:
        for opcode, size in (*DRAINED.items(), *DRAINED.items()):
            bench = ScenesBench(pair)
            machine = bench.machine
            scene = scene_of_product(rng, machine.limits.block, size, length=32, draws=draws)
            converted = Converted(bench, tensors(numbers), step=1)
            placed = PlacedScene(bench, scene, rng, step=1)
            command = converted.product(opcode, machine.numerics, program=placed.place)
            done_between(pair, bench, [*converted.commands, command])


MOVE = Instruction(op=MicroOp.MOV, a=Source.S0, o=0)
OTHER = replace(MOVE, o=1)
OF_CHAINS = (
    ((MOVE,), {}, 1.0),
    ((MOVE,), {"pitch": 4}, 1.0),
    ((MOVE,), {"address": 4}, 1.0),
    ((MOVE,), {"kind": Kind.NONE}, 1.0),
    ((MOVE,), {"kind": Kind.CONSTANT, "address": 256, "pitch": 0}, 1.0),
    ((MOVE,), {"kind": Kind.PANEL, "address": 4090, "pitch": 4}, 1.0),
    ((replace(MOVE, b=1),), {}, 1.0),
    ((replace(MOVE, k=1),), {}, 1.0),
    ((replace(MOVE, rest=1 << 63),), {}, 1.0),
    ((replace(MOVE, a=26),), {}, 1.0),
    ((replace(MOVE, a=Source.S1),), {}, 1.0),
    ((OTHER,), {}, 1.0),
    ((MOVE, OTHER), {"kind": Kind.IMAGE, "pitch": 0}, 1.0),
    ((replace(MOVE, negate_c=1),), {}, 1.0),
    ((MOVE, MOVE), {}, 1.0),
    ((replace(MOVE, when=When.LAST),), {}, 1.0),
    ((replace(MOVE, op=MicroOp.ADD, a=Source.S2, c=Source.S3),), {}, 1.0),
    ((MOVE,), {"watch": 1}, np.inf),
    ((MOVE,), {"watch": 1}, np.nan),
    ((MOVE,), {}, np.nan),
    ((MOVE,), {"kind": Kind.CONSTANT, "address": 200, "pitch": 0, "watch": 1}, np.inf),
)
"""Programs, what is other in the first output's stream, and an element of the input."""


def refused_chains(product: Path, log: Log) -> None:
    """Programs and streams that are wrong in one thing, and numbers that are not finite."""
    with paired(product, log) as pair:
        for program, stream, number in OF_CHAINS:
            bench = ScenesBench(pair)
            values = np.full((7, 13), 2.0, np.float32)
            values[5, 9] = values[4, 12] = number
            pitch = bench.layout(values.shape).pitch_bytes
            source = Descriptor(kind=Kind.F32, address=bench.put_floats(values), pitch=pitch)
            outputs = [
                Descriptor(kind=Kind.F32, address=bench.take(7 * pitch), pitch=pitch)
                for _ in range(2)
            ]
            panel = Descriptor(kind=Kind.PANEL, address=0, pitch=4)
            streams = {0: source, 2: panel, 3: panel}
            streams |= {4: replace(outputs[0], **stream), 5: outputs[1]}
            if stream.get("kind") == Kind.IMAGE:
                streams[5] = replace(outputs[1], **stream)
            if len(program) == 1 and program[0].o == 1:
                del streams[5]
            place = bench.load(program, streams=streams)
            done_between(pair, bench, [Command.chain(place, m=7, n=13)])
            far = ProgramPlace(first=250, length=7, streams=0)
            pair.run([Command.chain(far, m=7, n=13)])


def overflows(product: Path, log: Log) -> None:
    """Steps with a NaN that is watched, a chain that is skipped then, and a scale slot."""
    with paired(product, log) as pair:
        for number in (np.nan, 1.0):
            bench = ScenesBench(pair)
            machine = bench.machine
            machine.loss = LossScale(on=True, exponent=3, smallest=-5, largest=9, window=2)
            machine.step_end = 2
            values = np.full((7, 13), 2.0, np.float32)
            values[5, 9] = number
            pitch = bench.layout(values.shape).pitch_bytes
            address = bench.put_floats(values)
            source = Descriptor(kind=Kind.F32, address=address, pitch=pitch)
            chains_of_step = []
            for first, watch in ((0, 1), (20, 0)):
                out = replace(source, address=bench.take(7 * pitch), watch=watch)
                place = bench.load((MOVE,), first=first, streams={0: source, 4: out}, at=first)
                chains_of_step.append(Command.chain(place, m=7, n=13, skip=not watch))
            where = {"source": address, "destination": bench.take(1024)}
            convert = Command.convert("w", rows=5, cols=9, tag=3, step=0, slot=6, **where)
            before, after = bench.commands(), bench.stores()
            pair.begin(machine)
            again = Command.next(len(before))
            pair.run([*before, *chains_of_step, convert, *after, again])


def special_numbers(product: Path, log: Log) -> None:
    """Zeros, infinities, NaNs and subnormals, each beside each, also where they are only moved."""
    s0, s1 = Source.S0, Source.S1
    programs = (
        Instruction(op=MicroOp.SEL, a=s1, b=s0, c=s1, negate_c=1, o=0),
        Instruction(op=MicroOp.MOV, a=s0, negate_a=1, o=1),
        Instruction(op=MicroOp.MAX, a=s0, c=s1, negate_c=1, keep=1, o=2),
        Instruction(op=MicroOp.MAD, a=s0, b=s1, c=s0, o=3),
    )
    with paired(product, log) as pair:
        bench = ScenesBench(pair)
        each = np.array(SPECIAL_PATTERNS, np.uint32).view(np.float32)
        shape = (each.size, each.size)
        pitch = bench.layout(shape).pitch_bytes
        tables = [np.broadcast_to(it, shape) for it in (each, each[:, None])]
        places = [bench.put_floats(table) for table in tables]
        places += [bench.take(shape[0] * pitch) for _ in range(4)]
        streams = {
            number: Descriptor(kind=Kind.F32, address=address, pitch=pitch)
            for number, address in zip((0, 1, 4, 5, 6, 7), places, strict=True)
        }
        place = bench.load(programs, streams=streams)
        done_between(pair, bench, [Command.chain(place, m=shape[0], n=shape[1])])


def trained(product: Path, log: Log) -> None:
    """Steps of small perceptrons: every optimiser, special functions, clipping."""
    _trained(product, log, Adam(rate=_rate, weight_decay=0.25), "gelu", clip=0.5)
    _trained(product, log, RmsProp(rate=_rate, momentum=0.5), "sigmoid", as_bytes=False)


def scaled(product: Path, log: Log) -> None:
    """Steps with the largest scale of the loss, and such that overflow and are skipped."""
    momentum = Sgd(rate=_rate, momentum=0.5, nesterov=True, weight_decay=0.125)
    for exponent in (3, 127):
        floors = ((1, -2), (2, exponent))
        scaling = LossScaling(
            exponent=exponent, smallest=-20, largest=exponent, window=2, floors=floors
        )
        _trained(product, log, momentum, "relu", loss_scaling=scaling, scale=4.0)


def _rate(step: int) -> float:
    return 0.25 / (step + 1)


def _trained(
    product: Path,
    log: Log,
    optimiser: Optimiser,
    activation: str,
    *,
    as_bytes=True,
    scale=1 / 16,
    **recipe,
) -> None:
    """Three steps, and an evaluation."""
    numbers = np.random.default_rng(17)
    with paired(product, log) as pair:
        sets = [samples(numbers, count, 7, 5, as_bytes=as_bytes, scale=scale) for count in (11, 6)]
        made = TrainingRecipe(
            graph=perceptron_graph((7, 6, 5), batch=6, activation=activation),
            optimiser=optimiser,
            batches=numbers.integers(0, 11, size=(3, 6)),
            **recipe,
        )
        bell = pair.bell
        program = training_program(made, *sets, numerics=bell.numerics, limits=bell.limits)
        _steps(pair, program)


def _steps(pair: Pair, program: TrainingProgram) -> None:
    bell = pair.bell
    size = program.memory_bytes
    golden = GoldenMachine(bell.numerics, bell.limits, memory_bytes=size, seed=SEED)
    for name, data in program.initial.items():
        golden.write(program.areas[name].address, np.frombuffer(data, np.uint8))
    if program.loss_scaling is not None:
        golden.loss = program.loss_scaling.begin()
    pair.begin(golden)
    for name, first, end in ((TRAINING, 0, 2), (TRAINING, program.resume, 3), (EVALUATION, 0, 3)):
        commands = program.areas[name]
        for machine in (golden, bell):
            machine.command_first, machine.step_end = first, end
        pair.ring(commands.address, commands.length // COMMAND_BYTES)


SCENES_OF_PROGRAMS: tuple[Callable[[Path, Log], None], ...] = (
    trained,
    chains,
    drained_chains,
    overflows,
    special_numbers,
    refused_chains,
    scaled,
    stalled_chains,
)
