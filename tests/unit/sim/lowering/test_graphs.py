"""Graphs of any shape on the golden machine: close to numpy, except for the products, which are the
golden device's."""

import numpy as np
import pytest

from diastole_sim.graph.build import GraphBuilder
from diastole_sim.graph.graph import GraphError, GraphParameter
from diastole_sim.graph.perceptron import perceptron_graph
from diastole_sim.lowering.program import training_program
from diastole_sim.lowering.recipe import ParameterGroup, TrainingRecipe
from diastole_sim.lowering.samples import StoredSamples
from diastole_sim.program.recipe import Lars, Sgd
from diastole_sim.program.run import ProgramRun, golden_machine
from diastole_sim.spec.command_table import CHAINED, Opcode
from diastole_sim.train.loss_scaling import LossScaling
from support.graphs import random_graph
from support.numerics import make_numerics
from support.quantised_graph import QuantisedGraph
from support.small_programs import make_limits
from support.texts import exactly

STEPS, SAMPLES, HELD_OUT = 3, 20, 7
RATE, MOMENTUM = 0.003, 0.5


def samples(rng, graph, count):
    """Random ones for a graph."""
    features = graph.inputs["input"][1]
    inputs = (0.3 * rng.standard_normal((count, features))).astype(np.float32)
    result = graph.shape(graph.nodes[-1].operands[0])
    if graph.nodes[-1].operation == "cross_entropy":
        return StoredSamples(inputs=inputs, targets=rng.integers(0, result[1], count))
    targets = rng.standard_normal((count, result[1])).astype(np.float32)
    return StoredSamples(inputs=inputs, targets=targets)


