"""The converter against its definition on exact fractions, and against MPFR."""

import math
import re
from fractions import Fraction

import gmpy2
import numpy as np
import pytest

from diastole_sim.golden.convert import quantise
from diastole_sim.numerics import Numerics
from diastole_sim.rounding import RULES
from oracle import bfp

WHERE = {"seed": 7, "tag": 9, "step": 11}
ODD_SHAPES = [(1, 1), (3, 5), (31, 32), (1, 33), (17, 2)]
CLASSES = ("x", "w", "dy")


def numerics(*, block=8, mantissa_bits=4, rule="nearest", bits=8):
    chosen = {"format": f"bfp{mantissa_bits}", "rounding": rule}
    scalars = {"block": block, "random_bits": bits, "fraction": 18, "headroom": 14}
    return Numerics.from_dict({**scalars, **dict.fromkeys(CLASSES, chosen)})


def check(array, **kinds):
    """Convert ``array`` and compare everything with the oracle."""
    chosen = numerics(**kinds)
    got = quantise(array, "x", chosen, **WHERE)
    want = bfp.quantise(
        array.tolist(),
        mantissa_bits=chosen.x.format.mantissa_bits,
        rule=chosen.x.rounding,
        block=chosen.block,
        bits=chosen.random_bits,
        **WHERE,
    )
    assert got.shape == array.shape
    assert (got.block, got.tensor_class, got.format) == (chosen.block, "x", chosen.x.format)
    np.testing.assert_array_equal(got.exponents, want.exponents)
    np.testing.assert_array_equal(got.magnitudes, want.mags)
    np.testing.assert_array_equal(got.negative, np.array(want.signs) == 1)
    np.testing.assert_array_equal(got.row_max, want.row_max)
    np.testing.assert_array_equal(got.col_max, want.col_max)
    assert (got.nan, got.inf, got.saturated) == (want.nan, want.inf, want.saturated)
    values = got.values()
    assert values.dtype == np.float32
    assert [[Fraction(value) for value in row] for row in values.tolist()] == want.values
    assert not np.signbit(values[values == 0]).any()
    return got


def spread(np_rng, shape, *, low=-6, high=6):
    """Signed data over some binades, with zeros."""
    data = np_rng.standard_normal(shape) * 2.0 ** np_rng.integers(low, high, shape)
    data[np_rng.random(shape) < 0.05] = 0.0
    return data.astype(np.float32)


def any_bits(np_rng, shape):
    """Every kind of float32: all exponents, NaN, Inf and subnormals among them."""
    return np_rng.integers(0, 2**32, shape, dtype=np.uint32).view(np.float32)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("mantissa_bits", range(2, 9))
def test_formats_and_rules(rule, mantissa_bits, np_rng):
    for bits in (1, 8, 16):
        array = spread(np_rng, (13, 21))
        check(array, mantissa_bits=mantissa_bits, rule=rule, bits=bits)


