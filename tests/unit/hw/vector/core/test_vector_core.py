# amaranth: UnusedElaboratable=no
"""The core of the vector unit against the oracle: all that leaves it, and every cycle of it."""

import pytest

from diastole_hw.vector.core.timing import special_cycles
from oracle import vector_words as w
from oracle.vector_program import Input, Output
from oracle.vector_words import Instruction
from support.sweep import sweep
from support.vector_core import Rates, core_of, run_scenes, shape_of
from support.vector_scenes import crowded_scene, f32, scene_of, small_scene

RATES = {
    "late blocks": Rates(walk=0.5, blocks=0.05),
    "little room": Rates(room=0.1),
    "all stalled": Rates(walk=0.05, blocks=0.1, room=0.5),
}
SHAPES = [(1, 1), (2, 1), (2, 2), (4, 1), (4, 4), (8, 1), (8, 2), (8, 4), (16, 8)]
"""B, and how many special lanes."""
USUAL = [(1, 1), (2, 1), (4, 1), (8, 2), (16, 8)]


@pytest.mark.parametrize("block, specials", [*USUAL[:-1], sweep(*USUAL[-1])])
@pytest.mark.parametrize("rates", RATES)
@pytest.mark.sampled(4)
def test_random_programs(block, specials, rates, rng):
    """One chain after the other: registers hold what the one before left there."""
    count, length = (3, 12) if block < 8 else (1, 12) if block == 8 else (1, 6)
    scenes = [small_scene(rng, block, length=length) for _ in range(count)]
    run_scenes(core_of(block, specials), scenes, rng, RATES[rates])


