"""Time and size of an emission."""

import time

from diastole.config.presets import PRODUCTS_ONLY
from diastole.measure.emission import LIMITS, emit, figures


def make(sizes, seconds=0.0):
    """Writes files of these sizes instead of a product."""

    def generate(config, folder):
        assert not folder.exists()
        (folder / "rtl").mkdir(parents=True)
        for number, size in enumerate(sizes):
            (folder / "rtl" / f"{number}").write_bytes(bytes(size))
        time.sleep(seconds)

    return generate


def test_all_files_count():
    seconds, size = emit(PRODUCTS_ONLY["pico"], make([1, 20, 300], 0.05))
    assert size == 321
    assert 0.05 <= seconds < 10


def test_a_real_product():
    seconds, size = emit(PRODUCTS_ONLY["pico"])
    assert 0 < seconds < 100
    assert 100_000 < size < 2_000_000


def test_figures():
    found = {each.what: each for each in figures(make([1_000_000, 500_001]))}
    assert list(found) == [
        f"emission of {name}, {what}"
        for name in (*LIMITS, "nano with its vector unit")
        for what in ("seconds", "bytes")
    ]
    assert found["emission of nano, bytes"].met is None
    assert found["emission of server, bytes"].measured == "1,500,001"
    assert found["emission of server, bytes"].met is False
    assert found["emission of server, seconds"].asked == "at most 20.0"
    assert found["emission of nano, seconds"].met is True
    exact = {each.what: each for each in figures(make([1_500_000]))}
    assert exact["emission of server, bytes"].met is True
