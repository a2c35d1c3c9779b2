"""Layouts of the vector unit."""

from diastole_hw.vector.stream_layouts import VectorShape, is_special, row_layout, stream_layout
from diastole_hw.vector.stream_layouts import visited_layout as visited
from diastole_sim.spec.micro import SPECIALS, MicroOp

SHAPE = VectorShape(block=8, data_width=128, specials=2, panel_vectors=2048)


def test_layouts_of_nano():
    assert row_layout(SHAPE).size == 256
    assert visited(SHAPE)["rows"].shape == range(9)
    assert stream_layout(SHAPE)["address"].shape.width == 40


def test_special_operations():
    assert {op for op in MicroOp if is_special(op)} == set(SPECIALS)