@pytest.mark.parametrize("shape", ODD_SHAPES)
@pytest.mark.parametrize("block", [1, 2, 4, 8, 16, 32])
def test_blocks_and_odd_shapes(shape, block, np_rng):
    for rule in ("nearest", "stochastic-b"):
        got = check(spread(np_rng, shape), block=block, rule=rule)
        blocks = tuple(-(-side // block) for side in shape)
        assert got.exponents.shape == blocks
        assert got.magnitudes.shape == tuple(side * block for side in blocks)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("block", [1, 4, 8])
def test_any_bit_pattern(rule, block, np_rng):
    array = any_bits(np_rng, (24, 40))
    got = check(array, block=block, rule=rule)
    assert got.nan  # 1 in 256 of the patterns


@pytest.mark.parametrize("rule", RULES)
def test_subnormal_and_smallest_blocks(rule, np_rng):
    """Exponents at the bottom: subnormals count as zero, the values themselves may be subnormal."""
    array = np_rng.integers(0, 3 << 23, (16, 16), dtype=np.uint32)
    array |= np_rng.integers(0, 2, (16, 16), dtype=np.uint32) << 31
    check(array.view(np.float32), rule=rule, mantissa_bits=8)


@pytest.mark.parametrize("power", [-126, -125, -1, 0, 1, 10, 127])
@pytest.mark.parametrize("mantissa_bits", [2, 4, 8])
def test_just_below_a_power_of_two(power, mantissa_bits):
    """A logarithm in floating point rounds up here; the exponent must not. The magnitude does."""
    top = np.ldexp(np.float32(1), power)
    below = np.nextafter(top, np.float32(0))
    got = check(np.array([[below, -below, below / 2]], np.float32), mantissa_bits=mantissa_bits)
    if power == -126:  # below it are subnormals only
        assert got.exponents[0, 0] == 0
        return
    assert got.exponents[0, 0] == power - 1 + 127
    assert got.saturated == 2
    assert check(np.array([[top]]), mantissa_bits=mantissa_bits).exponents[0, 0] == power + 127


def test_specials_in_an_ordinary_block():
    array = np.array([[np.nan, -np.nan], [np.inf, -np.inf], [1.5, -0.25]], np.float32)
    got = check(array, block=4)
    assert (got.nan, got.inf, got.saturated) == (True, True, 0)
    assert got.values().tolist() == [[0, 0], [1.875, -1.875], [1.5, -0.25]]


@pytest.mark.parametrize("value, flags", [(np.nan, (True, False)), (-np.inf, (False, True))])
@pytest.mark.parametrize("rest", [0.0, -0.0, 1e-40])
def test_block_without_a_finite_element_is_zeros(value, flags, rest):
    got = check(np.array([[value, rest], [value, value]], np.float32))
    assert (got.nan, got.inf) == flags
    assert not got.exponents.any() and not got.magnitudes.any() and not got.negative.any()
    assert not got.row_max.any() and not got.col_max.any()


def test_a_huge_inf_beside_the_smallest_number():
    tiny = np.ldexp(np.float32(1), -126)
    got = check(np.array([[tiny, np.inf]], np.float32))
    assert got.exponents[0, 0] == 1
    assert got.values()[0, 1] == 15 * 2.0**-129


def test_zeros_have_no_sign():
    got = check(np.array([[-0.0, -1e-30, -1.0]], np.float32))
    assert got.negative.tolist()[0][:3] == [False, False, True]


@pytest.mark.parametrize("rule", RULES)
def test_saturation_is_counted(rule):
    """15.75 ulp: up to 16 by all rules for some draws, and 16 is no 4-bit magnitude."""
    array = np.full((16, 16), 15.75 / 8, np.float32)
    got = check(array, rule=rule)
    assert 0 < got.saturated <= 256
    assert (got.saturated == 256) == (rule == "nearest")
    assert got.magnitudes.max() == 15


def test_nearest_against_mpfr(np_rng):
    """With 1 x 1 blocks every element is a float of m bits, as MPFR rounds it."""
    for mantissa_bits in range(2, 9):
        array = spread(np_rng, (20, 20), low=-100, high=100)
        values = quantise(
            array, "x", numerics(block=1, mantissa_bits=mantissa_bits), **WHERE
        ).values()
        with gmpy2.context(precision=mantissa_bits):
            for got, given in zip(values.ravel().tolist(), array.ravel().tolist(), strict=True):
                rounded = float(gmpy2.mpfr(given))
                exponent = math.frexp(given)[1]
                if math.frexp(rounded)[1] > exponent:  # carried into the next power of two
                    largest = math.ldexp(1 - 2.0**-mantissa_bits, exponent)
                    rounded = math.copysign(largest, given)
                assert got == rounded, given


def test_classes_have_their_own_format_and_rounding(np_rng):
    chosen = Numerics.from_dict(
        {
            **numerics().to_dict(),
            "w": {"format": "bfp3", "rounding": "stochastic-a"},
            "dy": {"format": "bfp7", "rounding": "stochastic-c"},
        }
    )
    array = spread(np_rng, (9, 9))
    for name in CLASSES:
        own = chosen.tensor_class(name)
        alone = numerics(mantissa_bits=own.format.mantissa_bits, rule=own.rounding)
        got, want = (quantise(array, name, which, **WHERE) for which in (chosen, alone))
        np.testing.assert_array_equal(got.magnitudes, want.magnitudes)
        assert got.tensor_class == name and got.format == own.format


def test_layout_and_writability(np_rng):
    """Any strides give the same; the result is not tied to the data, and cannot be written."""
    array = spread(np_rng, (12, 10))
    want = quantise(array, "x", numerics(), **WHERE)
    for same in (np.asfortranarray(array), np.repeat(array, 2, axis=1)[:, ::2]):
        np.testing.assert_array_equal(
            quantise(same, "x", numerics(), **WHERE).magnitudes, want.magnitudes
        )
    with pytest.raises(ValueError, match="read-only"):
        want.magnitudes[0, 0] = 1


@pytest.mark.parametrize(
    "array, message",
    [
        (np.zeros((2, 2)), "a tensor must be a float32 array, not float64"),
        ([[1.0]], "a tensor must be a float32 array, not list"),
        (np.zeros(3, np.float32), "a tensor must have two axes, none empty, not the shape 3"),
        (np.float32(3) * np.ones(()), None),
        (
            np.zeros((0, 4), np.float32),
            "a tensor must have two axes, none empty, not the shape 0 x 4",
        ),
        (
            np.zeros((1, 2, 3), np.float32),
            "a tensor must have two axes, none empty, not the shape 1 x 2 x 3",
        ),
    ],
)
def test_what_is_no_matrix_is_refused(array, message):
    with pytest.raises(
        ValueError, match=f"^{re.escape(message)}$" if message else "^a tensor must"
    ):
        quantise(array, "x", numerics(), **WHERE)
