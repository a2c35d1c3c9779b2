"""Translate a product into C++ for WebAssembly, and say how the product's memory answers."""

import os
import re
from pathlib import Path

from diastole_sim.host.product import Product
from diastole_sim.machines.verilator.build import VERILATOR_FLAGS, run_tool
from diastole_sim.machines.verilator.find import find_verilator, verilator_root
from diastole_sim.machines.verilator.harness import NAME as HARNESS
from diastole_sim.machines.verilator.harness import harness
from diastole_sim.machines.verilator.simulation import Simulation

PUBLIC = '`verilator_config\npublic_flat_rd -module "{}_counters" -var "events"\n'
EVENTS = re.compile(r"\b(\w+__DOT__counters__DOT__events);")


def verilate(product: Product, work: Path) -> None:
    """Write the C++ of a product into the new folder ``work``. The events that the machine counts
    are public. BuildError if Verilator refuses."""
    work.mkdir()
    verilator = find_verilator()
    top, public = work / f"{HARNESS}.v", work / "public.vlt"
    top.write_text(harness(product))
    public.write_text(PUBLIC.format(product.top))
    words = [verilator.path, *" ".join(VERILATOR_FLAGS).split(), "--top-module", HARNESS]
    words += ["--prefix", "Vproduct", "-Mdir", work, public, *product.sources, top]
    run_tool(words, env=os.environ | {"VERILATOR_ROOT": str(verilator_root(verilator))})


def defines(product: Product, work: Path) -> list[str]:
    """Return the definitions for the sources of the page: buses, the memory's delays, and the name
    of the events in the C++ in ``work``."""
    match = EVENTS.search((work / "Vproduct___024root.h").read_text())
    assert match, "the machine counts events"
    simulation = Simulation()
    values = {
        "VM_TRACE": 0,
        "DATA_BYTES": product.data_width // 8,
        "AXI_PORTS": product.memory_ports,
        "READ_LATENCY": simulation.read_latency,
        "WRITE_LATENCY": simulation.write_latency,
        "OUTSTANDING": simulation.outstanding,
        "EVENTS": match[1],
    }
    return [f"-D{name}={value}" for name, value in values.items()]
