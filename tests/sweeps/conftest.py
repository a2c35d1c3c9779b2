"""What the sweeps share."""

import zlib

import numpy as np
import pytest


@pytest.fixture
def np_rng(request):
    """A numpy generator seeded from the test's id."""
    return np.random.default_rng(zlib.crc32(request.node.nodeid.encode()))
