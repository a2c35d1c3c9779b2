"""Build the commands of an evaluation: the forward pass of a network for any samples."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from diastole_sim.lowering.forward import ForwardPass, input_part
from diastole_sim.lowering.parameters import Parameters
from diastole_sim.lowering.recipe import TrainingRecipe
from diastole_sim.lowering.samples import StoredSamples
from diastole_sim.lowering.schedule import GroupedSchedule, ProgramSchedule
from diastole_sim.lowering.tensors import NetworkTensors
from diastole_sim.program.command_list import CommandList
from diastole_sim.program.memory_plan import MemoryPlan, PlannedArea, stream_of
from diastole_sim.program.packing import packed
from diastole_sim.program.program import EVALUATION, OUTPUT, TrainingProgram
from diastole_sim.program.step_widths import first_widths
from diastole_sim.program.writer import Writer
from diastole_sim.spec.command import Command
from diastole_sim.spec.limits import Limits, VectorTable, slot_words
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.stream_table import Kind

BEFORE_THE_FIRST = 2**32 - 1
"""Step of the random bits for the first conversion of the weights."""


def memory_plan(recipe: TrainingRecipe, numerics: Numerics, limits: Limits) -> MemoryPlan:
    """Return an empty plan of the memory. ValueError if the machine has no vector unit."""
    if limits.vector is None:
        raise ValueError("a program needs a machine with a vector unit")
    return MemoryPlan(
        numerics=numerics,
        data_width=limits.data_width,
        panel_vectors=limits.vector.panel_vectors,
        by_slot=recipe.precision.classes if recipe.precision else (),
    )


def evaluation_program(
    recipe: TrainingRecipe,
    parameters: Mapping[str, NDArray[np.float32]],
    samples: StoredSamples,
    *,
    numerics: Numerics,
    limits: Limits,
    state: Mapping[str, NDArray[np.uint8]] | None = None,
) -> TrainingProgram:
    """Return a program that has no training, and computes the network's result for samples.

    - ``parameters``: parameters by name, with shapes as in the graph.
    - ``state``: state of a training by name of an area, which has the quantised weights of the last
      update. Without a state, the program quantises the weights.

    With a state, the result equals the result of an evaluation by the training's own program.
    """
    plan = memory_plan(recipe, numerics, limits)
    tensors = NetworkTensors(recipe, parameters, plan)
    placed = Parameters(recipe, tensors, training=False)
    placed.place()
    area = tensors.stored("samples", samples)
    commands = CommandList()
    if state is None:
        writer = Writer(plan, limits)
        commands.extend(writer.segment(lambda: convert_weights(placed, writer)))
    else:
        slots = slot_tables(tensors, plan)
        names = [each for each in plan.areas if each in state]
        tensors.initial |= {name: state[name].tobytes() for name in names}
        commands.extend(moved_slots(Command.load, slots))
    commands.extend(evaluation_commands(placed, samples, area, limits))
    evaluation = commands.commands()
    _, tensors.initial[EVALUATION] = plan.commands(EVALUATION, evaluation)
    program = TrainingProgram(
        training=(),
        resume=0,
        evaluation=evaluation,
        steps=0,
        areas=plan.areas,
        initial=tensors.initial,
        panel=plan.in_panel,
        memory_bytes=plan.end,
        parameters=tuple(placed.layers),
        state=(),
    )
    return packed(program)


def slot_tables(tensors: NetworkTensors, plan: MemoryPlan) -> dict[VectorTable, PlannedArea]:
    """Place copies of the tables of slots, so that memory has the whole state between two runs:
    scales, which begin as zeros, and widths."""
    initial, tables = tensors.initial, dict[VectorTable, PlannedArea]()
    if plan.slots and any(plan.needs_scale(name) for name in CLASS_NAMES):
        words = plan.slots * slot_words(plan.numerics)
        area = tables[VectorTable.AMAX] = plan.take("scales", "table", (words,), 4 * words)
        initial[area.name] = bytes(area.length)
    precision = tensors.recipe.precision
    if precision is not None:
        first = first_widths(precision, tensors.recipe.depth)
        area = plan.take("widths of slots", "table", first.shape, first.nbytes)
        tables[VectorTable.WIDTHS], initial[area.name] = area, first.tobytes()
    return tables


def moved_slots(
    make: Callable[..., Command], tables: Mapping[VectorTable, PlannedArea]
) -> CommandList:
    """Return loads or stores of the tables of slots."""
    commands = CommandList()
    for table, area in tables.items():
        count = area.shape[0]
        commands.add(make(table, address=area.address, first=0, count=count), alone=True)
    return commands


def evaluation_commands(
    parameters: Parameters, samples: StoredSamples, area: PlannedArea, limits: Limits
) -> CommandList:
    """Return the commands that compute the network's result for samples in ``area``, with separate
    tables. The layers are numbered after the last layer of a step, so no random bits are
    shared with the training."""
    recipe, tensors = parameters.recipe, parameters.tensors
    plan, rows = tensors.plan, len(samples.inputs)
    writer, schedule = Writer(plan, limits), ProgramSchedule(plan.block)
    schedule.add(input_part(samples, stream_of(area), recipe.samples, rows))
    forward = ForwardPass(
        recipe,
        parameters,
        schedule,
        rows=rows,
        first_layer=recipe.layers_of_step,
        bias_of=lambda name: parameters.biases[name].stored["w"],
        training=False,
    )
    forward.write()
    result = plan.tensor(OUTPUT, Kind.F32, rows, recipe.columns(recipe.result))
    schedule.keep(forward.value[recipe.result], stream_of(result))
    grouped = schedule.grouped()
    body = writer.segment(lambda: write_groups(tensors, writer, grouped, "evaluation "))
    commands = CommandList()
    commands.extend(*writer.with_tables(body, tensors.initial, "evaluation"))
    return commands


def convert_weights(parameters: Parameters, writer: Writer) -> None:
    """Append the first conversions of the weights."""
    for weight in parameters.weights.values():
        writer.convert(weight.stored["w"], weight.image, step=BEFORE_THE_FIRST)


def write_groups(
    tensors: NetworkTensors, writer: Writer, grouped: GroupedSchedule, prefix: str
) -> None:
    """Place the values of a schedule and append the commands. ``prefix``: beginning of the names in
    memory."""
    schedule = grouped.schedule
    images = {
        (value, name): tensors.image(
            name, f"{prefix}{value} image {name}", layer, *schedule.shapes[value]
        )
        for (value, name), layer in schedule.image_layers.items()
    }
    floats = {
        value: schedule.kept.get(value)
        or stream_of(
            tensors.plan.tensor(f"{prefix}{value}", schedule.kind(value), *schedule.shapes[value])
        )
        for value in grouped.in_memory()
    }
    grouped.write(writer, images, floats)
