"""Fit a program into a memory: send samples in stretches if memory has no room for all."""

from collections.abc import Callable
from functools import partial

from diastole_sim.lowering.program import training_program
from diastole_sim.lowering.recipe import TrainingRecipe
from diastole_sim.lowering.samples import ROOM_FOR_ALL, Room, StoredSamples
from diastole_sim.program.program import TrainingProgram
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.numerics import Numerics


def fitting_program(
    recipe: TrainingRecipe,
    training: StoredSamples,
    held_out: StoredSamples,
    *,
    numerics: Numerics,
    limits: Limits,
    memory_bytes: int | None,
) -> TrainingProgram:
    """Return a program that needs at most ``memory_bytes``, None for any memory.

    Memory has all samples if there is room. Otherwise the host sends the training samples, in
    stretches of as many steps as memory has room for. The host also sends the held-out samples in
    parts, if there is no room for all of them. The training has the same bits in all cases. If
    nothing fits, return the smallest program. ValueError as for
    :func:`diastole_sim.lowering.program.training_program`.
    """
    data = {"numerics": numerics, "limits": limits}
    build = partial(training_program, recipe, training, held_out, **data)
    program = build(room=ROOM_FOR_ALL)
    if memory_bytes is None or program.memory_bytes <= memory_bytes:
        return program
    part = min(recipe.samples_of_step, len(held_out.inputs))
    for held in (None, part):
        program = build(room=Room(steps=1, held_out=held))
        if program.memory_bytes <= memory_bytes:
            return _longest(build, program, recipe.steps, held, memory_bytes)
    return program


def _longest(
    build: Callable[..., TrainingProgram],
    shortest: TrainingProgram,
    most: int,
    held_out: int | None,
    memory_bytes: int,
) -> TrainingProgram:
    """Return the program of the longest stretches that fit, of 1 to ``most`` steps. ``shortest``:
    program of stretches of one step, which fits."""
    best, least = shortest, 1
    while least < most:
        steps = (least + most + 1) // 2
        program = build(room=Room(steps=steps, held_out=held_out))
        if program.memory_bytes <= memory_bytes:
            best, least = program, steps
        else:
            most = steps - 1
    return best
