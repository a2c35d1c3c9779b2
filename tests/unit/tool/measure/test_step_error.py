"""How far the model of steps is from counters: of a machine that is the model, but for an error."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from diastole.layers.steps import modelled_step
from diastole.measure import step_error
from diastole.measure.whole_steps import CASES
from diastole_sim.spec.command_table import Opcode


@pytest.fixture(scope="module")
def trained():
    return step_error.step_program(CASES[0])


def test_what_is_off_is_said(monkeypatch, trained):
    monkeypatch.setattr(step_error, "CASES", CASES[:1])
    config, program = trained
    cycles = modelled_step(config, program).step(program.training, step=5).cycles
    monkeypatch.setattr(step_error, "step_program", lambda case: trained)
    alone = [(Opcode.LOAD, 99, 100), (Opcode.LOAD, 95, 100)]
    monkeypatch.setattr(step_error, "commands_alone", lambda config, program: alone)
    monkeypatch.setattr(step_error, "counted_step", lambda config, program: cycles / 1.05)
    found = {figure.what: figure for figure in step_error.figures()}
    step = found["model of a step on digits, nano: cycles off"]
    assert (step.measured, step.met) == ("5.00%", False)
    assert found["model of commands load: cycles off, mean"].measured == "3.00%"
    assert found["model of commands load: cycles off, worst"].measured == "5.0%"


def test_commands_alone_end_with_the_step(monkeypatch, trained):
    config, program = trained
    rung = []

    class Machine(SimpleNamespace):
        def write(self, address, data):
            pass

        def run_at(self, address, count):
            rung.append((self.command_first, count))

        def counters(self):
            return {"cycles_total": 77}

    monkeypatch.setattr(step_error, "make_machine", lambda *_, **__: nullcontext(Machine()))
    found = list(step_error.commands_alone(config, program))
    assert found[-1][0] == Opcode.NEXT
    assert rung == [(number, number + 1) for number in range(len(found))]
    assert {counted for _, _, counted in found} == {77}
    assert all(guess > 20 for _, guess, _ in found)
