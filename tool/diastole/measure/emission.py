"""How long it takes to write a product, and how large it is."""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from diastole.config.keys import Config
from diastole.config.presets import PRESETS, PRODUCTS_ONLY
from diastole.measure.figure import Figure, at_most, shown
from diastole.product.generate import generate

LIMITS: Mapping[str, tuple[float, int | None]] = {"nano": (10, None), "server": (20, 1_500_000)}
"""Seconds, and bytes of Verilog, that are asked of the presets at most, without their vector
unit."""
VERILOG = "rtl/*.v"


def figures(make: Callable[[Config, Path], Any] = generate) -> Iterator[Figure]:
    for name, (most_seconds, most_bytes) in LIMITS.items():
        seconds, verilog, size = emit(PRODUCTS_ONLY[name], make)
        yield at_most(f"emission of {name}, seconds", seconds, most_seconds, "{:.1f}")
        what = f"emission of {name}, bytes of Verilog"
        if most_bytes is None:
            yield shown(what, verilog, "{:,.0f}")
        else:
            yield at_most(what, verilog, most_bytes, "{:,.0f}")
        yield shown(f"emission of {name}, bytes of all files", size, "{:,.0f}")
    seconds, verilog, size = emit(PRESETS["nano"], make)
    yield shown("emission of nano with its vector unit, seconds", seconds, "{:.1f}")
    yield shown("emission of nano with its vector unit, bytes of Verilog", verilog, "{:,.0f}")
    yield shown("emission of nano with its vector unit, bytes of all files", size, "{:,.0f}")


def emit(config: Config, make: Callable[[Config, Path], Any] = generate) -> tuple[float, int, int]:
    """Seconds of wall time, and bytes of the Verilog and of all files."""
    with tempfile.TemporaryDirectory() as folder:
        product = Path(folder) / "product"
        began = time.perf_counter()
        make(config, product)
        seconds = time.perf_counter() - began
        verilog = sum(file.stat().st_size for file in product.glob(VERILOG))
        size = sum(file.stat().st_size for file in product.rglob("*") if file.is_file())
    return seconds, verilog, size
