"""Bytes, and things whose bytes are made when they are asked for."""

import numpy as np
import pytest

from diastole_sim.golden.memory import GoldenMemory, OutsideError


def byte(*values):
    return np.array(values, np.uint8)


class Thing:
    """Counts how often it is packed, into bytes of ``value``."""

    def __init__(self, memory, address, length, value):
        self.count, self.length, self.value = 0, length, value
        memory.write_lazily(address, length, self, self.pack)

    def pack(self):
        self.count += 1
        return np.full(self.length, self.value, np.uint8)


def test_bytes():
    memory = GoldenMemory(16)
    assert not memory.read(0, 16).any()
    memory.write(3, byte(1, 2, 3))
    assert memory.read(2, 5).tolist() == [0, 1, 2, 3, 0]
    with pytest.raises(ValueError, match="read-only"):
        memory.read(0, 2)[0] = 1


def test_rows():
    memory = GoldenMemory(32)
    memory.write(0, np.arange(32, dtype=np.uint8))
    assert memory.rows(1, 3, 10, 2).tolist() == [[1, 2], [11, 12], [21, 22]]
    memory.write_rows(5, 8, np.zeros((3, 2), np.uint8))
    expected = np.arange(32)
    for start in (5, 13, 21):
        expected[start : start + 2] = 0
    assert memory.read(0, 32).tolist() == expected.tolist()


@pytest.mark.parametrize(
    "address, count, pitch, length", [(-1, 1, 0, 1), (0, 1, 0, 17), (16, 1, 0, 1), (0, 3, 7, 3)]
)
def test_what_is_outside(address, count, pitch, length):
    memory = GoldenMemory(16)
    with pytest.raises(OutsideError):
        memory.rows(address, count, pitch, length)
    with pytest.raises(OutsideError):
        memory.write_rows(address, pitch, np.zeros((count, length), np.uint8))
    with pytest.raises(OutsideError):
        memory.write_lazily(address, (count - 1) * pitch + length, None, lambda: byte())
    assert not memory.read(0, 16).any()


def test_things_are_packed_when_they_are_read_and_only_once():
    memory = GoldenMemory(16)
    thing = Thing(memory, 4, 4, 7)
    assert memory.source_at(4) is thing
    assert memory.source_at(5) is None
    assert not memory.read(0, 4).any()
    assert not memory.read(8, 8).any()
    assert thing.count == 0
    for _ in range(2):
        assert memory.read(7, 2).tolist() == [7, 0]
    assert thing.count == 1
    assert memory.source_at(4) is thing


@pytest.mark.parametrize("address", [3, 4, 7])
def test_what_is_written_in_part_is_packed_first(address):
    memory = GoldenMemory(16)
    thing = Thing(memory, 4, 4, 7)
    memory.write(address, byte(1, 2))
    expected = [0] * 4 + [7] * 4 + [0] * 8
    expected[address : address + 2] = [1, 2]
    assert memory.read(0, 16).tolist() == expected
    assert thing.count == 1
    assert memory.source_at(4) is None


def test_what_is_written_over_is_never_packed():
    memory = GoldenMemory(16)
    things = [Thing(memory, 4, 4, 7)]
    memory.write(4, byte(1, 1, 1, 1))
    things.append(Thing(memory, 4, 4, 8))
    things.append(Thing(memory, 4, 4, 9))
    assert memory.source_at(4) is things[2]
    things.append(Thing(memory, 3, 6, 5))
    assert memory.source_at(4) is None
    assert memory.read(0, 16).tolist() == [0] * 3 + [5] * 6 + [0] * 7
    assert [thing.count for thing in things] == [0, 0, 0, 1]


def test_rows_with_gaps_do_not_cover_what_is_between():
    memory = GoldenMemory(16)
    thing = Thing(memory, 4, 4, 7)
    memory.write_rows(2, 4, np.ones((3, 2), np.uint8))
    assert memory.read(0, 16).tolist() == [0, 0, 1, 1, 7, 7, 1, 1, 0, 0, 1, 1] + [0] * 4
    assert thing.count == 1
    memory = GoldenMemory(16)
    thing = Thing(memory, 4, 4, 7)
    memory.write_rows(2, 4, np.ones((3, 4), np.uint8))  # without gaps they do
    assert memory.read(0, 16).tolist() == [0, 0] + [1] * 12 + [0, 0]
    assert thing.count == 0


def test_a_thing_that_overlaps_in_part_is_packed_before_another_is_there():
    memory = GoldenMemory(16)
    things = [Thing(memory, 4, 4, 7), Thing(memory, 6, 4, 8)]
    assert memory.read(0, 16).tolist() == [0] * 4 + [7] * 2 + [8] * 4 + [0] * 6
    assert [thing.count for thing in things] == [1, 1]
    assert memory.source_at(4) is None
    assert memory.source_at(6) is things[1]
