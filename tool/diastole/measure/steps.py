"""What a step of a program costs on a machine with a vector unit, by the model."""

from diastole.backend import program_limits
from diastole.config.keys import Config
from diastole.errors import BadInput
from diastole_sim.perf import Memory, ModelledMachine
from diastole_sim.perf.machine import LATENCY
from diastole_sim.perf.step import StepEstimate, StepModel
from diastole_sim.perf.vector import ModelledVector
from diastole_sim.program.options import ProgramOptions
from diastole_sim.program.program import TrainingProgram
from diastole_sim.train.tasks import find_task

STEP = 5
"""Whose number has as many bits as most."""


def modelled_step(config: Config, program: TrainingProgram, latency: int = LATENCY) -> StepModel:
    """The model of a machine with a vector unit, and of a program in its memory."""
    memory = Memory.axi(latency)
    machine = ModelledMachine.of(config.numerics, memory=memory, **config.modelled_sizes)
    shape = config.plan.vector
    assert shape is not None, "a machine without a vector unit has no steps"
    vector = ModelledVector(
        block=shape.block,
        specials=shape.specials,
        data_width=shape.data_width,
        memory=memory,
        numerics=config.numerics,
    )

    def read(address: int, count: int) -> bytes:
        for name, data in program.initial.items():
            at = address - program.areas[name].address
            if 0 <= at < len(data):
                return data[at : at + count]
        raise ValueError(f"nothing is stored at {address}")

    return StepModel(machine, vector, read)


def task_step(config: Config, name: str, latency: int = LATENCY) -> StepEstimate:
    """A step of a task that a machine does alone. BadInput if it has no vector unit, or if there is
    no such program for it."""
    if not config.vector.enable:
        raise BadInput("--task is for machines that do whole steps: --set vector.enable=true")
    task = find_task(name)
    if not task.classifies:
        raise BadInput(f"--task is of perceptrons, such as digits, not {task.name}")
    try:
        options = ProgramOptions(limits=program_limits(config))
        made = options.program(task, config.numerics, steps=STEP + 1, seed=0)
    except ValueError as error:
        raise BadInput(f"--task: {error}") from error
    return modelled_step(config, made.program, latency).step(made.program.training, step=STEP)
