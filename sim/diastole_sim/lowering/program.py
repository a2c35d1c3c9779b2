"""Build the program that trains a network, with every operation of a step on the chip.

The samples become the first tensor, and every node becomes a product, a part of a chain, or both.
The backward pass follows in the reverse order. Chains are at the drains of products where possible.
Tags are 4 * layer + class. No tensor is converted twice.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from math import prod

import numpy as np
from numpy.typing import NDArray

from diastole_sim.graph.graph import HE, ONES
from diastole_sim.graph.operations.operation import ElementOperation, LossUse
from diastole_sim.graph.operations.table import OPERATIONS
from diastole_sim.lowering.backward import BackwardPass
from diastole_sim.lowering.evaluation import (
    convert_weights,
    evaluation_commands,
    memory_plan,
    moved_slots,
    slot_tables,
    write_groups,
)
from diastole_sim.lowering.forward import ForwardPass, input_part
from diastole_sim.lowering.parameters import Parameters, PlacedBias, in_panel
from diastole_sim.lowering.recipe import TrainingRecipe
from diastole_sim.lowering.samples import ROOM_FOR_ALL, Room, StoredSamples
from diastole_sim.lowering.schedule import GroupedSchedule, ProgramSchedule
from diastole_sim.lowering.tensors import ProgramTensors
from diastole_sim.lowering.updates import LOSS, Updates
from diastole_sim.program.chains.inputs import copied, copied_columns
from diastole_sim.program.chains.losses import mean_loss
from diastole_sim.program.command_list import CommandList
from diastole_sim.program.fusion import ChainPart
from diastole_sim.program.memory_plan import BoundStream, PlannedArea, stream_of
from diastole_sim.program.packing import area_at, packed
from diastole_sim.program.program import (
    EVALUATION,
    LOSSES,
    TRAINING,
    TrainingProgram,
)
from diastole_sim.program.program_tables import OWN_CONSTANTS
from diastole_sim.program.step_widths import LOGGED, StepWidths
from diastole_sim.program.stretches import PlacePitch, TrainingStretches
from diastole_sim.program.writer import ChainCall, Writer
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.limits import Limits, VectorTable
from diastole_sim.spec.micro import FLOOR, INVERSE, SCALE
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.stream_table import DESCRIPTOR_BYTES, Descriptor, Kind
from diastole_sim.train.draws import initial_weights

_SCALES = [f"K[{number}]" for number in (SCALE, INVERSE, FLOOR)]
"""Constants that a load of the loss scale's floor writes."""
BIAS_LAYERS = 0x4000
"""Number that is added to a layer for the draws of a random bias."""


def training_program(
    recipe: TrainingRecipe,
    training: StoredSamples,
    held_out: StoredSamples,
    *,
    numerics: Numerics,
    limits: Limits,
    room: Room = ROOM_FOR_ALL,
) -> TrainingProgram:
    """Return the program for a machine with these numerics and limits. ``room``: room for samples.
    ValueError if the machine has no vector unit, if an operation needs random numbers that the
    machine has not, or if tables or panel of the vector unit are too small."""
    _require_draws(recipe, limits)
    plan = memory_plan(recipe, numerics, limits)
    tensors = ProgramTensors(recipe, training, held_out, first_parameters(recipe), plan, room)
    builder = _Builder(tensors, Writer(plan, limits), limits)
    program = packed(builder.program())
    if program.sent is None:
        return program
    return replace(program, sent=_with_addresses(program.sent, program))


def _require_draws(recipe: TrainingRecipe, limits: Limits) -> None:
    """ValueError if an operation needs random numbers that the machine has not."""
    for node in recipe.graph.nodes:
        operation = OPERATIONS[node.operation]
        random = isinstance(operation, ElementOperation) and operation.random
        if random and limits.vector is not None and not limits.vector.draws:
            raise ValueError(
                f"{node} needs random numbers, which a machine has with vector.draws = true"
            )


