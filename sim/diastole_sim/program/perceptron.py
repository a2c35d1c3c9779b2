"""Build the program that trains a perceptron, with every operation of a step on the chip.

A step has the following parts:

- The samples become the first layer's X.
- The product of each layer passes through bias and activation and becomes the next layer's X.
- Three chains compute softmax, loss and gradient.
- From the last layer to the first, dX passes through the derivative and becomes the dY of the layer
  below. dW enters the update of the weights, which also makes the image of W for the next step.

Tags are 4 * layer + class. No tensor is converted twice.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from diastole_sim.program.chains.inputs import copied, copied_columns
from diastole_sim.program.chains.losses import mean_loss, softmax_a, softmax_b, softmax_c
from diastole_sim.program.chains.sums import bias_squares, bias_sums, clip_factor, column_squares
from diastole_sim.program.chains.updates import CLIP_FACTOR
from diastole_sim.program.command_list import CommandList
from diastole_sim.program.memory_plan import BoundStream, MemoryPlan, stream_of
from diastole_sim.program.perceptron_forward import (
    PRODUCT,
    evaluation_commands,
    forward_chain,
    input_use,
)
from diastole_sim.program.perceptron_tensors import (
    PerceptronLayer,
    PerceptronRecipe,
    PerceptronTensors,
    StoredSamples,
    in_panel,
)
from diastole_sim.program.program import EVALUATION, TRAINING, TrainingProgram
from diastole_sim.program.program_tables import FIRST_WRITTEN, OWN_CONSTANTS
from diastole_sim.program.step_widths import StepWidths
from diastole_sim.program.writer import ChainCall, ProductOf, Writer
from diastole_sim.spec.command import Command
from diastole_sim.spec.image import round_up
from diastole_sim.spec.limits import Limits, VectorTable, slot_words
from diastole_sim.spec.micro import FLOOR, INVERSE, SCALE
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.stream_table import Descriptor, Kind

LOSS, CLIP = FIRST_WRITTEN, FIRST_WRITTEN + 1
"""Constants that chains write: the loss of the step, and the clip factor of the gradients."""
_SCALES = [f"K[{number}]" for number in (SCALE, INVERSE, FLOOR)]
"""Constants that a load of the loss scale's floor writes."""
BEFORE_THE_FIRST = 2**32 - 1
"""Step of the random bits for the first conversion of the weights."""


def perceptron_program(
    recipe: PerceptronRecipe,
    training: StoredSamples,
    held_out: StoredSamples,
    *,
    numerics: Numerics,
    limits: Limits,
) -> TrainingProgram:
    """Return the program for a machine with these numerics and limits. ValueError if the machine
    has no vector unit, if scales must be given by the host, or if tables or panel of the vector
    unit are too small."""
    if limits.vector is None:
        raise ValueError("a program needs a machine with a vector unit")
    if numerics.source == "host":
        raise ValueError(
            "scale.source must be current or delayed for a program, not host: no host sets scales"
        )
    plan = MemoryPlan(
        numerics=numerics,
        data_width=limits.data_width,
        panel_vectors=limits.vector.panel_vectors,
        by_slot=recipe.precision.classes if recipe.precision else (),
    )
    # Places of all tensors, and the commands of a step.
    tensors = PerceptronTensors(recipe, training, held_out, plan)
    widths = _widths(recipe, plan, limits, tensors.initial)
    writer = Writer(plan, limits)
    step = _Step(tensors, writer, training, widths)
    body = writer.segment(step.write)
    evaluation = evaluation_commands(tensors, held_out, limits)
    # Commands before the first step; a later run continues at ``resume``.
    commands = _empty_slots(plan, tensors.initial)
    if widths is not None:
        commands.extend(widths.begin())
    commands.extend(writer.segment(step.convert_weights))
    resume = len(commands)
    moves = Writer(plan, limits)
    into_panel, back = (
        moves.segment(partial(_copy, moves, tensors.layers, into_panel=each))
        for each in (True, False)
    )
    loads = moves.load_tables(tensors.initial, "copies")
    commands.extend(loads, into_panel, writer.load_tables(tensors.initial, "training"))
    # The step, which ``next`` repeats, and the copies back to memory.
    target = len(commands)
    commands.extend(body)
    commands.add(Command.next(target), alone=True)
    commands.extend(loads, back)
    for layer in tensors.layers:  # floats for the conversion after a skipped first update
        if layer.w.name in writer.floats:
            first = tensors.initial[layer.parameters["w"].name]
            tensors.initial[writer.floats[layer.w.name].name] = first
    training_commands = commands.commands(entries=(resume, target))
    for name, each in ((TRAINING, training_commands), (EVALUATION, evaluation)):
        _, tensors.initial[name] = plan.commands(name, each)
    return TrainingProgram(
        training=training_commands,
        resume=resume,
        evaluation=evaluation,
        steps=recipe.steps,
        areas=plan.areas,
        initial=tensors.initial,
        panel=plan.in_panel,
        memory_bytes=plan.end,
        loss_scaling=recipe.loss_scaling,
    )


