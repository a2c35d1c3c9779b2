"""The first run of the README, done by the README alone, on the hardware."""

import numpy as np
import pytest

from diastole.backend import cached_product
from diastole_sim.host.errors import ProtocolError
from diastole_sim.machines.verilator.simulation import Simulation
from diastole_sim.machines.verilator.verilator_machine import VerilatorMachine
from support.products import MACHINES
from support.readme_host import ReadmeHost
from support.sweep import sweep

DONE, ERROR = 1 << 1, 1 << 2


@pytest.mark.parametrize("name", ["pico", "nvfp4", sweep("mxfp8_e4m3")])
@pytest.mark.parametrize("stalls", [None, 5], ids=["free", "stalled"])
def test_first_run_of_the_readme(name, stalls):
    product = cached_product(MACHINES[name])
    host = ReadmeHost((product / "README.md").read_text())
    at = host.registers
    memory = host.memory()
    simulation = Simulation(memory_bytes=1 << 16, memory_base=min(memory), stalls=stalls)
    with VerilatorMachine(product, simulation) as machine:
        for register in ("MAGIC", "VERSION", "CONFIG_HASH"):
            assert machine.read(at[register]) == host.number(rf"{register}\s+\((0x[0-9A-F]+)\)")
        for address, content in memory.items():
            machine.bytes_at(address, len(content))[:] = np.frombuffer(content, np.uint8)
        for offset, value in host.writes:
            machine.write(offset, value)
        machine.run(limit=100_000)
        assert machine.read(at["STATUS"]) & (DONE | ERROR) == DONE
        read = lambda address, count: machine.bytes_at(address, count).tobytes()  # noqa: E731
        images = [what for what in host.places if what.startswith("image")]
        for what in images:
            assert read(*host.places[what]) == host.dumped(what), what
        found = host.result(read)
        assert machine.state.irq == 1
        machine.write(at["STATUS"], DONE)
        assert machine.read(at["STATUS"]) == 0
        assert machine.state.irq == 0
    exact = host.operand("X") @ host.operand("W")
    assert " ".join(f"{value:g}" for value in found[0].tolist()) in host.text
    if "Y is exactly X W." in host.text:
        assert (found == exact).all()
    assert np.abs(found - exact).max() <= 0.1 * np.abs(exact).max()
    assert len(images) == (3 if name == "nvfp4" else 4 if name == "mxfp8_e4m3" else 2)


@pytest.mark.parametrize("name", ["pico"])
def test_registers_read_after_a_reset_what_the_readme_says(name):
    product = cached_product(MACHINES[name])
    host = ReadmeHost((product / "README.md").read_text())
    simulation = Simulation(memory_bytes=1 << 16, stalls=3)  # power-up at random
    with VerilatorMachine(product, simulation) as machine:
        for row in host.tables["offset", "bits", "name", "access", "reset", "meaning"]:
            if row[0] and row[2] != "CONTROL":
                value = machine.read(int(row[0], 0))
                if int(row[1]) > 32:
                    value |= machine.read(int(row[0], 0) + 4) << 32
                assert value == int(row[4], 0), row[2]


def test_errors_are_what_the_readme_says_and_a_reset_ends_them():
    """Windows that are empty after a reset, a write that is refused, an offset without register."""
    product = cached_product(MACHINES["pico"])
    host = ReadmeHost((product / "README.md").read_text())
    at = host.registers
    codes = {row[1]: int(row[0]) for row in host.tables["code", "name", "meaning"]}
    memory = host.memory()
    with VerilatorMachine(
        product, Simulation(memory_bytes=1 << 16, memory_base=min(memory))
    ) as machine:
        for address, content in memory.items():
            machine.bytes_at(address, len(content))[:] = np.frombuffer(content, np.uint8)
        windows = [at[name] + word for name in at if "_BASE" in name or "_LIMIT" in name
                   for word in (0, 4)]  # fmt: skip
        for offset, value in host.writes:
            if offset not in windows:
                machine.write(offset, value)
        machine.run(limit=10_000)
        assert machine.read(at["STATUS"]) & (DONE | ERROR) == ERROR
        assert machine.read(at["ERROR_CODE"]) == codes["WINDOW"]
        assert machine.read(at["ERROR_INDEX"]) == 0
        machine.write(at["STATUS"], DONE)
        assert machine.read(at["STATUS"]) & ERROR, "only a reset clears an error"
        machine.write(at["CONTROL"], 1 << 1)
        while machine.read(at["STATUS"]) & 1:
            pass
        assert machine.read(at["STATUS"]) == machine.read(at["ERROR_CODE"]) == 0
        assert machine.read(at["COMMAND_COUNT"]) == 3, "settings stay"
        with pytest.raises(ProtocolError, match="SLVERR"):
            machine.write(at["MAGIC"], 0)
        with pytest.raises(ProtocolError, match="DECERR"):
            machine.read(0x98)
        for offset, value in host.writes:
            machine.write(offset, value)
        machine.run(limit=100_000)
        found = host.result(lambda address, n: machine.bytes_at(address, n).tobytes())
        assert (found == host.operand("X") @ host.operand("W")).all()
        assert machine.read(at["CYCLES_TOTAL"]) > 0
        machine.write(at["CONTROL"], 1 << 2)
        assert machine.read(at["CYCLES_TOTAL"]) == 0
