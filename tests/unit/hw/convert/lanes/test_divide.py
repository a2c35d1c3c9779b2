# amaranth: UnusedElaboratable=no
"""The divider: every divisor, against integer division."""

from itertools import product

import pytest

from diastole_hw.convert.lanes.divide import Divide, division_cycles
from support.bench import design
from support.pipelines import check_pipeline


@pytest.mark.parametrize("bits", [2, 4, 9, 20, 28])
def test_divide(bits, rng):
    tails = [rng.getrandbits(23) & -1 << shift for shift in (0, 8, 14, 17, 18, 19, 20, 21, 22, 23)]
    significands = [1 << 23 | tail for tail in [*tails, *(rng.getrandbits(23) for _ in range(20))]]
    cases = []
    for significand, divisor in product(significands, range(8, 16)):
        below = significand < divisor << 20
        quotient, rest = divmod(significand << (bits - 1 + below), divisor << 20)
        given = {"significand": significand, "divisor": divisor}
        cases.append((given, {"quotient": quotient, "sticky": rest != 0, "below": below}))
    check_pipeline(design(Divide, bits=bits), cases, division_cycles(bits))
