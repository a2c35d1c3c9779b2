"""The training of a product's host, against the same in exact numbers, which numpy computes."""

import numpy as np
import pytest

from diastole.product.host_view import HostView
from diastole.product.scene import BASE, Scene
from diastole.product.training import STEPS, train_layer
from support.host_machines import VIEWS
from support.products import machine


def training_of(view):
    scene = Scene(view, BASE)
    scene.convert_all()
    return scene.floats, train_layer(view, scene.floats, scene.fields)


def exact_losses(floats, rate):
    """In double precision, with nothing quantised."""
    x, w, targets = (floats[name].astype(np.float64) for name in ("X", "W", "dY"))
    losses = []
    for _ in range(STEPS):
        off = x @ w - targets
        losses.append((off**2).sum())
        w = w - rate * x.T @ off
    return losses


@pytest.mark.parametrize("name", VIEWS)
def test_the_loss_falls_on_every_kind_of_machine(name):
    floats, training = training_of(VIEWS[name])
    assert training.losses.shape == (STEPS,)
    assert training.losses[-1] < training.losses[0] / 2
    assert np.frexp(training.rate)[0] == 0.5
    assert (training.targets == floats["dY"]).all()


@pytest.mark.parametrize("vector", [False, True], ids=["by products", "by chains"])
@pytest.mark.parametrize("side", [1, 4, 8])
def test_fine_formats_train_as_exact_numbers_do(vector, side):
    """By both ways: bfloat16 keeps 8 bits, a loss of the last step is off by a few in a hundred."""
    config = machine("fine", "bf16", side=side, vector={"enable": vector})
    floats, training = training_of(HostView.of(config))
    np.testing.assert_allclose(training.losses, exact_losses(floats, training.rate), rtol=0.03)


def test_it_is_the_same_every_time():
    first, second = (training_of(VIEWS["chained_vectors"])[1] for _ in range(2))
    assert first.rate == second.rate
    assert (first.losses == second.losses).all()