def _widths(
    recipe: PerceptronRecipe, plan: MemoryPlan, limits: Limits, initial: dict[str, bytes]
) -> StepWidths | None:
    """Return the widths that the machine decides, None without ``precision``. ValueError if the
    machine decides no widths of a class."""
    if recipe.precision is None:
        return None
    for name in recipe.precision.classes:
        if not limits.choices[CLASS_NAMES.index(name)]:
            raise ValueError(f"the machine decides no widths of class {name}")
    return StepWidths(
        recipe.precision, steps=recipe.steps, layers=recipe.depth, plan=plan, initial=initial
    )


def _empty_slots(plan: MemoryPlan, initial: dict[str, bytes]) -> CommandList:
    """Return commands that clear the slots of scales, which at first hold arbitrary values or
    values of an earlier run."""
    commands = CommandList()
    if plan.slots:
        words = plan.slots * slot_words(plan.numerics)
        area = plan.take("empty slots", "table", (words,), 4 * words)
        initial[area.name] = bytes(area.length)
        load = Command.load(VectorTable.AMAX, address=area.address, first=0, count=words)
        commands.add(load, alone=True)
    return commands


def _copy(writer: Writer, layers: Sequence[PerceptronLayer], *, into_panel: bool) -> None:
    """Append copies of the parameters that a step has in the panel, from memory to the panel or
    back."""
    block = writer.plan.block
    for layer in layers:
        for chain, rows, parameters, state in (
            (copied(), layer.inputs, layer.parameters, layer.state),
            (copied_columns(), block, layer.bias, layer.bias_state),
        ):
            for name, stored in parameters.items() if in_panel(state) else ():
                streams = stored, state[name]
                source, target = streams if into_panel else reversed(streams)
                use = ChainCall(
                    chain=chain,
                    shape=(rows, layer.outputs),
                    inputs={"x": source},
                    outputs={"y": target},
                )
                writer.chain(use)


