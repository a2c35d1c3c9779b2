"""Graphs of any shape in the Verilog: every number beside the golden machine's."""

import numpy as np
import pytest

from diastole.backend import make_machine, program_limits
from diastole.execution import Execution
from diastole_sim.graph.build import GraphBuilder
from diastole_sim.graph.graph import GraphParameter
from diastole_sim.graph.perceptron import perceptron_graph
from diastole_sim.lowering.program import training_program
from diastole_sim.lowering.recipe import TrainingRecipe
from diastole_sim.lowering.samples import ROOM_FOR_ALL, Room, StoredSamples
from diastole_sim.program.addresses import ADDRESS_BYTES
from diastole_sim.program.recipe import Adam, Sgd
from diastole_sim.program.run import ProgramRun, golden_machine
from diastole_sim.program.verified_run import VerifiedRun
from diastole_sim.train.loss_scaling import LossScaling
from product.test_whole_steps import MACHINES, PRECISION
from support.graphs import random_graph
from support.products import SEED
from support.sweep import sweep

STEPS, SAMPLES, HELD_OUT, BATCH, FEATURES = 3, 40, 17, 16, 13


def several_paths():
    """A network with a residual block, a layer that two others read, a layer that is used twice, a
    frozen layer, and a gate: the product of two tensors."""
    builder = GraphBuilder()

    def linear(name, value, outputs, *, bias=True, trainable=True):
        inputs = builder.shape(value)[1]
        weight = GraphParameter(name=f"{name}.weight", shape=(outputs, inputs), trainable=trainable)
        operands = [value, builder.parameter(weight)]
        if bias:
            made = GraphParameter(name=f"{name}.bias", shape=(outputs,), initial="zeros")
            operands.append(builder.parameter(made))
        return builder.node("linear", operands, name=f"{name}_{len(builder.nodes)}")

    x = builder.input("input", (BATCH, FEATURES))
    first = builder.node("gelu", [linear("first", x, 20)])
    for _ in range(2):
        inner = builder.node("silu", [linear("both", first, 20)])
        first = builder.node("add", [inner, first])
    gate = builder.node("sigmoid", [linear("gate", first, 11, bias=False)])
    up = linear("up", builder.node("mul_scalar", [first], {"other": 0.5}), 11, trainable=False)
    value = builder.node("mul", [up, gate])
    value = builder.node("tanh", [linear("last", value, 7)])
    target = builder.input("target", (BATCH, 7))
    return builder.graph(builder.node("smooth_l1_loss", [value, target]))


def programs(machine, graph, rng, optimiser, *, microbatches=1, room=ROOM_FOR_ALL, **others):
    """The program of a graph on a machine."""
    config = MACHINES[machine]
    result = graph.shape(graph.nodes[-1].operands[0])

    def samples(count):
        inputs = rng.standard_normal((count, graph.inputs["input"][1])).astype(np.float32)
        if graph.nodes[-1].operation == "cross_entropy":
            return StoredSamples(inputs=inputs, targets=rng.integers(0, result[1], count))
        targets = rng.standard_normal((count, result[1])).astype(np.float32)
        return StoredSamples(inputs=inputs, targets=targets)

    recipe = TrainingRecipe(
        graph=graph,
        optimiser=optimiser,
        batches=rng.integers(0, SAMPLES, (STEPS, microbatches * graph.batch)),
        **others,
    )
    limits = program_limits(config)
    return training_program(
        recipe,
        samples(SAMPLES),
        samples(HELD_OUT),
        numerics=config.numerics,
        limits=limits,
        room=room,
    )


def check(machine, program, stalls):
    """A verified run in two parts with an evaluation between them."""
    config = MACHINES[machine]
    limits = program_limits(config)
    with make_machine(Execution(seed=SEED, stalls=stalls), config, program) as rtl:
        golden = golden_machine(program, config.numerics, limits, seed=SEED)
        run = VerifiedRun(program=program, machine=rtl, reference=golden)
        run.train(1)
        run.evaluate()
        run.train(STEPS - 1)
        run.evaluate()
        assert run.comparison.first is None
        assert run.comparison.compared > 0
        found = {name: each.copy() for name, each in run.parameters().items()}
    alone = golden_machine(program, config.numerics, limits, seed=SEED)
    run = ProgramRun(program=program, machine=alone)
    run.train(STEPS)  # by one bell
    for name, values in run.parameters().items():
        np.testing.assert_array_equal(values, found[name], err_msg=name)


@pytest.mark.parametrize(
    "machine, stalls",
    [("1x1", None), sweep("1x1", 3), sweep("delayed", 5), sweep("2x2", 2), sweep("3x2", 4)],
)
def test_several_paths(machine, stalls, np_rng):
    optimiser = Adam(rate=lambda step: 0.01)
    program = programs(machine, several_paths(), np_rng, optimiser)
    assert "descriptors of training, part 1" in program.areas
    check(machine, program, stalls)


