"""More scenes of a machine with a vector unit: small chains made for what random ones rarely do."""

from dataclasses import replace
from pathlib import Path
from random import Random

from diastole_sim.spec.stream_table import INPUTS
from mutation.scenes_of_programs import ScenesBench, done_between, paired
from mutation.watch import Log
from oracle import vector_words as w
from oracle.vector_program import Input, Output
from support.golden_machines import PlacedScene
from support.golden_scenes import sound
from support.random_programs import SPECIAL_PATTERNS, Scene
from support.vector_scenes import crowded_scene, f32, scene_of


def crowded_chains(product: Path, log: Log) -> None:
    """Instructions that need what those just before them make; panels read where they were just
    written, a few vectors further; inputs read in the last blocks alone; more outputs than the bus
    takes."""
    rng = Random(14)
    made = [crowded_scene, lambda *given: _near_panels(*given, 1), _last_alone, _many_outputs]
    made += [crowded_scene, lambda *given: _near_panels(*given, 3), crowded_scene]
    with paired(product, log, stalls=5) as pair:
        for make in made:
            bench = ScenesBench(pair)
            scene = make(rng, bench.machine.limits.block)
            placed = PlacedScene(bench, sound(scene), rng, step=0)
            done_between(pair, bench, [placed.command()])


def _near_panels(rng: Random, block: int, distance: int) -> Scene:
    """One instruction writes vectors of the panel, the next reads what lies a distance from them,
    and the third turns its rows."""
    size = (2 * block + 1, 2 * block)
    write = w.Instruction(op=w.MOV, a=w.STREAM, d=0, o=1)
    read = w.Instruction(op=w.ADD, a=w.STREAM + 1, c=w.STREAM, d=1)
    turn = w.Instruction(op=w.ADD, a=w.STREAM, c=1, d=2, o=0, turn_rows=1, turn_lanes=2)
    return scene_of(
        rng,
        block,
        [write, read, turn],
        size=size,
        inputs=[f32(rng, size), Input(w.KIND_PANEL, aux=2, first=2 * block)],
        outputs=[Output(w.KIND_F32), Output(w.KIND_PANEL, aux=2, first=2 * block - distance % 4)],
        vectors=6 * block,
    )


def _last_alone(rng: Random, block: int) -> Scene:
    """Nothing is done but in the last block of a line."""
    size = (2 * block - 1, 5 * block - 2)
    move = w.Instruction(op=w.MOV, a=w.STREAM, o=0, when=w.LAST)
    return scene_of(
        rng, block, [move], size=size, inputs=[f32(rng, size)], outputs=[Output(w.KIND_ROW)]
    )


def _many_outputs(rng: Random, block: int) -> Scene:
    """The input four times."""
    size = (2 * block, 4 * block)
    moves = [w.Instruction(op=w.MOV, a=w.STREAM, o=number) for number in range(4)]
    outputs = [Output(w.KIND_F32)] * 4
    return scene_of(rng, block, moves, size=size, inputs=[f32(rng, size)], outputs=outputs)


def extreme_chains(product: Path, log: Log) -> None:
    """Every operation and function of numbers of any size, NaN, Inf, zeros of both signs."""
    rng = Random(15)
    kept = w.Instruction(op=w.SEL, a=w.UNIT, b=w.UNIT, c=w.STREAM, d=0, keep=1, negate=4)
    turned = w.Instruction(op=w.ADD, a=w.STREAM + 1, c=0, turn_lanes=1, turn_rows=2, o=0)
    programs = [[kept, turned]]
    operands = {"a": w.STREAM, "b": w.STREAM + 1, "c": w.STREAM + 2}
    for number, op in enumerate((w.MAD, w.MUL, w.ADD, w.MAX, w.MIN, w.GT, w.EQ, w.SEL, w.MOV)):
        named = {name: operands[name] for name in w.OPERANDS[op]}
        negate = 4 if number % 2 and "c" in named else 0
        programs.append([w.Instruction(op=op, o=0, negate=negate, **named)])
    load = w.Instruction(op=w.MOV, a=w.STREAM, d=0)
    store = w.Instruction(op=w.MOV, a=1, o=0)
    programs += [[load, w.Instruction(op=op, a=0, d=1), store] for op in w.SPECIALS]
    with paired(product, log) as pair:
        for program in programs:
            bench = ScenesBench(pair)
            block = bench.machine.limits.block
            size = (2 * block - 1, 3 * block - 1)
            inputs = [Input(w.KIND_F32, _extremes(rng, size)) for _ in range(3)]
            scene = scene_of(
                rng, block, program, size=size, inputs=inputs, outputs=[Output(w.KIND_F32)]
            )
            placed = PlacedScene(bench, sound(scene), rng, step=0)
            done_between(pair, bench, [placed.command()])


SMALLEST = (0x00C00001, 0x80800000, 0x80C00003, 0x00FFFFFF, 0x80900000)
"""Of which some differences are too small."""


def _extremes(rng: Random, size: tuple[int, int]) -> list[list[int]]:
    rows, columns = size
    return [
        [
            rng.choice((*SPECIAL_PATTERNS, *SMALLEST, *(rng.getrandbits(32) for _ in range(8))))
            for _ in range(columns)
        ]
        for _ in range(rows)
    ]


def images(product: Path, log: Log) -> None:
    """Of each class, in several steps, with a slot of scales and without."""
    rng = Random(16)
    move = w.Instruction(op=w.MOV, a=w.STREAM, o=0)
    with paired(product, log) as pair:
        for number in range(6):
            bench = ScenesBench(pair)
            block = bench.machine.limits.block
            size = (2 * block - 1, 3 * block + 1)
            scene = scene_of(
                rng,
                block,
                [move],
                size=size,
                inputs=[f32(rng, size)],
                outputs=[Output(w.KIND_IMAGE)],
            )
            placed = PlacedScene(bench, sound(scene), rng, step=number)
            bench.machine.tables.amax[8] = 0x40A00000
            image = replace(placed.outputs[0], tensor_class=number % 3, aux=9 * (number // 3))
            bench.load_streams({INPUTS: image}, at=placed.place.streams)
            done_between(pair, bench, [placed.command()])


def edges_and_ties(product: Path, log: Log) -> None:
    """What INSIDE is beyond a tensor's edges, of which the panel keeps all; numbers halfway between
    two of bfloat16, above an even one and above an odd one."""
    rng = Random(17)
    ties = [0x3F80_8000, 0x3F81_8000, 0xBF80_8000, 0xBF81_8000]
    with paired(product, log) as pair:
        block = pair.bell.limits.block
        size = (2 * block - 1, 3 * block - 1)
        halfway = Input(
            w.KIND_F32, [[rng.choice(ties) for _ in range(size[1])] for _ in range(size[0])]
        )
        for instruction, inputs, output in (
            (w.Instruction(op=w.MOV, a=w.INSIDE, o=0), [], Output(w.KIND_PANEL, aux=0, pitch=3)),
            (w.Instruction(op=w.MOV, a=w.STREAM, o=0), [halfway], Output(w.KIND_BF16)),
        ):
            bench = ScenesBench(pair)
            scene = scene_of(
                rng, block, [instruction], size=size, inputs=inputs, outputs=[output],
                vectors=6 * block,
            )  # fmt: skip
            placed = PlacedScene(bench, sound(scene), rng, step=0)
            done_between(pair, bench, [placed.command()])


SCENES_OF_CORES = (crowded_chains, extreme_chains, images, edges_and_ties)
