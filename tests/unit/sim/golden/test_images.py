"""Images in memory: kept as tensors, packed to bytes, and unpacked for products."""

from dataclasses import replace

import numpy as np
import pytest

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.golden.images import Images
from diastole_sim.golden.memory import GoldenMemory
from diastole_sim.golden.operand_rows import read_operand_rows
from support.numerics import make_numerics

SHAPE = 13, 22
ADDRESSES = 64, 16384
FORMATS = {
    "squares": {"formats": "bfp4"},
    "vectors": {"formats": "mxfp8_e4m3", "groupings": "1x16"},
    "two levels": {"formats": "nvfp4", "groupings": "1x16"},
    "tensor": {"formats": "fp8_e5m2", "groupings": "tensor"},
    "planes": {"formats": "fast", "widths": (2, 4)},
}


def prepared(np_rng, **given):
    numerics = make_numerics(**given)
    images = Images(memory=GoldenMemory(1 << 15), numerics=numerics, data_width=64)
    values = np_rng.normal(size=SHAPE).astype(np.float32)
    tensor = quantise(values, Conversion("x", tag=2, step=3), numerics, seed=1)
    images.write(tensor, ADDRESSES)
    return images, tensor


def packed(images):
    """GoldenMemory becomes bytes alone."""
    memory = images.memory
    memory.write(0, memory.read(0, memory.size).copy())


@pytest.mark.parametrize("given", FORMATS.values(), ids=FORMATS.keys())
def test_what_is_read_is_what_was_written(given, np_rng):
    images, tensor = prepared(np_rng, **given)
    for copy in range(2):
        place = ADDRESSES[copy if len(tensor.copies) > 1 else 0]
        read = images.read(place, "x", SHAPE, copy=copy, width=tensor.width)
        assert read is tensor
    packed(images)
    for copy in range(2):
        place = ADDRESSES[copy if len(tensor.copies) > 1 else 0]
        read = images.read(place, "x", SHAPE, copy=copy, width=tensor.width)
        assert read is not tensor
        number = copy if len(tensor.copies) > 1 else 0
        assert np.array_equal(read.values(number), tensor.values(number))
        found, expected = (read_operand_rows([each], copy, poison=True) for each in (read, tensor))
        for name, array in vars(expected).items():
            assert np.array_equal(getattr(found, name), array), name


def test_sizes(np_rng):
    for given in FORMATS.values():
        images, tensor = prepared(np_rng, **given)
        sizes = images.sizes("x", SHAPE, tensor.width)
        assert len(sizes) == len(tensor.copies)
        for place, size in zip(ADDRESSES, sizes, strict=False):
            memory = images.memory
            around = memory.read(place - 1, size + 2)
            assert around[0] == around[-1] == 0
            assert around[1:-1].any()


@pytest.mark.parametrize(
    "other",
    [
        {"tensor_class": "dy"},
        {"shape": (22, 13)},
        {"copy": 1},
        {"address": ADDRESSES[0] + 8},
    ],
    ids=str,
)
def test_what_is_asked_for_otherwise_is_unpacked(other, np_rng):
    images, tensor = prepared(np_rng, groupings="1x8")
    asked = {"address": ADDRESSES[0], "tensor_class": "x", "shape": SHAPE, "copy": 0} | other
    read = images.read(width=None, **asked)
    assert read is not tensor
    assert (read.tensor_class, read.shape) == (asked["tensor_class"], asked["shape"])
    packed(images)
    again = images.read(width=None, **asked)
    for mine, its in zip(read.copies, again.copies, strict=True):
        assert np.array_equal(mine.codes, its.codes)


def test_a_byte_that_is_written_is_seen(np_rng):
    images, tensor = prepared(np_rng)
    last = ADDRESSES[0] + images.sizes("x", SHAPE, None)[0] - 1
    images.memory.write(last, np.zeros(1, np.uint8))
    assert images.read(ADDRESSES[0], "x", SHAPE, copy=0, width=None) is not tensor
    first = replace(tensor)
    images.write(first, ADDRESSES)
    images.memory.write(ADDRESSES[0] + 1, np.full(1, 255, np.uint8))
    read = images.read(ADDRESSES[0], "x", SHAPE, copy=0, width=None)
    assert read.copies[0].exponents.max() == 255
