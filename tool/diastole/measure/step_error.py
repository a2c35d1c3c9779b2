"""How far the model of chains and steps is from the Verilog's counters: every command of a training
on the digits, alone, and a whole step."""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from diastole.backend import make_machine, program_limits
from diastole.config.keys import Config
from diastole.execution import Execution
from diastole.layers.steps import STEP, modelled_step
from diastole.measure.figure import Figure, at_most, shown
from diastole.measure.whole_steps import CASES, FEWER, MORE, StepCase, configured_step
from diastole_sim.host.bell import BellMachine
from diastole_sim.program.options import ProgramOptions
from diastole_sim.program.program import TRAINING, TrainingProgram
from diastole_sim.program.run import ProgramRun
from diastole_sim.spec.command_table import Opcode
from diastole_sim.train.tasks import find_task

MOST_OFF = 0.03
"""Of the counters."""


def figures() -> Iterator[Figure]:
    """Of the machines whose steps are measured."""
    errors: dict[str, list[float]] = defaultdict(list)
    for case in CASES:
        config, program = step_program(case)
        model = modelled_step(config, program)
        for opcode, guess, counted in commands_alone(config, program):
            errors[opcode.name.lower()].append(abs(guess - counted) / counted)
        counted = counted_step(config, program)
        guess = model.step(program.training, step=STEP).cycles
        what = f"model of a step on digits, {case.name}: cycles off"
        yield at_most(what, abs(guess - counted) / counted, MOST_OFF, "{:.2%}")
    for name, found in errors.items():
        mean = float(np.mean(found))
        yield at_most(f"model of commands {name}: cycles off, mean", mean, MOST_OFF, "{:.2%}")
        yield shown(f"model of commands {name}: cycles off, worst", max(found), "{:.1%}")


def commands_alone(config: Config, program: TrainingProgram) -> Iterator[tuple[Opcode, int, int]]:
    """Of every command of the training up to the end of a step, what it is, what the model says
    that a run of it alone takes, and what it took."""
    model, commands = modelled_step(config, program), program.training
    area = program.areas[TRAINING]
    with make_machine(Execution(), config, program) as machine:
        ProgramRun(program=program, machine=machine)  # fills its memory
        machine.step_end = 1
        for number, command in enumerate(commands):
            machine.command_first = number
            machine.run_at(area.address, number + 1)
            counted = machine.counters()["cycles_total"]
            yield Opcode(command.opcode), model.alone(commands, number), counted
            if command.opcode == Opcode.NEXT:
                return


def counted_step(config: Config, program: TrainingProgram) -> float:
    """Of those of a run, once nothing of its beginning is left."""
    cycles: list[int] = []
    for steps in (FEWER, MORE):
        with make_machine(Execution(), config, program) as machine:
            assert isinstance(machine, BellMachine)
            run = ProgramRun(program=program, machine=machine)
            run.train(steps)
            cycles.append(run.training["cycles_total"])
    return (cycles[1] - cycles[0]) / (MORE - FEWER)


def step_program(case: StepCase) -> tuple[Config, TrainingProgram]:
    """The machine of a case, and a training of a few steps."""
    config = configured_step(case)
    options = ProgramOptions(limits=program_limits(config), **case.options)
    made = options.program(find_task("digits"), config.numerics, steps=MORE, seed=0)
    return config, made.program