class _Step:
    """Writer of the commands of a step and before the first step."""

    def __init__(
        self,
        tensors: PerceptronTensors,
        writer: Writer,
        samples: StoredSamples,
        widths: StepWidths | None,
    ):
        self.tensors, self.writer, self.samples = tensors, writer, samples
        self.widths = widths
        self.recipe, self.layers = tensors.recipe, tensors.layers
        self.skip = self.recipe.loss_scaling is not None

    def convert_weights(self) -> None:
        """Append the first conversions of the weights."""
        for layer in self.layers:
            self.writer.convert(layer.parameters["w"], layer.w, step=BEFORE_THE_FIRST)

    def write(self) -> None:
        """Append the commands of a step, from the constants to the updates."""
        tensors = self.tensors
        self._load_constants()
        if self.widths is not None:
            self.widths.begin_step(self.writer.commands)
        kind = Kind.GATHERED_U8 if self.samples.are_bytes else Kind.GATHERED_F32
        use = input_use(
            self.samples,
            stream_of(tensors.samples, kind),
            self.layers[0].x,
            row_list=tensors.rows,
        )
        self.writer.chain(use)
        for layer in self.layers[:-1]:
            self._forward(layer)
        self._softmax()
        for layer in reversed(self.layers):
            self._backward(layer)
            if layer.number + 1 < len(self.layers) and not self.recipe.waits:
                self._sum_and_update_bias(self.layers[layer.number + 1])
        if self.recipe.waits:
            self._waiting_updates()
        else:
            self._sum_and_update_bias(self.layers[0])
        if self.widths is not None:
            self.widths.end_step(self.writer.commands)

    def _load_constants(self) -> None:
        """Append loads of the constants of the step: constants of the optimiser, if any, and the
        smallest scale of the loss."""
        tensors = self.tensors
        numbers = [f"K[{number}]" for number in tensors.step_numbers.values()]
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

    def _product(self, operation: str, layer: PerceptronLayer) -> ProductOf:
        operands = {
            "forward": {"x": layer.x, "w": layer.w},
            "dx": {"w": layer.w, "dy": layer.dy},
            "dw": {"x": layer.x, "dy": layer.dy},
        }[operation]
        return ProductOf(
            operation=operation,
            m=self.recipe.batch,
            n=layer.outputs,
            k=layer.inputs,
            operands=operands,
        )

    def _forward(self, layer: PerceptronLayer) -> None:
        assert layer.kept is not None
        following = self.layers[layer.number + 1]
        forward_chain(
            self.writer,
            self.recipe,
            self._product("forward", layer),
            layer.bias_state["w"],
            x=following.x,
            kept=layer.kept,
        )

    def _softmax(self) -> None:
        tensors, layer, rows = self.tensors, self.layers[-1], self.recipe.batch
        shape = rows, layer.outputs
        z = {"z": tensors.z, "m": tensors.m}
        product: ProductOf | None = self._product("forward", layer)
        y = PRODUCT
        if not self.writer.whole_rows(product):
            y = stream_of(self.writer.plan.tensor("y", Kind.F32, rows, layer.outputs))
            self.writer.product(product, y)
            product = None
        inputs = {"y": y, "b": layer.bias_state["w"]}
        use = ChainCall(chain=softmax_a(), shape=shape, inputs=inputs, outputs=z)
        self.writer.chain(use, product)
        inputs = z | {"label": tensors.labels}
        losses = stream_of(tensors.row_losses, Kind.ROW)
        outputs = z | {"loss": losses}
        use = ChainCall(chain=softmax_b(), shape=shape, inputs=inputs, outputs=outputs)
        self.writer.chain(use)
        values = {"1/samples": 1 / rows}
        gradient = ChainCall(
            chain=softmax_c(scaled=self.skip),
            shape=shape,
            inputs=inputs | {"db": layer.db_before},
            outputs={"dz": layer.dy, "db": self._watched(layer.db)},
            values=values,
        )
        self.writer.chain(gradient)
        constant = Descriptor(kind=Kind.CONSTANT, address=LOSS, watch=1)
        mean = ChainCall(
            chain=mean_loss(),
            shape=(1, rows),
            inputs={"losses": stream_of(tensors.row_losses)},
            outputs={
                "loss": stream_of(tensors.losses, Kind.ROW, per_step=True),
                "constant": BoundStream(name=f"K[{LOSS}]", descriptor=constant),
            },
            values=values,
        )
        self.writer.chain(mean)

    def _watched(self, stream: BoundStream) -> BoundStream:
        """Return the stream, with the watch bit set under loss scaling: a number that is not finite
        is then an overflow."""
        watched = replace(stream.descriptor, watch=int(self.skip))
        return BoundStream(name=stream.name, descriptor=watched)

    def _backward(self, layer: PerceptronLayer) -> None:
        """Append dX with the derivative's chain, then dW. dW comes last, since the update makes a
        new W and dX reads the old W. The bias is updated after the next dW, which loads operands in
        the meantime."""
        if layer.number:
            below = self.layers[layer.number - 1]
            assert below.kept is not None
            product = self._product("dx", layer)
            use = ChainCall(
                chain=self.recipe.activation.backward_chain(),
                shape=product.shape,
                inputs={"da": PRODUCT, "kept": below.kept, "db": below.db_before},
                outputs={"dz": below.dy, "db": self._watched(below.db)},
            )
            self.writer.chain(use, product)
        product = self._product("dw", layer)
        if layer.dw is not None:
            self.writer.product(product, layer.dw)
            return
        self._update(layer, PRODUCT, product)

    def _update(
        self, layer: PerceptronLayer, gradient: BoundStream, product: ProductOf | None = None
    ) -> None:
        use = ChainCall(
            chain=self.recipe.update(bias=False),
            shape=(layer.inputs, layer.outputs),
            inputs={"g": gradient, **layer.state},
            outputs={**layer.state, "image": layer.w},
            values=self.recipe.optimiser.constants(),
            numbers=self._numbers(),
            skip=self.skip,
            update=product is None,
        )
        self.writer.chain(use, product)

    def _sum_and_update_bias(self, layer: PerceptronLayer) -> None:
        self._sum_bias(layer)
        self._update_bias(layer)

    def _update_bias(self, layer: PerceptronLayer) -> None:
        chain, shape, bias = self.recipe.update(bias=True), (1, layer.outputs), layer.bias_state
        gradient = layer.db
        if layer.summed is not None:
            chain = self.recipe.update(bias=False, image=False)
            shape = self.writer.plan.folded(layer.outputs)
            bias = {name: each for name, each in layer.folded.items() if name != "g"}
            gradient = layer.folded["g"]
        use = ChainCall(
            chain=chain,
            shape=shape,
            inputs={"g": gradient, **bias},
            outputs=bias,
            values=self.recipe.optimiser.constants(),
            numbers=self._numbers(),
            skip=self.skip,
            update=True,
        )
        self.writer.chain(use)

    def _sum_bias(self, layer: PerceptronLayer) -> None:
        """Append the sum of a bias's gradient, if the update of the bias reads the sum. An overflow
        of the sum is noted."""
        if layer.summed is None:
            return
        use = ChainCall(
            chain=bias_sums(),
            shape=(1, layer.outputs),
            inputs={"db": layer.db},
            outputs={"sums": self._watched(layer.summed)},
            skip=self.skip,
            update=True,
        )
        self.writer.chain(use)

    def _numbers(self) -> dict[str, int]:
        """Return the numbers of the constants that change."""
        return self.tensors.step_numbers | ({CLIP_FACTOR: CLIP} if self.recipe.clip else {})

    def _waiting_updates(self) -> None:
        """Append the updates that wait for all gradients. Everything that may overflow is computed
        before the first update, so a step is skipped as a whole. Sums of biases come first too,
        unless the sum of all squares covers them."""
        for layer in self.layers:
            self._sum_bias(layer)
        if self.recipe.clip is not None:
            self._clip(self.recipe.clip)
        for layer in self.layers:
            assert layer.dw is not None
            self._update(layer, layer.dw)
            self._update_bias(layer)

    def _clip(self, norm: float) -> None:
        """Append the clip factor of all gradients, from the squares of every column of each
        gradient."""
        plan = self.writer.plan
        pieces = [round_up(4 * layer.outputs, plan.beat_bytes) for layer in self.layers]
        size = 2 * sum(pieces) // 4
        area = plan.tensor("squares", Kind.F32, 1, size)
        place = area.address
        for layer, length in zip(self.layers, pieces, strict=True):
            assert layer.dw is not None
            for chain, name, source, rows in (
                (column_squares(), "values", layer.dw, layer.inputs),
                (bias_squares(), "db", layer.db, 1),
            ):
                sums = Descriptor(kind=Kind.COLUMN, address=place)
                use = ChainCall(
                    chain=chain,
                    shape=(rows, layer.outputs),
                    inputs={name: source},
                    outputs={"sums": BoundStream(name=f"squares at {place}", descriptor=sums)},
                    skip=self.skip,
                )
                self.writer.chain(use)
                place += length
        factor = Descriptor(kind=Kind.CONSTANT, address=CLIP)
        outputs = {"factor": BoundStream(name=f"K[{CLIP}]", descriptor=factor)}
        if self.skip:
            total = plan.vector("sum of squares", Kind.ROW, 1)
            outputs["sum"] = self._watched(stream_of(total))
        use = ChainCall(
            chain=clip_factor(scaled=self.skip),
            shape=(1, size),
            inputs={"squares": stream_of(area)},
            outputs=outputs,
            values={"max_norm": norm},
            skip=self.skip,
        )
        self.writer.chain(use)
