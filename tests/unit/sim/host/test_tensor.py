"""A tensor in a machine's memory: where it is, what its bytes mean, when they are free again."""

import gc
from dataclasses import fields, replace
from types import SimpleNamespace

import numpy as np
import pytest

from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.host.heap import Heap
from diastole_sim.host.tensor import ConversionFacts, DeviceTensor
from support.numerics import make_numerics
from support.planes import planar_tensor

BASE = 1 << 20
KINDS = {
    "one image": {"formats": "bfp4"},
    "two images": {"formats": "bfp4", "groupings": "1x8"},
    "folded": {"formats": "fp8_e4m3"},
    "a header": {"formats": "nvfp4"},
    "planes": {"formats": "fast"},
    "planes of two images": {"formats": "fast", "groupings": "1x8"},
}


class Memory:
    """Bytes of any content, as a machine has them."""

    def __init__(self):
        self.bytes = np.arange(1 << 14, dtype=np.uint32).astype(np.uint8)

    def bytes_at(self, address, count):
        return self.bytes[address - BASE :][:count]


def make_holder(**numerics):
    return SimpleNamespace(
        numerics=make_numerics(block=4, **numerics),
        product=SimpleNamespace(data_width=64),
        machine=Memory(),
        heap=Heap(BASE, 1 << 14),
    )


@pytest.fixture(params=KINDS)
def holder(request):
    return make_holder(**KINDS[request.param])


def converted(holder, np_rng, shape=(5, 9)):
    array = np_rng.standard_normal(shape).astype(np.float32)
    array[1, 2], array[0, 0] = np.nan, 1e-30
    return NumpyDevice(holder.numerics, seed=3).convert(array, "w", tag=1)


def filled(holder, np_rng):
    tensor, wanted = DeviceTensor(holder, (5, 9), "w"), converted(holder, np_rng)
    tensor.write(wanted)
    return tensor, wanted


def test_images_follow_each_other_in_the_heap():
    """5 x 9 of blocks of 4: 2 x 3 blocks of 80 bits, rows of 8 blocks: a beat of exponents and
    80 bytes. Behind them a beat of maxima of rows, and one of columns."""
    holder = make_holder(formats="bfp4")
    tensor = DeviceTensor(holder, (5, 9), "w")
    length = 2 * (8 + 80) + 8 + 8
    assert tensor.ranges == [(BASE, BASE + length)]
    assert tensor.images[0].data.size == length
    other = DeviceTensor(holder, (5, 9), "x")
    assert other.ranges[0][0] >= BASE + length
    assert [tensor.address(copy) for copy in (0, 1)] == [BASE, BASE]
    assert (tensor.tensor_class, tensor.storage) == ("w", holder.numerics.w)


@pytest.mark.parametrize("width, planes", [(2, 1), (4, 2), (8, 4)])
def test_planes_are_behind_each_other(width, planes):
    """Each is as long as an image of bfp2: 8 blocks of 3 bits are 48 bytes."""
    holder = make_holder(formats="fast", widths=(2, 4, 6, 8), fraction=30)
    tensor = DeviceTensor(holder, (5, 9), "w", width)
    assert tensor.width == width
    length = 2 * (8 + 48) + 8 + 8
    assert tensor.ranges == [(BASE, BASE + planes * length)]
    assert tensor.images[0].data.size == planes * length
    other = DeviceTensor(holder, (5, 9), "x", 2)
    assert other.ranges[0][0] >= BASE + planes * length


def test_bytes_of_planes_are_those_of_the_definition(np_rng):
    """And what was read of them has all bits again."""
    holder = make_holder(formats="fast", groupings=("4x4", "1x8", "4x4"), roundings="nearest")
    array = np_rng.standard_normal((5, 9)).astype(np.float32)
    wanted = NumpyDevice(holder.numerics, seed=3).convert(array, "w", tag=1, width=4)
    tensor = DeviceTensor(holder, (5, 9), "w", 4)
    tensor.write(wanted)
    images = planar_tensor(array, "w", holder.numerics, 2, 64).images
    assert tuple(image.data.tobytes() for image in tensor.images) == images
    for stored, copy in zip(tensor.read().copies, wanted.copies, strict=True):
        assert np.array_equal(stored.codes, copy.codes)


def test_a_second_image_is_of_the_transpose():
    tensor = DeviceTensor(make_holder(formats="bfp4", groupings="1x8"), (5, 9), "w")
    assert [(each.layout.rows, each.layout.cols) for each in tensor.images] == [(5, 9), (9, 5)]
    assert [tensor.address(copy) for copy in (0, 1)] == [start for start, _ in tensor.ranges]
    assert tensor.address(0) != tensor.address(1)