def _with_addresses(sent: TrainingStretches, program: TrainingProgram) -> TrainingStretches:
    """Return the stretches with the addresses of all lists in a packed program's tables."""
    lists = [program.areas[name] for name in sent.lists]
    tables: dict[str, NDArray[np.uint8]] = {}
    addresses: dict[str, tuple[PlacePitch, ...]] = {}
    loads = (command for command in program.training if command.opcode == Opcode.LOAD)
    for name in {
        area_at(program.areas, load.address_x).name
        for load in loads
        if load.which == VectorTable.DESCRIPTORS
    }:
        data = program.initial[name]
        entries = {
            place: Descriptor.decode(data[place : place + DESCRIPTOR_BYTES])
            for place in range(0, len(data), DESCRIPTOR_BYTES)
        }
        found = tuple(
            (place, entry.offset)
            for place, entry in entries.items()
            if entry.per_step and any(area.address <= entry.address < area.end for area in lists)
        )
        if found:
            tables[name], addresses[name] = np.frombuffer(data, np.uint8), found
    return replace(sent, tables=tables, addresses=addresses)


def first_parameters(recipe: TrainingRecipe) -> dict[str, NDArray[np.float32]]:
    """Return the initial parameters by name, with shapes as in the graph.

    Random weights are those of :func:`diastole_sim.train.draws.initial_weights`, with the number of
    the first layer that reads the weight. A random bias is drawn as a weight of one input.
    """
    start = recipe.master.start
    if recipe.first is not None:
        first = {name: recipe.first[name].astype(np.float32) for name in recipe.graph.parameters}
        return {name: start(values) for name, values in first.items()}
    layers: dict[str, int] = {}
    for number, node in enumerate(recipe.linears):
        for place, name in enumerate(node.operands[1:]):
            layers.setdefault(name, number + place * BIAS_LAYERS)
    found: dict[str, NDArray[np.float32]] = {}
    for name, parameter in recipe.graph.parameters.items():
        shape = parameter.shape
        if parameter.initial == HE:
            drawn = initial_weights(prod(shape[1:]), shape[0], seed=recipe.seed, layer=layers[name])
            found[name] = np.ascontiguousarray(drawn.T.astype(np.float32)).reshape(shape)
        else:
            found[name] = np.full(shape, float(parameter.initial == ONES), np.float32)
    return {name: start(values) for name, values in found.items()}


