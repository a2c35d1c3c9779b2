# amaranth: UnusedElaboratable=no
"""A unit without stalls, compiled by Verilator from the Verilog that is emitted of it: millions of
values, where Amaranth's simulator manages thousands."""

import ctypes
import hashlib
import os
from functools import cache
from pathlib import Path

import numpy as np

from diastole_hw.emit.sharing import convert_ports, flat_ports
from diastole_hw.emit.verilog import emit
from diastole_sim.machines.verilator.build import run_tool
from diastole_sim.machines.verilator.find import find_compiler, find_verilator, verilator_root
from diastole_sim.system.cache import Cache

KEPT = Path(__file__).parents[2] / "build" / "verilated"
FLAGS = ["-std=gnu++17", "-fPIC", "-fno-gnu-unique", "-w", "-O1", "-DVERILATOR=1"]
FLAGS += ["-DVM_COVERAGE=0", "-DVM_SC=0", "-DVM_TIMING=0", "-DVM_TRACE=0"]
LINK_FLAGS = ["-shared", "-Wl,-Bsymbolic", "-pthread"]
VERILATOR_FLAGS = ["--cc", "-O3", "--no-timing", "--x-initial", "unique", "-Wno-fatal"]
VERILATOR_FLAGS += ["-Wno-lint", "-Wno-style", "--top-module", "unit", "--prefix", "Vunit"]
RUNTIME = ("verilated.cpp", "verilated_threads.cpp")
DRIVER = """\
#include "Vunit.h"
#include "verilated.h"
extern "C" void run(const uint32_t* const* inputs, uint32_t* const* outputs,
                    size_t count, size_t latency) {
    VerilatedContext context;
    Vunit unit(&context, "unit");
    for (size_t cycle = 0; cycle < count + latency; cycle++) {
        size_t given = cycle < count ? cycle : count - 1;
READ
        unit.clk = 0;
        unit.eval();
        if (cycle >= latency) {
WRITE
        }
        unit.clk = 1;
        unit.eval();
    }
}
"""


class Verilated:
    """``unit``, a component whose inputs and outputs have at most 32 bits each: what it makes of
    values that come one per cycle, ``latency`` cycles later."""

    def __init__(self, unit, latency: int):
        self.latency = latency
        ports = [(name, member.flow.name) for name, member, _ in flat_ports(unit)]
        self.inputs = [name for name, flow in ports if flow == "In"]
        self.outputs = [name for name, flow in ports if flow == "Out"]
        self.verilog = emit(unit, name="unit", ports=convert_ports(unit)).verilog
        self.run = ctypes.CDLL(str(self._library() / "unit.so")).run

    def __call__(self, **values) -> dict[str, np.ndarray]:
        """The outputs, by name, of arrays of the inputs by name."""
        given = [np.ascontiguousarray(values[name], np.uint32) for name in self.inputs]
        count = len(given[0])
        assert set(values) == set(self.inputs)
        assert all(len(each) == count for each in given)
        made = [np.empty(count, np.uint32) for _ in self.outputs]
        self.run(
            *(
                (ctypes.c_void_p * len(each))(*(a.ctypes.data for a in each))
                for each in (given, made)
            ),
            *map(ctypes.c_size_t, (count, self.latency)),
        )
        return dict(zip(self.outputs, made, strict=True))

    @property
    def driver(self) -> str:
        read = [f"        unit.{name} = inputs[{n}][given];" for n, name in enumerate(self.inputs)]
        write = [
            f"            outputs[{n}][cycle - latency] = unit.{name};"
            for n, name in enumerate(self.outputs)
        ]
        return DRIVER.replace("READ", "\n".join(read)).replace("WRITE", "\n".join(write))

    def _library(self) -> Path:
        """The folder of the library, made once for the same text."""
        verilator, compiler = find_verilator(), find_compiler()
        root = verilator_root(verilator)
        include = [f"-I{root / 'include'}", f"-I{root / 'include' / 'vltstd'}"]
        kept = Cache(KEPT)
        tools = f"{verilator.version} {compiler.version} {FLAGS}"

        def runtime(folder: Path):
            for name in RUNTIME:
                source = root / "include" / name
                run_tool(
                    [compiler.path, *FLAGS, *include, "-c", source, "-o", folder / f"{name}.o"]
                )

        def library(folder: Path):
            (folder / "unit.v").write_text(self.verilog)
            (folder / "driver.cpp").write_text(self.driver)
            command = [verilator.path, *VERILATOR_FLAGS, "-Mdir", folder, folder / "unit.v"]
            run_tool(command, env={**os.environ, "VERILATOR_ROOT": str(root)})
            sources = sorted(folder.glob("*.cpp"))
            objects = [kept.get(f"runtime-{key(tools)}", runtime) / f"{n}.o" for n in RUNTIME]
            command = [compiler.path, *FLAGS, *include, f"-I{folder}", *LINK_FLAGS]
            run_tool([*command, *sources, *objects, "-o", folder / "unit.so"])

        return kept.get(f"unit-{key(tools, self.verilog, self.driver)}", library)


@cache
def compiled(kind):
    """A component without parameters that has a ``latency``."""
    return Verilated(kind(), kind.latency)


def addresses(arrays):
    return (ctypes.c_void_p * len(arrays))(*(each.ctypes.data for each in arrays))


def key(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:32]
