"""Reset alone brings a machine up, and nothing hangs on what a memory shows before a word is
written, or while it is: with all that unknown the bench passes.

In a simulator unknown times 0 is unknown, and a cell multiplies words that were never written by
zeros. So memories begin with numbers at random where a product of the bench does that.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from diastole.backend import cached_product
from support.products import MACHINES, machine
from support.sweep import sweep

TINY = machine("tiny", ("bfp3", "bfp5", "bfp2"), side=2, data_width=32)
# Two copies of X and W, and a vector unit.
GROUPED = machine(
    "tiny_1x4",
    "bfp4",
    side=2,
    block=dict.fromkeys("xw", "1x4"),
    vector={"enable": True, "panel_kib": 1},
)
PRODUCTS = {"tiny": TINY, "grouped": GROUPED, **MACHINES}
INITIAL = re.compile(r"^( *reg [^;=\n]*?) = [^;\n]*;", re.MULTILINE)
"""Of a register, as Verilog declares it."""
ZEROS = re.compile(r"`ifndef SYNTHESIS\n`ifndef VERILATOR.*?`endif\n`endif\n", re.DOTALL)
"""The words of a memory, for simulators."""
WORDS = re.compile(r"reg \[(\d+):0\] ram_words \[(\d+):(\d+)\]")
RANDOM = """  integer word, bit_;
  initial for (word = {first}; word <= {last}; word = word + 1)
    for (bit_ = 0; bit_ < {bits}; bit_ = bit_ + 1) ram_words[word][bit_] = $urandom;
"""
SHOWN = {
    "read_data <= ram_words[read_addr];": "read_data <= {collides} ? 'bx : ram_words[read_addr];",
    "read_data = ram_words[read_addr];": "read_data = {collides} ? 'bx : ram_words[read_addr];",
}
COLLIDES = "(write_en && write_addr == read_addr)"


def without_values(machine: str) -> str:
    """The machine's Verilog, where no register has a value at power-up."""
    changed, number = INITIAL.subn(r"\1;", machine)
    assert number > 100
    return changed


def spiteful(memory: str, *, random: bool) -> str:
    """A memory's Verilog, whose words are unknown until they are written, or ``random``, and
    unknown while they are."""
    high, first, last = map(int, WORDS.search(memory).groups())
    words = RANDOM.format(bits=high + 1, first=first, last=last) if random else ""
    changed, zeros = ZEROS.subn(lambda _: words, memory)
    reads = 0
    for shown, instead in SHOWN.items():
        reads += changed.count(shown)
        changed = changed.replace(shown, instead.format(collides=COLLIDES))
    assert (zeros, reads) == (1, 1)
    return changed


@pytest.mark.skipif(
    shutil.which("iverilog") is None, reason="iverilog, which has X, is not on PATH"
)
@pytest.mark.parametrize(
    "name, random",
    [
        ("tiny", False),
        ("grouped", False),
        sweep("pico", False),
        sweep("fast", False),
        *(sweep(name, True) for name in ("tiny", "grouped", "ports", "fp8_e5m2", "nvfp4")),
    ],
)
def test_nothing_hangs_on_what_is_unknown(name, random, tmp_path):
    product = shutil.copytree(cached_product(PRODUCTS[name]), tmp_path / name)
    [top] = {path.stem for path in product.glob("*.f")} & {PRODUCTS[name].name}
    for path in (product / f"{top}.f").read_text().split():
        text = (product / path).read_text()
        if "_mem_" in path:
            text = spiteful(text, random=random)
        else:
            text = without_values(text)
        (product / path).write_text(text)
    status, said = simulate(product, top)
    assert status == 0, said
    assert "PASS: " in said


def simulate(product: Path, top: str) -> tuple[int, str]:
    """The product's bench in Icarus: exit status, and what was printed."""
    sources = [f"../{path}" for path in (product / f"{top}.f").read_text().split()]
    folder = product / "tb"
    compiled = ["iverilog", "-g2012", "-o", "bench.vvp", f"{top}_tb.v", *sources]
    subprocess.run(compiled, cwd=folder, check=True, timeout=300)
    done = subprocess.run(
        ["vvp", "-n", "bench.vvp"], cwd=folder, capture_output=True, text=True, timeout=500
    )
    return done.returncode, done.stdout + done.stderr
