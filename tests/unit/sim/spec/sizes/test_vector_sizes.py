"""Sizes of the vector unit."""

import pytest

from diastole_sim.spec.sizes.vector_shape import VectorShape

NANO = {"block": 8, "data_width": 128, "specials": 2, "panel_vectors": 2048}


def test_sizes_of_nano():
    shape = VectorShape(**NANO)
    assert (shape.row_bits, shape.slot_cycles, shape.vector_bits) == (3, 8, 256)
    assert (shape.beat_bytes, shape.panel_bits, shape.index_bits) == (16, 11, 21)


@pytest.mark.parametrize("block, cycles", [(1, 8), (4, 8), (8, 8), (16, 16), (32, 32)])
def test_an_instruction_takes_the_rows_or_the_pipeline(block, cycles):
    assert VectorShape(**(NANO | {"block": block, "specials": 1})).slot_cycles == cycles
