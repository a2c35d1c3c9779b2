"""Rounding one quotient; every element of every format is in ``test_convert.py``."""

import numpy as np
import pytest

from diastole_sim.golden.element import round_quotients
from support.numerics import make_numerics

BITS = 5


def class_of(name, rule):
    return make_numerics(formats=name, roundings=(rule,) * 3).x


@pytest.mark.parametrize(
    "number, significand, code",
    [
        (7.0, 8, 8),  # beyond the largest, 6: the caller decides
        (5.0, 8, 6),  # a tie between 4 and 6: to the even code
        (0.25, 8, 0),  # a tie between 0 and 0.5
        (6.0, 9, 7),  # 6 / 1.125 = 5.33
        (0.3, 1, 4),  # 0.3 * 8 = 2.4
        (0.0, 15, 0),
    ],
)
def test_fp4_by_hand(number, significand, code):
    finite = np.array([[np.float32(number)]]).view(np.uint32).astype(np.int64)
    none = np.zeros((1, 1), np.int64)
    e, scale = np.full((1, 1), 2), np.full((1, 1), significand)
    chosen = class_of("nvfp4", "nearest")
    assert round_quotients(finite, e, scale, chosen, none, BITS).tolist() == [[code]]
