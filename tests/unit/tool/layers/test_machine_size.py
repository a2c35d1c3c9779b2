"""Sizes of machines: of memories and of cells, in words and for scripts."""

import pytest

from diastole.config.file import from_document
from diastole.config.presets import PRODUCTS_ONLY
from diastole.layers.machine_size import KIB, machine_size
from diastole_hw.memory.memory_sizes import scratchpad_bits, sum_bits


def test_what_is_known():
    plan, size = PRODUCTS_ONLY["nano"].plan, machine_size(PRODUCTS_ONLY["nano"])
    assert (size.multipliers, plan.macs) == (256, 256)
    assert size.scratchpad_kib * KIB == scratchpad_bits(plan)
    assert size.sum_kib * KIB == sum_bits(plan)
    assert size.record()["cells_nand2"] == pytest.approx(256 * size.area_per_mac_nand2)
    assert str(size).startswith(
        f"256 multipliers in cells of {size.cells_nand2 / 1000:.1f} k NAND2"
    )


def test_an_area_that_was_not_measured():
    size = machine_size(from_document({"format": {"x": "bfp3", "w": "bfp5", "dy": "bfp2"}}))
    assert size.area_per_mac_nand2 is None
    assert size.cells_nand2 is None
    assert "cells of an area that was not measured" in str(size)
    assert size.record()["cells_nand2"] is None
