"""Reset alone brings a machine up: with every initial value removed, all memories unknown, and
unknown words where a memory is read while it is written, it does every operation as before.

So it does where registers have all ones, or anything, to begin with."""

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from diastole.backend import cached_product
from support.products import BENCHED, machine
from support.sweep import sweep

MACHINES = BENCHED | {"fp8": machine("tiny_fp8", "fp8_e5m2", side=2, data_width=32)}
_REGISTER = re.compile(
    r"^( +(?:output )?reg (?:\[(\d+):\d+\] )?\w+) = [^;,\n]+(?=[;,]?$)", re.MULTILINE
)
_FILLED = re.compile(r"^ *(?:integer word;|initial for .*)\n", re.MULTILINE)
_READ = re.compile(r"(read_data (?:<?=)) ram_words\[read_addr\];")
_UNKNOWN = r"\1 (write_en && write_addr == read_addr) ? {65536{1'bx}} : ram_words[read_addr];"
KINDS = ("ones", "random", "registers", "memories", "collisions")
"""What is unknown, but in the first two: the former, too, in the latter."""


def begun(found: re.Match, kind: str, draws: random.Random) -> str:
    """A register with another value at first, or with none."""
    bits = int(found[2] or 0) + 1
    values = {"ones": (1 << bits) - 1, "random": draws.getrandbits(bits)}
    return f"{found[1]} = {bits}'h{values[kind]:x}" if kind in values else found[1]


def unknown(product: Path, kind: str, folder: Path) -> list[Path]:
    """The sources of a product without initial values, in a folder; asserts that there were some.

    The one that stays starts the combinational processes: no register of the machine has it.
    """
    name = product_name(product)
    draws = random.Random(1)
    files = []
    for path in (product / f"{name}.f").read_text().split():
        text = (product / path).read_text()
        found = 0
        if path == f"rtl/{name}.v":
            text, found = _REGISTER.subn(lambda register: begun(register, kind, draws), text)
            assert set(re.findall(r"^ *initial .*$", text, re.MULTILINE)) == {
                "  initial time_zero <= 0;"
            }
        elif kind in ("memories", "collisions"):
            text, found = _FILLED.subn("", text)
            assert found == 2, path
        if kind == "collisions" and path != f"rtl/{name}.v":
            text, found = _READ.subn(_UNKNOWN, text)
            assert found == 1, path
        assert found or path != f"rtl/{name}.v"
        files.append(folder / Path(path).name)
        files[-1].write_text(text)
    return files


def product_name(product: Path) -> str:
    (bench,) = product.glob("tb/*_tb.v")
    return bench.stem.removesuffix("_tb")


def run_bench(product: Path, sources: list[Path], folder: Path) -> str:
    """What the bench says in Icarus, which knows unknown values."""
    if shutil.which("iverilog") is None:
        pytest.skip("iverilog is not on PATH; to have it: sudo apt-get install iverilog")
    name = product_name(product)
    bench = product / "tb" / f"{name}_tb.v"
    compiled = folder / "bench"
    command = ["iverilog", "-g2005-sv", "-s", f"{name}_tb", "-o", compiled, *sources, bench]
    subprocess.run(command, check=True)
    command = ["vvp", "-n", compiled]
    done = subprocess.run(command, cwd=product / "tb", capture_output=True, text=True, timeout=300)
    return done.stdout


@pytest.mark.parametrize("name", ["tiny", sweep("grouped"), sweep("fp8")])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sampled(4)
def test_reset_alone_brings_it_up(name, kind, tmp_path):
    product = cached_product(MACHINES[name])
    said = run_bench(product, unknown(product, kind, tmp_path), tmp_path)
    assert said.startswith("PASS"), said


def test_an_unknown_value_that_counts_would_be_seen(tmp_path):
    """Words that are read after a write, too, but unknown."""
    product = cached_product(MACHINES["tiny"])
    sources = unknown(product, "registers", tmp_path)
    largest = max(sources[1:], key=lambda path: int(path.stem.rpartition("x")[0].split("_")[-1]))
    text = largest.read_text()
    assert "read_data <= ram_words[read_addr];" in text
    largest.write_text(text.replace("<= ram_words[read_addr];", "<= {65536{1'bx}};"))
    assert not run_bench(product, sources, tmp_path).startswith("PASS")
