"""More scenes of a machine with a vector unit: every kind at every stream, instructions that are
done in some blocks, tiles of products, and what is refused, drawn at random."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import permutations
from itertools import product as pairs_of
from pathlib import Path
from random import Random

import numpy as np

from diastole_sim.spec.chains import chain_faults
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.image import MAX_SIZE, round_up
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.micro import Instruction
from diastole_sim.spec.nest import Nest
from diastole_sim.spec.stream_table import STREAMS, Descriptor, Kind
from mutation.scenes_of_programs import (
    DRAINED,
    TABLES,
    Pair,
    ScenesBench,
    done_between,
    paired,
)
from mutation.watch import Log
from oracle import vector_words as w
from oracle.vector_program import Input, Output, by_columns
from support.golden_machines import Converted, PlacedScene, tensors
from support.golden_scenes import instructions, scene_of_product, sound
from support.random_programs import MEMORY_INPUTS, Scene, random_input, random_scene
from support.vector_scenes import crowded_scene, f32, scene_of

Made = Callable[[Random, int], Scene]


def _each(product: Path, log: Log, seed: int, made: list[Made], **options) -> None:
    """Chains over memory, one after another, at step 0 and later."""
    rng = Random(seed)
    with paired(product, log, **options) as pair:
        for number, make in enumerate(made):
            bench = ScenesBench(pair)
            scene = sound(make(rng, bench.machine.limits.block))
            placed = PlacedScene(bench, scene, rng, step=number % 4)
            done_between(pair, bench, [placed.command()])


def every_stream(product: Path, log: Log) -> None:
    """Every kind of input at every input, over tensors of several beats, moved and turned; every
    kind of output at every output."""
    kinds = range(len(MEMORY_INPUTS))
    made = [lambda rng, block, n=n, t=t: _moved(rng, block, n, t) for t in (0, 1) for n in kinds]
    _each(product, log, 21, made)


def _moved(rng: Random, block: int, first: int, turned: int) -> Scene:
    """Inputs of the kinds from ``first`` on: to outputs of four kinds, or, turned, to floats."""
    size = rng.randrange(1, 4 * block), rng.randrange(5 * block, 10 * block)
    columns = (first + turned) % 4 == 3
    kinds = [MEMORY_INPUTS[(first + n) % len(MEMORY_INPUTS)] for n in range(4)]
    inputs = [random_input(rng, block, size, kind) for kind in kinds]
    move, turn = w.Instruction(op=w.MOV), w.Instruction(op=w.SEL, a=w.NOUGHT, b=w.NOUGHT)
    program = [replace(move, a=w.STREAM + n, d=n) for n in range(4)]
    wanted = [w.KIND_F32, w.KIND_BF16, w.KIND_U8, w.KIND_COLUMN if columns else w.KIND_MASK]
    if turned:
        turns = [{"turn_rows": n & 1 or 2, "turn_lanes": n >> 1} for n in range(4)]
        program += [replace(turn, c=n, o=n, **turns[n]) for n in range(4)]
        wanted = [w.KIND_F32]
    else:
        program += [replace(move, a=n, o=n) for n in range(4)]
    outputs = [Output(wanted[(first + n) % len(wanted)]) for n in range(4)]
    ends = [each.first + block * (each.pitch + 1) * (size[0] // block + 1) for each in inputs]
    scene = scene_of(
        rng,
        block,
        program,
        size=size,
        inputs=inputs,
        outputs=outputs,
        lines=by_columns(*size, block) if columns else None,
        vectors=max(ends) + size[1] + block,
    )
    return replace(scene, walk="columns" if columns else "rows")


def gathered(product: Path, log: Log) -> None:
    """Rows of two tensors, of every pair of inputs."""
    pairs = list(permutations(range(4), 2))
    made = [lambda rng, block, pair=pair: _gathered(rng, block, *pair) for pair in pairs]
    _each(product, log, 22, made)
    _each(product, log, 23, made, stalls=7)


def _gathered(rng: Random, block: int, one: int, other: int) -> Scene:
    size = rng.randrange(1, 4 * block), rng.randrange(1, 6 * block)
    inputs: list = [None] * 4
    inputs[one] = random_input(rng, block, size, w.KIND_GATHERED_F32)
    if rng.random() < 0.7:
        inputs[other] = random_input(rng, block, size, rng.choice(GATHERED))
    program = [
        w.Instruction(op=w.MOV, a=w.STREAM + n, o=n) for n, each in enumerate(inputs) if each
    ]
    outputs = [each and Output(w.KIND_F32) for each in inputs]
    columns = rng.random() < 0.3
    lines = by_columns(*size, block) if columns else None
    scene = scene_of(rng, block, program, size=size, inputs=inputs, outputs=outputs, lines=lines)
    return replace(scene, walk="columns" if columns else "rows")


GATHERED = (w.KIND_GATHERED_F32, w.KIND_GATHERED_U8)


def whens(product: Path, log: Log) -> None:
    """Programs as long as they may be, whose instructions are done in some of the blocks; and such
    that have nothing to do in most of them, which takes as long as choosing does."""
    rare = [lambda rng, block, case=case: _rare(rng, block, *case) for case in RARE]
    _each(product, log, 24, [_whens] * 8 + rare)


RARE = ((w.LAST, 2, 12), (w.FIRST, 2, 12), (w.NOT_LAST, 12, 1))
"""When instructions are done, and blocks of a tensor in which they are not, or seldom."""


def _whens(rng: Random, block: int) -> Scene:
    """One number that every instruction makes another of; where it is read is drawn."""
    size = rng.randrange(1, 3 * block), rng.randrange(2 * block, 5 * block)
    step = w.Instruction(op=w.MAD, a=0, b=w.STREAM, c=w.CONSTANT, d=0)
    steps = [replace(step, k=rng.randrange(250), when=rng.randrange(4)) for _ in range(30)]
    begin = w.Instruction(op=w.MAD, a=w.STREAM, b=w.COLUMN_NUMBER, c=0, d=0, fresh=1)
    end = w.Instruction(op=w.ADD, a=w.NOUGHT, c=0, o=0)
    program = [begin, *steps, end]
    if rng.random() < 0.6:
        program = [replace(end, fresh=1), begin, *steps]
    factor = [[rng.choice((0x3F800000, 0xBF800000, 0x3F000000))] * size[1] for _ in range(size[0])]
    inputs = [Input(w.KIND_F32, factor)]
    return scene_of(rng, block, program, size=size, inputs=inputs, outputs=[Output(w.KIND_F32)])


def _rare(rng: Random, block: int, when: int, high: int, wide: int) -> Scene:
    """Few of many instructions are done in most blocks."""
    size = high * block, wide * block
    step = w.Instruction(op=w.MAX, a=w.COLUMN_NUMBER, c=0, d=0, fresh=1, when=when)
    end = replace(step, c=w.ROW_NUMBER, fresh=0, d=w.NO_REGISTER, o=0, when=w.LAST)
    program = [*[replace(step, d=n % 16) for n in range(31)], end]
    return scene_of(rng, block, program, size=size, outputs=[Output(w.KIND_ROW)])


def far_places(product: Path, log: Log) -> None:
    """Numbers of columns, and of rows, beyond the first thousands."""
    made = [lambda rng, block, row=row: _numbered(rng, block, row=row) for row in (False, True)]
    _each(product, log, 32, made)


def _numbered(rng: Random, block: int, *, row: bool) -> Scene:
    """What each element is the number of."""
    number = w.Instruction(op=w.MOV, a=w.ROW_NUMBER if row else w.COLUMN_NUMBER, o=0)
    number = replace(number, when=w.LAST if row else w.EVERY)
    size = (9000, 1) if row else (1, 9000)
    output = Output(w.KIND_ROW if row else w.KIND_F32)
    return scene_of(rng, block, [number], size=size, outputs=[output])


def many_chains(product: Path, log: Log) -> None:
    """Random ones, larger, and such whose instructions crowd, in a memory that stalls at times."""

    def large(rng: Random, block: int) -> Scene:
        size = rng.randrange(1, 5 * block), rng.randrange(1, 9 * block)
        walk = rng.choice(("rows", "columns"))
        return random_scene(rng, block, walk=walk, length=32, size=size)

    _each(product, log, 25, [large, large, crowded_scene] * 8)
    _each(product, log, 26, [large, crowded_scene] * 6, stalls=9)


def named(product: Path, log: Log) -> None:
    """Every operation with every stream as every operand, which nothing else names; to every
    output."""
    rng = Random(30)
    with paired(product, log) as pair:
        bench = ScenesBench(pair)
        machine = bench.machine
        block = machine.limits.block
        size = (block - 1, block + 1)
        inputs = [f32(rng, size, wild=True) for _ in range(4)]
        move = w.Instruction(op=w.MOV, a=w.STREAM, o=0)
        outputs = [Output(w.KIND_F32)] * 4
        scene = scene_of(rng, block, [move], size=size, inputs=inputs, outputs=outputs)
        command = PlacedScene(bench, scene, rng, step=0).command()
        pair.begin(machine)
        for it in _naming():
            machine.tables.instructions[command.program] = Instruction.decode(it.word)
            pair.run([*_loads(pair, command), command], registers=False)


def _naming() -> Iterator[w.Instruction]:
    """Instructions that name one input, and some output, or none; and one that names nothing."""
    for number, (op, stream) in enumerate(pairs_of(w.OPERANDS, range(4))):
        for name in () if op in w.SPECIALS else w.OPERANDS[op]:
            others = dict.fromkeys(w.OPERANDS[op], w.UNIT) | {name: w.STREAM + stream}
            yield w.Instruction(op=op, o=number % 4, **others)
    for number in range(4):
        yield w.Instruction(op=w.MOV, a=w.STREAM + number, d=0)
        yield w.Instruction(op=w.MOV, a=w.UNIT, o=number)
    yield w.Instruction(op=w.MOV, a=w.UNIT, d=0)


def tiles(product: Path, log: Log) -> None:
    """Random chains at products whose result has many tiles, in both orders."""
    rng, numbers = Random(27), np.random.default_rng(27)
    made = [((1, 1), False), ((2, 2), False), ((2, 3), True), ((2, 1), False), ((1, 2), True)]
    with paired(product, log) as pair:
        for number, (tile, down) in enumerate(made * 2):
            opcode, size = list(DRAINED.items())[number % len(DRAINED)]
            bench = ScenesBench(pair)
            machine = bench.machine
            block = machine.limits.block
            scene = scene_of_product(rng, block, size, length=12, tile=tile, down=down)
            converted = Converted(bench, tensors(numbers), step=number)
            placed = PlacedScene(bench, scene, rng, step=number)
            nest = Nest(t_blocks=tile[0], groups=tile[1], outer="l" if down else "t")
            command = converted.product(opcode, machine.numerics, program=placed.place, nest=nest)
            done_between(pair, bench, [*converted.commands, command])


def narrow_tiles(product: Path, log: Log) -> None:
    """Images, and sums of rows, at products whose tiles do not hold whole rows: refused."""
    rng, numbers = Random(31), np.random.default_rng(31)
    with paired(product, log) as pair:
        bench = ScenesBench(pair)
        machine = bench.machine
        converted = Converted(bench, tensors(numbers))
        pair.begin(machine)
        size = DRAINED[Opcode.FORWARD_CHAIN]
        for number in range(4):
            move = w.Instruction(op=w.MOV, a=w.STREAM + number, o=number)
            for kind in (w.KIND_IMAGE, w.KIND_ROW):
                inputs, outputs = [None] * number, [None] * number
                inputs += [Input(w.KIND_PRODUCT)]
                outputs += [Output(kind)]
                scene = scene_of(
                    rng, machine.limits.block, [move], size=size, inputs=inputs, outputs=outputs
                )
                placed = PlacedScene(bench, scene, rng, step=0)
                command = converted.product(
                    Opcode.FORWARD_CHAIN,
                    machine.numerics,
                    program=placed.place,
                    nest=Nest(t_blocks=1, groups=2),
                )
                pair.run([*_loads(pair, command), command], registers=False)


def wrong_bits(product: Path, log: Log) -> None:
    """Chains of which a bit or two of an instruction, or of a stream, are others: all that are
    refused."""
    rng = Random(28)
    with paired(product, log) as pair:
        for _ in range(12):
            bench = ScenesBench(pair)
            machine = bench.machine
            walk = rng.choice(("rows", "columns"))
            scene = sound(random_scene(rng, machine.limits.block, walk=walk, length=8))
            command = PlacedScene(bench, scene, rng, step=0).command()
            before = bench.commands()
            pair.begin(machine)
            pair.run(before)
            tables = machine.tables
            for _ in range(30):
                kept = list(tables.instructions), list(tables.descriptors)
                which = rng.randrange(command.program_length + 8)
                if which < 8:
                    at = command.streams + which
                    data = _other_bits(rng, tables.descriptors[at].encode())
                    tables.descriptors[at] = Descriptor.decode(data)
                else:
                    at = command.program + which - 8
                    data = _other_bits(rng, tables.instructions[at].encode().to_bytes(8, "little"))
                    tables.instructions[at] = Instruction.decode(int.from_bytes(data, "little"))
                if chain_faults(command, tables.descriptors, tables.instructions, machine.limits):
                    pair.run([*_loads(pair, command), command], registers=False)
                tables.instructions[:], tables.descriptors[:] = kept


def wrong_fields(product: Path, log: Log) -> None:
    """Of every operation instructions of which one field is another: all that are refused."""
    with paired(product, log) as pair:
        bench = ScenesBench(pair)
        machine = bench.machine
        words = instructions([w.Instruction(op=w.MOV, a=w.STREAM, o=0).word])
        panel = Descriptor(kind=Kind.PANEL)
        place = bench.load(words, streams={0: panel, 1: panel, 4: panel})
        command = Command.chain(place, m=5, n=5)
        pair.begin(machine)
        tables = machine.tables
        for op in (*w.OPERANDS, 10, 15, 22, 31):
            uses = w.OPERANDS.get(op, "")
            special = {"d": 0} if op in w.SPECIALS else {"o": 0}
            good = w.Instruction(op=op, **dict.fromkeys(uses, 0), **special)
            for name, values in FIELDS.items():
                for value in values:
                    word = replace(good, **{name: value}).word
                    tables.instructions[command.program] = Instruction.decode(word)
                    if chain_faults(
                        command, tables.descriptors, tables.instructions, machine.limits
                    ):
                        pair.run([*_loads(pair, command), command], registers=False)


FIELDS = {
    "op": (23,),
    **dict.fromkeys("abc", (w.STREAM, 31)),
    "d": (16, 31),
    "o": (2, 7),
    "turn_lanes": (1, 3),
    "turn_rows": (2,),
    "keep": (1,),
    "when": (2,),
    "rest": (1 << 14,),
}
"""Values that are wrong in some operation."""


def far_panels(product: Path, log: Log) -> None:
    """Panels that do not end where they should, of tensors of any size: all that are refused."""
    rng = Random(29)
    program = (w.Instruction(op=w.MOV, a=w.STREAM, o=0),)
    with paired(product, log) as pair:
        bench = ScenesBench(pair)
        machine = bench.machine
        panel = Descriptor(kind=Kind.PANEL)
        place = bench.load(instructions([each.word for each in program]), streams={0: panel})
        pair.begin(machine)
        tables = machine.tables
        for number in range(120):
            rows, cols = (rng.choice((1, 5, 9, 1 << rng.randrange(24), MAX_SIZE)) for _ in "mn")
            pitch = rng.choice((0, 1, 1 << rng.randrange(32), (1 << 32) - 1))
            address = rng.choice((0, 4, 252, 256, 1 << rng.randrange(40), (1 << 40) - 4))
            aux = rng.randrange(4)
            it = replace(panel, aux=aux, pitch=0 if aux else pitch, address=address)
            slot = 4 * (number % 2)
            tables.descriptors[slot] = it
            tables.descriptors[4 - slot] = replace(panel, aux=1)
            command = Command.chain(place, m=rows, n=cols)
            if chain_faults(command, tables.descriptors, tables.instructions, machine.limits):
                pair.run([*_loads(pair, command), command], registers=False)


def _loads(pair: Pair, command: Command) -> list[Command]:
    """Such that fill the tables with what a chain has there."""
    found, place = [], TABLES
    for table, first, count in (
        (VectorTable.INSTRUCTIONS, command.program, command.program_length),
        (VectorTable.DESCRIPTORS, command.streams, STREAMS),
    ):
        data = pair.golden.tables.bytes_of(table, first, count)
        for machine in (pair.golden, pair.bell):
            machine.write(place, data)
        found.append(Command.load(table, address=place, first=first, count=count))
        place += round_up(data.size, 64)
    return found


def _other_bits(rng: Random, data: bytes) -> bytes:
    number = int.from_bytes(data, "little")
    for _ in range(rng.randrange(1, 3)):
        number ^= 1 << rng.randrange(8 * len(data))
    return number.to_bytes(len(data), "little")


SCENES_OF_STREAMS = (
    every_stream,
    gathered,
    named,
    whens,
    tiles,
    narrow_tiles,
    wrong_bits,
    wrong_fields,
    far_panels,
    far_places,
    many_chains,
)
