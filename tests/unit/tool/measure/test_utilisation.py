"""Figures of whole products, on a machine of numpy that counts what a test can foresee."""

import numpy as np
import pytest

from diastole.config.presets import PRODUCTS_ONLY
from diastole.measure import utilisation
from diastole.measure.area import widened
from diastole.measure.utilisation import (
    FORMATS,
    digits_step,
    format_config,
    format_products,
    memory_kib,
    products,
    same_bits,
)
from diastole_sim.host.device import Device
from diastole_sim.host.product import Product
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.operations import OPERATIONS
from support.fake_machine import FakeMachine, parameters_of
from support.sweep import sweep

SIDE = 24
MEMORIES = [
    {"width": 64, "depth": 1024, "instances": 3},
    {"width": 8, "depth": 128, "instances": 1},
]


class Machine(FakeMachine):
    """Counts the cycles and beats that a test says."""

    cycles, read_beats = 60, 1
    cycles_per_second = 300_000

    def run(self, limit=None):
        self.products = 0
        return super().run(limit)

    def multiply(self, command):
        super().multiply(command)
        self.products += 2 if command.opcode == Opcode.BACKWARD else 1
        self.put("cycles", self.cycles * self.products)
        self.put("read_beats", self.read_beats)


@pytest.fixture
def device(tmp_path):
    def make(config):
        parameters = parameters_of(config.numerics.to_dict(), 64)
        product = Product(
            directory=tmp_path,
            name="fake",
            top="fake",
            sources=(),
            ports=(),
            data_width=64,
            manifest={
                "config_sha256": "0123456789abcdef",
                "parameters": parameters,
                "memories": MEMORIES,
            },
        )
        return Device(Machine(product))

    return make


def found(figures):
    return {each.what: each for each in figures}


NANO = PRODUCTS_ONLY["nano"]


@pytest.mark.parametrize("cycles, share, met", [(60, "90.00%", False), (54, "100.00%", True)])
def test_products(device, monkeypatch, cycles, share, met):
    """24^3 multiplications of 256 multipliers; `backward` has twice as many and takes twice as
    long."""
    monkeypatch.setattr(Machine, "cycles", cycles)
    figures = found(products(NANO, device(NANO), side=SIDE))
    for op in OPERATIONS:
        each = figures[f"utilisation of nano, {op}, 24^3"]
        assert (each.measured, each.met) == (share, met)
        small = figures[f"utilisation of nano, {op}, 64^3"]
        assert (small.asked, small.met) == ("at least 76.00%", True)
    for op in OPERATIONS:  # as if eight took as long as one
        each = figures[f"utilisation of nano, 8 times {op}, 64^3"]
        assert each.met is (None if op == "backward" else True)
    step = figures["in which products run"]
    assert (step.measured, step.met) == (str(5 * cycles), None)  # `backward` counts twice
    assert figures["in which conversions run"].measured == "6,000"
    assert figures["digits, cycles of a step, 128 bits"].asked == "at most 9,200"
    assert figures["bits of two products"].met
    assert figures["bits of the golden model"].met
    speed = figures["simulated cycles per second, nano"]
    assert (speed.asked, speed.measured, speed.met) == ("at least 300,000", "300,000", True)
    memories = figures["memories of nano, KiB"]
    assert (memories.asked, memories.measured, memories.met) == ("at most 390.0", "24.1", True)


@pytest.mark.parametrize("width, asked", [(64, "16,500"), (128, "9,200")])
def test_a_step_by_the_width_of_the_bus(device, width, asked):
    figures = found(digits_step(widened(NANO, width), device(NANO)))
    assert figures[f"digits, cycles of a step, {width} bits"].asked == f"at most {asked}"


@pytest.mark.parametrize(
    "excess, met", [sweep(1.0, True), (1.05, True), (1.06, False), sweep(2, False)]
)
def test_bytes_that_are_read(device, monkeypatch, excess, met):
    """bfp4 in blocks of 8: 9 x (1 byte of exponent, 40 of mantissas, both padded to beats of 8;
    the header of a group of 8 blocks is one beat), and three rows of maxima."""
    nano = device(NANO)
    held = utilisation.convert(nano, utilisation.normal_operands(SIDE))
    stored = sum(image.layout.total_bytes for each in held.values() for image in each.images)
    monkeypatch.setattr(Machine, "read_beats", round(stored * excess) // 8)
    each = found(products(NANO, nano, side=SIDE))["bytes read by backward / stored"]
    assert each.asked == "at most 1.0500"
    assert float(each.measured) == pytest.approx(excess, abs=0.01)
    assert each.met == (round(stored * excess) // 8 * 8 / stored <= 1.05)
    assert each.met is met or excess == 1.05


def test_a_wrong_bit_is_told(device, monkeypatch):
    store = Machine.store

    def wrong(self, address, data):
        """In the result of dX alone, so that both comparisons see it."""
        dx = self.executed[-1].opcode == Opcode.DX
        store(self, address, data ^ np.uint8(dx))

    monkeypatch.setattr(Machine, "store", wrong)
    figures = found(products(NANO, device(NANO), side=SIDE))
    assert not figures["bits of two products"].met
    assert not figures["bits of the golden model"].met


@pytest.mark.parametrize("label", FORMATS)
def test_formats(device, label):
    config = format_config(label)
    chosen = {config.numerics.tensor_class(name).format.name for name in ("x", "w", "dy")}
    assert chosen == {FORMATS[label]["format"]}
    figures = found(format_products(label, config, device(config), side=SIDE))
    assert {each.met for each in figures.values()} == {None}
    assert figures[f"{label}, memories, KiB"].measured == "24.1"
    assert figures[f"{label}, cycles to convert an element, X"].measured == f"{1000 / SIDE**2:.2f}"
    for op in ("forward", "backward"):
        assert figures[f"{label}, utilisation, {op}, 24^3"].measured == "90.00%"


def test_memory_kib(device):
    assert memory_kib(device(NANO)) == (64 * 1024 * 3 + 8 * 128) / 8192


def test_same_bits():
    zero = np.zeros((2, 2), np.float32)
    assert same_bits(zero, zero.copy())
    assert not same_bits(zero, -zero)
