"""What the tests of diastole.torch share; without torch they are skipped: `make torch` has it."""

import numpy as np
import pytest


@pytest.fixture
def floats(np_rng):
    """``floats(3, 5)``: normal float32 numbers of that shape."""
    return lambda *shape: np_rng.standard_normal(shape).astype(np.float32)
