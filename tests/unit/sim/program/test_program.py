"""What a machine gets: memory that fits, and where a run begins."""

import itertools

import numpy as np
import pytest

from diastole_sim.program.program import TrainingProgram
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.stream_table import Descriptor, Kind, PanelOrder
from diastole_sim.train.loss_scaling import LossScaling
from support.optimisers import SETTINGS
from support.small_programs import BATCH, SmallRun


@pytest.fixture
def program(np_rng):
    return SmallRun(np_rng, SETTINGS["adamw"], clip=1.0, steps=3).program


def test_areas_are_apart(program):
    assert isinstance(program, TrainingProgram)
    every = program.areas.values()
    areas = sorted((area for area in every if area.life is None), key=lambda area: area.address)
    assert all(one.end <= other.address for one, other in itertools.pairwise(areas))
    assert max(area.end for area in every) == program.memory_bytes
    assert min(area.address for area in every if area.life) >= areas[-1].end
    assert all(area.address % 64 == 0 for area in every)
    assert all(area.name == name for name, area in program.areas.items())


def test_what_the_host_fills_fits(program):
    for name, data in program.initial.items():
        assert len(data) == program.areas[name].length, name
    rows = program.areas["rows of steps"]
    found = np.frombuffer(program.initial["rows of steps"], "<i4").reshape(3, rows.pitch // 4)
    assert found[:, :BATCH].min() >= 0
    assert not found[:, BATCH:].any()
    assert program.steps == 3


def test_where_a_run_begins(program):
    opcodes = [command.opcode for command in program.training]
    assert opcodes[: program.resume] == [Opcode.CONVERT] * 2
    assert all(command.step == 2**32 - 1 for command in program.training[: program.resume])
    assert opcodes[program.resume] == Opcode.LOAD
    (last,) = [n for n, opcode in enumerate(opcodes) if opcode == Opcode.NEXT]
    target = program.training[last].target
    constants = program.training[target]
    assert (constants.opcode, constants.first, constants.advance > 0) == (Opcode.LOAD, 128, True)
    assert Opcode.LOAD not in opcodes[target + 1 : last]
    assert program.training[program.resume].ahead == constants.ahead == 0
    assert program.training[last].ahead == program.training[last + 1].ahead == 0


def streams(program, name):
    data = program.initial[f"descriptors of {name}"]
    return [Descriptor.decode(data[at : at + 16]) for at in range(0, len(data), 16)]


def test_no_draw_is_made_twice(program):
    tags = {
        name: [each.pitch for each in streams(program, name) if each.kind == Kind.IMAGE]
        for name in ("training", "evaluation")
    }
    tags["first"] = [command.tag for command in program.training[: program.resume]]
    assert sorted(tags["training"]) == [0, 1, 2, 4, 5, 6]
    assert tags["evaluation"] == [8, 12]
    assert tags["first"] == [1, 5]


@pytest.mark.parametrize("scaling", [None, LossScaling()])
def test_sums_are_watched_where_a_step_may_be_skipped(scaling, np_rng):
    small = SmallRun(np_rng, SETTINGS["momentum"], loss_scaling=scaling)
    sums = [
        each.watch
        for each in streams(small.program, "training")
        if each.kind == Kind.PANEL and each.aux == PanelOrder.BLOCK_COLUMN
    ]
    assert max(sums) == (scaling is not None)
