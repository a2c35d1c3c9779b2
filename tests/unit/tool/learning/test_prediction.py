"""Predictions in parts: the number of samples at a time is a matter of memory alone."""

import numpy as np
import pytest

from diastole import cli
from diastole.config.file import to_toml
from diastole.config.presets import PRODUCTS_ONLY
from diastole.execution import Execution
from diastole.learning import prediction
from diastole.learning.prediction import TrainedNetwork
from support.own_networks import NUMBERS, write_networks


@pytest.fixture
def network(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nano.toml").write_text(to_toml(PRODUCTS_ONLY["nano"]))
    write_networks(tmp_path)
    assert cli.main([*NUMBERS, "--save", "run.safetensors"]) == 0
    return TrainedNetwork.read(tmp_path / "run.safetensors")


def test_parts_are_evaluated_one_after_another(network, np_rng, monkeypatch):
    execution = Execution(backend="golden")
    inputs = np_rng.normal(size=(20, 3)).astype(np.float32)
    whole = network.results(inputs[:16], execution)
    monkeypatch.setattr(prediction, "MOST_ROWS", 16)
    found = network.results(inputs, execution)
    assert found.shape == (20, 2)
    np.testing.assert_array_equal(found[:16], whole)
    np.testing.assert_array_equal(found[16:], network.results(inputs[16:], execution))


def test_the_seed_is_that_of_the_training(network, np_rng):
    inputs = np_rng.normal(size=(20, 3)).astype(np.float32)
    found = [network.results(inputs, Execution(backend="golden", seed=each)) for each in (0, 5)]
    np.testing.assert_array_equal(*found)
