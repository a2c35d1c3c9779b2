"""The step of the digits on nano, which several pictures show."""

from functools import cache

from diastole.backend import program_limits
from diastole.config.presets import PRESETS
from diastole.layers.modelled_step import STEP, modelled_step
from diastole_sim.train.tasks import find_task
from diastole_sim.trainer.options import ProgramOptions


@cache
def commands_of_step():
    """Return the model with its tables loaded, the commands of the step, and their times; as
    `diastole estimate --preset nano --task digits` has them."""
    config, task = PRESETS["nano"], find_task("digits")
    options = ProgramOptions(limits=program_limits(config))
    program = options.program(task, config.numerics, steps=STEP + 1, seed=0).program
    model = modelled_step(config, program)
    estimate = model.step(program.training, step=STEP)
    return model, [program.training[each.number] for each in estimate.commands], estimate
