"""Every bfloat16 and every binary16 value as the largest of its own group, by every scale rule.

With blocks of 1 x 1 each element has a scale of its own: the exponents are torchao's, and the
elements gfloat's at that scale.
"""

from fractions import Fraction

import numpy as np
import pytest

from diastole_sim.device.conversion import Conversion
from diastole_sim.spec.scales import amax_exponent
from oracle import formats as oracle
from oracle import libraries
from sweeps import judge

BY_RULE = [
    (name, rule)
    for name in oracle.NAMES
    if name not in ("bf16", "nvfp4")
    for rule in judge.rules_of(name)
]


def exponents_by_rule(chosen, rule, values):
    """e of each value alone, vectorised; ``rceil`` by exact comparison in float64, which holds a
    product of 8 and 24 bits."""
    precision, emax = chosen.precision, chosen.largest_exponent
    if rule != "rceil":
        return libraries.torchao_exponent(rule, values, precision, emax, None)
    floor = libraries.torchao_exponent("floor", values, precision, emax, None)
    reach = float(chosen.values[-1] / Fraction(2) ** emax)
    return floor + (values.astype(np.float64) > np.ldexp(reach, floor))


def wanted(name, rule, values):
    """(stored exponents before folding, values): magnitudes that are normal numbers, or zero."""
    chosen = oracle.element(name)
    some = values != 0
    exponent = exponents_by_rule(chosen, rule, np.where(some, values, np.float32(1)))
    lowest = -126 + (chosen.largest_exponent if chosen.scale == "e8m0" else 0)
    some &= exponent >= lowest
    exponent = np.minimum(exponent, 127)
    shift = chosen.largest_exponent - exponent
    rounded = libraries.gfloat_round(name, np.ldexp(values.astype(np.float64), shift))
    return np.where(some, exponent + 127, 0), np.where(some, np.ldexp(rounded, -shift), 0.0)


def beyond_the_largest(name, magnitudes, exponents):
    """How many exceed the largest element after rounding in the top binade."""
    chosen = oracle.element(name)
    last_places = np.ldexp(magnitudes.astype(np.float64), chosen.precision - 1 + 127 - exponents)
    largest = chosen.values[-1] / Fraction(2) ** (chosen.largest_exponent - chosen.precision + 1)
    return ((np.rint(last_places) > int(largest)) & (exponents > 0)).sum()


@pytest.mark.parametrize("source", judge.EVERY)
@pytest.mark.parametrize("name, rule", BY_RULE)
def test_every_value_alone(name, rule, source):
    values = judge.EVERY[source]().reshape(256, 256)
    chosen = judge.numerics(name, block=1, size=1, scale=rule)
    tensor = judge.quantise(values, Conversion("x", **judge.AT), chosen, seed=judge.SEED)
    magnitudes = np.where(np.isfinite(values), np.abs(values), 0).astype(np.float32)
    magnitudes = np.where(magnitudes < 2.0**-126, np.float32(0), magnitudes)
    exponents, results = wanted(name, rule, magnitudes)
    copy = tensor.copies[0]
    np.testing.assert_array_equal(copy.exponents.astype(int) + copy.folds, exponents)
    np.testing.assert_array_equal(np.abs(tensor.values()).astype(np.float64), results)
    assert tensor.saturated == beyond_the_largest(name, magnitudes, exponents)
    assert rule != "rceil" or not tensor.saturated or (exponents == 254).any()
    assert tensor.underflowed == ((magnitudes != 0) & (results == 0)).sum()


@pytest.mark.parametrize("name, rule", BY_RULE)
def test_significands_of_24_bits(name, rule, np_rng):
    """Both sides of every place where a rule changes its mind, and random ones, all exponents."""
    chosen = oracle.element(name)
    edges = [1.0, 2 - 2.0**-chosen.precision, float(chosen.values[-1]) / 2**chosen.largest_exponent]
    bits = np.array(edges, np.float32).view(np.uint32).astype(np.int64) & 0x7FFFFF
    near = (bits[:, None] + np.arange(-2, 3)).ravel() % 2**23
    fractions = np.concatenate([near, np_rng.integers(0, 2**23, 113)])
    words = (np.arange(1, 255)[:, None] << 23) + fractions
    values = words.astype(np.uint32).view(np.float32)
    tensor = judge.quantise(
        values,
        Conversion("x", **judge.AT),
        judge.numerics(name, block=1, size=1, scale=rule),
        seed=judge.SEED,
    )
    exponents, results = wanted(name, rule, values)
    copy = tensor.copies[0]
    np.testing.assert_array_equal(copy.exponents.astype(int) + copy.folds, exponents)
    np.testing.assert_array_equal(tensor.values().astype(np.float64), results)
    for number, rest in zip(values.ravel()[::97].tolist(), exponents.ravel()[::97], strict=True):
        want = oracle.limited(chosen, oracle.top_binade(chosen, rule, Fraction(number)))
        assert rest == (0 if want is None else want + 127)


@pytest.mark.parametrize("rule", ["floor", "even", "ceil", "rceil"])
@pytest.mark.parametrize("name", judge.TENSOR_SCALED)
def test_exponent_for_the_next_step(name, rule, np_rng):
    """``amax_exponent`` is what the host keeps for a delayed scale."""
    own = judge.numerics(name, kind="tensor", scale=rule).x
    words = np_rng.integers(1 << 23, 255 << 23, 500).astype(np.uint32)
    for word in words.tolist():
        largest = Fraction(float(np.array(word, np.uint32).view(np.float32)))
        chosen = oracle.element(name)
        want = oracle.limited(chosen, oracle.top_binade(chosen, rule, largest))
        assert amax_exponent(word, own) == want
