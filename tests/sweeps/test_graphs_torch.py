"""Graphs in float64 against torch: values, gradients by autograd, and three steps of torch.optim;
without torch: `make torch` has it."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make torch")

from diastole_sim.graph.gradients import differentiate, evaluate  # noqa: E402
from support.graphs import random_graph, random_values  # noqa: E402
from support.optimisers import SETTINGS, Updater  # noqa: E402

F = torch.nn.functional
OPERATIONS = {
    "linear": lambda x, weight, bias=None: F.linear(x, weight, bias),
    "add": torch.add,
    "mul": torch.mul,
    "mul_scalar": lambda x, *, other: x * other,
    "relu": torch.relu,
    "leaky_relu": F.leaky_relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "flatten": torch.flatten,
    "cross_entropy": F.cross_entropy,
    "mse_loss": F.mse_loss,
    "l1_loss": F.l1_loss,
    "smooth_l1_loss": F.smooth_l1_loss,
}


def by_torch(graph, inputs, parameters):
    """The result of a graph by torch's functions of the same names and attributes."""
    values = {name: torch.as_tensor(each) for name, each in inputs.items()} | parameters
    for node in graph.nodes:
        operands = [values[name] for name in node.operands]
        values[node.name] = OPERATIONS[node.operation](*operands, **node.attributes)
    return values[graph.output]


def trained(graph):
    return [name for name, each in graph.parameters.items() if each.trainable]


@pytest.mark.parametrize("depth", range(1, 9))
@pytest.mark.parametrize("seed", range(8))
def test_gradients_are_those_of_autograd(depth, seed):
    rng = np.random.default_rng([seed, depth])
    graph = random_graph(rng, depth, dropout=False)
    inputs, parameters = random_values(rng, graph)
    tensors = {name: torch.tensor(each) for name, each in parameters.items()}
    for name in trained(graph):
        tensors[name].requires_grad_()
    loss = by_torch(graph, inputs, tensors)
    made = evaluate(graph, inputs, parameters)
    np.testing.assert_allclose(made.output, loss.detach().numpy(), rtol=1e-9)
    if graph.output not in graph.differentiated:
        return
    loss.backward()
    found = differentiate(made)
    for name in trained(graph):
        expected = tensors[name].grad
        if expected is None:  # the loss does not depend on the parameter
            expected = torch.zeros_like(tensors[name])
        scale = max(1.0, float(expected.abs().max()))
        np.testing.assert_allclose(
            found[name], expected.numpy(), rtol=1e-9, atol=1e-9 * scale, err_msg=name
        )


@pytest.mark.parametrize("name", SETTINGS)
def test_three_steps_are_those_of_an_optimiser(name):
    setting, rng = SETTINGS[name], np.random.default_rng(5)
    graph = random_graph(rng, 6, dropout=False)
    while len(trained(graph)) < 3 or graph.output not in graph.differentiated:
        graph = random_graph(rng, 6, dropout=False)
    inputs, parameters = random_values(rng, graph)
    parameters = {each: 0.3 * values for each, values in parameters.items()}
    tensors = {each: torch.tensor(values) for each, values in parameters.items()}
    names = trained(graph)
    for each in names:
        tensors[each].requires_grad_()
    made = getattr(torch.optim, setting.torch)(
        [tensors[each] for each in names], **setting.torch_arguments()
    )
    updaters = {each: Updater(setting) for each in names}
    for _ in range(3):
        made.zero_grad()
        by_torch(graph, inputs, tensors).backward()
        made.step()
        gradients = differentiate(evaluate(graph, inputs, parameters))
        for each in names:
            parameters[each] = updaters[each].update(parameters[each], gradients[each])
    for each in names:
        np.testing.assert_allclose(
            parameters[each], tensors[each].detach().numpy(), rtol=1e-9, atol=1e-9, err_msg=each
        )
