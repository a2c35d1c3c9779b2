"""Stochastic rounding with given draws against gfloat: by the rule alone and by the converter."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.random import tensor_draws
from diastole_sim.spec.rounding import round_magnitude
from oracle import formats as oracle
from oracle import libraries
from oracle.rounding import round_fraction
from oracle.threefry import draw
from sweeps import judge

RULES = ("stochastic-a", "stochastic-b", "stochastic-c")
NAMES = [name for name in oracle.NAMES if name != "bf16"]


FINE = 14
"""Fraction bits of a place between two codes."""


def places_between(codes, bits, np_rng, count=12):
    """``count`` places above every code, in units of 2^-FINE: the code itself, and others drawn
    from the boundaries of a draw of ``bits`` bits, their halves, and what is beside these."""
    halves = np.arange(2 ** (bits + 1)) << (FINE - bits - 1)
    near = np.concatenate([halves, halves + 1, halves[1:] - 1])
    places = np_rng.choice(near, (codes, count))
    places[:, 0] = 0
    return places


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("name", NAMES)
def test_all_draws_around_every_code(name, bits, np_rng):
    """The rule on codes is the rule on values: gfloat sees the values."""
    chosen = oracle.element(name)
    values = np.array([float(value) for value in chosen.values])
    codes, parts = np.arange(chosen.top)[:, None], places_between(chosen.top, bits, np_rng)
    points = values[codes] + (values[codes + 1] - values[codes]) * parts / 2.0**FINE
    draws = np.arange(2**bits)
    shape = (*parts.shape, draws.size)
    given = np.broadcast_to(points[..., None], shape)
    random = np.broadcast_to(draws, shape)
    for rule in RULES:
        got = round_magnitude(rule, ((codes << FINE) + parts)[..., None], FINE, draws, bits)
        want = libraries.gfloat_round(name, given, rule, draws=random, bits=bits)
        np.testing.assert_array_equal(values[got], want)


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("rule", RULES)
def test_every_fraction_and_every_draw(rule, bits):
    """All dropped parts, two bits finer than any rule looks, above an even and an odd code."""
    shift = bits + 3
    magnitudes = np.arange(6 << shift, 8 << shift)
    draws = np.arange(2**bits)
    got = round_magnitude(rule, magnitudes[:, None], shift, draws, bits)
    shape = (magnitudes.size, draws.size)
    given = np.broadcast_to((magnitudes / 2.0**shift)[:, None], shape) / 8
    random = np.broadcast_to(draws, shape)
    want = libraries.gfloat_round("bfp4", given, rule, draws=random, bits=bits) * 8
    np.testing.assert_array_equal(got, want)
    if bits <= 4:
        for i, magnitude in enumerate(magnitudes.tolist()):
            for random in draws.tolist():
                value = round_fraction(rule, Fraction(magnitude, 2**shift), random, bits)
                assert got[i, random] == value


def test_draws_are_those_of_the_oracle():
    """What follows uses the vectorised generator; here are its draws one at a time."""
    for bits, second in product((1, 5, 8, 9, 16), (False, True)):
        where = {"seed": 7, "tag": 9, "step": 11, "bits": bits, "second": second}
        for index, got in enumerate(tensor_draws((9, 14), **where).ravel().tolist()):
            assert got == draw(index=index, **where)


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", [name for name in NAMES if name != "nvfp4"])
def test_converter(name, rule, bits, np_rng):
    """Vector groups of 128, each led by the largest of its binade; both copies."""
    chosen = oracle.element(name)
    exponent = np_rng.integers(-60, 60)
    array = np_rng.uniform(-1, 1, (128, 128)) * 2.0 ** np_rng.integers(-9, 1, (128, 128))
    np.fill_diagonal(array, 1.5)  # the largest of its row and of its column
    array = np.ldexp(array, exponent).astype(np.float32)
    numerics = judge.numerics(
        name, block=32, kind="vector", size=128, rule=rule, scale="floor", random_bits=bits
    )
    tensor = judge.quantise(array, Conversion("x", **judge.AT), numerics, seed=judge.SEED)
    shift = chosen.largest_exponent - exponent
    scaled = np.ldexp(array.astype(np.float64), shift)
    for copy in range(2):
        draws = tensor_draws((128, 128), seed=7, tag=9, step=11, bits=bits, second=copy == 1)
        want = libraries.gfloat_round(name, scaled, rule, draws=draws, bits=bits)
        got = np.ldexp(tensor.values(copy).astype(np.float64), shift)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("bits", [1, 4, 8])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", [*judge.TENSOR_SCALED, "bf16"])
def test_converter_with_one_scale(name, rule, bits, np_rng):
    """Elements far below the largest, where most bits are dropped; tensors of every code."""
    chosen = oracle.element(name)
    low = chosen.smallest_exponent - 4 if name != "bf16" else -126
    high = chosen.largest_exponent - 1
    array = np_rng.uniform(1, 2, (96, 160)) * 2.0 ** np_rng.integers(low, high + 1, (96, 160))
    array = (array * np_rng.choice([-1, 1], array.shape)).astype(np.float32)
    scale = None if name == "bf16" else chosen.largest_exponent
    numerics = judge.numerics(name, block=8, kind="tensor", rule=rule, random_bits=bits)
    tensor = judge.quantise(
        array, Conversion("dy", scale=scale, **judge.AT), numerics, seed=judge.SEED
    )
    draws = tensor_draws((96, 160), seed=7, tag=9, step=11, bits=bits)
    want = libraries.gfloat_round(name, array.astype(np.float64), rule, draws=draws, bits=bits)
    np.testing.assert_array_equal(tensor.values().astype(np.float64), want)
    assert tensor.underflowed == (want == 0).sum()
