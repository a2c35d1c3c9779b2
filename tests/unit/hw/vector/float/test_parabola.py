# amaranth: UnusedElaboratable=no
"""The parabola's integers, of any coefficients."""

import pytest

from diastole_hw.vector.float.parabola import Parabola
from support.bench import design
from support.pipelines import check_pipeline
from support.sweep import sweep

BITS = {"c0": 30, "c1": 27, "c2": 18, "t": 21, "q": 14}


def value(case):
    return (case["c0"] + (case["c1"] * case["t"] >> 24) + (case["c2"] * case["q"] >> 17)) % 2**30


def ends(bits, signed):
    if signed:
        return (-(2 ** (bits - 1)), -1, 0, 1, 2 ** (bits - 1) - 1)
    return (0, 1, 2 ** (bits - 1), 2**bits - 1)


@pytest.mark.parametrize("count", [100, sweep(500)])
def test_values(count, rng):
    """A value per cycle, a cycle later: ends of all, what is negative, and products whose dropped
    bits are zeros."""
    dut = design(Parabola)
    kinds = {name: ends(bits, name == "c1") for name, bits in BITS.items()}
    cases = [{name: rng.choice(kinds[name]) for name in BITS} for _ in range(count)]
    for number in range(count):
        case = {name: rng.getrandbits(bits) for name, bits in BITS.items()}
        case["c1"] -= 2**26
        if number % 3 == 0:
            case["t"] &= ~0xFFF
            case["c1"] &= ~0xFFF
        cases.append(case)

    check_pipeline(dut, [(case, {"value": value(case)}) for case in cases], 1)