@pytest.mark.sampled(3)
def test_memory_is_free_when_the_last_reference_is_gone(holder):
    tensor = DeviceTensor(holder, (5, 9), "w")
    taken = holder.heap.allocated_bytes
    assert taken >= sum(end - start for start, end in tensor.ranges)
    same = tensor
    del tensor
    gc.collect()
    assert holder.heap.allocated_bytes == taken
    del same
    gc.collect()
    assert holder.heap.allocated_bytes == 0


def test_what_is_written_is_read(holder, np_rng):
    tensor, wanted = filled(holder, np_rng)
    got = tensor.read()
    for name in ("shape", "tensor_class", "storage", "block", "tensor_exponent"):
        assert getattr(got, name) == getattr(wanted, name), name
    for name in ("amax", "nan", "inf", "saturated", "underflowed"):
        assert getattr(got, name) == getattr(tensor, name) == getattr(wanted, name), name
    assert (got.nan, got.inf) == (True, False)
    assert len(got.copies) == len(wanted.copies)
    for stored, copy in zip(got.copies, wanted.copies, strict=True):
        assert (stored.transposed, stored.shape) == (copy.transposed, copy.shape)
        assert not stored.folds.any()
        for name in ("codes", "exponents", "row_max", "col_max"):
            assert np.array_equal(getattr(stored, name), getattr(copy, name)), name


def test_values_are_in_the_tensors_own_orientation(holder, np_rng):
    tensor, wanted = filled(holder, np_rng)
    for number in range(len(wanted.copies)):
        assert np.array_equal(tensor.values(number), wanted.values(number), equal_nan=True)
        assert tensor.values(number).shape == (5, 9)
    assert tensor.copy_values().keys() == wanted.copy_values().keys()
    for name, values in wanted.copy_values().items():
        assert np.array_equal(tensor.copy_values()[name], values, equal_nan=True)


def test_bytes_are_those_of_memory_now(np_rng):
    holder = make_holder(formats="bfp4")
    tensor, _ = filled(holder, np_rng)
    layout = tensor.images[0].layout
    assert tensor.read().copies[0].exponents[1, 0] != 200
    holder.machine.bytes_at(tensor.address(0) + layout.group_offset(1, 0), 1)[:] = 200
    assert tensor.read().copies[0].exponents[1, 0] == 200


def test_the_headers_exponent_counts(np_rng):
    holder = make_holder(formats="nvfp4")
    tensor, wanted = filled(holder, np_rng)
    tensor.note(replace(tensor.facts, tensor_exponent=wanted.tensor_exponent + 5))
    assert tensor.read().tensor_exponent == wanted.tensor_exponent


SEEN = ConversionFacts(
    nan=True, inf=True, saturated=3, underflowed=4, amax=5, convert_cycles=6, tensor_exponent=7
)
ASKED = {
    "converted": lambda tensor: tensor.facts,
    "read": lambda tensor: tensor.read(),
    "values": lambda tensor: tensor.values(),
    "copy_values": lambda tensor: tensor.copy_values(),
} | {field.name: lambda t, name=field.name: getattr(t, name) for field in fields(ConversionFacts)}


@pytest.mark.parametrize("asked", ASKED)
def test_what_is_asked_of_a_tensor_makes_its_conversion_run(asked, np_rng):
    """Once; where it stands in memory can be asked before."""
    holder = make_holder(formats="bfp4")
    tensor = DeviceTensor(holder, (5, 9), "w")
    tensor.pending = True
    runs = []

    def settle():
        runs.append(tensor)
        tensor.write(converted(holder, np_rng))
        tensor.note(SEEN)

    holder.finish = settle
    assert (tensor.address(0), tensor.shape) == (BASE, (5, 9))
    assert tensor.ranges
    assert not runs
    found = ASKED[asked](tensor)
    assert runs == [tensor]
    assert not tensor.pending
    if asked in vars(SEEN):
        assert found == getattr(SEEN, asked)
    if asked == "read":
        assert {name: getattr(found, name) for name in ("amax", "saturated", "underflowed")} == {
            "amax": 5, "saturated": 3, "underflowed": 4,
        }  # fmt: skip
    ASKED[asked](tensor)
    assert runs == [tensor]


def test_a_tensor_that_is_written_is_settled(np_rng):
    holder = make_holder(formats="bfp4")
    tensor = DeviceTensor(holder, (5, 9), "w")
    assert tensor.facts == ConversionFacts()
    tensor.pending = True
    tensor.write(converted(holder, np_rng))
    assert not tensor.pending
    assert tensor.nan
    assert tensor.convert_cycles == 0