@pytest.mark.parametrize(
    "machine, stalls", [("1x1", 3), sweep("delayed", None), sweep("fast", 2), sweep("3x2", 4)]
)
def test_microbatches(machine, stalls, np_rng):
    """Products and chains of two microbatches, with clipped gradients and a scaled loss."""
    optimiser = Sgd(rate=lambda step: 0.01, momentum=0.5)
    has_choices = program_limits(MACHINES[machine]).has_choices
    program = programs(
        machine,
        several_paths(),
        np_rng,
        optimiser,
        microbatches=2,
        clip=1.0,
        loss_scaling=LossScaling(exponent=3),
        precision=PRECISION if has_choices else None,
    )
    check(machine, program, stalls)


@pytest.mark.parametrize("machine, stalls", [("1x1", None), sweep("2x2", 3)])
def test_samples_that_are_sent(machine, stalls, np_rng):
    """A stretch of two steps, then one of a step; held-out samples in three parts."""
    optimiser = Sgd(rate=lambda step: 0.01, momentum=0.5)
    room = Room(steps=2, held_out=8)
    check(machine, programs(machine, several_paths(), np_rng, optimiser, room=room), stalls)


def test_addresses_below_zero(np_rng, monkeypatch):
    """The list of a late step would begin before the memory: the machine adds modulo 2^40."""
    steps = 60
    monkeypatch.setitem(globals(), "STEPS", steps)
    graph = perceptron_graph((5, 3), batch=16)
    optimiser = Sgd(rate=lambda step: 0.1, momentum=0.5)
    state = np_rng.bit_generator.state
    found = []
    for room in (ROOM_FOR_ALL, Room(steps=1)):
        np_rng.bit_generator.state = state
        program = programs("1x1", graph, np_rng, optimiser, room=room)
        config, limits = MACHINES["1x1"], program_limits(MACHINES["1x1"])
        golden = golden_machine(program, config.numerics, limits, seed=SEED)
        with make_machine(Execution(seed=SEED), config, program) as rtl:
            for machine in (golden, rtl):
                run = ProgramRun(program=program, machine=machine)
                run.train(steps)
                found.append([run.losses().copy(), *run.parameters().values()])
    sent = program.sent
    places = [
        (sent.tables[name][place:], pitch)
        for name, each in sent.addresses.items()
        for place, pitch in each
    ]
    addresses = [int.from_bytes(data[:ADDRESS_BYTES].tobytes(), "little") for data, _ in places]
    assert any(at < (steps - 1) * pitch for at, (_, pitch) in zip(addresses, places, strict=True))
    for other in found[1:]:
        for one, another in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, another)


def dropping(features, *columns):
    """Layers with dropout of their inputs, of results and of an inner gradient."""
    builder = GraphBuilder()
    value, before = builder.input("input", (BATCH, features)), features
    for number, width in enumerate(columns):
        value = builder.node("dropout", [value], {"p": 0.25 + number / 8})
        weight = GraphParameter(name=f"{number}.weight", shape=(width, before))
        bias = GraphParameter(name=f"{number}.bias", shape=(width,), initial="zeros")
        operands = [value, *map(builder.parameter, (weight, bias))]
        value, before = builder.node("linear", operands), width
        if number < len(columns) - 1:
            value = builder.node("relu", [builder.node("dropout", [value], {"p": 0.5})])
    return builder.graph(builder.node("cross_entropy", [value, builder.input("target", (BATCH,))]))


@pytest.mark.parametrize(
    "machine, stalls, sizes",
    [
        ("1x1", 3, (13, 22, 6)),
        sweep("1x1", None, (16, 24, 12)),
        sweep("delayed", 2, (13, 40, 5)),
        sweep("2x2", None, (21, 70, 11)),
        sweep("3x2", 4, (13, 64, 33, 5)),
        sweep("fast", None, (9, 31, 4)),
    ],
)
def test_dropout(machine, stalls, sizes, np_rng):
    """Chains at the drain and over memory read random numbers, in two microbatches."""
    graph = dropping(*sizes)
    optimiser = Sgd(rate=lambda step: 0.05, momentum=0.5)
    has_choices = program_limits(MACHINES[machine]).has_choices
    precision = PRECISION if has_choices else None
    program = programs(machine, graph, np_rng, optimiser, microbatches=2, precision=precision)
    check(machine, program, stalls)


@pytest.mark.parametrize(
    "machine, seed",
    [("1x1", 0), *(sweep(name, seed) for name in ("1x1", "2x2", "delayed") for seed in range(6))],
)
def test_a_graph_at_random(machine, seed):
    rng = np.random.default_rng([seed, 8])
    graph = random_graph(rng, 6 + seed % 3)
    while graph.output not in graph.differentiated:  # every parameter is frozen
        graph = random_graph(rng, 6 + seed % 3)
    optimiser = Sgd(rate=lambda step: 0.001, momentum=0.5)
    scaling = LossScaling(exponent=3) if seed % 2 else None
    clip = 0.5 if seed % 3 == 2 else None
    program = programs(machine, graph, rng, optimiser, clip=clip, loss_scaling=scaling)
    check(machine, program, 2 if seed % 2 else None)
