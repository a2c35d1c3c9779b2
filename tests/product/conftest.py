"""Products, generated once, and running machines, compiled once for the same Verilog."""

import pytest

from diastole.backend import cached_product
from diastole.devices import Device
from diastole_sim.golden.numpy_device import NumpyDevice
from support.products import MACHINES, SEED
from support.sweep import sweep


@pytest.fixture(
    scope="session",
    params=[
        "nvfp4",
        *map(sweep, ("pico", "ports", "nano", "mxfp8_e4m3", "esru_2x2")),
    ],
)
def preset(request):
    return MACHINES[request.param]


@pytest.fixture(scope="session")
def product(preset):
    """A product directory, to be read."""
    return cached_product(preset)


@pytest.fixture(scope="session")
def devices():
    """``devices(name, stalls)``: a running machine of ``MACHINES``, the same for all tests."""
    opened = {}

    def device(name: str, stalls: int | None = None) -> Device:
        if (name, stalls) not in opened:
            product = cached_product(MACHINES[name])
            opened[name, stalls] = Device(
                product, seed=SEED, stalls=stalls, memory_bytes=1 << 24, watchdog_cycles=20_000
            )
        return opened[name, stalls]

    yield device
    for each in opened.values():
        each.close()


@pytest.fixture(scope="session")
def goldens():
    """``goldens(name)``: the golden model with the numbers of that machine."""
    return lambda name: NumpyDevice(MACHINES[name].numerics, seed=SEED)
