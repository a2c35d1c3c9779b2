"""Planes of a copy, by hand and there and back."""

import numpy as np
import pytest

from diastole_sim.spec.image import ImageLayout, StoredCopy
from diastole_sim.spec.planes import join_planes, split_planes


def copy_of(codes, exponents=((7,),), row_max=(7,), col_max=(7,)):
    small = {"exponents": exponents, "row_max": row_max, "col_max": col_max}
    bytes_ = {name: np.array(values, np.uint8) for name, values in small.items()}
    return StoredCopy(codes=np.array(codes, np.uint16), **bytes_)


def test_planes_by_hand():
    """Of 8 bits: 27 is 0123 to the base 4, and 228 is 3210; signs stay, beside chunks of zero too.
    A group's exponent and the maxima are the same in each."""
    codes = [[27, 256 + 228], [256 + 3, 0]]
    planes = split_planes(copy_of(codes), 4)
    assert [plane.codes.tolist() for plane in planes] == [
        [[0, 4 + 3], [4, 0]],
        [[1, 4 + 2], [4, 0]],
        [[2, 4 + 1], [4, 0]],
        [[3, 4 + 0], [4 + 3, 0]],
    ]
    for plane in planes:
        assert plane.codes.dtype == np.uint16
        for name, value in (("exponents", [[7]]), ("row_max", [7]), ("col_max", [7])):
            assert getattr(plane, name).tolist() == value
    assert join_planes(planes).codes.tolist() == codes


def test_bytes_of_planes_by_hand():
    """A block of 2 x 2 of 4 bits on a bus of 32: 8 bytes of exponents, 8 blocks of 12 bits, padded;
    maxima. Plane 0 has the codes 2, 4 + 1, 0, 4 + 3, lowest first: 2 + 5 * 8 + 7 * 512 = 0xe2a."""
    codes = [[0b10_01, 16 + 0b01_11], [0b00_10, 16 + 0b11_00]]
    layout = ImageLayout(rows=2, cols=2, block=2, element_bits=3, data_width=32)
    images = [layout.pack(plane).tobytes() for plane in split_planes(copy_of(codes), 2)]
    ends = bytes([7, 0, 0, 0] * 2)
    assert images[0] == bytes([7, *[0] * 7, 0x2A, 0x0E, *[0] * 10]) + ends
    # Plane 1: 1, 4 + 3, 2, 4 + 0: 1 + 7 * 8 + 2 * 64 + 4 * 512 = 0x8b9.
    assert images[1] == bytes([7, *[0] * 7, 0xB9, 0x08, *[0] * 10]) + ends


@pytest.mark.parametrize("planes", [1, 2, 3, 4])
def test_planes_are_joined_again(planes):
    codes = np.random.default_rng(planes).integers(0, 2 * 4**planes, (5, 7))
    split = split_planes(copy_of(codes), planes)
    assert len(split) == planes
    joined = join_planes(split)
    assert np.array_equal(joined.codes, codes)
    assert joined.codes.dtype == np.uint16


def test_planes_that_differ():
    """A fault in what must be the same shows, in whichever plane it is."""
    planes = split_planes(copy_of([[5]]), 3)
    for number in range(1, 3):
        bad = [*planes]
        bad[number] = copy_of(planes[number].codes, exponents=[[9]], row_max=[8])
        found = join_planes(bad)
        assert (found.exponents.tolist(), found.row_max.tolist()) == ([[9]], [8])
        assert found.col_max.tolist() == [7]
    first = [copy_of(planes[0].codes, col_max=[1]), *planes[1:]]
    assert join_planes(first).col_max.tolist() == [7]
