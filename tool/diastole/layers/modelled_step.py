"""Model a step of a program on a machine with a vector unit."""

from diastole.config.keys import Config
from diastole_sim.perf import Memory, ModelledMachine
from diastole_sim.perf.modelled_machine import LATENCY
from diastole_sim.perf.modelled_vector import ModelledVector
from diastole_sim.perf.step import StepModel
from diastole_sim.program.program import TrainingProgram

STEP = 5
"""Number of the modelled step. Commands with a stream per step take a cycle more for every bit of
the number."""


def modelled_step(
    config: Config,
    program: TrainingProgram,
    latency: int = LATENCY,
    *,
    class_bits: int | None = None,
) -> StepModel:
    """Return the model of a machine with a vector unit, and of a program in the machine's memory.
    ``class_bits``: argument of :class:`StepModel`."""
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

    return StepModel(machine, vector, read, class_bits=class_bits)
