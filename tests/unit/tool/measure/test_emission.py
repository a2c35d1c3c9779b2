"""Time and size of an emission."""

import time

from diastole.config.presets import PRODUCTS_ONLY
from diastole.measure.emission import LIMITS, emit, figures

OTHERS = 77
"""Bytes of what is no Verilog."""


def make(sizes, seconds=0.0):
    """Writes files of these sizes instead of a product."""

    def generate(config, folder):
        assert not folder.exists()
        (folder / "rtl").mkdir(parents=True)
        for number, size in enumerate(sizes):
            (folder / "rtl" / f"{number}.v").write_bytes(bytes(size))
        (folder / "README.md").write_bytes(bytes(OTHERS))
        time.sleep(seconds)

    return generate


def test_all_files_count():
    seconds, verilog, size = emit(PRODUCTS_ONLY["pico"], make([1, 20, 300], 0.05))
    assert (verilog, size) == (321, 321 + OTHERS)
    assert 0.05 <= seconds < 10


def test_a_real_product():
    seconds, verilog, size = emit(PRODUCTS_ONLY["pico"])
    assert 0 < seconds < 100
    assert 100_000 < verilog < size < 2_000_000


def test_figures():
    found = {each.what: each for each in figures(make([1_000_000, 500_001]))}
    assert list(found) == [
        f"emission of {name}, {what}"
        for name in (*LIMITS, "nano with its vector unit")
        for what in ("seconds", "bytes of Verilog", "bytes of all files")
    ]
    assert found["emission of nano, bytes of Verilog"].met is None
    assert found["emission of server, bytes of Verilog"].measured == "1,500,001"
    assert found["emission of server, bytes of Verilog"].met is False
    assert found["emission of server, bytes of all files"].measured == "1,500,078"
    assert found["emission of server, seconds"].asked == "at most 20.0"
    assert found["emission of nano, seconds"].met is True
    exact = {each.what: each for each in figures(make([1_500_000]))}
    assert exact["emission of server, bytes of Verilog"].met is True
