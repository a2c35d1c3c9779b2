"""The order of everything in a step: sums at a fan-out, dX before dW, updates of biases."""

import numpy as np

from diastole_sim.graph.build import GraphBuilder
from diastole_sim.graph.graph import GraphParameter
from diastole_sim.lowering.backward import BackwardPass
from diastole_sim.lowering.forward import ForwardPass
from diastole_sim.lowering.parameters import Parameters
from diastole_sim.lowering.program import first_parameters
from diastole_sim.lowering.recipe import TrainingRecipe
from diastole_sim.lowering.samples import StoredSamples
from diastole_sim.lowering.schedule import Multiplication, ProgramSchedule
from diastole_sim.lowering.tensors import ProgramTensors
from diastole_sim.lowering.updates import Updates
from diastole_sim.program.memory_plan import MemoryPlan
from diastole_sim.program.recipe import Sgd
from support.numerics import make_numerics


def linear(builder, name, value, outputs):
    shape = outputs, builder.shape(value)[1]
    operands = [
        value,
        builder.parameter(GraphParameter(name=f"{name}.weight", shape=shape)),
        builder.parameter(GraphParameter(name=f"{name}.bias", shape=(outputs,), initial="zeros")),
    ]
    return builder.node("linear", operands, name=name)


def three_readers():
    """A tensor that two layers and a sum read."""
    builder = GraphBuilder()
    first = builder.node("relu", [linear(builder, "a", builder.input("input", (6, 5)), 4)])
    both = builder.node("add", [linear(builder, "b", first, 4), linear(builder, "c", first, 4)])
    total = builder.node("add", [both, first], name="total")
    return builder.graph(builder.node("mse_loss", [total, builder.input("target", (6, 4))]))


def entries(graph, **others):
    """Products and parts of the backward pass."""
    recipe = TrainingRecipe(
        graph=graph,
        optimiser=Sgd(rate=lambda step: 0.1),
        batches=np.zeros((1, 6), np.int64),
        **others,
    )
    plan = MemoryPlan(numerics=make_numerics(), data_width=64, panel_vectors=256)
    inputs, targets = np.zeros((6, 5), np.float32), np.zeros((6, 4), np.float32)
    samples = StoredSamples(inputs=inputs, targets=targets)
    tensors = ProgramTensors(recipe, samples, samples, first_parameters(recipe), plan)
    parameters, schedule = Parameters(recipe, tensors), ProgramSchedule(plan.block)
    parameters.place()
    forward = ForwardPass(
        recipe,
        parameters,
        schedule,
        rows=6,
        first_layer=0,
        bias_of=lambda name: parameters.biases[name].state["w"],
    )
    forward.write()
    before = len(list(schedule.entries()))
    updates = Updates(tensors, parameters, schedule)
    backward = BackwardPass(forward, schedule, updates)
    schedule.shapes[backward.gradient] = (6, 4)
    backward.write()
    if recipe.waits:
        updates.write_waiting()
    return list(schedule.entries())[before:]


def shown(entry):
    """A product as operation and layer, a part as its chain and what it reads."""
    if isinstance(entry, Multiplication):
        return f"{entry.operation} {entry.layer}"
    names = (each if isinstance(each, str) else each.name for each in entry.inputs.values())
    return f"{entry.chain.name}: {', '.join(names)}"


def test_gradients_are_added_in_the_order_of_the_readers():
    """The product of the first reader comes last, and is the first operand of the first sum."""
    found = [shown(each) for each in entries(three_readers())]
    sums = [each for each in found if each.startswith("added")]
    assert sums == [
        "added: relu gradient of b input, relu gradient of c input",
        "added: relu gradient, 2 parts, total gradient",
    ]
    assert found.index("dx 1") > found.index("dx 2")


def test_dx_comes_before_the_update_and_a_bias_after_the_next_dw():
    found = [shown(each).partition(":")[0] for each in entries(three_readers())]
    products = [each for each in found if each.startswith("d")]
    assert products == ["dx 2", "dw 2", "dx 1", "dw 1", "dw 0"]
    updates = [number for number, each in enumerate(found) if each == "sgd"]
    assert len(updates) == 6
    assert found.index("dw 1") < updates[2] < found.index("dw 0")  # the bias of layer 2


def test_updates_that_wait_come_last():
    found = [shown(each).partition(":")[0] for each in entries(three_readers(), clip=1.0)]
    last = max(n for n, each in enumerate(found) if each.startswith("d"))
    assert found[last + 1 :] == [
        *["column_squares", "bias_squares"] * 3, "clip_factor", *["sgd"] * 6,
    ]  # fmt: skip


def test_the_clip_factor_waits_for_the_last_squares():
    """The chain before it writes a part of what it reads, under the name of the whole."""
    *_, last, factor = [
        each
        for each in entries(three_readers(), clip=1.0)
        if not isinstance(each, Multiplication) and "squares" in shown(each)
    ]
    (written,), (read,) = last.outputs.values(), factor.inputs.values()
    assert written.name == read.name