@pytest.mark.parametrize("block, specials", SHAPES)
@pytest.mark.sampled(5)
def test_instructions_that_wait_for_each_other(block, specials, rng):
    """And for nothing else."""
    length, blocks = (16, 2) if block < 8 else (12, 1)
    size = 1, blocks * block - block // 2
    scenes = [crowded_scene(rng, block, length=length, size=size) for _ in range(2 - block // 16)]
    run_scenes(core_of(block, specials), scenes, rng)


@pytest.mark.sweep
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("block", [1, 2, 4, 8, 16])
def test_many_random_programs(block, rates, number, rng):
    specials = rng.choice([1 << k for k in range(block.bit_length())])
    scenes = [small_scene(rng, block, length=32), crowded_scene(rng, block, length=24)]
    run_scenes(core_of(block, specials), scenes, rng, RATES[rates], limit=1_000_000)


def test_numbers_of_rows_and_columns_far_out(rng):
    """The last place of the largest tensor; the walk has one block of it."""
    program = [
        Instruction(op=w.MOV, a=w.ROW_NUMBER, o=0),
        Instruction(op=w.MOV, a=w.COLUMN_NUMBER, o=1),
    ]
    size = 2**24 - 1, 2**24 - 2
    for block in (1, 4):
        at = size[0] // block - (block == 1), (size[1] - 1) // block
        scene = scene_of(
            rng, block, program, size=(1, 1), lines=[[at]],
            outputs=[Output(w.KIND_CONSTANT), Output(w.KIND_CONSTANT)],
        )  # fmt: skip
        scene.size = size
        run_scenes(core_of(block), [scene], rng)


@pytest.mark.parametrize("block", [sweep(2), 4, 8, sweep(16), sweep(32)])
def test_vectors_of_the_panel_at_any_place(block, rng):
    """What one instruction writes, the next reads some vectors further, or before, and writes it
    some vectors beyond those that it reads."""
    places = [1, block - 1] if block < 16 else [7, 9, block - 1]
    for first, second in [(near, far) for k in places for near, far in ((0, k), (k, 0))]:
        program = [
            Instruction(op=w.MOV, a=w.STREAM, o=0),
            Instruction(op=w.MOV, a=w.STREAM + 1, o=1),
            Instruction(op=w.MOV, a=w.STREAM + 1, o=0, d=3),
        ]
        size = (block, 1)
        scene = scene_of(
            rng, block, program, size=size, vectors=2 * block,
            inputs=[f32(rng, size), Input(w.KIND_PANEL, aux=1, first=second)],
            outputs=[Output(w.KIND_PANEL, aux=1, first=first), Output(w.KIND_F32)],
        )  # fmt: skip
        run_scenes(core_of(block), [scene], rng)


@pytest.mark.parametrize("rates", [*map(sweep, [*RATES][:-1]), [*RATES][-1]])
def test_a_block_in_which_nothing_is_done(rates, rng):
    """Its streams' blocks go all the same, though none was read."""
    program = [Instruction(op=w.MOV, a=w.STREAM, o=0, when=w.LAST)]
    size = 3, 11
    outputs = [Output(w.KIND_ROW)]
    scene = scene_of(rng, 2, program, size=size, inputs=[f32(rng, size)], outputs=outputs)
    run_scenes(core_of(2), [scene], rng, RATES[rates])


def cycles_of(rng, block, program, size, specials=None, **streams):
    scene = scene_of(rng, block, program, size=size, **streams)
    (record,) = run_scenes(core_of(block, specials), [scene], rng)
    return record


MOVE = Instruction(op=w.MOV, a=w.UNIT, d=0)
BEFORE, AFTER = 6, 8
"""Cycles from start to the first instruction's first cycle; with B, to done from the last one's."""


@pytest.mark.parametrize("block, count", [(1, 1), (2, 7), (8, 2), (16, 1)])
@pytest.mark.sampled(2)
def test_an_instruction_takes_a_slot(block, count, rng):
    slot = max(block, 8)
    record = cycles_of(rng, block, [MOVE] * count, (block, 3 * block))
    slots = 3 * count
    assert record.cycles == BEFORE + (slots - 1) * slot + block + AFTER
    assert record.counted["working"] == slots * slot


def test_what_is_not_done_takes_no_cycles(rng):
    """But in the first block, in which it is looked for."""
    rest = [Instruction(op=w.MOV, a=w.UNIT, d=0, when=w.LAST)] * 31
    one, ten, twenty = (cycles_of(rng, 2, [MOVE, *rest], (2, 2 * n)).cycles for n in (1, 10, 20))
    assert one == BEFORE + 31 * 8 + 2 + AFTER
    assert twenty - ten == 10 * 8
    assert 0 < ten - one - 9 * 8 < 32 * 3 // 2  # two are looked at in three cycles


@pytest.mark.parametrize(
    "block, specials", [*USUAL[:-1], sweep(*USUAL[-1]), (2, 2), (4, 4), (8, 4)]
)
@pytest.mark.sampled(3)
def test_who_waits_for_a_special(block, specials, rng):
    """Its reader, one that writes its register, and the next special; nobody else."""
    slot, soon = max(block, 8), special_cycles(shape_of(block, specials))
    special = Instruction(op=w.EXP, a=0, d=1)
    alone = [MOVE, special]
    behind = {
        "reader": Instruction(op=w.MOV, a=1, d=2),
        "writer": Instruction(op=w.MOV, a=w.UNIT, d=1),
        "special": Instruction(op=w.RCP, a=0, d=2),
    }
    for name, instruction in behind.items():
        record = cycles_of(rng, block, [*alone, instruction], (1, 1), specials)
        last = slot + soon
        assert record.counted["waits_specials"] == soon - slot, name
        if name != "special":
            assert record.cycles == BEFORE + last + block + AFTER, name
    for instruction in (Instruction(op=w.MOV, a=0, d=2), Instruction(op=w.MUL, a=0, b=3, d=4)):
        record = cycles_of(rng, block, [MOVE, MOVE, *alone[1:], instruction], (1, 1), specials)
        assert record.counted["waits_specials"] == 0


@pytest.mark.parametrize(
    "block, turn, more",
    [(2, 1, 1), (4, 1, 1), (4, 2, 2), (8, 1, 1), (8, 2, 2), (8, 3, 4), (16, 1, 0), (16, 4, 7)],
)
@pytest.mark.sampled(2)
def test_who_waits_for_turned_rows(block, turn, more, rng):
    turned = Instruction(op=w.ADD, a=0, c=0, d=0, turn_rows=turn)
    other = Instruction(op=w.MOV, a=w.UNIT, d=3)
    if block == 16:  # into another register, as far as it likes
        apart = Instruction(op=w.ADD, a=0, c=0, d=1, turn_rows=turn)
        assert cycles_of(rng, block, [MOVE, apart], (1, 1)).counted["waits_specials"] == 0
    first = cycles_of(rng, block, [MOVE, turned], (1, 1))
    assert first.counted["waits_specials"] == more
    second = cycles_of(rng, block, [MOVE, other, turned], (1, 1))
    assert second.counted["waits_specials"] == (more if turn > 3 else 0)


@pytest.mark.parametrize("o", [w.NO_OUTPUT, 0], ids=["register", "register and output"])
@pytest.mark.parametrize("block, turn", [(16, 4), sweep(32, 4), sweep(32, 5)])
def test_a_register_is_turned_into_itself(block, turn, o, rng):
    """By 8 rows or more: no row is read after it was written."""
    program = [
        Instruction(op=w.MOV, a=w.STREAM, d=0),
        Instruction(op=w.ADD, a=w.STREAM, c=0, d=0, o=o, turn_rows=turn),
        Instruction(op=w.ADD, a=0, c=0, d=1, o=1, turn_rows=1),
    ]
    size = (block, block)
    outputs = [Output(w.KIND_F32) if o == 0 else None, Output(w.KIND_F32)]
    scene = scene_of(rng, block, program, size=size, inputs=[f32(rng, size)], outputs=outputs)
    run_scenes(core_of(block), [scene], rng)


PAIRED_CYCLES = {"register": 2 * 23, "register and output": 3 * 23}
"""At B = 16, by what it writes: slots that begin 7 + B cycles after the slot before them."""


@pytest.mark.parametrize("writes", PAIRED_CYCLES)
def test_cycles_of_a_register_that_is_turned_into_itself(writes, rng):
    """The instruction behind it waits too, until all is written."""
    outputs = [Output(w.KIND_F32)] if "output" in writes else []
    turned = Instruction(op=w.ADD, a=0, c=0, d=0, turn_rows=4, o=0 if outputs else w.NO_OUTPUT)
    other = Instruction(op=w.MOV, a=w.UNIT, d=3)
    record = cycles_of(rng, 16, [MOVE, turned, other], (1, 1), outputs=outputs)
    assert record.cycles == BEFORE + PAIRED_CYCLES[writes] + 16 + AFTER
