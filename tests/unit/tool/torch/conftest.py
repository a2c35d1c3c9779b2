"""What the tests of diastole.torch share; without torch they are skipped: `make torch` has it."""

import zlib

import numpy as np
import pytest


@pytest.fixture
def np_rng(request):
    """A numpy generator, seeded from the test's id: the same numbers in every run."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture
def floats(np_rng):
    """``floats(3, 5)``: normal float32 numbers of that shape."""
    return lambda *shape: np_rng.standard_normal(shape).astype(np.float32)
