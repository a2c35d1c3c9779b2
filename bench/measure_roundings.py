"""Bias of stochastic roundings, and errors of scale rules."""

import numpy as np

from bench.figure import figure, shown
from diastole.backend import cached_product
from diastole.devices import Device
from diastole_sim.codes.api import quantise
from diastole_sim.perf import Memory
from diastole_sim.perf.conversion_estimate import estimate_conversion
from diastole_sim.perf.modelled_machine import LATENCY
from diastole_sim.spec.formats import FOUR_OVER_SIX
from diastole_sim.spec.numerics import CLASS_NAMES
from support.draw_bias import CHANCE, KINDS, RULES, defined, drawing, measured
from support.presets import in_format


@figure("bias of {name} by the definition", at_most=shown(*KINDS), form="{:+.4f}")
def defined_bias(name):
    for rule in RULES:
        for key, value in vars(defined(drawing(name).numerics, rule)).items():
            yield f"rule {rule[-1].upper()}, {key}", value


@figure(
    "bias of {name} in the Verilog, off the definition",
    at_most=dict.fromkeys(KINDS, 1e-12) | {"counter, 8 bits": CHANCE},
    form="{:.2g}",
)
def stored_bias(name):
    config = drawing(name)
    with Device(cached_product(config), memory_bytes=1 << 24) as device:
        for cls, rule in zip(CLASS_NAMES, RULES, strict=True):
            want, got = defined(config.numerics, rule), measured(device, config.numerics, cls)
            yield f"rule {rule[-1].upper()}, mean", abs(want.mean - got.mean)
            yield f"rule {rule[-1].upper()}, largest", abs(want.largest - got.largest)


DATA = {
    "normal": lambda random, shape: random.standard_normal(shape),
    "Laplace": lambda random, shape: random.laplace(size=shape),
    "uniform": lambda random, shape: random.uniform(-1, 1, shape),
}
ERRORS = dict(zip(DATA, (0.087, 0.088, 0.087), strict=True))


def relative_error(data, grouping, rule):
    """Return the root mean square of errors over that of the data, 1024 x 1024 numbers."""
    exact = DATA[data](np.random.default_rng(0), (1024, 1024)).astype(np.float32)
    stored = quantise(exact, "nvfp4", grouping=grouping, scale=rule).values()
    return float(np.linalg.norm(stored - exact.astype(np.float64)) / np.linalg.norm(exact))


@figure(
    "relative error of NVFP4 with two scales, {data} data", near=ERRORS, within=0.001, form="{:.4f}"
)
def scale_errors(data):
    return relative_error(data, "1x16", FOUR_OVER_SIX)


@figure("relative error of NVFP4, {data} data", at_most=shown(*DATA), form="{:.4f}")
def other_errors(data):
    for grouping, rule in (
        ("1x16", "nearest"), ("16x16", "nearest"), ("16x16", FOUR_OVER_SIX),
    ):  # fmt: skip
        yield f"{grouping}, {rule}", relative_error(data, grouping, rule)


@figure("modelled cycles of two scales over one, 512 x 512 on pico", form="{:.3f}")
def scale_cycles():
    for name in CLASS_NAMES:
        once, twice = (conversion_cycles(rule, name) for rule in ("nearest", FOUR_OVER_SIX))
        yield name, twice / once


def conversion_cycles(rule, tensor_class):
    config = in_format("pico", "nvfp4", scale=dict.fromkeys(CLASS_NAMES, rule))
    sizes = {"data_width": config.bus.data_width, "memory": Memory.axi(LATENCY)}
    return estimate_conversion(config.numerics, tensor_class, 512, 512, **sizes).cycles
