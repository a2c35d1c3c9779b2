"""What goes to output streams, and what is watched in them."""

import numpy as np
import pytest

from diastole_sim.golden.vector.arithmetic import BINARY32
from diastole_sim.golden.vector.chain_output import ChainOutput
from diastole_sim.golden.vector.order import Order
from diastole_sim.spec.stream_table import Descriptor, Kind, Walk

ORDER = Order.of_walk(Walk(rows=3, cols=5, block=4))
"""Two blocks: of 3 x 4 and of 3 x 1 elements."""
ALL = slice(0, 2)


def written(kind, order=ORDER):
    return ChainOutput(order, {0: Descriptor(kind=kind)}, BINARY32)


def blocks(**values):
    """Zeros, but at ``b0_r1_l2`` what is given."""
    found = np.zeros((2, 4, 4), np.float32)
    for name, value in values.items():
        found[tuple(int(part[1:]) for part in name.split("_"))] = value
    return found


@pytest.mark.parametrize("kind", [Kind.F32, Kind.IMAGE, Kind.BF16])
def test_only_the_tensor_is_watched(kind):
    outside = written(kind)
    outside.write(0, ALL, blocks(b1_r0_l1=np.nan, b0_r3_l0=np.inf))
    assert not outside.result().not_finite
    inside = written(kind)
    inside.write(0, ALL, blocks(b1_r2_l0=-np.inf))
    assert inside.result().not_finite == {0}


def test_all_of_the_panel_is_watched():
    outside = written(Kind.PANEL)
    outside.write(0, ALL, blocks(b0_r3_l0=np.inf))
    assert outside.result().not_finite == {0}
    assert not outside.result().values


def test_what_is_rounded_is_watched_rounded():
    found = written(Kind.BF16)
    largest = np.float32(np.finfo(np.float32).max)
    found.write(0, ALL, blocks(b0_r0_l0=largest, b0_r0_l1=1 + 2**-8, b0_r0_l2=1 + 3 * 2**-8))
    assert found.result().values[0][0, :3].tolist() == [np.inf, 1.0, 1 + 2**-6]
    assert found.result().not_finite == {0}


def test_bytes_and_bits_hold_no_nan():
    for kind, expected in ((Kind.U8, [0, 255, 2, 2, 0]), (Kind.MASK, [1, 1, 1, 1, 1])):
        found = written(kind)
        row = {"b0_r0_l0": np.nan, "b0_r0_l1": np.inf, "b0_r0_l2": 1.5, "b0_r0_l3": 2.5}
        found.write(0, ALL, blocks(**row, b1_r0_l0=-1))
        assert found.result().values[0][0].tolist() == expected
        assert not found.result().not_finite


def test_lane_0_of_last_blocks_is_a_vector_of_rows():
    found = written(Kind.ROW)
    found.write(0, ALL, blocks(b0_r0_l0=np.nan, b1_r0_l1=np.nan, b1_r3_l0=np.nan, b1_r1_l0=5))
    assert found.result().values[0].tolist() == [0, 5, 0]
    assert not found.result().not_finite
    found.write(0, np.array([1]), blocks(b1_r2_l0=np.nan)[1:])
    assert found.result().not_finite == {0}


def test_row_slot_0_of_last_blocks_is_a_vector_of_columns():
    order = Order.of_walk(Walk(rows=5, cols=3, block=4, by_columns=True))
    found = written(Kind.COLUMN, order)
    found.write(0, ALL, blocks(b0_r0_l0=np.nan, b1_r1_l0=np.nan, b1_r0_l3=np.nan, b1_r0_l2=7))
    assert found.result().values[0].tolist() == [0, 0, 7]
    assert not found.result().not_finite


def test_a_constant_is_what_the_last_block_begins_with():
    found = written(Kind.CONSTANT)
    found.write(0, slice(0, 1), blocks(b0_r0_l0=3)[:1])
    assert not found.result().values
    found.write(0, ALL, blocks(b0_r0_l0=3, b1_r0_l0=4, b1_r0_l1=np.nan))
    assert found.result().values[0] == 4
    assert not found.result().not_finite


def test_what_is_not_written_is_absent():
    found = written(Kind.ROW)
    found.write(0, slice(0, 1), blocks()[:1])
    found.write(0, slice(0, 0), blocks()[:0])
    assert not found.result().values
