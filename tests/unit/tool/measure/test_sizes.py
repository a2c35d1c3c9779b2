"""Figures of products of any size, on the golden model with counters of a test's own."""

from dataclasses import replace

import numpy as np
import pytest

from diastole.config.presets import PRODUCTS_ONLY
from diastole.measure import sizes
from diastole.measure.sizes import CASES, FAR, Cube
from diastole_sim.device.interface import CommandCounters
from diastole_sim.golden.device import GoldenDevice
from diastole_sim.spec.operations import OPERATIONS

SIDE, CYCLES = 24, 60
PICO = PRODUCTS_ONLY["pico"]


class Counting(GoldenDevice):
    """Every product takes ``CYCLES``, the second and all after it in a list two thirds of them."""

    wrong = False

    def counted(self, result, cycles):
        none = dict.fromkeys(("total_cycles", "convert_cycles", "read_bytes", "write_bytes"), 0)
        counters = CommandCounters(cycles=cycles, busy_slots=0, waits={}, **none)
        values = {name: -array if self.wrong else array for name, array in result.values.items()}
        return replace(result, counters=counters, values=values)

    def forward(self, x, w):
        return self.counted(super().forward(x, w), CYCLES)

    def dx(self, w, dy):
        return self.counted(super().dx(w, dy), CYCLES)

    def multiply_together(self, products):
        cycles = CYCLES + (len(products) - 1) * CYCLES * 2 // 3
        return [
            self.counted(getattr(GoldenDevice, op)(self, *operands), cycles)
            for op, operands in products
        ]


@pytest.fixture
def device():
    return Counting(PICO.numerics)


def test_shares(device):
    share = SIDE**3 / CYCLES / PICO.macs
    case = Cube(side=SIDE, least=share, ops=("forward", "dx"), flying=4, least_flying=1.5 * share)
    figures = list(sizes.cube_products("pico", PICO, device, case, where=", here"))
    assert [each.what for each in figures] == [
        "utilisation of pico, 24^3, here, forward",
        "bits of pico, 24^3, here, forward",
        "utilisation of pico, 24^3, here, dx",
        "utilisation of pico, 24^3, here, 4 in flight",
    ]
    assert [each.met for each in figures] == [True, True, True, False]
    flying = 4 * SIDE**3 / (3 * CYCLES) / PICO.macs
    assert figures[-1].measured == f"{flying:.2%}"


def test_a_wrong_bit_is_told(device):
    device.wrong = True
    case = Cube(side=SIDE, least=0, ops=("dx",))
    _, bits = sizes.cube_products("pico", PICO, device, case)
    assert (bits.measured, bits.met) == ("False", False)


def test_what_is_asked():
    for name, cases in CASES.items():
        assert name in PRODUCTS_ONLY
        assert all(set(case.ops) <= set(OPERATIONS) for case in cases)
    assert set(FAR) <= set(PRODUCTS_ONLY)
    assert np.all([case.flying == 0 or case.least_flying > 0.9 for case in CASES["server"]])
