"""Compile a product into a shared library, once for equal content.

Verilator translates the Verilog into C++. The C++ compiler is called directly, not through
Verilator's makefile. The makefile is slow (it compiles Verilator's own run-time for every product),
and its rule for precompiled headers does not work with the packaged Verilator.
"""

import hashlib
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeAlias

from diastole_sim.host.product import Product
from diastole_sim.machines.verilator.find import find_compiler, find_verilator, verilator_root
from diastole_sim.machines.verilator.harness import NAME as HARNESS
from diastole_sim.machines.verilator.harness import harness
from diastole_sim.machines.verilator.simulation import WAVES
from diastole_sim.system.cache import Cache, user_folder
from diastole_sim.system.children import Programs, run
from diastole_sim.system.programs import Program, ToolMissing

JOBS = 2
DRIVER = Path(__file__).parent / "driver"

# Checks and warnings are left to a lint run, which is better at them. Registers without an initial
# value start as the driver decides: at zero, or at random.
VERILATOR_FLAGS = (
    "--cc",
    "-O3",
    "--x-assign fast",
    "--x-initial unique",
    "--no-assert",
    "--no-timing",
    "--threads 1",
    "--output-split 15000",  # files that compile side by side
    "--output-split-cfuncs 500",  # five sixths of the compile time; uncut code runs 9 % faster
    "--timescale-override 1ns/1ns",
    "-Wno-fatal",
    "-Wno-lint",
    "-Wno-style",
)
# -Bsymbolic and no unique symbols: several products in one process must not share anything.
COMMON_FLAGS = ("-std=gnu++17", "-fPIC", "-fno-gnu-unique", "-fvisibility=hidden", "-w")
# -O1 compiles in three quarters of the time of -O2. Products run as fast. With a vector unit -O2
# runs 13 % faster, which pays after half a minute of training. -Og is a third slower.
FAST_FLAGS = ("-O1", "-fno-strict-aliasing")
SLOW_FLAGS = ("-O0", "-fno-strict-aliasing")  # code that runs once, at the start
LINK_FLAGS = ("-shared", "-Wl,-Bsymbolic", "-pthread")
DEFINES = ("-DVERILATOR=1", "-DVM_COVERAGE=0", "-DVM_SC=0", "-DVM_TIMING=0")
PREFIX = "prefix.h"  # read before every file, precompiled: Verilator's headers take 0.4 s each time
RUNTIME = ("verilated.cpp", "verilated_threads.cpp")
FST_LIBRARIES = ("z", "lz4")
FST_HEADERS = ("zlib.h", "lz4.h")
FST_INSTALL = "sudo apt-get install zlib1g-dev liblz4-dev"
SLOW = "slow.cpp"  # all files that Verilator calls slow in one: apart they take three times as long
LIBRARY = "product.so"
_Job: TypeAlias = tuple[Path, Sequence[str], Path]
"""Source, flags for the source, and folder of the object file."""


class BuildError(Exception):
    """Error: a tool refused the product's Verilog or the driver. The text ends in the tool's own
    words."""


def cache_folder() -> Path:
    """Return the folder of libraries: ``diastole/verilator`` in the user's cache folder."""
    return user_folder() / "verilator"


def build(product: Product, *, waves: str | None = None) -> Path:
    """Return the product's shared library, built if no library of exactly this content exists.

    The key is a hash of the Verilog, the driver, the flags and the tools' versions. ``waves``, as
    in :attr:`diastole_sim.machines.verilator.simulation.Simulation.waves`, selects the slower
    variant that records waves. A library exists whole or not at all, and is checked before the load
    (:class:`diastole_sim.system.cache.Cache`).

    ToolMissing without Verilator, a compiler, or the compression libraries of ``fst``. BuildError
    if a tool refuses.
    """
    recipe = _Recipe(product, find_verilator(), find_compiler(), waves)
    if waves == "fst":
        require_fst(recipe.compiler)
    return Cache(cache_folder()).get(f"{product.name}-{recipe.key}", recipe.compile) / LIBRARY


def require_fst(compiler: Program) -> None:
    """Raise ToolMissing unless the headers of FST's compression libraries are installed."""
    for name in FST_HEADERS:
        words = [compiler.path, "-fsyntax-only", "-include", name, "-x", "c++", os.devnull]
        if run(words).returncode:
            raise ToolMissing(f"{name}, for waves in FST", FST_INSTALL)


