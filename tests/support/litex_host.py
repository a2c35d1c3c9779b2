"""A SoC of LiteX in Verilator, whose host is the Wishbone on its pins, and moves words."""

import ctypes
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

from diastole_sim.machines.verilator.build import run_tool
from diastole_sim.machines.verilator.find import find_compiler, find_verilator, verilator_root
from diastole_sim.system.cache import Cache
from support.verilated import FLAGS, KEPT, LINK_FLAGS, RUNTIME

BUILDER = Path(__file__).parent / "litex_soc.py"
VERILATOR_FLAGS = ["--cc", "-O3", "--no-timing", "--x-initial", "unique", "--output-split", "15000"]
VERILATOR_FLAGS += ["-Wno-fatal", "-Wno-lint", "-Wno-style", "--top-module", "soc"]
LONGEST = 100_000
"""Cycles of an access."""
DRIVER = """\
#include "Vsoc.h"
#include "verilated.h"
static VerilatedContext context;
static Vsoc soc{&context};
static void cycle() {
    soc.clk = 0;
    soc.eval();
    soc.clk = 1;
    soc.eval();
}
extern "C" void soc_wait(unsigned cycles) {
    while (cycles--) cycle();
}
// 0, or 1 for a bus error, or 2 without an answer.
extern "C" int soc_access(unsigned address, int write, unsigned *data, unsigned longest) {
    soc.host_adr = address >> 2;
    soc.host_we = write;
    soc.host_dat_w = *data;
    soc.host_sel = 15;
    soc.host_cti = soc.host_bte = 0;
    soc.host_cyc = soc.host_stb = 1;
    for (unsigned n = 0; n < longest; ++n) {
        soc.clk = 0;
        soc.eval();
        const int answered = soc.host_ack, failed = soc.host_err;
        const unsigned found = soc.host_dat_r;
        soc.clk = 1;
        soc.eval();
        if (!answered) continue;
        soc.host_cyc = soc.host_stb = 0;
        if (!write) *data = found;
        cycle();
        return failed;
    }
    return 2;
}
"""


class LitexSoc:
    """A SoC, reset. ``environment``: of a Python with LiteX. ``board``: what `diastole board litex`
    wrote. Memory of ``size`` bytes at ``base``; the bus is ``standard``, of ``width`` bits."""

    def __init__(self, environment, board, *, standard, width, base, size, folder):
        self.folder = folder
        words = [sys.executable, BUILDER, board, standard, width, base, size, folder]
        done = subprocess.run(
            list(map(str, words)), cwd=folder, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
        self.log = done.stdout + done.stderr
        self.about = json.loads((folder / "soc.json").read_text())
        self.registers = self.about["registers"]
        library = self._library()
        here = Path.cwd()
        os.chdir(folder)  # where the Verilog of LiteX looks for contents of memories
        try:
            self._soc = ctypes.CDLL(str(library))
            self._soc.soc_wait(4)
        finally:
            os.chdir(here)
        self.wait(32)

    def wait(self, cycles: int) -> None:
        self._soc.soc_wait(cycles)

    def access(self, address: int, value: int | None = None) -> tuple[int, int]:
        """Whether a word's access failed, and what was read; a write with a ``value``."""
        word = ctypes.c_uint32(value or 0)
        failed = self._soc.soc_access(
            ctypes.c_uint32(address), int(value is not None), ctypes.byref(word), LONGEST
        )
        assert failed < 2, f"no answer at {address:#x}"
        return failed, word.value

    def read(self, address: int) -> int:
        failed, value = self.access(address)
        assert not failed, f"bus error at {address:#x}"
        return value

    def write(self, address: int, value: int) -> None:
        failed, _ = self.access(address, value)
        assert not failed, f"bus error at {address:#x}"

    def read_bytes(self, address: int, count: int) -> bytes:
        words = (self.read(at) for at in range(address, address + count, 4))
        return b"".join(word.to_bytes(4, "little") for word in words)

    def write_bytes(self, address: int, content: bytes) -> None:
        for at in range(0, len(content), 4):
            self.write(address + at, int.from_bytes(content[at : at + 4], "little"))

    def _library(self) -> Path:
        """Compiled once for the same Verilog; a copy, so that each SoC has its own state."""
        verilator, compiler = find_verilator(), find_compiler()
        root = verilator_root(verilator)
        sources = (self.folder / "sources").read_text().split("\n")[:-1]
        digest = hashlib.sha256(f"{verilator.version} {compiler.version} {DRIVER}".encode())
        for source in sources:
            # LiteX writes the time
            digest.update(re.sub(r"//.*", "", Path(source).read_text()).encode())

        def library(folder: Path):
            (folder / "driver.cpp").write_text(DRIVER)
            command = [verilator.path, *VERILATOR_FLAGS, "-Mdir", folder, *sources]
            run_tool(command, env={**os.environ, "VERILATOR_ROOT": str(root)})
            include = [f"-I{root / 'include'}", f"-I{root / 'include' / 'vltstd'}", f"-I{folder}"]
            made = sorted([*folder.glob("*.cpp"), *(root / "include" / name for name in RUNTIME)])
            flags = [flag for flag in FLAGS if not flag.startswith("-O")]
            words = [compiler.path, *flags, "-O0", *include, *LINK_FLAGS, *made]
            run_tool([*words, "-o", folder / "soc.so"])

        kept = Cache(KEPT).get(f"litex-{digest.hexdigest()[:32]}", library) / "soc.so"
        copy = self.folder / "soc.so"
        copy.write_bytes(kept.read_bytes())
        return copy
