# amaranth: UnusedElaboratable=no
"""What a stored scale says of a vector, by the definitions: all scales below all maxima."""

import pytest

from diastole_hw.load.deficits import Deficits
from support.bench import design
from support.pipelines import check_pipeline
from support.plans import plan_of
from support.sweep import sweep

NVFP4 = {"formats": "nvfp4", "fraction": 1, "headroom": 8, "block": 4}
PLANES = {"formats": "fast", "fraction": 30, "block": 4}
MACHINES = {
    "squares": {"formats": ("bfp3", "bfp5", "bfp2"), "fraction": 3, "block": 4},
    "no sums to the north": {"formats": "bfp3", "fraction": 3, "block": 2, "in_place": False},
    "poison": {"formats": ("fp8_e4m3", "bfp3", "fp8_e5m2"), "fraction": 2, "special": "poison"},
    "nvfp4": NVFP4 | {"special": "poison"},
    "nvfp4, flagged": NVFP4,
    "two planes": PLANES | {"widths": (2, 4)},
    "four planes": PLANES | {"widths": (2, 4, 6, 8)},
}


def make(name):
    return plan_of(**{"block": 4, "rows": 2, "cols": 2} | MACHINES[name])


def expected(plan, name, scale, maximum, maximum_north, plane):
    nvfp4 = name.startswith("nvfp4")
    nan = 0x7F if nvfp4 else 255
    number = scale not in (0, nan)

    def exponent(stored):
        return max(stored >> 3, 1) if nvfp4 else stored

    def deficit(most):
        fall = exponent(most) - exponent(scale) + 2 * plane
        return min(fall, plan.numerics.block_sum_bits + plan.fraction) if number else 0

    return {
        "nonzero": number,
        "deficit": deficit(maximum),
        "deficit_north": deficit(maximum_north),
        "significand": scale % 8 + 8 * (scale >= 8),
        "poison": scale == nan,
    }


@pytest.mark.parametrize("every", [9, sweep(1)])
@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.sampled(2)
def test_all_scales(name, every, rng):
    """Of codes of E4M3, which have no sign, the lower half. Always every ninth, and NaN."""
    plan = make(name)
    codes = 128 if name.startswith("nvfp4") else 256
    planes = max(plan.max_planes) if plan.planar else 1
    dut = design(Deficits, plan)
    outputs = ("nonzero", "deficit", "deficit_north", "significand", "poison")
    there = [each for each in outputs if hasattr(dut, each)]
    assert ("deficit_north" in there) == (name != "no sums to the north")
    assert ("significand" in there) == name.startswith("nvfp4")
    assert ("poison" in there) == (name in ("poison", "nvfp4"))
    assert planes == {"two planes": 2, "four planes": 4}.get(name, 1)

    cases = []
    for scale in (*range(0, codes - 1, every), codes - 1):
        least = 0 if scale == codes - 1 else scale  # of NaN any maximum is one
        for maximum in range(least, codes):
            north, plane = rng.randrange(least, codes), rng.randrange(planes)
            given = {"scale": scale, "maximum": maximum}
            given |= {"maximum_north": north} if plan.north else {}
            given |= {"plane": plane} if plan.planar else {}
            want = expected(plan, name, scale, maximum, north, plane)
            cases.append((given, {each: want[each] for each in there}))
    check_pipeline(dut, cases, 0)