class _Recipe:
    def __init__(self, product: Product, verilator: Program, compiler: Program, waves: str | None):
        self.product = product
        self.verilator = verilator
        self.compiler = compiler
        self.waves = waves
        self.root = verilator_root(verilator)
        self.harness = harness(product)
        self.verilator_flags = [word for flag in VERILATOR_FLAGS for word in flag.split()]
        self.verilator_flags += ["--top-module", HARNESS, "--prefix", "Vproduct"]
        self.defines = [*DEFINES, f"-DVM_TRACE={waves is not None:d}"]
        self.defines += [f"-DVM_TRACE_{each.upper()}={waves == each:d}" for each in WAVES]
        self.product_defines = [f"-DDATA_BYTES={product.data_width // 8}"]
        self.product_defines += [f"-DAXI_PORTS={product.memory_ports}"]
        self.link_flags = list(LINK_FLAGS)
        if waves is not None:
            self.verilator_flags += [f"--trace-{waves}"]
            self.product_defines += [f"-DTRACE_{waves.upper()}"]
        if waves == "fst":
            self.link_flags += [f"-l{name}" for name in FST_LIBRARIES]

    @property
    def key(self) -> str:
        hasher = hashlib.sha256()
        recipe = [self.verilator_flags, self.defines, self.product_defines, self.verilator.version]
        recipe += [
            self.harness,
            self.compiler.version,
            COMMON_FLAGS,
            FAST_FLAGS,
            SLOW_FLAGS,
            self.link_flags,
        ]
        hasher.update(repr(recipe).encode())
        for path in (*self.product.sources, *sorted(DRIVER.iterdir())):
            content = path.read_bytes()
            hasher.update(f"{path.name} {len(content)}\n".encode())
            hasher.update(content)
        return hasher.hexdigest()[:32]

    def compile(self, folder: Path) -> None:
        """Compile the library into ``folder``."""
        runtime = self.runtime()
        prefix = runtime[0].parent / PREFIX
        work = folder / "work"
        work.mkdir()
        top = work / f"{HARNESS}.v"
        top.write_text(self.harness)
        sources = [*self.product.sources, top]
        run_tool(
            [self.verilator.path, *self.verilator_flags, "-Mdir", work, *sources],
            env={**os.environ, "VERILATOR_ROOT": str(self.root)},
        )
        generated = sorted(work.glob("*.cpp"), key=lambda path: -path.stat().st_size)
        slow = [path for path in generated if path.stem.endswith("Slow")]
        (work / SLOW).write_text("".join(f'#include "{path.name}"\n' for path in slow))
        fast = [*FAST_FLAGS, "-include", str(prefix)]
        jobs: list[_Job] = [(work / SLOW, SLOW_FLAGS, work)]
        jobs += [(path, fast, work) for path in generated if path not in slow]
        jobs.append((DRIVER / "driver.cpp", [*fast, *self.product_defines], work))
        objects = self.compile_all(jobs)
        library = folder / LIBRARY
        run_tool([self.compiler.path, "-o", library, *objects, *runtime, *self.link_flags])
        shutil.rmtree(work)

    def compile_all(self, jobs: Sequence[_Job]) -> list[Path]:
        programs = Programs()
        compile_one = partial(self.compile_one, programs)
        with ThreadPoolExecutor(max_workers=JOBS) as pool:
            try:
                return list(pool.map(compile_one, jobs))
            except BaseException:  # an interrupt, or a first failure: the rest is not needed
                programs.end()
                raise

    def compile_one(self, programs: Programs, job: _Job) -> Path:
        source, flags, folder = job
        header = source.suffix == ".h"
        target = folder / (f"{source.name}.gch" if header else f"{source.stem}.o")
        includes = [folder, DRIVER, self.root / "include", self.root / "include" / "vltstd"]
        command = [self.compiler.path, *COMMON_FLAGS, *self.defines, *flags]
        command += [f"-I{path}" for path in includes]
        command += ["-x", "c++-header"] if header else ["-c"]
        run_tool([*command, source, "-o", target], programs=programs)
        return target

    def runtime(self) -> list[Path]:
        """Return Verilator's own run-time, compiled once for all products. The headers lie beside
        the objects."""
        names = RUNTIME + ((f"verilated_{self.waves}_c.cpp",) if self.waves else ())
        recipe = repr(
            [
                self.verilator.version,
                str(self.root),
                self.compiler.version,
                COMMON_FLAGS,
                self.defines,
                FAST_FLAGS,
                names,
            ]
        )
        key = f"verilated-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"

        def compile_into(folder: Path) -> None:
            sources = [self.root / "include" / name for name in names]
            header = folder / PREFIX
            header.write_text('#include "verilated.h"\n')
            sources.append(header)
            self.compile_all([(source, FAST_FLAGS, folder) for source in sources])

        folder = Cache(cache_folder()).get(key, compile_into)
        return [folder / f"{Path(name).stem}.o" for name in names]


def run_tool(
    command: Sequence[object],
    *,
    env: dict[str, str] | None = None,
    programs: Programs | None = None,
) -> None:
    """Run a program, as a member of the group ``programs`` if given. BuildError with the start of
    the output if the program fails."""
    done = (programs or Programs()).run(command, env=env, text=True)
    if done.returncode:
        lines = (done.stdout + done.stderr).strip().splitlines()
        output = "\n".join(lines[:20])
        raise BuildError(
            f"{Path(str(command[0])).name} failed with exit code {done.returncode}:\n{output}"
        )
