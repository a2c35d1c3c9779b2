"""Where other converters go wrong or disagree, one named test each: what they do, what we do."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from gfloat import compute_scale_amax, round_float
from gfloat.formats import (
    format_info_ocp_e2m1,
    format_info_ocp_e4m3,
    format_info_ocp_e5m2,
    format_info_ocp_int8,
)

from diastole_sim.device.conversion import Conversion
from oracle import libraries
from support import judge
from support.texts import exactly


def convert(name, rows, *, given=None, kind="square", size=4, **options):
    """Copy 0 and the tensor; squares of 4 x 4 unless said."""
    chosen = judge.numerics(name, kind=kind, size=size, **options)
    array = np.array(rows, np.float32)
    tensor = judge.quantise(
        array, Conversion("x", scale=given, **judge.AT), chosen, seed=judge.SEED
    )
    return tensor, tensor.copies[0]


def at_scale_one(name, numbers, **options):
    """The values of an OFP8 format with the scale of 1."""
    top = {"fp8_e4m3": 8, "fp8_e5m2": 15}[name]
    tensor, _ = convert(name, [numbers], given=top, kind="tensor", **options)
    return tensor.values()[0].tolist()


def exponent(copy):
    return int(copy.exponents[0, 0]) + int(copy.folds[0, 0]) - 127


# Exponents.


@pytest.mark.parametrize("power", [-100, -20, -4, 4, 20, 127])
def test_a_logarithm_is_wrong_just_below_a_power_of_two(power):
    """log2 in float32 rounds to the power itself, and so does gfloat; the field does not."""
    below = np.nextafter(np.ldexp(np.float32(1), power), np.float32(0))
    assert np.floor(np.log2(below)) == power
    assert compute_scale_amax(0, np.array([below])) == 2.0**power
    for name in ("bfp4", "mxfp8_e4m3", "mxfp4_e2m1", "e3m4"):
        _, copy = convert(name, [[below]], scale="floor")
        assert exponent(copy) == power - 1


def test_the_four_scale_rules_disagree():
    """Published conversions use each of them; E4M3's largest significand is 1.75, of E2M1 1.5."""
    cases = {  # largest: floor, even, ceil, rceil of E4M3 and of E2M1
        1.0: ((0, 0, 0, 0), (0, 0, 0, 0)),
        1.0 + 2.0**-23: ((0, 0, 1, 0), (0, 0, 1, 0)),
        1.5: ((0, 0, 1, 0), (0, 0, 1, 0)),
        1.5 + 2.0**-23: ((0, 0, 1, 0), (0, 0, 1, 1)),
        1.75 - 2.0**-23: ((0, 0, 1, 0), (0, 0, 1, 1)),
        1.75: ((0, 0, 1, 0), (0, 1, 1, 1)),
        1.75 + 2.0**-23: ((0, 0, 1, 1), (0, 1, 1, 1)),
        1.9375 - 2.0**-23: ((0, 0, 1, 1), (0, 1, 1, 1)),
        1.9375: ((0, 1, 1, 1), (0, 1, 1, 1)),
    }
    for largest, by_format in cases.items():
        for name, wanted in zip(("mxfp8_e4m3", "mxfp4_e2m1"), by_format, strict=True):
            rules = ("floor", "even", "ceil", "rceil")
            got = [convert(name, [[largest]], scale=rule)[1] for rule in rules]
            assert tuple(map(exponent, got)) == wanted, (largest, name)


def test_floor_saturates_where_rceil_cannot():
    """The published rule of MX lets the largest element of a block saturate."""
    for rule, saturated, value in (("floor", 1, 1.75), ("rceil", 0, 1.875), ("ceil", 0, 1.875)):
        tensor, _ = convert("mxfp8_e4m3", [[1.9]], scale=rule)
        assert (tensor.saturated, tensor.values()[0, 0]) == (saturated, value)


def test_smallest_e8m0_scale():
    """Code 0 is 2^-127 in E8M0; here a stored 0 is a group of zeros, and scales end at 2^-126."""
    assert np.array([0], np.uint8).view(ml_dtypes.float8_e8m0fnu).astype(np.float64)[0] == 2.0**-127
    for name, emax in (("mxfp8_e4m3", 8), ("mxfp4_e2m1", 2), ("mxfp8_e5m2", 15), ("mxint8", 0)):
        smallest = 2.0 ** (emax - 126)
        tensor, copy = convert(name, [[smallest, -smallest]])
        assert (exponent(copy), tensor.underflowed) == (emax - 126, 0)
        assert tensor.values().tolist() == [[smallest, -smallest]]
        if emax == 0:
            continue  # below it are only subnormals, which count as zero
        tensor, copy = convert(name, [[smallest / 2, -smallest / 4, 0.0]])
        assert not copy.exponents.any()
        assert not copy.row_max.any()
        assert tensor.underflowed == 2
        assert not tensor.values().any()


