"""Costs of a graph by layers: they add up to the step, and belong to the layer that they name."""

import numpy as np
import pytest

from diastole.backend import program_limits
from diastole.config.file import from_document
from diastole.layers.graph_costs import REST, graph_costs, total_of
from diastole.layers.modelled_step import modelled_step
from diastole.nn import GELU, Linear, Residual, Sequential
from diastole.nn.tracing import trace
from diastole.report.graph_table import graph_lines
from diastole_sim.lowering.program import training_program
from diastole_sim.lowering.recipe import TrainingRecipe
from diastole_sim.lowering.samples import StoredSamples
from diastole_sim.program.recipe import Sgd

BATCH, STEPS = 16, 6


def network():
    frozen = Linear(16, 24).requires_grad_(False)
    return Sequential(
        Linear(13, 16), GELU(), Residual(Sequential(Linear(16, 16), GELU())), frozen, Linear(24, 5)
    )


@pytest.fixture(scope="module", params=[1, 2], ids=["whole", "two microbatches"])
def costs(request):
    """Of a batch, in one piece or in microbatches."""
    config = from_document({"vector": {"enable": True}, "array": {"block": 4}})
    graph = trace(network(), (13,), batch=BATCH // request.param, loss="mse")
    recipe = TrainingRecipe(
        graph=graph,
        optimiser=Sgd(rate=lambda step: 0.1),
        batches=np.zeros((STEPS, BATCH), np.int64),
    )
    data = StoredSamples(
        inputs=np.zeros((20, 13), np.float32), targets=np.zeros((20, 5), np.float32)
    )
    limits = program_limits(config)
    program = training_program(recipe, data, data, numerics=config.numerics, limits=limits)
    step = modelled_step(config, program).step(program.training)
    return graph_costs(recipe, program, step, beat_bytes=config.bus.data_width // 8), step, config


def test_layers_and_sizes(costs):
    found, _, _ = costs
    assert [cost.shape for cost in found] == [(13, 16), (16, 16), (16, 24), (24, 5), None]
    assert [cost.parameters for cost in found] == [224, 272, 408, 125, 0]
    assert found[-1].name == REST


def test_phases_of_a_layer(costs):
    """The first layer needs no dX, and a frozen layer no dW."""
    found, _, _ = costs
    phases = [{name for name, cycles in cost.phases.items() if cycles} for cost in found]
    assert phases == [
        {"forward", "dw"}, {"forward", "dx", "dw"}, {"forward", "dx"}, {"forward", "dx", "dw"},
        {REST},
    ]  # fmt: skip
    macs = [BATCH * cost.shape[0] * cost.shape[1] for cost in found[:-1]]
    assert [cost.macs for cost in found[:-1]] == [
        2 * macs[0],
        3 * macs[1],
        2 * macs[2],
        3 * macs[3],
    ]


def test_sums(costs):
    found, step, _ = costs
    total = total_of(found)
    assert total.cycles == step.cycles
    assert {name: n for name, n in total.causes.items() if n} == {
        name: n for name, n in step.cause_cycles.items() if n
    }
    assert all(cost.cycles == sum(cost.causes.values()) for cost in found)
    assert total.bytes > 0


@pytest.mark.parametrize("block", [1, 4, 8])
@pytest.mark.parametrize("batch", [1, 7, 8, 9, 13, 33])
def test_batches_of_any_size(batch, block):
    """Lines of blocks with fewer rows than the lines before, and with several blocks."""
    config = from_document({"vector": {"enable": True}, "array": {"block": block}})
    graph = trace(Sequential(Linear(20, 5)), (20,), batch=batch, loss="mse")
    recipe = TrainingRecipe(
        graph=graph,
        optimiser=Sgd(rate=lambda step: 0.1),
        batches=np.zeros((STEPS, batch), np.int64),
    )
    data = StoredSamples(
        inputs=np.zeros((40, 20), np.float32), targets=np.zeros((40, 5), np.float32)
    )
    limits = program_limits(config)
    program = training_program(recipe, data, data, numerics=config.numerics, limits=limits)
    step = modelled_step(config, program).step(program.training)
    starts = [each.done for each in step.commands]
    assert starts == sorted(starts)
    assert step.cycles > starts[-1] > 0


def test_the_table(costs):
    found, step, config = costs
    lines = graph_lines(found, config.macs)
    assert lines[0].split()[:4] == ["layer", "shape", "parameters", "MACs"]
    assert len(lines[: lines.index("")]) == 1 + len(found) + 1
    assert f"{step.cycles:,}" in lines[len(found) + 1]
    waits = {line.split()[-2] for line in lines[1 : lines.index("")] if line.endswith("%")}
    explained = {line.partition(":")[0] for line in lines[lines.index("") + 1 :]}
    assert waits <= explained
    record = found[0].record(config.macs)
    assert record["utilisation"] == pytest.approx(found[0].macs / found[0].cycles / config.macs)
