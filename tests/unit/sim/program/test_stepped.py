"""A program's commands in the order in which a machine does them."""

from types import SimpleNamespace

from diastole_sim.program.stepped import in_their_order
from diastole_sim.spec.command import Command


def test_a_step_is_done_until_its_end():
    """Two commands before the steps, two of each step, one behind the last."""
    copy = Command.convert("x", rows=1, cols=1, source=0, destination=64, second=0, tag=0, step=0)
    commands = [copy, copy, copy, Command.next(1), copy]
    machine, done = SimpleNamespace(step=0), []
    for number, command in in_their_order(commands, machine, 0, 3):
        assert command is commands[number]
        done.append(number)
        if number == 3 and machine.step < 3:
            machine.step += 1
    assert done == [0, 1, 2, 3, 1, 2, 3, 1, 2, 3, 4]