# Rounding.


def test_float64_is_rounded_twice_by_ml_dtypes():
    """1.0625 (1 + 2^-40) is above the middle of 1 and 1.125: float32 makes it the middle, and the
    middle goes to the even 1. What enters here is float32, so there is only one rounding."""
    number = 1.0625 * (1 + 2.0**-40)
    assert float(np.array([number]).astype(ml_dtypes.float8_e4m3fn)[0]) == 1.0
    assert round_float(format_info_ocp_e4m3, number) == 1.125
    assert np.float32(number) == 1.0625
    above = np.nextafter(np.float32(1.0625), np.float32(2))
    assert at_scale_one("fp8_e4m3", [1.0625, above]) == [1.0, 1.125]
    assert libraries.ml_round("fp8_e4m3", np.array([1.0625, above], np.float32)).tolist() == [
        1.0,
        1.125,
    ]
    chosen = judge.numerics("fp8_e4m3")
    with pytest.raises(ValueError, match=exactly("a tensor must be a float32 array, not float64")):
        judge.quantise(np.array([[number]]), Conversion("x", **judge.AT), chosen, seed=judge.SEED)


def test_ties_go_to_even():
    """Away from zero in some published code that calls it nearest."""
    ties = [1.0625, 1.1875, 1.3125, 3 * 2.0**-10, 5 * 2.0**-10, 2.0**-10, -1.0625, -1.1875]
    even = [1.0, 1.25, 1.25, 4 * 2.0**-10, 4 * 2.0**-10, 0.0, -1.0, -1.25]
    assert at_scale_one("fp8_e4m3", ties) == even
    tensor, _ = convert("mxfp4_e2m1", [[0.25, 0.75, 1.25, 1.75], [2.5, 3.5, 5.0, -0.25]])
    assert tensor.values().tolist() == [[0.0, 1.0, 1.0, 2.0], [2.0, 4.0, 4.0, -0.0]]
    tensor, _ = convert("bfp4", [[1.8125, 1.0625, 1.1875, 0.0625]])
    assert tensor.values().tolist() == [[1.75, 1.0, 1.25, 0.0]]


def test_the_rule_that_adds_and_truncates_is_low():
    """gfloat's text on StochasticFastest has the bias the other way round; its code has not."""
    numbers = np.full((1, 16), 1.0 + 1 / 32, np.float32)  # a quarter of the way to 1.125
    draws = np.arange(16)[None, :] >> 2  # of 2 bits, each four times
    for rule, share in (("stochastic-a", 1 / 4), ("stochastic-b", 1 / 4)):
        values = libraries.gfloat_round("fp8_e4m3", numbers, rule, draws=draws, bits=2)
        assert (values > 1).mean() == share
    numbers += 2.0**-6  # 3/8, which two bits do not hold: A drops what is over
    for rule, share in (("stochastic-a", 1 / 4), ("stochastic-b", 1 / 2)):
        values = libraries.gfloat_round("fp8_e4m3", numbers, rule, draws=draws, bits=2)
        assert (values > 1).mean() == share


# Overflow.

LARGE = [448.0, 464.0, 464.01, 1e30, np.inf, -464.01, -np.inf]


def test_overflow_of_e4m3_is_where_libraries_disagree():
    """464 is a tie with 480, which is no E4M3 number, and goes down in all of them."""
    numbers = np.array(LARGE, np.float32)
    nan = [448.0, 448.0] + [np.nan] * 5
    np.testing.assert_array_equal(libraries.ml_round("fp8_e4m3", numbers), nan)
    wide = numbers.astype(np.float64)
    np.testing.assert_array_equal(libraries.gfloat_round("fp8_e4m3", wide, sat=False), nan)
    clipped = [448.0] * 5 + [-448.0] * 2
    assert libraries.gfloat_round("fp8_e4m3", wide, sat=True).tolist() == clipped

    assert at_scale_one("fp8_e4m3", LARGE) == clipped
    specification = {"overflow": "specification", "special": "poison"}
    np.testing.assert_array_equal(at_scale_one("fp8_e4m3", LARGE, **specification), nan)
    assert at_scale_one("fp8_e4m3", LARGE, overflow="specification") == clipped  # and flagged
    poisoned = at_scale_one("fp8_e4m3", LARGE, special="poison")
    np.testing.assert_array_equal(poisoned, [448, 448, 448, 448, np.nan, -448, np.nan])


