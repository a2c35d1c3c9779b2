"""Training steps on the digits that a machine does alone, and the model of such steps."""

from collections import defaultdict
from functools import cache

import numpy as np

from bench.figure import figure, shown
from diastole.layers.modelled_step import STEP, modelled_step
from support.training_steps import CASES, MOST_OFF, commands_alone, counted_step, step_program

MAX_CYCLES = dict(zip(CASES, (12_000, 15_500, 11_500, 24_000), strict=True))


@cache
def counted(case):
    return counted_step(*step_program(case))


@figure("cycles of a step on the digits, {case}", at_most=MAX_CYCLES, form="{:,.0f}")
def step_cycles(case):
    return counted(case).cycles


@figure("share of waits in a step on the digits, {case}", at_most=shown(*CASES), form="{:.1%}")
def step_waits(case):
    counted_waits = counted(case)
    for cause, cycles in counted_waits.waits.items():
        yield cause, cycles / counted_waits.cycles


@figure("bytes over the bus in a step on the digits, nano", at_most=48, form="{:.1f} KiB")
def step_bytes():
    return counted("nano").bytes / 1024


@figure("simulated cycles per second, nano with a vector unit", at_least=300_000, form="{:,.0f}")
def step_speed():
    return counted("nano").speed


@figure("model of a step on the digits, {case}: cycles off", at_most=dict.fromkeys(CASES, MOST_OFF))
def modelled_steps(case):
    config, program = step_program(case)
    guess = modelled_step(config, program).step(program.training, step=STEP).cycles
    return abs(guess / counted(case).cycles - 1)


@cache
def command_errors():
    errors = defaultdict(list)
    for case in CASES:
        for opcode, guess, cycles in commands_alone(*step_program(case)):
            errors[opcode.name.lower()].append(abs(guess / cycles - 1))
    return errors


@figure("model of the commands of a step: cycles off, mean", at_most=MOST_OFF)
def command_means():
    for name, errors in command_errors().items():
        yield name, float(np.mean(errors))


@figure("model of the commands of a step: cycles off, worst")
def command_worst():
    for name, errors in command_errors().items():
        yield name, max(errors)
