"""Bias by the kind of draws, against fractions; what a model of the machine stores has it too."""

from fractions import Fraction

import pytest

from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.numerics import CLASS_NAMES
from oracle.lfsr import state_after
from oracle.rounding import round_fraction
from support.draw_bias import CHANCE, KINDS, RULES, defined, drawing, measured


def states(n):
    return [state_after(n, 1, step) for step in range(2**n - 1)]


PERIODS = {
    "lfsr3": (3, states(3) + [7 - state for state in states(3)]),
    "lfsr, 8 of 8 bits": (8, states(8)),
    "lfsr, 3 of 3 bits": (3, states(3)),
    "counter, 8 bits": (8, list(range(256))),
    "data, 8 bits, of 8-bit residues": (8, [0]),
}


def shares(name, rule):
    """In which each residue of 8 bits is rounded up."""
    bits, draws = PERIODS[name]
    parts = [Fraction(residue, 256) for residue in range(256)]
    return [
        Fraction(sum(round_fraction(rule, nu, draw, bits) for draw in draws), len(draws))
        for nu in parts
    ]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.sampled(3)
def test_by_the_definition(name, rule):
    found = defined(drawing(name).numerics, rule)
    up = shares(name, rule)
    bias = [share - Fraction(residue, 256) for residue, share in enumerate(up)]
    assert found.mean == pytest.approx(float(sum(bias) / 256), abs=1e-12)
    assert found.largest == pytest.approx(float(max(map(abs, bias))), abs=1e-12)
    variance = sum(share * (1 - share) for share in up) / 256
    assert found.variance == pytest.approx(float(variance), abs=1e-12)


@pytest.mark.parametrize(
    "name, rule, mean, largest",
    [
        ("lfsr3", "stochastic-a", -0.0605, 0.175),
        ("lfsr3", "stochastic-b", 0.0020, 0.116),
        ("lfsr3", "stochastic-c", 0, 0.112),
        ("lfsr, 3 of 3 bits", "stochastic-a", 0.0020, 0.125),
        ("lfsr, 3 of 3 bits", "stochastic-b", 0.0645, 0.1875),
        ("lfsr, 3 of 3 bits", "stochastic-c", 0.0622, 0.184),
    ],
)
def test_as_published(name, rule, mean, largest):
    found = defined(drawing(name).numerics, rule)
    assert found.mean == pytest.approx(mean, abs=5e-5)
    assert found.largest == pytest.approx(largest, abs=5e-4)


def test_residues_of_three_bits():
    """Pairs have no bias, and 3/56 at most."""
    found = defined(drawing("lfsr3").numerics, "stochastic-a", 3)
    assert found.mean == pytest.approx(0, abs=1e-12)
    assert found.largest == pytest.approx(3 / 56, abs=1e-12)
    alone = defined(drawing("lfsr, 3 of 3 bits").numerics, "stochastic-a", 3)
    assert (alone.mean, alone.largest) == pytest.approx((0.0625, 0.125), abs=1e-12)


@pytest.mark.parametrize("seed", [0, 3])
def test_what_is_stored_has_it(seed):
    """Every row has all draws of a period as often: the same, and not only nearly."""
    for name in KINDS:
        config = drawing(name)
        device = NumpyDevice(config.numerics, seed)
        for cls, rule in zip(CLASS_NAMES, RULES, strict=True):
            got, want = measured(device, config.numerics, cls), defined(config.numerics, rule)
            within = CHANCE if name.startswith("counter") else 1e-12
            assert got.mean == pytest.approx(want.mean, abs=within)
            assert got.largest == pytest.approx(want.largest, abs=within)
            assert got.variance == pytest.approx(want.variance, abs=max(within / 10, 1e-12))
