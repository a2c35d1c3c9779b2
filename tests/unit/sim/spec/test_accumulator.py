"""What decides the bits of float accumulators."""

import pytest

from diastole_sim.spec.accumulator import FloatAccumulator, chunks_of, mantissa_of
from support.texts import exactly


@pytest.mark.parametrize(
    "mantissa, chunk, block, precision, bits, blocks, headroom",
    [(2, 8, 8, 3, 9, 1, 0), (9, 64, 8, 10, 16, 8, 3), (23, 144, 8, 24, 30, 18, 5)],
)
def test_sizes(mantissa, chunk, block, precision, bits, blocks, headroom):
    floats = FloatAccumulator(mantissa=mantissa, chunk=chunk)
    assert (floats.precision, floats.bits) == (precision, bits)
    assert (floats.blocks(block), floats.headroom(block)) == (blocks, headroom)
    assert FloatAccumulator.from_dict(floats.to_dict()) == floats


@pytest.mark.parametrize(
    "key, value, message",
    [
        ("mantissa", 1, "mantissa must be an integer in 2..23, not 1"),
        ("mantissa", 24, "mantissa must be an integer in 2..23, not 24"),
        ("mantissa", "9", "mantissa must be an integer in 2..23, not '9'"),
        ("chunk", 7, "chunk must be an integer in 8..512, not 7"),
        ("chunk", 520, "chunk must be an integer in 8..512, not 520"),
    ],
)
def test_ranges(key, value, message):
    with pytest.raises(ValueError, match=exactly(message)):
        FloatAccumulator(**{"mantissa": 9, "chunk": 64} | {key: value})


@pytest.mark.parametrize("values", [{}, {"kind": "integer", "mantissa": 9, "chunk": 64}])
def test_other_values(values):
    message = (
        "numerics.accumulator must have kind (float), mantissa and chunk, not " + f"{values!r}"
    )
    with pytest.raises(ValueError, match=exactly(message)):
        FloatAccumulator.from_dict(values)


def test_names():
    names = {"e6m9": 9, "e8m7": 7, "e6m5": 5, "e8m23": 23}
    assert {name: mantissa_of(name) for name in names} == names


@pytest.mark.parametrize(
    "name, message",
    [
        ("e5m10", "E must be an integer in 6..8, not 5"),
        ("e9m6", "E must be an integer in 6..8, not 9"),
        ("e6m1", "M must be an integer in 2..23, not 1"),
        ("fp16", "'fp16' is no e<E>m<M>"),
        ("e6m9x", "'e6m9x' is no e<E>m<M>"),
    ],
)
def test_other_names(name, message):
    with pytest.raises(ValueError, match=exactly(message)):
        mantissa_of(name)


@pytest.mark.parametrize(
    "cuts, first, last, count",
    [((16, 16), 16, 512, 32), ((128,), 128, 512, 4), ((48,), 48, 480, 10), ((4,), 8, 512, 127)],
)
def test_chunks(cuts, first, last, count):
    found = chunks_of(cuts)
    assert (found[0], found[-1], len(found)) == (first, last, count)


def test_no_chunk():
    assert chunks_of((1024, 16)) == ()
