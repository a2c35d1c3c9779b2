"""Compile a product, its host and Verilator's run-time into a WebAssembly module."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from environments import ROOT, environment
from wasm_model import defines, verilate

from diastole.errors import CheckFailed
from diastole_sim.host.product import Product
from diastole_sim.machines.verilator.build import (
    DEFINES,
    DRIVER,
    RUNTIME,
    VERILATOR_FLAGS,
    run_tool,
)
from diastole_sim.machines.verilator.find import find_verilator, verilator_root
from diastole_sim.machines.verilator.harness import harness
from diastole_sim.machines.verilator.simulation import Simulation
from diastole_sim.system.children import Programs

COMPILER = ("ziglang==0.17.1",)  # clang with the libraries of WebAssembly, in a Python package
SOURCES = ROOT / "scripts" / "wasm"
MODULE = "pico.wasm"
MODEL = ROOT / "scripts" / "wasm_model.py"
CACHES = ("GLOBAL", "LOCAL")
TARGET = ("-target", "wasm32-wasi", "-w", "-g0", "-fno-exceptions")
LANGUAGE = {
    ".c": ("cc",),
    ".cpp": ("c++", "-std=gnu++17", "-include", "no_threads.h"),
}
OPTIMISATION = ("-O2", "-Oz")  # of code that runs in every cycle, and once
LINK = ("-mexec-model=reactor", "-s", "-Wl,--gc-sections", "-Wl,-z,stack-size=262144")


class NoCompiler(Exception):
    """Error: the compiler cannot be installed."""


def recipe(product: Product) -> tuple[object, ...]:
    """Return everything that decides the bytes of the module, besides the product's files."""
    paths = sorted((*SOURCES.iterdir(), *DRIVER.iterdir(), MODEL))
    own = [(path.name, path.read_bytes()) for path in paths]
    flags = (VERILATOR_FLAGS, DEFINES, TARGET, LANGUAGE, LINK, OPTIMISATION)
    return find_verilator().version, COMPILER, flags, harness(product), repr(Simulation()), own


def compile_module(product: Product, compiler: Path, folder: Path) -> None:
    """Write :data:`MODULE` into ``folder``. ``compiler``: folder for the environment of the
    compiler. NoCompiler if pip does not install the compiler, BuildError if a tool refuses."""
    try:
        zig = [environment(compiler, COMPILER) / "python", "-m", "ziglang"]
    except CheckFailed as error:
        raise NoCompiler(str(error)) from error
    environ = os.environ | {f"ZIG_{name}_CACHE_DIR": str(compiler / "cache") for name in CACHES}
    work, group = folder / "work", Programs()
    include = verilator_root(find_verilator()) / "include"
    verilate(product, work)
    places = (work, SOURCES, DRIVER, product.directory / "sw", include, include / "vltstd")
    flags = [*TARGET, *DEFINES, *defines(product, work), *(f"-I{place}" for place in places)]

    def compile_one(source: Path) -> Path:
        target = work / f"{source.name}.o"
        words = [*zig, *LANGUAGE[source.suffix], *flags, OPTIMISATION[source.stem.endswith("Slow")]]
        run_tool([*words, "-c", source, "-o", target], env=environ, programs=group)
        return target

    sources = sorted(work.glob("*.cpp"), key=lambda path: -path.stat().st_size)
    sources += [*(include / name for name in RUNTIME), *SOURCES.glob("*.c*")]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        try:
            objects = list(pool.map(compile_one, sources))
        except BaseException:  # an interrupt, or a first failure: the rest is not needed
            group.end()
            raise
    run_tool([*zig, "c++", *TARGET, *LINK, *objects, "-o", folder / MODULE], env=environ)
    shutil.rmtree(work)
