"""Tasks of users' networks: graph, steps and samples."""

import numpy as np
import pytest

from diastole.errors import BadInput
from diastole.learning.task import OwnTraining, first_parameters, own_task
from diastole_sim.program.own_code import OwnCode
from support.own_networks import write_networks


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_networks(tmp_path)
    return tmp_path


def training(name="numbers", **others):
    of_numbers = {"data": "n.csv", "loss": "mse", "target": ("u", "v")}
    return OwnTraining(network=OwnCode.read(f"nets.py:{name}"), **of_numbers | others)


def test_an_epoch_leaves_the_rest_out(folder):
    """Of 80 samples a fifth is held out; 64 samples are two batches of 24."""
    own = own_task(training(batch=24, epochs=5), seed=0)
    assert own.task.steps == 10
    assert own.task.evaluate_every == 2
    assert own.task.graph.batch == own.task.batch == 24
    assert own.inputs is own.outputs is None


def test_only_training_samples_are_measured(folder):
    """Held-out samples do not change how columns are standardised."""
    own = own_task(training(standardize="all"), seed=0)
    learnt, held_out = own.task.split(own.task.load(), seed=0)
    assert len(held_out.labels) == 16
    for values in (learnt.inputs, learnt.labels):
        np.testing.assert_allclose(values.mean(axis=0), 0, atol=1e-6)
        np.testing.assert_allclose(values.std(axis=0), 1, rtol=1e-5)
    assert abs(held_out.inputs.mean(axis=0)).max() > 1e-3


def test_images_reach_the_network_in_their_shape(folder, np_rng):
    (folder / "image.py").write_text(
        "from diastole import nn\n"
        "net = nn.Sequential(nn.Flatten(), nn.Linear(12, 5), nn.ReLU(), nn.Linear(5, 2))\n"
    )
    np.savez("i.npz", inputs=np_rng.normal(size=(40, 3, 4)), labels=np.arange(40) % 2)
    own = own_task(
        OwnTraining(network=OwnCode.read("image.py:net"), data="i.npz", loss="cross-entropy"),
        seed=0,
    )
    assert own.task.graph.inputs["input"] == (32, 3, 4)
    assert own.record()["sample"] == [3, 4]
    assert own.record()["classes"] == ["0", "1"]


def test_parameters_that_do_not_fit(folder):
    graph = own_task(training(), seed=0).task.graph
    np.savez("w.npz", **{"0.weight": np.zeros((8, 4)), "1.bias": np.zeros(3, np.float32)})
    with pytest.raises(BadInput) as caught:
        first_parameters(folder / "w.npz", graph)
    path = folder / "w.npz"
    assert caught.value.problems == (
        f"{path}: 0.weight must be floats of shape [8, 3], not float64 of shape [8, 4]",
        f"{path}: the parameter 0.bias is missing",
        f"{path}: the parameter 2.weight is missing",
        f"{path}: the parameter 2.bias is missing",
        f"{path}: the network has no parameter 1.bias",
    )
