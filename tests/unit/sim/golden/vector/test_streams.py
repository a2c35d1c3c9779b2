"""Streams in memory, by hand; random ones are in the tests of the machine."""

import numpy as np
import pytest

from diastole_sim.golden.memory import Memory
from diastole_sim.golden.vector.order import Order
from diastole_sim.golden.vector.streams import (
    labels,
    mask_bytes,
    pack_mask,
    read_stream,
    unpack_mask,
    write_stream,
)
from diastole_sim.spec.stream_table import Descriptor, Kind, Walk
from oracle.vector_program import packed_mask

ORDER = Order.of_walk(Walk(rows=3, cols=5, block=2))


def test_labels():
    given = np.array([-(2**31), -1, 0, 7, 2**24, 2**24 + 1, 2**31 - 1], np.int32)
    assert labels(given).tolist() == [-1, -1, 0, 7, 2**24, -1, -1]


@pytest.mark.parametrize("block", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("rows, cols", [(1, 1), (9, 21), (16, 32)])
def test_masks(block, rows, cols, np_rng):
    bits = np_rng.integers(0, 2, size=(rows, cols))
    values = np.where(bits, np_rng.normal(size=(rows, cols)), -0.0).astype(np.float32)
    values[0, 0] = np.nan if bits[0, 0] else np.float32(1e-45)  # a subnormal is a zero
    data = pack_mask(values, block)
    length = mask_bytes(cols, block)
    expected = [each.to_bytes(length, "little") for each in packed_mask(bits.tolist(), block)]
    assert [row.tobytes() for row in data] == expected
    assert np.array_equal(unpack_mask(data, rows, cols, block), bits.astype(np.float32))


@pytest.mark.parametrize(
    "kind, held", [(Kind.F32, 1.5), (Kind.BF16, 1.0), (Kind.U8, 2.0), (Kind.MASK, 1.0)]
)
@pytest.mark.parametrize("step", [0, 3])
def test_rows_are_written_and_read(kind, held, step):
    stream = Descriptor(kind=kind, address=8, pitch=32, per_step=1, offset=16)
    memory = Memory(256)
    memory.write(0, np.full(256, 0xA5, np.uint8))
    values = np.full((3, 5), held, np.float32)
    values[1, 3] = 0
    write_stream(stream, memory, ORDER, step, values)
    assert np.array_equal(read_stream(stream, memory, ORDER, step), values)
    runs, length = {Kind.MASK: (2, 2)}.get(kind, (3, 5 * {2: 4, 3: 2, 4: 1}.get(int(kind), 0)))
    touched = np.zeros(256, np.bool_)
    for row in range(runs):
        touched[8 + 16 * step + 32 * row :][:length] = True
    assert (memory.read(0, 256)[~touched] == 0xA5).all()


@pytest.mark.parametrize("kind, length, shape", [(Kind.ROW, 3, (3, 1)), (Kind.COLUMN, 5, (1, 5))])
def test_vectors_are_written_and_read(kind, length, shape):
    memory = Memory(64)
    values = np.arange(length, dtype=np.float32)
    write_stream(Descriptor(kind=kind, address=8), memory, ORDER, 0, values)
    read = read_stream(Descriptor(kind=kind, address=8), memory, ORDER, 0)
    assert read.shape == shape
    assert read.reshape(-1).tolist() == values.tolist()
    assert not memory.read(8 + 4 * length, 16).any()


def test_gathered_rows_and_their_list_move_with_the_step():
    memory = Memory(512)
    table = np.arange(50, dtype=np.uint8).reshape(10, 5)
    memory.write_rows(64, 8, table)
    memory.write(256 + 2 * 16, np.array([9, 2, 9], "<i4").view(np.uint8))
    stream = Descriptor(kind=Kind.GATHERED_U8, address=64, pitch=8)
    listed = Descriptor(kind=Kind.LABELS, address=256, per_step=1, offset=16)
    assert np.array_equal(read_stream(stream, memory, ORDER, 2, listed), table[[9, 2, 9]])
    moved = Descriptor(kind=Kind.GATHERED_U8, address=48, pitch=8, per_step=1, offset=8)
    assert np.array_equal(read_stream(moved, memory, ORDER, 2, listed), table[[9, 2, 9]])
