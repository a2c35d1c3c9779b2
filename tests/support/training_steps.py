"""Steps of training on the digits that a machine with a vector unit does alone, in its Verilog."""

from types import SimpleNamespace

from diastole.backend import make_machine, program_limits
from diastole.execution import Execution
from diastole.layers.modelled_step import modelled_step
from diastole_sim.program.program import TRAINING
from diastole_sim.program.run import ProgramRun
from diastole_sim.spec.command_table import Opcode
from diastole_sim.train.tasks import find_task
from diastole_sim.trainer.options import ProgramOptions
from support.presets import changed

FEWER, MORE = 3, 9
"""Steps of two runs from the start; the difference holds nothing of beginning and end."""
CASES = {
    "nano": ({}, {}),
    "nano at 64 bits": ({"bus": {"data_width": 64}}, {}),
    "nano with 4 special lanes": ({"vector": {"special": 4}}, {}),
    "nano, adamw, panel of 128 KiB": ({"vector": {"panel_kib": 128}}, {"optimizer": "adamw"}),
}
"""By name the keys of the machine that differ from `nano`, and the options of the training."""
MOST_OFF = 0.03
"""Share of the counters by which the model of chains and steps may be off."""


def step_config(name):
    """Return the machine of a case."""
    keys = CASES[name][0]
    return changed("nano", **keys | {"vector": {"enable": True} | keys.get("vector", {})})


def step_program(name):
    """Return the machine of a case, and a training of a few steps."""
    config = step_config(name)
    options = ProgramOptions(limits=program_limits(config), **CASES[name][1])
    return config, options.program(find_task("digits"), config.numerics, steps=MORE, seed=0).program


def commands_alone(config, program):
    """Yield each command up to the end of a step: its opcode, the cycles that the model predicts
    for a run of this command alone, and the cycles that the run took."""
    model, commands = modelled_step(config, program), program.training
    area = program.areas[TRAINING]
    with make_machine(Execution(seed=0), config, program) as machine:
        ProgramRun(program=program, machine=machine)  # fills the memory
        machine.step_end = 1
        for number, command in enumerate(commands):
            machine.command_first = number
            machine.run_at(area.address, number + 1)
            counted = machine.counters()["cycles_total"]
            yield Opcode(command.opcode), model.alone(commands, number), counted
            if command.opcode == Opcode.NEXT:
                return


def counted_step(config, program):
    """Return cycles, bytes on the bus and waits by cause of one step, and simulated cycles per
    second."""
    few, many = (_counted(config, program, steps) for steps in (FEWER, MORE))
    each = {key: (many[key] - few[key]) / (MORE - FEWER) for key in many if key != "speed"}
    return SimpleNamespace(
        cycles=each.pop("cycles_total"), bytes=each.pop("bytes"), waits=each, speed=many["speed"]
    )


def _counted(config, program, steps):
    with make_machine(Execution(seed=0), config, program) as machine:
        run = ProgramRun(program=program, machine=machine)
        run.train(steps)
        traffic = machine.machine.traffic()
        beats = traffic.read_beats + traffic.write_beats
        return run.training | {
            "bytes": beats * config.bus.data_width // 8,
            "speed": machine.machine.cycles_per_second,
        }
