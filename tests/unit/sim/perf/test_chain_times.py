"""Chains by hand, and against what generated machines counted."""

import pytest

from diastole_sim.perf.chain_times import ChainCore, estimate_chain, setup_cycles
from diastole_sim.spec.micro import Instruction, MicroOp, Source, When
from diastole_sim.spec.stream_table import Descriptor, Kind
from support.vector_model import modelled_vector, move, task_of

STORE = [move(o=0)]


def add(c, **fields):
    return Instruction(op=MicroOp.ADD, a=0, c=c, d=0, **fields)


@pytest.mark.parametrize(
    "width, cols, counted", [(128, 64, 1094), (128, 10, 277), (64, 64, 2118), (64, 10, 390)]
)
def test_from_memory_to_the_panel_to_the_cycle(width, cols, counted):
    """As `nano` counted them."""
    task = task_of(STORE, inputs=[Kind.F32], outputs=[Kind.PANEL], cols=cols)
    assert estimate_chain(modelled_vector(data_width=width), task).done == counted


@pytest.mark.parametrize(
    "width, cols, counted", [(128, 64, 1063), (128, 10, 234), (64, 64, 2087), (64, 10, 362)]
)
def test_from_the_panel_to_memory_nearly(width, cols, counted):
    task = task_of(STORE, inputs=[Kind.PANEL], outputs=[Kind.F32], cols=cols)
    done = estimate_chain(modelled_vector(data_width=width), task).done
    assert done == pytest.approx(counted, abs=2)


def test_set_up_by_streams():
    plain = task_of(STORE, inputs=[Kind.F32], outputs=[Kind.PANEL], rows=8)
    higher = task_of(STORE, inputs=[Kind.F32], outputs=[Kind.PANEL], rows=64)
    stepped = Descriptor(kind=Kind.F32, per_step=1, offset=16)
    later = task_of(STORE, inputs=[stepped], outputs=[Kind.PANEL], rows=8, step=5)
    assert setup_cycles(higher) - setup_cycles(plain) == 3
    assert setup_cycles(later) - setup_cycles(plain) == 3 + 2
    for length, more in ((4, 0), (5, 1), (7, 3)):  # of a few the kinds of streams take as long
        longer = task_of(length * STORE, inputs=[Kind.F32], outputs=[Kind.PANEL], rows=8)
        assert setup_cycles(longer) - setup_cycles(plain) == more


def done_of(program, cols=64, **changes):
    """Of a program of registers alone, and 8 rows."""
    task = task_of(program, inputs=[Kind.PANEL], rows=8, cols=cols)
    core = ChainCore(modelled_vector(**changes), task)
    for block in task.blocks():
        core.block(block)
    times = core.end()
    return times.done - setup_cycles(task), times.waits


def test_a_slot_for_each_instruction_whose_when_holds():
    four, _ = done_of(4 * [move(d=1)])
    five, _ = done_of([*(4 * [move(d=1)]), move(d=1)])
    last, _ = done_of([*(4 * [move(d=1)]), move(d=1, when=When.LAST)])
    assert five - four == 8 * 8
    assert 8 <= last - four <= 8 + 1


def test_who_names_a_special_result_waits_for_it():
    special = Instruction(op=MicroOp.EXP, a=0, d=3)
    other, _ = done_of([special, move(d=1)], cols=8)
    named, waits = done_of([special, move(3, d=1)], cols=8)
    assert named > other
    assert waits["special"] == 34 - 8
    faster, _ = done_of([special, move(3, d=1)], cols=8, specials=8)
    assert faster < named
    written, _ = done_of([special, move(d=3), move(3, d=1)], cols=8)
    assert written == named + 8  # the first one has waited


def test_two_specials_are_apart():
    special = Instruction(op=MicroOp.EXP, a=0, d=3)
    _, waits = done_of([special, special], cols=8)
    assert waits["special"] == 34 - 8


def test_rows_that_turn_wait_for_who_wrote_them():
    plain, _ = done_of([move(d=0), add(0)], cols=8)
    for turn, distance in ((1, 1), (2, 2), (3, 4)):
        turned, waits = done_of([move(d=0), add(0, turn_rows=turn)], cols=8)
        assert turned - plain == waits["special"] == distance
    other, _ = done_of([move(d=1), add(0, turn_rows=1)], cols=8)
    assert other == plain


@pytest.mark.parametrize("o, slots", [(7, 2), (0, 3)])
def test_a_register_turned_far_into_itself_waits_for_all_rows(o, slots):
    """As the unit does (`test_core.py` of the vector unit has the same numbers of it)."""
    done = []
    for d in (0, 1):
        turned = Instruction(op=MicroOp.ADD, a=0, c=0, d=d, turn_rows=4, o=o)
        program = [move(Source.ONE, d=0), turned, move(Source.ONE, d=3)]
        outputs = [Kind.F32] if o == 0 else []
        task = task_of(program, outputs=outputs, rows=16, cols=16, block=16)
        core = ChainCore(modelled_vector(block=16), task)
        for block in task.blocks():
            core.block(block)
        done.append(core.slot)
    assert done[0] - done[1] == slots * 23 - 2 * 16


def test_an_image_waits_for_the_one_before():
    task = task_of(STORE, inputs=[Kind.PANEL], outputs=[Kind.IMAGE], cols=8)
    alone = estimate_chain(modelled_vector(), task)
    after = estimate_chain(modelled_vector(), task, 0, 1000)
    assert alone.done < 1000 < after.done
    assert alone.converted > alone.done
    other = task_of(STORE, inputs=[Kind.PANEL], outputs=[Kind.F32], cols=8)
    vector = modelled_vector()
    assert estimate_chain(vector, other, 0, 1000) == estimate_chain(vector, other)


def test_all_is_later_by_when_it_begins():
    task = task_of([move(Source.S0, o=0)], inputs=[Kind.F32], outputs=[Kind.F32])
    now, later = (estimate_chain(modelled_vector(), task, at) for at in (0, 500))
    assert (later.done, later.last_response) == (now.done + 500, now.last_response + 500)
    assert (later.read_beats, later.write_beats) == (1024, 1024)


def test_turned_rows_of_a_special_result_come_later_still():
    special = Instruction(op=MicroOp.EXP, a=0, d=3)
    _, waits = done_of([special, add(3, turn_rows=3)], cols=8)
    assert waits["special"] == 34 - 8 + 4


def test_what_is_no_slot_is_a_wait():
    task = task_of(STORE, inputs=[Kind.F32], outputs=[Kind.PANEL])
    times = estimate_chain(modelled_vector(), task)
    slots = 64 * 8
    assert 0 <= times.done - setup_cycles(task) - slots - times.waits["input"] < 30
