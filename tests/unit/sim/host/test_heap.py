"""Pieces never overlap, never touch, and come back."""

import random

import pytest

from diastole_sim.host.heap import Heap


def test_random_use():
    rng = random.Random(1)
    heap = Heap(0x1000, 1 << 18)
    taken = {}
    for _ in range(3000):
        if taken and rng.random() < 0.5:
            address = rng.choice(list(taken))
            heap.free(address)
            del taken[address]
            continue
        size = rng.randrange(1, 12000)
        try:
            address = heap.allocate(size)
        except MemoryError:
            continue
        assert address % 4096 == 0
        assert address >= 0x1000
        assert address + size <= 0x1000 + (1 << 18)
        for other, length in taken.items():
            assert address + size < other or other + length < address, "pieces touch"
        taken[address] = size
    for address in taken:
        heap.free(address)
    assert heap.allocated_bytes == 0
    assert heap.allocate((1 << 18) - 64) == 0x1000, "free pieces were not joined"


def test_errors():
    heap = Heap(0, 1024)
    with pytest.raises(MemoryError, match="the memory of the machine has no room for 1000 bytes"):
        heap.allocate(1000)
    with pytest.raises(KeyError):
        heap.free(64)
