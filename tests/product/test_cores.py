"""FuseSoC takes the core of a product: its targets are set up, and lint runs."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from diastole.backend import cached_product
from support.product_facts import little_config

pytest.importorskip("fusesoc", reason="fusesoc runs the core")


@pytest.fixture(scope="module")
def little():
    return cached_product(little_config())


def fusesoc(product: Path, folder: Path, *arguments: str) -> str:
    """What it says of a target of the product, built in a folder."""
    command = [sys.executable, "-m", "fusesoc.main", "--cores-root", str(product), "run"]
    done = subprocess.run(
        [*command, *arguments, "little"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_lint_runs_and_finds_nothing(little, tmp_path):
    said = fusesoc(little, tmp_path, "--target", "lint")
    assert "%Warning" not in said
    assert "Verilator: Built from" in said


def test_synthesis_reads_the_sources_for_the_top(little, tmp_path):
    """Set up only: the Yosys of the packages has no Tcl, which the flow wants."""
    fusesoc(little, tmp_path, "--target", "synth", "--setup")
    (script,) = tmp_path.rglob("edalize_yosys_procs.tcl")
    text = script.read_text()
    read = re.findall(r"read_verilog \{src/[^/]+/(\S+)\}", text)
    assert read == (little / "little.f").read_text().split()
    assert re.search(r"^ *synth \$top|synth_\$arch|synth_ecp5", text, re.MULTILINE)
    assert re.search(r"set top little$", text, re.MULTILINE)


def test_vivado_gets_the_clock_of_a_synthesis_out_of_context(little, tmp_path):
    fusesoc(little, tmp_path, "--target", "vivado", "--setup")
    texts = [path.read_text() for path in tmp_path.rglob("*.tcl")]
    assert any(re.search(r"read_xdc.*constraints/little_ooc\.xdc", text) for text in texts)


def test_simulation_runs_the_bench(little, tmp_path):
    if shutil.which("iverilog") is None:
        pytest.skip("iverilog is not on PATH; to have it: sudo apt-get install iverilog")
    assert "PASS" in fusesoc(little, tmp_path, "--target", "sim")
