"""The model of chains and steps against the counters of the Verilog."""

import pytest

from diastole.layers.modelled_step import STEP, modelled_step
from support.training_steps import MOST_OFF, commands_alone, counted_step, step_program

OFF = 10
"""Cycles that a short command may be off."""


@pytest.mark.sweep  # compiles machines that no other test has
@pytest.mark.parametrize("name", ["nano", "nano with 4 special lanes"])
def test_a_step_and_its_commands(name):
    """Of `nano` at 128 bits, with two special lanes and with four."""
    config, program = step_program(name)
    guess = modelled_step(config, program).step(program.training, step=STEP).cycles
    assert guess == pytest.approx(counted_step(config, program).cycles, rel=MOST_OFF)
    for opcode, modelled, counted in commands_alone(config, program):
        assert modelled == pytest.approx(counted, rel=MOST_OFF, abs=OFF), opcode.name
