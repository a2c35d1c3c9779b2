"""Time of the golden model and of the emission, and the size of the emission."""

import importlib.util
import time
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from bench.figure import figure, shown
from diastole.config.presets import PRESETS, PRODUCTS_ONLY
from diastole.devices import GoldenDevice as NamedDevice
from diastole.product.generate import generate
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.numerics import Numerics

EMITTED = {"nano": PRODUCTS_ONLY["nano"], "server": PRODUCTS_ONLY["server"]}
EMITTED["nano with a vector unit"] = PRESETS["nano"]


@pytest.fixture(scope="module")
def emitted(tmp_path_factory):
    """Return seconds, bytes of the Verilog and of all files of a product."""

    @cache
    def emit(name):
        folder = tmp_path_factory.mktemp("emission") / "product"
        began = time.perf_counter()
        generate(EMITTED[name], folder)
        seconds = time.perf_counter() - began
        sizes = {file: file.stat().st_size for file in folder.rglob("*") if file.is_file()}
        verilog = sum(sizes[file] for file in folder.glob("rtl/*.v"))
        return SimpleNamespace(seconds=seconds, verilog=verilog, all=sum(sizes.values()))

    return emit


@figure(
    "emission of {name}",
    at_most={**dict.fromkeys(EMITTED), "nano": 10, "server": 20},
    form="{:.1f} s",
)
def emission_time(name, emitted):
    return emitted(name).seconds


@figure(
    "Verilog of {name}",
    at_most=dict.fromkeys(EMITTED) | {"server": 1_500_000},
    form="{:,.0f} bytes",
)
def emission_size(name, emitted):
    return emitted(name).verilog


@figure("all files of {name}", at_most=shown(*EMITTED), form="{:,.0f} bytes")
def emitted_files(name, emitted):
    return emitted(name).all


def numerics(block, name, grouping=None, window=None, fraction=18):
    """Return numbers of one format, dY rounded stochastically."""
    plain = {"format": name, "rounding": "nearest", "grouping": grouping}
    classes = {"x": plain, "w": plain, "dy": plain | {"rounding": "stochastic-b"}}
    scalars = {"block": block, "random_bits": 8, "headroom": 9}
    return Numerics.from_dict(classes | scalars | {"fraction": fraction, "window": window})


GOLDEN = {
    **{f"bfp4, blocks of {block}": numerics(block, "bfp4") for block in (1, 4, 8, 32)},
    "bfp4 1x16": numerics(8, "bfp4", "1x16"),
    "fp8_e4m3, w = 20": numerics(8, "fp8_e4m3", window=20),
    "fp8_e4m3, exact": numerics(8, "fp8_e4m3", window=0, fraction=0),
    "fp8_e5m2, F = 14": numerics(8, "fp8_e5m2", fraction=14),
    "fp8_e5m2, w = 48, F = 0": numerics(8, "fp8_e5m2", window=48, fraction=0),
    "mxfp8_e4m3, exact": numerics(8, "mxfp8_e4m3", window=0, fraction=9),
    "nvfp4": numerics(8, "nvfp4", fraction=28),
    **{
        name: numerics(8, name)
        for name in (
            "bfp8", "fp8_e4m3", "bf16", "mxint8", "mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2",
            "mxfp6_e2m3", "mxfp4_e2m1",
        )
    },
}  # fmt: skip


def seconds(work, attempts=3):
    """Return the best time of some attempts."""
    times = []
    for _ in range(attempts):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


@figure("golden model in {name}, 512 cubed", at_most=shown(*GOLDEN), form="{:.3f} s")
def golden_time(name):
    """Of normal numbers, and of numbers whose exponents are so far apart (``wide``) that every
    block sum must be shifted alone, the slowest case."""
    rng = np.random.default_rng(0)
    plain = rng.standard_normal((512, 512)).astype(np.float32)
    wide = (plain * 2.0 ** rng.integers(-60, 60, plain.shape)).astype(np.float32)
    device = NumpyDevice(GOLDEN[name])
    for kind, array in (("plain", plain), ("wide", wide)):
        x, w = device.convert(array, "x", tag=0), device.convert(array, "w", tag=1)
        nearest = seconds(lambda array=array: device.convert(array, "x", tag=0))
        stochastic = seconds(lambda array=array: device.convert(array, "dy", tag=2))
        yield f"{kind}, conversion to nearest", nearest
        yield f"{kind}, stochastic conversion", stochastic
        yield f"{kind}, product", seconds(lambda x=x, w=w: device.forward(x, w))


def alternated(one, other, attempts, clock):
    """Return the best time of ``one`` and of ``other``. The two alternate, so that other work on
    the computer slows both."""
    times = []
    for _ in range(attempts):
        marks = [clock()]
        for work in (one, other):
            work()
            marks.append(clock())
        times.append(np.diff(marks))
    return np.min(times, axis=0)


STACKED = {name: each for name, each in GOLDEN.items() if each.block == 8}


@figure(
    "golden stack of 32 products of 64 cubed over the loop of calls, {name}",
    at_least=dict.fromkeys(STACKED) | {"bfp4, blocks of 8": 3},
    form="{:.1f} times",
)
def golden_stacks(name):
    device, rng = NumpyDevice(STACKED[name]), np.random.default_rng(0)
    x, w = rng.standard_normal((2, 32, 64, 64)).astype(np.float32)
    loop, stack = alternated(
        lambda: [device.forward(*each) for each in zip(x, w, strict=True)],
        lambda: device.forward(x, w),
        20,
        time.perf_counter,
    )
    return float(loop / stack)


@figure(
    "numpy's time over that of diastole.torch.Linear, 512 cubed, bfp4, both passes, one thread",
    at_least=1,
    form="{:.2f} times",
)
def torch_linear():
    """By the processor's time: forward pass, both gradients, and that of the bias."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs diastole[torch]: make torch")
    import torch

    from diastole.torch import Linear

    side = 512
    rng = np.random.default_rng(0)
    x, w, dy = rng.standard_normal((3, side, side)).astype(np.float32)
    bias = rng.standard_normal(side).astype(np.float32)
    golden = NamedDevice(formats="bfp4", seed=1)
    layer = Linear(side, side, device=NamedDevice(formats="bfp4", seed=1))
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(w.T))
        layer.bias.copy_(torch.from_numpy(bias))
    inputs, gradient = torch.from_numpy(x).requires_grad_(), torch.from_numpy(dy)

    def in_numpy():
        result = golden.forward(x, w, tags=(0, 1))
        np.add(result.y, bias)
        golden.backward(result.operands["X"], result.operands["W"], dy, tags=(0, 1, 2))
        dy.sum(axis=0)

    def in_torch():
        layer.zero_grad()
        inputs.grad = None
        layer(inputs).backward(gradient)

    numpy_time, torch_time = alternated(in_numpy, in_torch, 40, time.process_time)
    return float(numpy_time / torch_time)
