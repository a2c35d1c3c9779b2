"""What decides the bits of float accumulators."""

import pytest

from diastole_sim.spec.accumulator import FloatAccumulator, chunks_of, mantissa_of


@pytest.mark.parametrize(
    "mantissa, chunk, block, precision, bits, blocks, headroom",
    [(2, 8, 8, 3, 9, 1, 0), (9, 64, 8, 10, 16, 8, 3), (23, 144, 8, 24, 30, 18, 5)],
)
def test_sizes(mantissa, chunk, block, precision, bits, blocks, headroom):
    floats = FloatAccumulator(mantissa=mantissa, chunk=chunk)
    assert (floats.precision, floats.bits) == (precision, bits)
    assert (floats.blocks(block), floats.headroom(block)) == (blocks, headroom)
    assert FloatAccumulator.from_dict(floats.to_dict()) == floats


def test_names():
    names = {"e6m9": 9, "e8m7": 7, "e6m5": 5, "e8m23": 23}
    assert {name: mantissa_of(name) for name in names} == names


@pytest.mark.parametrize(
    "cuts, first, last, count",
    [((16, 16), 16, 512, 32), ((128,), 128, 512, 4), ((48,), 48, 480, 10), ((4,), 8, 512, 127)],
)
def test_chunks(cuts, first, last, count):
    found = chunks_of(cuts)
    assert (found[0], found[-1], len(found)) == (first, last, count)


def test_no_chunk():
    assert chunks_of((1024, 16)) == ()
