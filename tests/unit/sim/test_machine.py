"""The golden device: what its products read, return and refuse."""

import re

import numpy as np
import pytest

from diastole_sim.device_api import OPERATIONS, OUTPUTS
from diastole_sim.golden.machine import GoldenDevice
from diastole_sim.numerics import Numerics
from oracle import bfp

NUMERICS = Numerics.from_dict(
    {
        "block": 4,
        "x": {"format": "bfp4", "rounding": "stochastic-a"},
        "w": {"format": "bfp5", "rounding": "stochastic-b"},
        "dy": {"format": "bfp6", "rounding": "stochastic-c"},
        "random_bits": 7,
        "fraction": 18,
        "headroom": 14,
    }
)
RULES = {"X": ("stochastic-a", 4), "W": ("stochastic-b", 5), "dY": ("stochastic-c", 6)}


@pytest.fixture
def data(np_rng):
    shapes = {"X": (6, 5), "W": (5, 9), "dY": (6, 9)}
    return {n: np_rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}


def run(device, op, given, **options):
    return getattr(device, op)(*(given[name] for name in OPERATIONS[op]), **options)


@pytest.mark.parametrize("op", OPERATIONS)
def test_arrays_are_converted_with_seed_tag_and_step(op, data):
    tags = dict(zip(("X", "W", "dY"), (20, 21, 22), strict=True))
    chosen = tuple(tags[name] for name in OPERATIONS[op])
    result = run(GoldenDevice(NUMERICS, seed=5), op, data, tags=chosen, step=3)
    assert result.op == op and result.counters is None
    assert tuple(result.operands) == OPERATIONS[op] and tuple(result.values) == OUTPUTS[op]
    for name, tensor in result.operands.items():
        rule, bits = RULES[name]
        want = bfp.quantise(
            data[name].tolist(),
            mantissa_bits=bits,
            rule=rule,
            block=4,
            bits=7,
            seed=5,
            tag=tags[name],
            step=3,
        )
        np.testing.assert_array_equal(tensor.values(), np.array(want.values, dtype=np.float32))


@pytest.mark.parametrize("op", OPERATIONS)
def test_default_tags_are_layer_zero(op, data):
    device = GoldenDevice(NUMERICS, seed=1)
    result = run(device, op, data)
    for name, tensor in result.operands.items():
        number, tensor_class = {"X": (0, "x"), "W": (1, "w"), "dY": (2, "dy")}[name]
        want = device.convert(data[name], tensor_class, tag=number, step=0)
        np.testing.assert_array_equal(tensor.magnitudes, want.magnitudes)


def test_values_are_the_three_equations(data):
    device = GoldenDevice(NUMERICS)
    x, w, dy = (
        device.convert(data[name], cls, tag=tag)
        for name, cls, tag in (("X", "x", 0), ("W", "w", 1), ("dY", "dy", 2))
    )
    vx, vw, vdy = (tensor.values().astype(np.float64) for tensor in (x, w, dy))
    y, dx, dw = device.forward(x, w).y, device.dx(w, dy).dx, device.dw(x, dy).dw
    np.testing.assert_array_equal(y, (vx @ vw).astype(np.float32))
    np.testing.assert_array_equal(dx, (vdy @ vw.T).astype(np.float32))
    np.testing.assert_array_equal(dw, (vx.T @ vdy).astype(np.float32))
    both = device.backward(x, w, dy)
    np.testing.assert_array_equal(both.dx, dx)
    np.testing.assert_array_equal(both.dw, dw)
    assert both.operands == {"X": x, "W": w, "dY": dy}  # the very tensors: nothing is converted


def test_backward_joins_the_flags():
    """dX is inexact or overflows alone, then dW alone; backward says it of both."""
    device = GoldenDevice(NUMERICS)
    ones = np.ones((4, 8), np.float32)
    for huge, small in (("W", "X"), ("X", "W")):
        data = {"X": ones, "W": np.ones((8, 4), np.float32), "dY": np.ones((4, 4), np.float32)}
        data[huge] = data[huge] * np.float32(2.0**127)
        both = run(device, "backward", data)
        affected, other = (both.dx, both.dw) if huge == "W" else (both.dw, both.dx)
        assert both.overflow and np.isinf(affected).all() and np.isfinite(other).all(), small
        assert both.exact
    for name in ("dx", "dw"):
        data = {"X": np.ones((8, 4), np.float32), "W": np.ones((4, 8), np.float32)}
        data["dY"] = np.ones((8, 8), np.float32)
        data["dY"][:, :4] = data["dY"][:, :4] * np.float32(2.0**-30)
        if name == "dw":
            data["dY"] = data["dY"].T.copy()
        assert not run(device, name, data).exact
        assert run(device, "dw" if name == "dx" else "dx", data).exact
        assert not run(device, "backward", data).exact


@pytest.mark.parametrize(
    "op, name",
    [("forward", "dX"), ("dx", "Y"), ("dw", "dX")],
)
def test_a_tensor_that_was_not_computed(op, name, data):
    with pytest.raises(KeyError):
        getattr(run(GoldenDevice(NUMERICS), op, data), name.lower())


def test_wrong_operands(data):
    device = GoldenDevice(NUMERICS)
    x = device.convert(data["X"], "x", tag=0)
    other = GoldenDevice(Numerics.from_dict({**NUMERICS.to_dict(), "block": 8}))
    foreign = other.convert(data["W"], "w", tag=1)
    cases = [
        ((x, x), "W must be a tensor of class w, not x"),
        ((x, [[1.0]]), "W must be a float32 array or a tensor of this device"),
        ((x, foreign), "W is bfp5 in blocks of 8; this device has bfp5 in blocks of 4"),
        ((x, data["W"].astype(np.float64)), "a tensor must be a float32 array, not float64"),
    ]
    for given, message in cases:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            device.forward(*given)


def test_backward_wants_one_k(data):
    data["W"] = data["W"][:4].copy()
    message = "the columns of X are 5, but the rows of W are 4; they must be equal"
    with pytest.raises(ValueError, match=f"^{message}$"):
        run(GoldenDevice(NUMERICS), "backward", data)


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_seed_is_checked(seed):
    with pytest.raises(ValueError, match=f"^seed must be an integer in 0..4294967295, not {seed}$"):
        GoldenDevice(NUMERICS, seed=seed)
