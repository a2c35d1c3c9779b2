"""Test addresses that move in bytes: carries over all bytes, and sums modulo 2^40."""

import numpy as np

from diastole_sim.program.addresses import ADDRESS_BYTES, relocate


def test_an_address_grows_over_all_of_its_bytes():
    image = np.arange(12, dtype=np.uint8)
    image[3:8] = [0xFF, 0xFF, 0xFF, 0x01, 0]
    relocate(image, [3], 0x10_0000_0001)
    assert image.tolist() == [0, 1, 2, 0, 0, 0, 2, 0x10, 8, 9, 10, 11]
    assert ADDRESS_BYTES == 5


def test_an_address_below_zero():
    """A smaller and a larger sum come back by the opposite number."""
    image = np.zeros(7, np.uint8)
    relocate(image, [1], -3)
    assert image.tolist() == [0, 0xFD, 0xFF, 0xFF, 0xFF, 0xFF, 0]
    relocate(image, [1], 5)
    assert image.tolist() == [0, 2, 0, 0, 0, 0, 0]
