"""Rounding one element, against the values of its format as exact fractions."""

from fractions import Fraction

import numpy as np
import pytest

from diastole_sim.golden.element import round_elements, round_quotients
from oracle import formats as oracle
from support.numerics import make_numerics

BITS = 5
RULES = ("nearest", "stochastic-a", "stochastic-b", "stochastic-c")


def class_of(name, rule):
    return make_numerics(formats=name, roundings=(rule,) * 3).x


def binary32(np_rng, count, exponents):
    """Magnitude bits of normal numbers and zeros, many of them with few significant bits."""
    mantissas = np_rng.integers(0, 2**23, count) >> np_rng.integers(0, 24, count)
    mantissas = mantissas << np_rng.integers(0, 23, count) & 0x7FFFFF
    bits = np_rng.integers(*exponents, count) + 127 << 23 | mantissas
    bits[::17] = 0
    return bits.reshape(-1, 8)


def value(bits):
    """The number of some magnitude bits."""
    exact = np.array(bits, np.uint32).view(np.float32)
    return Fraction(float(exact))


def expected(name, bits, scale, rule, draw):
    chosen = oracle.element(name)
    code = oracle.round_to_code(chosen, value(bits) / scale, rule, int(draw), BITS)
    return min(code, chosen.top + 1)


def check(name, rule, got, finite, scales, draws):
    top = oracle.element(name).top
    for place in np.ndindex(finite.shape):
        want = expected(name, finite[place], scales[place], rule, draws[place])
        where = f"{finite[place]:#x} at {scales[place]}, draw {draws[place]}"
        assert min(got[place], top + 1) == want, where


def unit(name, e):
    """The scale of a group whose top binade is ``e``."""
    return Fraction(2) ** (int(e) - oracle.element(name).largest_exponent)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["bfp1", "bfp4", "mxint8", "fp8_e4m3", "fp8_e5m2", "e3m1", "bf16"])
@pytest.mark.sampled(3)
def test_powers_of_two(name, rule, np_rng):
    finite = binary32(np_rng, 640, (-12, 6))
    e = np_rng.integers(-4, 8, finite.shape)
    draws = np_rng.integers(0, 2**BITS, finite.shape)
    got = round_elements(finite, e, class_of(name, rule), draws, BITS)
    scales = np.vectorize(lambda each: unit(name, each), otypes=[object])(e)
    check(name, rule, got, finite, scales, draws)


@pytest.mark.parametrize("rule", RULES)
def test_scales_with_a_significand(rule, np_rng):
    finite = binary32(np_rng, 1600, (-8, 6))
    e = np_rng.integers(-4, 8, finite.shape)
    significand = np_rng.integers(1, 16, finite.shape)
    draws = np_rng.integers(0, 2**BITS, finite.shape)
    got = round_quotients(finite, e, significand, class_of("nvfp4", rule), draws, BITS)
    scales = np.vectorize(lambda *pair: unit("nvfp4", pair[0]) * Fraction(int(pair[1]), 8))
    check("nvfp4", rule, got, finite, scales(e, significand), draws)


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
