"""The Python of the README, run as it stands there."""

import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import diastole
from diastole.config.file import to_toml
from diastole.config.presets import PRESETS
from support.sources import ROOT

BLOCKS = re.findall(
    r"^    import .*\n(?:(?:    .*)?\n)*", (ROOT / "README.md").read_text(), re.MULTILINE
)
"""What begins with an import, with all lines that are indented after it."""
FORMATS = {"x": "mxfp8_e4m3", "w": "mxfp8_e4m3", "dy": "mxfp8_e5m2"}


def source(word):
    """The block that has a word, as a program."""
    (block,) = [block for block in BLOCKS if word in block]
    return re.sub(r"^    ", "", block, flags=re.MULTILINE)


def numbers(np_rng, *shape):
    return np_rng.standard_normal(shape).astype(np.float32)


@pytest.fixture
def np_rng():
    return np.random.default_rng(5)


def test_two_devices(np_rng, tmp_path, monkeypatch):
    """The second one is the model again here; that the Verilog has its bits is tested elsewhere."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text(to_toml(PRESETS["pico"]))
    monkeypatch.setattr(diastole, "Device", diastole.GoldenDevice)
    given = {"X": numbers(np_rng, 3, 5), "W": numbers(np_rng, 5, 2)}
    lines = source('GoldenDevice("my.toml"').splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("y =="))
    lines[place] = "same = " + lines[place]
    exec("\n".join(lines), given)
    assert given["same"].all()
    want = diastole.GoldenDevice(PRESETS["pico"].numerics, seed=1).forward(given["X"], given["W"])
    assert np.array_equal(given["y"], want.y)


class Tensor:
    """As much of a tensor of torch as the layer and a device use."""

    dtype = "torch.float32"

    def __init__(self, array):
        self.array = array

    def detach(self):
        return self

    cpu = detach

    def numpy(self):
        return self.array

    def sum_to_size(self, shape):
        more = self.array.ndim - len(shape)
        summed = self.array.sum(axis=tuple(range(more)))
        assert summed.shape == tuple(shape)
        return Tensor(summed)


class Function:
    """As much of ``torch.autograd.Function``: ``apply`` keeps what the way back needs."""

    @classmethod
    def apply(cls, *given):
        context = SimpleNamespace()
        result = cls.forward(context, *given)
        result.grad_fn = lambda gradient: cls.backward(context, gradient)
        return result


@pytest.mark.parametrize("leading", [(), (3,), (2, 2)])
def test_a_layer_for_torch(leading, np_rng, monkeypatch):
    torch = SimpleNamespace(autograd=SimpleNamespace(Function=Function), from_numpy=Tensor)
    monkeypatch.setitem(sys.modules, "torch", torch)
    there = {}
    exec(source("torch.autograd.Function"), there)
    x, w, dy = (numbers(np_rng, *s) for s in ((*leading, 4, 5), (5, 6), (*leading, 4, 6)))
    y = there["Product"].apply(Tensor(x), Tensor(w))
    dx, dw = y.grad_fn(Tensor(dy))
    device = diastole.GoldenDevice(formats=FORMATS)
    forward = device.forward(x, w)
    both = device.backward(forward.operands["X"], forward.operands["W"], dy)
    np.testing.assert_array_equal(y.array, forward.y)
    np.testing.assert_array_equal(dx.array, both.dx)
    np.testing.assert_array_equal(dw.array, both.dw.sum(axis=tuple(range(len(leading)))))
    for got, exact, least in ((y.array, x @ w, 0.1), (dx.array, dy @ w.T, 0.25)):
        assert np.linalg.norm(got - exact) < least * np.linalg.norm(exact)


def test_the_layer_is_short():
    lines = source("torch.autograd.Function").split("class Product", 1)[1].strip().splitlines()
    assert len(lines) <= 16
