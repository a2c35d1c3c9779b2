# amaranth: UnusedElaboratable=no
"""Bytes in beats against Python's own bytes."""

import pytest

from diastole_hw.convert.image.pack_bytes import PackBytes
from support.bench import design
from support.unit_bench import Unit


def bytes_of(groups):
    return [{"byte": b, "last": n == len(each) - 1} for each in groups for n, b in enumerate(each)]


def check(groups, data_width, rng, p_in=1.0, p_out=1.0, **keys):
    """Every beat of every group."""
    unit, size = Unit(design(PackBytes, data_width=data_width, **keys), rng), data_width // 8
    unit.give(unit.dut.i, bytes_of(groups), p_in)
    beats = [
        {"beat": int.from_bytes(group[at : at + size], "little"), "last": at + size >= len(group)}
        for group in groups
        for at in range(0, len(group), size)
    ]
    unit.take(unit.dut.o, beats, p_out)
    unit.run()


@pytest.mark.parametrize("data_width", [32, 64, 512])
@pytest.mark.parametrize("p_in, p_out", [(1, 1), (1, 0.3), (0.5, 1), (0.5, 0.5)])
def test_groups(data_width, p_in, p_out, rng):
    size = data_width // 8
    lengths = [1, size - 1, size, size + 1, 3 * size, *(rng.randrange(1, 4 * size) for _ in "123")]
    check([rng.randbytes(length) for length in lengths], data_width, rng, p_in, p_out)


@pytest.mark.parametrize("data_width, most", [(128, 1), (128, 8), (128, 9), (64, 6), (32, 9)])
def test_short_groups(data_width, most, rng):
    """What no group has is zeros."""
    groups = [rng.randbytes(most), *(rng.randbytes(rng.randrange(1, most + 1)) for _ in range(12))]
    check(groups, data_width, rng, p_out=0.5, most=most)


def test_a_byte_per_cycle():
    """A beat leaves in the cycle after its last byte, and the next group's first comes with it."""
    unit = Unit(design(PackBytes, data_width=32))
    taken = unit.give(unit.dut.i, bytes_of([bytes(length) for length in (4, 5, 1, 8)])).cycles
    given = unit.collect(unit.dut.o).cycles
    unit.run()
    assert taken == list(range(18))
    assert given == [n + 1 for n in (3, 7, 8, 9, 13, 17)]
