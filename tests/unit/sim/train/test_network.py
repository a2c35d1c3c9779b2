"""The perceptron: gradients against finite differences, one conversion per tensor and step."""

import hashlib

import numpy as np
import pytest

from diastole_sim.train import host
from diastole_sim.train.float_device import FloatDevice, product
from diastole_sim.train.session import Session
from diastole_sim.train.tasks import Samples
from support.host_perceptron import Perceptron

SIZES = (7, 5, 4, 3)


@pytest.fixture
def network():
    return Perceptron(SIZES, seed=3)


@pytest.fixture
def batch(np_rng):
    inputs = np_rng.normal(size=(9, SIZES[0])).astype(np.float32)
    return Samples(inputs=inputs, labels=np_rng.integers(0, SIZES[-1], 9))


def loss_in_float64(weights, biases, batch):
    """The network once more, by numpy's own functions."""
    h = batch.inputs.astype(np.float64)
    for layer, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
        h = (np.maximum(h, 0) if layer else h) @ weight + bias
    h = h - h.max(axis=1, keepdims=True)
    chosen = h[np.arange(len(h)), batch.labels]
    return np.mean(np.log(np.exp(h).sum(axis=1)) - chosen)


def test_gradients_by_finite_differences(network, batch):
    session = Session(FloatDevice())
    passed = network.forward(session, batch.inputs, step=0)
    _, dy = host.softmax_cross_entropy(passed[-1].z, batch.labels)
    found = network.gradients(session, passed, dy, step=0)
    weights = [weight.value.astype(np.float64) for weight in network.weights]
    biases = [bias.value.astype(np.float64) for bias in network.biases]
    for layer, gradients in enumerate(found):
        for kind, values, gradient in zip("wb", (weights, biases), gradients, strict=True):
            assert gradient.shape == values[layer].shape
            for place in np.ndindex(gradient.shape):
                losses = []
                for step in (1e-5, -1e-5):
                    values[layer][place] += step
                    losses.append(loss_in_float64(weights, biases, batch))
                    values[layer][place] -= step
                slope = (losses[0] - losses[1]) / 2e-5
                assert gradient[place] == pytest.approx(slope, abs=1e-5), (layer, kind, place)


class Recording(FloatDevice):
    """Notes conversions and products."""

    def __init__(self):
        self.conversions, self.products = [], []

    def convert(self, array, tensor_class, *, tag, step=0, width=None, overlap=False):
        self.conversions.append((tensor_class, tag, step, overlap))
        return super().convert(array, tensor_class, tag=tag, step=step, overlap=overlap)

    def forward(self, x, w):
        self.products.append("forward")
        return super().forward(x, w)

    def dw(self, x, dy):
        self.products.append("dw")
        return super().dw(x, dy)

    def backward(self, x, w, dy):
        self.products.append("backward")
        return super().backward(x, w, dy)


def test_each_tensor_of_a_step_is_converted_once(batch):
    """Weights beside the product of the layer before, the inputs of the next step beside the first
    product of the backward pass."""
    device = Recording()
    network = Perceptron((7, 5, 3), seed=0)
    session, options = Session(device), {"rate": np.float32(0.1), "momentum": 0.5}
    network.train_step(session, batch, step=6, following=batch, **options)
    assert device.conversions == [
        ("w", 1, 6, False), ("x", 0, 6, False), ("w", 5, 6, True), ("x", 4, 6, False),
        ("dy", 6, 6, False), ("x", 0, 7, True), ("dy", 2, 6, False),
    ]  # fmt: skip
    assert device.products == ["forward", "forward", "backward", "dw"]
    device.conversions.clear()
    network.train_step(session, batch, step=7, **options)
    assert device.conversions == [
        ("w", 1, 7, False), ("w", 5, 7, True), ("x", 4, 7, False),
        ("dy", 6, 7, False), ("dy", 2, 7, False),
    ]  # fmt: skip


def test_evaluation_draws_for_itself(batch):
    device = Recording()
    Perceptron((7, 5, 3), seed=0).evaluate(Session(device), batch, step=6)
    assert device.conversions == [
        ("w", 9, 6, False), ("x", 8, 6, False), ("w", 13, 6, True), ("x", 12, 6, False)
    ]  # fmt: skip
    assert device.products == ["forward", "forward"]


def test_a_step_descends(network, batch):
    session = Session(FloatDevice())
    losses = [
        network.train_step(session, batch, step=step, rate=np.float32(0.1), momentum=0.9)[0]
        for step in range(30)
    ]
    assert losses[-1] < 0.3 * losses[0]


def test_hash_is_over_weights_and_biases_in_order(network):
    data = b""
    for weight, bias in zip(network.weights, network.biases, strict=True):
        data += b"".join(np.float32(value).tobytes() for value in weight.value.flat)
        data += b"".join(np.float32(value).tobytes() for value in bias.value)
    assert network.sha256() == hashlib.sha256(data).hexdigest()


def test_float_products_add_in_ascending_order(np_rng):
    a, b = (np_rng.normal(size=shape).astype(np.float32) for shape in ((3, 20), (20, 4)))
    want = np.zeros((3, 4), np.float32)
    for row, column in np.ndindex(3, 4):
        for k in range(20):
            want[row, column] += np.float32(a[row, k] * b[k, column])
    assert np.array_equal(product(a, b), want)