def test_overflow_of_e5m2():
    """61440 is a tie with 2^16, and goes there: Inf, or the largest."""
    numbers = [57344.0, np.nextafter(np.float32(61440), np.float32(0)), 61440.0, np.inf, -1e9]
    wide = np.array(numbers, np.float64)
    infinite = [57344.0, 57344.0, np.inf, np.inf, -np.inf]
    assert libraries.gfloat_round("fp8_e5m2", wide, sat=False).tolist() == infinite
    assert libraries.ml_round("fp8_e5m2", wide.astype(np.float32)).tolist() == infinite
    clipped = [57344.0] * 4 + [-57344.0]
    assert libraries.gfloat_round("fp8_e5m2", wide, sat=True).tolist() == clipped
    assert round_float(format_info_ocp_e5m2, np.inf, sat=True) == 57344

    assert at_scale_one("fp8_e5m2", numbers) == clipped
    specification = {"overflow": "specification", "special": "poison"}
    assert at_scale_one("fp8_e5m2", numbers, **specification) == infinite


def test_overflow_is_counted_in_both_modes():
    for overflow in ("saturate", "specification"):
        chosen = judge.numerics("fp8_e4m3", kind="tensor", overflow=overflow)
        array = np.array([LARGE], np.float32)
        tensor = judge.quantise(
            array, Conversion("x", scale=8, **judge.AT), chosen, seed=judge.SEED
        )
        nan = overflow == "specification"  # OFP8 has NaN for what is too large for E4M3
        assert (tensor.saturated, tensor.inf, tensor.nan) == (3, True, nan)


def test_formats_without_nan_have_no_place_for_one():
    """ml_dtypes makes a NaN a zero, gfloat refuses; here it is flagged, or spoils its group."""
    nan = np.array([np.nan], np.float32)
    with np.errstate(invalid="ignore"):
        assert float(nan.astype(ml_dtypes.float4_e2m1fn)[0]) == 0
    with pytest.raises(ValueError, match="No Infs or NaNs in format ocp_e2m1"):
        round_float(format_info_ocp_e2m1, np.inf)
    rows = [[1.0, np.nan, 2.0, np.inf]]
    tensor, _ = convert("mxfp4_e2m1", rows)
    assert tensor.values().tolist() == [[1.0, 0.0, 2.0, 3.0]]  # 3: the largest of that scale
    assert (tensor.nan, tensor.inf, tensor.saturated) == (True, True, 0)
    tensor, copy = convert("mxfp4_e2m1", rows, special="poison")
    assert np.isnan(tensor.values()).all()
    assert copy.exponents[0, 0] == 255
    assert not copy.codes.any()
    assert not copy.row_max.any()


# Zeros and the odd ends of codes.


def test_minifloats_keep_the_sign_of_zero():
    """Block floating point and MXINT8 have one zero."""
    rows = [[-0.0, 0.0, -1e-30, 1.0]]
    for name in ("fp8_e4m3", "fp8_e5m2", "mxfp6_e2m3", "mxfp4_e2m1", "e3m4"):
        tensor, copy = convert(name, rows)
        assert np.signbit(tensor.values()).tolist() == [[True, False, True, False]]
        assert (copy.codes[0, :3] != 0).tolist() == [True, False, True]
    for name in ("bfp4", "mxint8"):
        tensor, copy = convert(name, rows)
        assert not np.signbit(tensor.values()).any()
        assert not copy.codes[0, :3].any()


def test_mxint8_has_no_minus_128():
    """-2 is a code of MXINT8 whose use is left open: here -127/64, as +2 is 127/64."""
    assert round_float(format_info_ocp_int8, -2.0) == -2
    assert round_float(format_info_ocp_int8, 2.0, sat=True) == 127 / 64
    below = np.nextafter(np.float32(2), np.float32(0))
    tensor, copy = convert("mxint8", [[-below, below, -1.984375]], scale="floor")
    assert tensor.values().tolist() == [[-127 / 64, 127 / 64, -127 / 64]]
    assert copy.codes[0, :3].tolist() == [0x80 | 127, 127, 0x80 | 127]
    assert (tensor.saturated, exponent(copy)) == (2, 0)


def test_subnormals_of_binary32_are_zeros():
    """Libraries keep them; the exponent of a group cannot be below 2^-126."""
    smallest = np.float32(2.0**-126)
    below = np.nextafter(smallest, np.float32(0))
    assert Fraction(float(below)) < Fraction(float(smallest))
    for name in ("bfp8", "fp8_e5m2", "bf16"):
        kind = "tensor" if name == "bf16" else "square"
        tensor, _ = convert(name, [[smallest, below, -below]], kind=kind)
        assert tensor.values().tolist() == [[smallest, 0, 0]]
        assert (tensor.underflowed, tensor.saturated) == (0, 0)
