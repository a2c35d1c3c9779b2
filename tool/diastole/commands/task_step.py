"""Model the cost of a step of a task on a machine with a vector unit."""

from diastole.backend import program_limits
from diastole.config.keys import Config
from diastole.errors import BadInput
from diastole.layers.modelled_step import STEP, modelled_step
from diastole_sim.perf.modelled_machine import LATENCY
from diastole_sim.perf.step import StepEstimate
from diastole_sim.train.tasks import Task
from diastole_sim.trainer.options import ProgramOptions
from diastole_sim.trainer.tasks import AccumulateError, TaskProgram


def task_step(
    config: Config, task: Task, latency: int = LATENCY, options: ProgramOptions | None = None
) -> StepEstimate:
    """Return the estimate of a step that a machine does alone, with the usual ``options`` if None.
    BadInput if the machine has no vector unit, or if no program of the task fits the machine."""
    return program_step(config, task, latency, options)[1]


def program_step(
    config: Config, task: Task, latency: int = LATENCY, options: ProgramOptions | None = None
) -> tuple[TaskProgram, StepEstimate]:
    """Return the program of a task, and the estimate of a step. Arguments and errors are as for
    :func:`task_step`."""
    what = "--task" if task.graph is None else "--graph"
    if not config.vector.enable:
        raise BadInput(
            f"{what} needs a machine with a vector unit: give --set vector.enable=true; train "
            "works without a vector unit too, but the cycles are not modelled"
        )
    if not task.classifies:
        raise BadInput(f"--task must be a perceptron, such as digits, not {task.name}")
    try:
        chosen = options or ProgramOptions(limits=program_limits(config))
        made = chosen.program(task, config.numerics, steps=STEP + 1, seed=0)
    except AccumulateError as error:
        raise BadInput(f"--{error}") from error
    except ValueError as error:
        raise BadInput(f"{what}: {error}") from error
    model = modelled_step(config, made.program, latency)
    return made, model.step(made.program.training, step=STEP)
