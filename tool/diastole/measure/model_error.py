"""How far the model of the machine is from the Verilog's counters: products, conversions and
steps."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product

import numpy as np

from diastole.backend import cached_product
from diastole.config.file import from_document
from diastole.config.keys import Config
from diastole.config.presets import PRODUCTS_ONLY
from diastole.devices import Device
from diastole.measure import step_error
from diastole.measure.figure import Figure, at_most, shown
from diastole.measure.utilisation import multiply_held
from diastole_sim.host.tensor import DeviceTensor
from diastole_sim.perf import Memory, ModelledMachine, estimate
from diastole_sim.perf.conversion import estimate_conversion
from diastole_sim.perf.machine import LATENCY
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.operations import OPERANDS, OPERATIONS
from diastole_sim.spec.sizes.array import Widths

MACHINES = ("nano", "edge")
FORMATS = ("bfp4", "bfp8", "fp8_e4m3", "mxfp8_e4m3", "mxfp4_e2m1", "nvfp4", "fast")
SHAPES = 20
LARGEST = 320
"""Side of a shape."""
MOST_CYCLES, MOST_BYTES = 0.02, 0.005
"""On average, of the counters."""


@dataclass
class Errors:
    """Shares of what was counted, by which the model was wrong."""

    cycles: list[float] = field(default_factory=list[float])
    bytes: list[float] = field(default_factory=list[float])

    def add(self, guessed: tuple[int, int], counted: tuple[int, int]) -> None:
        """Cycles and bytes."""
        for errors, guess, count in zip((self.cycles, self.bytes), guessed, counted, strict=True):
            errors.append(abs(guess - count) / count)

    def figures(self, what: str) -> Iterator[Figure]:
        """Of cycles and bytes."""
        beyond = sum(error > MOST_CYCLES for error in self.cycles) / len(self.cycles)
        mean = float(np.mean(self.cycles))
        yield at_most(f"{what}: cycles off, mean", mean, MOST_CYCLES, "{:.2%}")
        yield shown(f"{what}: cycles off, worst", max(self.cycles), "{:.1%}")
        yield shown(f"{what}: more than {MOST_CYCLES:.0%} off", beyond, "{:.1%}")
        yield at_most(f"{what}: bytes off, worst", max(self.bytes), MOST_BYTES, "{:.2%}")


def machine_of(preset: str, name: str) -> Config:
    """A preset in another format."""
    alike = {"name": f"{preset}_{name}", "format": dict.fromkeys(CLASS_NAMES, name)}
    return from_document(PRODUCTS_ONLY[preset].model_dump(exclude_none=True) | alike)


def figures() -> Iterator[Figure]:
    """Of every machine, run in Verilator."""
    yield from step_error.figures()
    for preset, name in product(MACHINES, FORMATS):
        config = machine_of(preset, name)
        with Device(cached_product(config), memory_bytes=1 << 26) as device:
            yield from errors_of(f"{preset} in {name}", config, device)


def errors_of(
    label: str, config: Config, device: Device, *, shapes: int = SHAPES
) -> Iterator[Figure]:
    """Of shapes of any proportion, the same in every run; the device's memory has the latency of
    which nothing else is said."""
    model = ModelledMachine.of(config.numerics, **config.modelled_sizes)
    rng, values = random.Random(0), np.random.default_rng(0)
    products, conversions = Errors(), Errors()
    for _ in range(shapes):
        lengths = {axis: round(2 ** rng.uniform(0, np.log2(LARGEST))) for axis in "mkn"}
        held: dict[str, DeviceTensor] = {}
        for tensor in OPERANDS:
            shape = lengths[tensor.rows], lengths[tensor.columns]
            array = values.standard_normal(shape).astype(np.float32)
            chooses = config.numerics.tensor_class(tensor.tensor_class).format.planes
            width = rng.choice(config.numerics.widths) if chooses else None
            held[tensor.name] = device.convert(
                array, tensor.tensor_class, tag=tensor.number, width=width
            )
            add_conversion(conversions, config, held[tensor.name])
        m, n, k = lengths["m"], lengths["n"], lengths["k"]
        widths: Widths = held["X"].width, held["W"].width, held["dY"].width
        for op in OPERATIONS:
            if op == "backward" and not model.fuses(m, n, widths):
                continue  # dX and dW, which are here
            nest = device.loops.of(op, m=m, n=n, k=k, widths=widths)
            counted = multiply_held(device, op, held).counters
            assert counted is not None
            guess = estimate(model, op, m, n, k, nest, widths)
            products.add(
                (guess.cycles, guess.read_bytes + guess.write_bytes),
                (counted.cycles, counted.read_bytes + counted.write_bytes),
            )
    yield from products.figures(f"model of {label}, products")
    yield from conversions.figures(f"model of {label}, conversions")


def add_conversion(errors: Errors, config: Config, tensor: DeviceTensor) -> None:
    """What a tensor's conversion took, and is said to take; of bytes those written, as machines
    count none of conversions."""
    guess = estimate_conversion(
        config.numerics,
        tensor.tensor_class,
        *tensor.shape,
        data_width=config.bus.data_width,
        memory=Memory.axi(LATENCY),
        width=tensor.width,
    )
    written = sum(end - begin for begin, end in (image.range for image in tensor.images))
    errors.add((guess.cycles, guess.write_bytes), (tensor.convert_cycles, written))
