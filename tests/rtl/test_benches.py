"""Every bench on every simulator that is there. Always the whole machine and a cell on the one
that compiles faster; in ``make sweeps`` what is left."""

import zlib

import pytest

from rtl.simulate import REQUIRED, run_bench, simulators
from rtl.units import UNITS, machine_verilog, unit_verilog
from support.sweep import sweep

SIMULATORS = simulators()


def seed_of(name: str) -> int:
    return zlib.crc32(name.encode())


FASTER = "icarus" if "icarus" in SIMULATORS else REQUIRED
ALWAYS = {("cell", FASTER)}
CASES = [(unit, simulator) for unit in UNITS for simulator in SIMULATORS]


@pytest.mark.parametrize(
    "unit, simulator", [case if case in ALWAYS else sweep(*case) for case in CASES]
)
def test_unit(unit, simulator):
    top = f"{unit}_unit"  # `cell` is a keyword
    verilog = unit_verilog(UNITS[unit](), top)
    run_bench(f"rtl.{unit}_bench", top, verilog, simulator, seed=seed_of(unit))


@pytest.mark.parametrize(
    "simulator", [name if name == FASTER else sweep(name) for name in SIMULATORS]
)
def test_top(simulator):
    name, verilog = machine_verilog()
    # The constructors of cocotbext-axi warn of what cocotb will change.
    warnings = "default::DeprecationWarning"
    run_bench("rtl.top_bench", name, verilog, simulator, seed=seed_of(name), warnings=warnings)