class TrainedGraph:
    """A graph trained on the golden machine, and by numpy."""

    def __init__(
        self,
        rng,
        graph,
        *,
        block=8,
        panel_vectors=1024,
        microbatches=1,
        rounding="nearest",
        formats="bf16",
        seed=0,
        **others,
    ):
        numerics = make_numerics(formats=formats, block=block, roundings=rounding)
        limits = make_limits(numerics, panel_vectors=panel_vectors)
        self.training, self.held_out = (samples(rng, graph, each) for each in (SAMPLES, HELD_OUT))
        usual = {"optimiser": Sgd(rate=lambda step: RATE, momentum=MOMENTUM)}
        self.recipe = TrainingRecipe(
            graph=graph,
            batches=rng.integers(0, SAMPLES, (STEPS, microbatches * graph.batch)),
            **usual | others,
        )
        self.program = training_program(
            self.recipe, self.training, self.held_out, numerics=numerics, limits=limits
        )
        self.machine = golden_machine(self.program, numerics, limits, seed=seed)
        self.reference = QuantisedGraph(self.recipe, numerics, self._updated, seed)
        self._velocities = {}

    def _updated(self, name, w, gradient):
        self._velocities[name] = MOMENTUM * self._velocities.get(name, 0) + gradient
        return w - RATE * self._velocities[name]

    def expected(self):
        """Losses of the reference; infinite ones of a graph whose training fails."""
        losses = []
        with np.errstate(all="ignore"):
            for step, rows in enumerate(self.recipe.batches):
                batch = {
                    "input": self.training.inputs[rows].astype(np.float64),
                    "target": self.training.targets[rows],
                }
                losses.append(self.reference.step(batch, step))
        return np.array(losses)

    def check(self, tolerance=2e-3):
        """Compare losses, parameters and the result for the held-out samples."""
        start = dict(self.reference.parameters)
        expected = self.expected()
        if not (np.isfinite(expected).all() and expected.max() < 1e6):
            return
        run = ProgramRun(program=self.program, machine=self.machine)
        run.train(STEPS)
        np.testing.assert_allclose(run.losses(), expected, rtol=tolerance, atol=1e-4)
        for name, values in self.reference.parameters.items():
            found = run.floats(name).T.reshape(values.shape)
            apart, moved = (np.linalg.norm(each - values) for each in (found, start[name]))
            assert apart <= 0.1 * moved + 1e-6, (name, apart, moved)
        self.reference.images = {}
        inputs = {
            "input": self.held_out.inputs.astype(np.float64),
            "target": self.held_out.targets,
        }
        values, _ = self.reference.forward(inputs, STEPS, first=self.recipe.layers_of_step)
        np.testing.assert_allclose(run.evaluate(), values[self.recipe.result], rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("depth", range(1, 9))
@pytest.mark.parametrize("seed", range(12))
def test_a_graph_at_random(depth, seed):
    rng = np.random.default_rng([seed, depth])
    graph = random_graph(rng, depth)
    if graph.output not in graph.differentiated:
        with pytest.raises(GraphError, match="depends on no trainable parameter"):
            TrainedGraph(rng, graph)
        return
    block, vectors = int(2 ** rng.integers(0, 5)), int(rng.choice([256, 1024, 4096]))
    TrainedGraph(rng, graph, block=block, panel_vectors=vectors).check()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("microbatches", [2, 3])
@pytest.mark.parametrize("waits", [False, True])
def test_microbatches(microbatches, waits, seed):
    """The gradient of a step is the mean over all microbatches, and every tensor of a microbatch
    has random bits of its own."""
    rng = np.random.default_rng([seed, microbatches])
    graph = random_graph(rng, 1 + seed % 4)
    if graph.output not in graph.differentiated:
        return
    options = {"clip": 1e6} if waits else {}
    options["block"] = int(rng.choice([4, 8]))
    options["rounding"] = str(rng.choice(["nearest", "stochastic-b"]))
    # Numpy computes in float64, so a stochastic rounding now and then takes the other neighbour.
    tolerance = 2e-3 if options["rounding"] == "nearest" else 1e-2
    TrainedGraph(rng, graph, microbatches=microbatches, **options).check(tolerance)


@pytest.mark.parametrize("microbatches", [1, 2, 3])
def test_random_bits_of_an_evaluation(microbatches):
    """An evaluation has random bits of its own, not those of a microbatch."""
    rng = np.random.default_rng(microbatches)
    graph = perceptron_graph((5, 3), batch=4)
    frozen = Sgd(rate=lambda step: 0.0)
    options = {"formats": "bfp4", "rounding": "stochastic-b", "optimiser": frozen}
    trained = TrainedGraph(rng, graph, microbatches=microbatches, **options)
    run = ProgramRun(program=trained.program, machine=trained.machine)
    run.train(STEPS)
    inputs = {"input": trained.held_out.inputs.astype(np.float64)}
    inputs["target"] = trained.held_out.targets
    results = []
    for first in range(microbatches + 1):
        trained.reference.images = {}
        values, _ = trained.reference.forward(inputs, STEPS, first=first)
        results.append(values[trained.recipe.result])
    np.testing.assert_allclose(run.evaluate(), results[-1], rtol=1e-5, atol=1e-6)
    for other in results[:-1]:
        assert np.abs(other - results[-1]).max() > 1e-3


class GroupedGraph(TrainedGraph):
    """Biases without decay, and the parameters of the first layer with half of the rate."""

    DECAY = 0.4
    GROUPS = (
        ParameterGroup(pattern="*.bias", optimiser=Sgd(rate=lambda step: RATE, momentum=MOMENTUM)),
        ParameterGroup(
            pattern="first.*",
            optimiser=Sgd(rate=lambda step: RATE / 2, momentum=MOMENTUM, weight_decay=DECAY),
        ),
    )

    def _updated(self, name, w, gradient):
        bias, first = name.endswith(".bias"), name.startswith("first.")
        if not bias:
            gradient = gradient + self.DECAY * w
        self._velocities[name] = MOMENTUM * self._velocities.get(name, 0) + gradient
        return w - (RATE / 2 if first and not bias else RATE) * self._velocities[name]


@pytest.mark.parametrize("clip", [None, 0.05])
@pytest.mark.parametrize("vectors", [64, 4096])
def test_groups_of_parameters(clip, vectors, np_rng):
    builder = GraphBuilder()
    x = builder.input("input", (8, 6))
    hidden = builder.node("gelu", [linear(builder, "first", x, 10)])
    last = linear(builder, "last", hidden, 3)
    graph = builder.graph(builder.node("mse_loss", [last, builder.input("target", (8, 3))]))
    optimiser = Sgd(rate=lambda step: RATE, momentum=MOMENTUM, weight_decay=GroupedGraph.DECAY)
    more = {"optimiser": optimiser, "groups": GroupedGraph.GROUPS}
    made = GroupedGraph(np_rng, graph, panel_vectors=vectors, **more, clip=clip)
    plain = TrainedGraph(np_rng, graph, panel_vectors=vectors)
    constants = made.program.areas["constants of steps"].shape[1]
    assert constants == 3 * plain.program.areas["constants of steps"].shape[1]
    if clip is None:
        made.check()


class LarsGraph(TrainedGraph):
    """LARS by the formula of its paper, with the ratio of each weight."""

    DECAY, TRUST = 0.1, 0.02

    def _updated(self, name, w, gradient):
        ratio = 1.0
        if name.endswith(".weight"):
            norms = np.linalg.norm(w), np.linalg.norm(gradient)
            ratio = self.TRUST * norms[0] / (norms[1] + self.DECAY * norms[0]) if all(norms) else 1
        gradient = ratio * (gradient + self.DECAY * w)
        self._velocities[name] = MOMENTUM * self._velocities.get(name, 0) + gradient
        return w - 0.5 * self._velocities[name]


@pytest.mark.parametrize("scaling", [None, LossScaling(exponent=5)], ids=["plain", "scaled"])
@pytest.mark.parametrize("vectors", [64, 4096], ids=["memory", "panel"])
@pytest.mark.parametrize("bias", [False, True])
def test_lars(bias, vectors, scaling, np_rng):
    builder = GraphBuilder()
    x = builder.input("input", (8, 6))
    hidden = builder.node("gelu", [linear(builder, "first", x, 10, bias=bias)])
    zeros = GraphParameter(name="last.weight", shape=(3, 10), initial="zeros")
    last = builder.node("linear", [hidden, builder.parameter(zeros)])
    graph = builder.graph(builder.node("mse_loss", [last, builder.input("target", (8, 3))]))
    optimiser = Lars(
        rate=lambda step: 0.5,
        momentum=MOMENTUM,
        weight_decay=LarsGraph.DECAY,
        trust=LarsGraph.TRUST,
    )
    LarsGraph(
        np_rng, graph, panel_vectors=vectors, optimiser=optimiser, loss_scaling=scaling
    ).check()


def test_lars_of_many_weights(np_rng):
    """Every weight needs a constant of its own."""
    builder = GraphBuilder()
    value = builder.input("input", (4, 2))
    for number in range(59):
        value = linear(builder, str(number), value, 2, bias=False)
    graph = builder.graph(builder.node("mse_loss", [value, builder.input("target", (4, 2))]))
    said = "lars trains at most 58 weights: the machine has a constant for the trust ratio of each"
    with pytest.raises(ValueError, match=exactly(said)):
        TrainedGraph(np_rng, graph, optimiser=Lars(rate=lambda step: 0.5))


def test_a_group_without_a_parameter(np_rng):
    builder = GraphBuilder()
    last = linear(builder, "last", builder.input("input", (4, 3)), 2)
    graph = builder.graph(builder.node("mse_loss", [last, builder.input("target", (4, 2))]))
    group = ParameterGroup(pattern="first*", optimiser=Sgd(rate=lambda step: RATE))
    said = (
        "no trained parameter belongs to the group first*: the trained parameters are "
        "last.weight, last.bias"
    )
    with pytest.raises(ValueError, match=exactly(said)):
        TrainedGraph(np_rng, graph, groups=(group,))


def linear(builder, name, value, outputs, *, bias=True, trainable=True):
    inputs = builder.shape(value)[1]
    weight = GraphParameter(name=f"{name}.weight", shape=(outputs, inputs), trainable=trainable)
    operands = [value, builder.parameter(weight)]
    if bias:
        made = GraphParameter(
            name=f"{name}.bias", shape=(outputs,), initial="zeros", trainable=trainable
        )
        operands.append(builder.parameter(made))
    return builder.node("linear", operands, name=name)


def residual_block(builder, name, value):
    """x + linear(gelu(linear(x)))."""
    features = builder.shape(value)[1]
    inner = builder.node("gelu", [linear(builder, f"{name}.up", value, 9)])
    return builder.node("add", [linear(builder, f"{name}.down", inner, features), value])


def with_loss(builder, value, loss="mse_loss"):
    target = builder.input("target", builder.shape(value))
    return builder.graph(builder.node(loss, [value, target]))


def opcodes(program, *, chains_of=None):
    """Commands of a step."""
    (end,) = (n for n, each in enumerate(program.training) if each.opcode == Opcode.NEXT)
    return [each.opcode for each in program.training[program.training[end].target : end]]


def test_a_residual_block_has_no_chain_of_its_own(np_rng):
    """Bias, activation and sums are all at the drains of products, forward and backward."""
    builder = GraphBuilder()
    value = builder.input("input", (6, 5))
    for number in range(3):
        value = residual_block(builder, str(number), value)
    trained = TrainedGraph(np_rng, with_loss(builder, linear(builder, "head", value, 2)))
    found = opcodes(trained.program)
    products = [each for each in found if each in CHAINED]
    assert len(products) == 7 + 6 + 7  # forward, dX but for the first, dW
    chains = [each for each in found if each == Opcode.CHAIN]
    assert len(chains) == 1 + 1 + 7  # the samples, the mean of the losses, biases
    assert not {Opcode.FORWARD, Opcode.DX, Opcode.DW, Opcode.CONVERT} & set(found)
    trained.check()


def test_frozen_layers_have_no_gradient(np_rng):
    """Nothing below the lowest trained layer, and no dW of a frozen layer above."""
    builder = GraphBuilder()
    value = builder.input("input", (6, 5))
    for number, trainable in enumerate((False, False, True, False, True)):
        value = linear(builder, str(number), value, 5, trainable=trainable)
        value = builder.node("relu", [value]) if number < 4 else value
    trained = TrainedGraph(np_rng, with_loss(builder, value))
    found = opcodes(trained.program)
    assert found.count(Opcode.DX_CHAIN) == 2
    assert found.count(Opcode.DW_CHAIN) == 2
    assert not any(name.startswith("0.") and "state" in name for name in trained.program.areas)
    layers = (0, 1, 3)
    assert trained.program.frozen == tuple(f"{n}.{e}" for n in layers for e in ("weight", "bias"))
    trained.check()


def test_a_low_rank_pair_beside_a_frozen_layer(np_rng):
    """LoRA: W x + B A x, of which only A and B are trained."""
    builder = GraphBuilder()
    x = builder.input("input", (6, 8))
    frozen = linear(builder, "base", x, 7, trainable=False)
    down = linear(builder, "a", x, 2, bias=False)
    value = builder.node("add", [frozen, linear(builder, "b", down, 7, bias=False)])
    trained = TrainedGraph(np_rng, with_loss(builder, value))
    assert opcodes(trained.program).count(Opcode.DW_CHAIN) == 2
    trained.check()


def test_a_layer_that_is_used_twice(np_rng):
    """Gradients of both uses are added, and the update reads the sum."""
    builder = GraphBuilder()
    value = builder.input("input", (6, 5))
    names = [
        builder.parameter(GraphParameter(name="both.weight", shape=(5, 5))),
        builder.parameter(GraphParameter(name="both.bias", shape=(5,), initial="zeros")),
    ]
    for _ in range(2):
        value = builder.node("tanh", [builder.node("linear", [value, *names])])
    TrainedGraph(np_rng, with_loss(builder, value)).check()


@pytest.mark.parametrize("others", [{}, {"clip": 0.05}], ids=["at once", "clipped"])
@pytest.mark.parametrize("loss", ["mse_loss", "l1_loss", "smooth_l1_loss"])
def test_losses_of_numbers(loss, others, np_rng):
    builder = GraphBuilder()
    hidden = builder.node("silu", [linear(builder, "0", builder.input("input", (6, 5)), 9)])
    graph = with_loss(builder, linear(builder, "1", hidden, 3), loss)
    trained = TrainedGraph(np_rng, graph, **others)
    if not others:
        trained.check()
    run = ProgramRun(program=trained.program, machine=trained.machine)
    run.train(STEPS)
    assert np.isfinite(run.losses()).all()


def test_tables_in_parts_change_no_bit(np_rng, monkeypatch):
    state = np_rng.bit_generator.state
    found = []
    for slots in (128, 40):
        np_rng.bit_generator.state = state
        monkeypatch.setattr("diastole_sim.program.program_tables.SLOTS", slots)
        builder = GraphBuilder()
        value = builder.input("input", (6, 5))
        for number in range(2):
            value = residual_block(builder, str(number), value)
        trained = TrainedGraph(np_rng, with_loss(builder, value))
        parts = [name for name in trained.program.areas if "training, part" in name]
        assert bool(parts) == (slots < 128)
        run = ProgramRun(program=trained.program, machine=trained.machine)
        run.train(1)
        run.train(STEPS - 1)
        found.append([*run.parameters().values(), run.losses(), run.evaluate()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def refused(graph):
    with pytest.raises(GraphError) as caught:
        TrainedGraph(np.random.default_rng(0), graph)
    return str(caught.value)


def dropout_graph(*probabilities, batch=6, features=40, columns=24):
    """Two layers, and elements dropped one time after the other between them."""
    builder = GraphBuilder()
    value = linear(builder, "0", builder.input("input", (batch, features)), columns)
    for p in probabilities:
        value = builder.node("dropout", [value], {"p": p})
    return with_loss(builder, linear(builder, "1", value, 3))


@pytest.mark.parametrize("microbatches", [1, 3])
@pytest.mark.parametrize("probabilities", [(0.5,), (0.25, 0.75), (0.0,), (0.1, 0.0, 0.4)])
@pytest.mark.parametrize("block", [1, 4, 16])
def test_dropout(block, probabilities, microbatches):
    """Of any number of tensors, each with random numbers of its own."""
    rng = np.random.default_rng([block, microbatches, len(probabilities)])
    graph = dropout_graph(*probabilities)
    TrainedGraph(rng, graph, block=block, microbatches=microbatches, seed=block).check()


def test_a_machine_without_random_numbers_trains_no_dropout():
    numerics = make_numerics(block=8)
    limits = make_limits(numerics, draws=False)
    rng, graph = np.random.default_rng(0), dropout_graph(0.5)
    training, held_out = (samples(rng, graph, count) for count in (SAMPLES, HELD_OUT))
    batches = rng.integers(0, SAMPLES, (STEPS, graph.batch))
    recipe = TrainingRecipe(graph=graph, optimiser=Sgd(rate=lambda step: RATE), batches=batches)
    said = "dropout (dropout) needs random numbers, which a machine has with vector.draws = true"
    with pytest.raises(ValueError, match=exactly(said)):
        training_program(recipe, training, held_out, numerics=numerics, limits=limits)


def test_a_graph_without_a_loss():
    builder = GraphBuilder()
    graph = builder.graph(linear(builder, "0", builder.input("input", (6, 5)), 9))
    assert refused(graph) == "0: the result of a training must be a loss"


def test_another_batch(np_rng):
    builder = GraphBuilder()
    graph = with_loss(builder, linear(builder, "0", builder.input("input", (6, 5)), 9))
    with pytest.raises(
        GraphError, match=exactly("the graph is for batches of 6 samples, but a step has 4")
    ):
        TrainingRecipe(
            graph=graph,
            optimiser=Sgd(rate=lambda step: RATE),
            batches=np_rng.integers(0, SAMPLES, (STEPS, 4)),
        )
