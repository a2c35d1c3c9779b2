"""What operands must be before anything begins, and the words for what they are not."""

import numpy as np
import pytest

from diastole_sim.device.operands import (
    require_contractions,
    require_matrix,
    require_storage,
    sizes_of,
)
from diastole_sim.spec.operations import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from support.numerics import make_numerics
from support.texts import exactly


@pytest.mark.parametrize(
    "array, message",
    [
        (np.zeros((2, 2)), "a tensor must be a float32 array, not float64"),
        ([[1.0]], "a tensor must be a float32 array, not list"),
        (
            np.ma.masked_array(np.ones((1, 2), np.float32), [[True, False]]),
            "a tensor must be a float32 array, not masked",
        ),
        (np.zeros(3, np.float32), "a tensor must have two axes, none empty, not the shape 3"),
        (np.ones((), np.float32), "a tensor must have two axes, none empty, not the shape ()"),
        (
            np.zeros((4, 0), np.float32),
            "a tensor must have two axes, none empty, not the shape 4 x 0",
        ),
    ],
)
def test_what_is_no_matrix(array, message):
    with pytest.raises(ValueError, match=exactly(message)):
        require_matrix(array)


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


@pytest.mark.parametrize(
    "shapes, message",
    [
        (
            {"X": (2, 3), "W": (4, 5)},
            "the columns of X are 3, but the rows of W are 4; they must be equal",
        ),
        (
            {"W": (3, 4), "dY": (2, 5)},
            "the columns of W are 4, but the columns of dY are 5; they must be equal",
        ),
        (
            {"X": (2, 3), "W": (3, 4), "dY": (7, 4)},
            "the rows of X are 2, but the rows of dY are 7; they must be equal",
        ),
    ],
)
def test_sizes_that_do_not_agree(shapes, message):
    with pytest.raises(ValueError, match=exactly(message)):
        sizes_of(shapes)


NUMERICS = make_numerics(block=4, headroom=2)  # at most 2^2 blocks of 4


@pytest.mark.parametrize(
    "product, axis", [(FORWARD, "k"), (INPUT_GRADIENT, "n"), (WEIGHT_GRADIENT, "m")]
)
def test_contractions(product, axis):
    long = dict.fromkeys("mnk", 1000)
    require_contractions([product], long | {axis: 16}, NUMERICS)
    text = (
        "the contraction has 17 elements, more than the 16 that a headroom of 2 bits allows "
        "(2^2 blocks of 4)"
    )
    with pytest.raises(ValueError, match=exactly(text)):
        require_contractions([product], dict.fromkeys("mnk", 1) | {axis: 17}, NUMERICS)


def test_every_contraction_counts():
    with pytest.raises(ValueError, match="has 99 elements"):
        require_contractions([FORWARD, WEIGHT_GRADIENT], {"m": 99, "n": 1, "k": 1}, NUMERICS)


def test_storage():
    own, other = make_numerics(block=4).x, make_numerics(block=8, formats="bfp5").x
    require_storage("X", make_numerics(block=4).x, 4, own, 4)
    text = (
        "X is bfp5 in groups of 8x8 and blocks of 8 (nearest, floor, saturate); "
        "this device has bfp4 in groups of 4x4 and blocks of 4 (nearest, floor, saturate)"
    )
    with pytest.raises(ValueError, match=exactly(text)):
        require_storage("X", other, 8, own, 4)
    with pytest.raises(ValueError, match=r"blocks of 8 .* blocks of 4 "):
        require_storage("X", own, 8, own, 4)
