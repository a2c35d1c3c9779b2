"""What operands must be before anything begins, and the words for what they are not."""

import numpy as np
import pytest

from diastole_sim.device.operand_shapes import (
    require_contractions,
    require_matrix,
    require_storage,
    sizes_of,
)
from diastole_sim.spec.operations import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from support.numerics import make_numerics


@pytest.mark.parametrize("array", [np.zeros((1, 1)), np.ones((3, 2)).T, np.ones((4, 4))[::2]])
def test_any_matrix_of_float32_will_do(array):
    require_matrix(array.astype(np.float32))


@pytest.mark.parametrize(
    "shapes, sizes",
    [
        ({"X": (2, 3)}, {"m": 2, "k": 3}),
        ({"W": (3, 4)}, {"k": 3, "n": 4}),
        ({"dY": (2, 4)}, {"m": 2, "n": 4}),
        ({"X": (2, 3), "W": (3, 4)}, {"m": 2, "k": 3, "n": 4}),
        ({"W": (3, 4), "dY": (2, 4), "X": (2, 3)}, {"m": 2, "k": 3, "n": 4}),
        ({}, {}),
    ],
)
def test_sizes(shapes, sizes):
    assert sizes_of(shapes) == sizes


NUMERICS = make_numerics(block=4, headroom=2)  # at most 2^2 blocks of 4


@pytest.mark.parametrize(
    "product, axis", [(FORWARD, "k"), (INPUT_GRADIENT, "n"), (WEIGHT_GRADIENT, "m")]
)
def test_contractions(product, axis):
    long = dict.fromkeys("mnk", 1000)
    require_contractions([product], long | {axis: 16}, NUMERICS)


def test_storage():
    own = make_numerics(block=4).x
    require_storage("X", make_numerics(block=4).x, 4, own, 4)
