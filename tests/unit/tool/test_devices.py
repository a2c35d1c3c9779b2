"""Devices as people make them, and what they are told of what they cannot be made from."""

import doctest
from types import SimpleNamespace

import numpy as np
import pytest

from diastole import backend, devices
from diastole.config.file import load_config, to_toml
from diastole.config.keys import Config
from diastole.config.presets import PRODUCTS_ONLY
from diastole.devices import Device, GoldenDevice
from diastole_sim.golden import numpy_device as golden
from diastole_sim.host import host_device as host
from diastole_sim.machines.verilator.simulation import Simulation
from diastole_sim.spec.formats import FORMAT_NAMES
from diastole_sim.spec.nest import Nest

PICO = PRODUCTS_ONLY["pico"]
KEYS = ("array.block=8", "rounding.x=stochastic-a")
CHANGED = PICO.model_copy(
    update={
        "array": PICO.array.model_copy(update={"block": 8}),
        "rounding": PICO.rounding.model_copy(update={"x": "stochastic-a"}),
    }
)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "pico.toml"
    path.write_text(to_toml(PICO))
    return path


def test_the_example_of_the_docstring():
    assert doctest.testmod(devices).attempted == 2
    assert doctest.testmod(devices).failed == 0


def test_equal_tags_and_steps_draw_the_same():
    """And equal calls in the same order, of devices with one seed."""
    array = np.random.default_rng(1).standard_normal((9, 20), np.float32)
    device, other = (GoldenDevice(formats="bfp4", seed=5) for _ in range(2))

    def draw(device, **where):
        return device.convert(array, "dy", **where).values()

    first = draw(device, tag=7)
    assert np.array_equal(draw(device, tag=7), first)
    assert not np.array_equal(draw(device, tag=7, step=1), first)
    calls = [draw(device) for _ in range(3)]
    assert not np.array_equal(calls[0], calls[1])
    for call in calls:
        assert np.array_equal(draw(other), call)


@pytest.mark.parametrize("kind", [str, lambda path: path, load_config])
def test_a_golden_device_of_a_configuration(kind, file):
    device = GoldenDevice(kind(file), 7)
    assert isinstance(device, golden.NumpyDevice)
    assert (device.numerics, device.seed) == (PICO.numerics, 7)
    assert GoldenDevice(kind(file), overrides=KEYS).numerics == CHANGED.numerics
    assert load_config(file, KEYS) == CHANGED


def test_a_golden_device_of_numerics():
    numerics = CHANGED.numerics
    assert GoldenDevice(numerics, seed=2).numerics is numerics


def test_a_golden_device_of_a_product(tmp_path, monkeypatch):
    product = SimpleNamespace(parameters={"numerics": CHANGED.numerics.to_dict()})
    monkeypatch.setattr(devices.Product, "load", {tmp_path: product}.get)
    assert GoldenDevice(tmp_path).numerics == CHANGED.numerics


@pytest.mark.parametrize("name", FORMAT_NAMES)
@pytest.mark.sampled(3)
def test_a_golden_device_of_every_format(name):
    device = GoldenDevice(formats=name)
    numerics = device.numerics
    assert [chosen.format.name for chosen in (numerics.x, numerics.w, numerics.dy)] == [name] * 3
    np.testing.assert_allclose(device.forward(np.eye(3), np.ones((3, 1))).y, 1, rtol=0.2)


@pytest.mark.parametrize(
    "formats, names",
    [
        ("e3m4", ("e3m4", "e3m4", "e3m4")),
        (("bfp4", "bfp5", "bfp6"), ("bfp4", "bfp5", "bfp6")),
        ({"dy": "fp8_e5m2", "x": "fp8_e4m3"}, ("fp8_e4m3", "bfp4", "fp8_e5m2")),
    ],
)
def test_formats(formats, names):
    numerics = GoldenDevice(formats=formats, overrides=["rounding.dy=nearest"]).numerics
    assert tuple(each.format.name for each in (numerics.x, numerics.w, numerics.dy)) == names
    assert numerics.dy.rounding == "nearest"
    assert (numerics.block, numerics.fraction) == (Config().array.block, 18)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"machine": PICO, "formats": "bfp4"},
        {"machine": 3},
        {"machine": "no.toml"},
        {"machine": PICO.numerics, "formats": "bfp4"},
        {"formats": ("bfp4", "bfp5")},
        {"formats": 4},
        {"formats": {"y": "bfp4"}},
        {"formats": {"w": "nvfp4"}},
        {"machine": PICO, "overrides": ["array.block=3"]},
    ],
)
def test_what_no_device_is_made_from(given):
    """What a golden device says to these stands in the tables of refusals."""
    with pytest.raises(
        ValueError, match=r"^(a device needs|machine must|\w+(\.\w+)?:|formats must)"
    ):
        Device(**given)


def test_a_device_of_a_configuration_generates_its_product(file, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(backend, "cached_product", lambda config: made.append(config) or "kept")
    monkeypatch.setattr(devices, "VerilatorMachine", lambda *given: given)
    monkeypatch.setattr(
        host.HostDevice, "__init__", lambda self, machine, **given: made.append((machine, given))
    )
    nest = Nest(t_blocks=1)
    Device(file, seed=4)
    Device(PICO, overrides=KEYS)
    Device(formats="fp8_e4m3")
    Device(tmp_path, nest=nest, stalls=1, read_latency=50)
    kept, plain = ("kept", Simulation()), {"seed": 0, "nest": None}
    assert made[:4] == [PICO, (kept, plain | {"seed": 4}), CHANGED, (kept, plain)]
    assert made[4].format.dy == "fp8_e4m3"
    slow = tmp_path, Simulation(stalls=1, read_latency=50)
    assert made[5:] == [(kept, plain), (slow, plain | {"nest": nest})]
    with pytest.raises(
        ValueError, match=r"^formats must be left out, not 'bfp4': a product already"
    ):
        Device(tmp_path, formats="bfp4")
