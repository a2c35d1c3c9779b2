"""Every bench on every simulator that is there; those of single units on others than Verilator in
``make sweeps``."""

import zlib

import pytest

from rtl.simulate import REQUIRED, run_bench, simulators
from rtl.units import UNITS, machine_verilog, unit_verilog
from support.sweep import sweep

SIMULATORS = simulators()


def seed_of(name: str) -> int:
    return zlib.crc32(name.encode())


@pytest.mark.parametrize(
    "simulator", [name if name == REQUIRED else sweep(name) for name in SIMULATORS]
)
@pytest.mark.parametrize("unit", UNITS)
def test_unit(unit, simulator):
    top = f"{unit}_unit"  # `cell` is a keyword
    verilog = unit_verilog(UNITS[unit](), top)
    run_bench(f"rtl.{unit}_bench", top, verilog, simulator, seed=seed_of(unit))


@pytest.mark.parametrize("simulator", SIMULATORS)
def test_top(simulator):
    name, verilog = machine_verilog()
    # The constructors of cocotbext-axi warn of what cocotb will change.
    warnings = "default::DeprecationWarning"
    run_bench("rtl.top_bench", name, verilog, simulator, seed=seed_of(name), warnings=warnings)
