"""PyTorch modules as graphs: the same values and gradients, and all unknown operators at once."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: make torch")

from diastole.torch.exported import exported_graph  # noqa: E402
from diastole_sim.graph.gradients import differentiate, evaluate  # noqa: E402
from diastole_sim.graph.graph import GraphError  # noqa: E402

nn, F = torch.nn, torch.nn.functional


class Block(nn.Module):
    """A residual block with a gate, a frozen layer, a shared layer and functions."""

    def __init__(self):
        super().__init__()
        self.flat = nn.Flatten()
        self.up = nn.Linear(6, 5)
        self.gate = nn.Linear(6, 5, bias=False)
        self.both = nn.Linear(5, 5)
        self.frozen = nn.Linear(5, 5).requires_grad_(False)
        self.act = nn.GELU(approximate="tanh")
        self.head = nn.Sequential(nn.SiLU(), nn.Linear(5, 3))

    def forward(self, x):
        x = self.flat(x)
        y = self.act(self.up(x)) * torch.sigmoid(self.gate(x))
        z = torch.tanh(self.both(self.both(y))) + y
        z = F.leaky_relu(self.frozen(z) * 0.5, 0.2) + F.relu(z)
        return self.head(z.view(z.shape[0], -1))


@pytest.mark.parametrize("loss", ["cross-entropy", "mse", "l1", "smooth-l1"])
def test_values_and_gradients(loss, np_rng):
    torch.manual_seed(0)
    module = Block()
    graph, parameters = exported_graph(module, (2, 3), batch=4, loss=loss)
    assert set(parameters) == set(dict(module.named_parameters()))
    assert not graph.parameters["frozen.weight"].trainable
    module = module.double()
    x = np_rng.normal(size=(4, 2, 3))
    target = np_rng.integers(0, 3, 4) if loss == "cross-entropy" else np_rng.normal(size=(4, 3))
    doubles = {name: each.astype(np.float64) for name, each in parameters.items()}
    made = evaluate(graph, {"input": x, "target": target}, doubles)
    result = module(torch.as_tensor(x))
    function = {"cross-entropy": F.cross_entropy, "mse": F.mse_loss, "l1": F.l1_loss,
                "smooth-l1": F.smooth_l1_loss}[loss]  # fmt: skip
    expected = function(result, torch.as_tensor(target))
    np.testing.assert_allclose(made.output, expected.detach().numpy(), rtol=1e-9)
    expected.backward()
    found = differentiate(made)
    for name, parameter in module.named_parameters():
        if parameter.requires_grad:
            np.testing.assert_allclose(
                found[name], parameter.grad.numpy(), rtol=1e-7, atol=1e-9, err_msg=name
            )


def test_names_are_those_of_the_modules():
    graph, _ = exported_graph(Block(), (2, 3), batch=4, loss="mse")
    names = [node.name for node in graph.nodes]
    assert {"flat", "up", "act", "gate", "both", "both_1", "head.1"} <= set(names)


class Unknown(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)

    def forward(self, x):
        x = torch.sin(self.first(x))
        return torch.cumsum(x, dim=1)


def test_all_unknown_operators_at_once():
    with pytest.raises(GraphError) as caught:
        exported_graph(Unknown(), (3,), batch=4, loss="mse")
    sin, cumsum = caught.value.problems
    assert sin.endswith(": aten.sin.default has no operation of a graph")
    assert cumsum.endswith(": aten.cumsum.default has no operation of a graph")
    assert "test_exported.py, line " in sin


@pytest.mark.parametrize(
    "module, said",
    [
        (nn.Sequential(nn.Linear(3, 3), nn.GELU()), "approximate must be tanh, not none"),
        (nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), "a module with buffers has no graph"),
    ],
    ids=["gelu", "buffers"],
)
def test_refused(module, said):
    with pytest.raises(GraphError, match=said):
        exported_graph(module, (3,), batch=4, loss="mse")


def test_a_module_that_decides_by_numbers():
    class Decides(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(GraphError, match=r"torch\.export cannot read the module"):
        exported_graph(Decides(), (3,), batch=4, loss="mse")
