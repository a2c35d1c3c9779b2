"""What a step costs: of a program as a host stores it."""

import pytest

from diastole.commands.task_step import task_step
from diastole.config.presets import PRODUCTS_ONLY
from diastole.errors import BadInput
from diastole.layers.modelled_step import STEP, modelled_step
from diastole_sim.train.tasks import find_task
from support.training_steps import step_program


def test_the_model_reads_what_the_host_stores():
    config, program = step_program("nano")
    model = modelled_step(config, program)
    found = model.step(program.training, step=STEP)
    assert 10_000 < found.cycles < 14_000
    assert sum(found.cause_cycles.values()) == found.cycles
    far = modelled_step(config, program, latency=100)
    assert far.step(program.training, step=STEP).cycles > found.cycles + 1000
    with pytest.raises(ValueError, match="nothing is stored"):
        model.read(program.memory_bytes, 8)
    assert task_step(config, find_task("digits-mlp")).cycles == found.cycles


def test_who_has_no_step():
    with pytest.raises(BadInput, match=r"vector\.enable"):
        task_step(PRODUCTS_ONLY["nano"], find_task("digits"))
    config, _ = step_program("nano")
    with pytest.raises(BadInput, match="--task"):
        task_step(config, find_task("text"))