class _Builder:
    """Builder of a program from placed tensors."""

    def __init__(self, tensors: ProgramTensors, writer: Writer, limits: Limits):
        self.tensors, self.writer, self.limits = tensors, writer, limits
        self.recipe, self.plan = tensors.recipe, tensors.plan
        self.parameters = Parameters(self.recipe, tensors)
        self.schedule = ProgramSchedule(self.plan.block)
        self.updates = Updates(tensors, self.parameters, self.schedule)
        passes = [self._passes(number) for number in range(self.recipe.microbatches)]
        # The losses place numbers in the panel before the parameters.
        losses = [self._loss(backward) for backward in passes]
        self.parameters.place()
        for backward, loss in zip(passes, losses, strict=True):
            self._write_microbatch(backward, loss)
        if self.recipe.waits:
            self.updates.write_waiting()

    def program(self) -> TrainingProgram:
        """Return the program."""
        tensors, plan, writer = self.tensors, self.plan, self.writer
        widths = self._widths()
        grouped = self.schedule.grouped()
        body = writer.segment(partial(self._write_step, grouped, widths))
        slots = slot_tables(tensors, plan)
        evaluation = moved_slots(Command.load, slots)
        evaluation.extend(
            evaluation_commands(
                self.parameters, tensors.held_out, tensors.held_out_area, self.limits
            )
        )
        # Commands before the first step; a later run continues at ``resume``.
        commands = moved_slots(Command.load, slots)
        if widths is not None:
            commands.extend(widths.begin())
        commands.extend(writer.segment(self._convert_weights))
        commands.extend(moved_slots(Command.store, slots))
        resume = len(commands)
        commands.extend(moved_slots(Command.load, slots))
        tables, body = writer.with_tables(body, tensors.initial, "training")
        commands.extend(self._copies(into_panel=True), tables)
        # The step, which ``next`` repeats, and the copies back to memory.
        target = len(commands)
        commands.extend(body)
        commands.add(Command.next(target), alone=True)
        commands.extend(self._copies(into_panel=False), moved_slots(Command.store, slots))
        self._fill_skipped_images()
        training = commands.commands(entries=(resume, target))
        evaluating = evaluation.commands()
        for name, each in ((TRAINING, training), (EVALUATION, evaluating)):
            _, tensors.initial[name] = plan.commands(name, each)
        return TrainingProgram(
            training=training,
            resume=resume,
            evaluation=evaluating,
            steps=self.recipe.steps,
            areas=plan.areas,
            initial=tensors.initial,
            panel=plan.in_panel,
            memory_bytes=plan.end,
            parameters=tuple(self.parameters.layers),
            state=self._state(slots),
            frozen=tuple(n for n in self.parameters.layers if not self.parameters.is_trained(n)),
            loss_scaling=self.recipe.loss_scaling,
            layers=self._layers(commands),
            sent=tensors.sent,
            held_out=tensors.sent_held_out,
            roundings=self.parameters.roundings(),
        )

    def _layers(self, commands: CommandList) -> tuple[int | None, ...]:
        """Return the number of the linear layer of every command, equal in all microbatches."""
        depth = self.recipe.depth
        return tuple(None if layer is None else layer % depth for layer in commands.layers())

    def _state(self, slots: Mapping[VectorTable, PlannedArea]) -> tuple[str, ...]:
        """Return the names of the areas that hold the state of the training between two runs."""
        floats = self.writer.floats
        names: list[str] = []
        for each in self.parameters.in_order():
            names += [stream.name for stream in each.stored.values()]
        for weight in self.parameters.weights.values():
            images = f"{weight.image.name}", f"{weight.image.name}, second copy"
            names += [name for name in images if name in self.plan.areas]
            names += [floats[weight.image.name].name] if weight.image.name in floats else []
        names += [area.name for area in slots.values()]
        return (*names, LOSSES, *[LOGGED] * (self.recipe.precision is not None))

    # The step.

    def _passes(self, microbatch: int) -> BackwardPass:
        """Return the backward pass of a microbatch, with the forward pass."""
        forward = ForwardPass(
            self.recipe,
            self.parameters,
            self.schedule,
            rows=self.recipe.batch,
            first_layer=microbatch * self.recipe.depth,
            bias_of=lambda name: self.parameters.biases[name].state["w"],
            microbatch=microbatch,
        )
        return BackwardPass(forward, self.schedule, self.updates)

    def _write_microbatch(self, backward: BackwardPass, loss: list[ChainPart]) -> None:
        """Append the products and parts of a microbatch to the schedule."""
        tensors, forward = self.tensors, backward.forward
        kind = Kind.GATHERED_U8 if tensors.training.are_bytes else Kind.GATHERED_F32
        samples = stream_of(tensors.training_area, kind)
        self.schedule.add(
            input_part(
                tensors.training,
                samples,
                forward.named(self.recipe.samples),
                self.recipe.batch,
                row_list=tensors.microbatches[forward.microbatch].rows,
            )
        )
        forward.write()
        for part in loss:
            self.schedule.add(part)
        if forward.microbatch == self.recipe.microbatches - 1:
            self._mean_loss()
        backward.write()

    def _loss(self, backward: BackwardPass) -> list[ChainPart]:
        """Return the parts of a microbatch's loss and of the gradient by the network's result."""
        recipe, tensors = self.recipe, self.tensors
        microbatch = tensors.microbatches[backward.microbatch]
        labels = recipe.loss.labels
        return recipe.loss.parts(
            LossUse(
                attributes=recipe.loss_node.attributes,
                shape=(recipe.batch, recipe.columns(recipe.result)),
                samples=recipe.samples_of_step,
                result=backward.forward.value[recipe.result],
                gradient=backward.gradient,
                target=microbatch.targets,
                row_list=None if labels else microbatch.rows,
                row_losses=microbatch.row_losses,
                scaled=recipe.scaled,
                spare=tensors.spare,
            )
        )

    def _mean_loss(self) -> None:
        """Append the mean of the losses of all rows of a step."""
        recipe, tensors = self.recipe, self.tensors
        count = recipe.loss.mean_over(recipe.samples_of_step, recipe.columns(recipe.result))
        constant = Descriptor(kind=Kind.CONSTANT, address=LOSS, watch=1)
        self.schedule.add(
            ChainPart(
                chain=mean_loss().with_values(**{"1/samples": 1 / count}),
                shape=(1, tensors.row_losses.shape[1]),
                inputs={"losses": stream_of(tensors.row_losses)},
                outputs={
                    "loss": stream_of(tensors.losses, Kind.ROW, per_step=True),
                    "constant": BoundStream(name=f"K[{LOSS}]", descriptor=constant),
                },
                apart=True,
            )
        )

    def _write_step(self, grouped: GroupedSchedule, widths: StepWidths | None) -> None:
        """Append the commands of a step, from the constants to the updates."""
        self._load_constants()
        if widths is not None:
            widths.begin_step(self.writer.commands)
        write_groups(self.tensors, self.writer, grouped, "")
        if self.recipe.rounds:  # by the conversions of a host, after the roundings
            for weight in self.parameters.weights.values():
                if weight.trainable:
                    self.writer.convert(weight.stored["w"], weight.image)
        if widths is not None:
            widths.end_step(self.writer.commands)

    def _load_constants(self) -> None:
        """Append loads of the constants of the step: constants of the optimiser, if any, and the
        smallest scale of the loss."""
        tensors = self.tensors
        every = (number for names in tensors.step_numbers for number in names.values())
        numbers = [f"K[{number}]" for number in every]
        for table, first, writes in (
            (tensors.step_table, OWN_CONSTANTS, numbers),
            (tensors.floors, FLOOR, _SCALES),
        ):
            if table is not None:
                load = Command.load(
                    VectorTable.CONSTANTS,
                    address=table.address,
                    first=first,
                    count=table.shape[1],
                    advance=table.pitch,
                )
                self.writer.commands.add(load, writes=writes)

    # Before the first step, and between runs.

    def _widths(self) -> StepWidths | None:
        """Return the widths that the machine decides, None without ``precision``. ValueError if
        the machine decides no widths of a class."""
        recipe = self.recipe
        if recipe.precision is None:
            return None
        for name in recipe.precision.classes:
            if not self.limits.choices[CLASS_NAMES.index(name)]:
                raise ValueError(f"the machine decides no widths of class {name}")
        return StepWidths(
            recipe.precision,
            steps=recipe.steps,
            layers=recipe.depth,
            plan=self.plan,
            initial=self.tensors.initial,
        )

    def _convert_weights(self) -> None:
        """Append the first conversions of the weights."""
        convert_weights(self.parameters, self.writer)

    def _copies(self, *, into_panel: bool) -> CommandList:
        """Return copies of the parameters that a step has in the panel, from memory to the panel or
        back."""
        writer, commands = Writer(self.plan, self.limits), CommandList()
        segment = writer.segment(partial(self._copy, writer, into_panel=into_panel))
        name = "copies into the panel" if into_panel else "copies back to memory"
        commands.extend(*writer.with_tables(segment, self.tensors.initial, name))
        return commands

    def _copy(self, writer: Writer, *, into_panel: bool) -> None:
        for each in self.parameters.in_order():
            if not in_panel(each.state):
                continue
            is_bias = isinstance(each, PlacedBias)
            rows = self.plan.block if is_bias else each.inputs
            for name, stored in each.stored.items():
                streams = stored, each.state[name]
                source, target = streams if into_panel else reversed(streams)
                use = ChainCall(
                    chain=copied_columns() if is_bias else copied(),
                    shape=(rows, each.outputs),
                    inputs={"x": source},
                    outputs={"y": target},
                )
                writer.chain(use)

    def _fill_skipped_images(self) -> None:
        """Fill the floats of images that a conversion reads after a skipped first update."""
        for weight in self.parameters.weights.values():
            floats = self.writer.floats.get(weight.image.name)
            if floats is not None:
                self.tensors.initial[floats.name] = self.tensors.initial[weight.name]
