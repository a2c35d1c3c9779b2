"""The digits' program on the presets: what a step of it is."""

import pytest

from diastole.config.presets import PRESETS
from diastole_sim.program.run import ProgramRun, golden_machine
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.limits import Limits, VectorLimits
from diastole_sim.train.tasks import find_task
from diastole_sim.trainer.tasks import task_program

STEP = (
    *("LOAD", "CHAIN", "FORWARD_CHAIN", "FORWARD_CHAIN", "CHAIN", "CHAIN", "CHAIN"),
    *("DX_CHAIN", "DW_CHAIN", "DW_CHAIN", "CHAIN", "CHAIN"),
)


APART = ("pico",)
"""Whose tiles do not hold the rows of 64 columns: images are written as floats, and converted."""


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.sampled(2)
def test_a_step_is_twelve_commands(name):
    config = PRESETS[name]
    plan = config.plan
    machine = {
        "numerics": config.numerics,
        "limits": Limits.of(
            config.numerics,
            data_width=config.bus.data_width,
            nests=plan.nests,
            vector=VectorLimits(panel_vectors=plan.vector.panel_vectors),
        ),
    }
    made = task_program(find_task("digits"), steps=25, **machine)
    opcodes = [Opcode(command.opcode).name for command in made.program.training]
    last = opcodes.index("NEXT")
    step = opcodes[made.program.training[last].target : last]
    assert ("CONVERT" in step) == (name in APART)
    assert tuple(opcode for opcode in step if opcode != "CONVERT") == STEP
    run = ProgramRun(program=made.program, machine=golden_machine(made.program, **machine, seed=0))
    run.train(25)
    assert (run.evaluate().argmax(axis=1) == made.held_out.labels).mean() > 0.8
