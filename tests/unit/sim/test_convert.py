"""The converter: scale rules, elements, folding, copies, specials; against exact fractions, and
against libraries of number formats. Everything at once, at length: ``tests/oracles``."""

import math
import re
from fractions import Fraction

import gmpy2
import ml_dtypes
import numpy as np
import pytest
from gfloat import RoundMode, encode_ndarray, round_ndarray
from gfloat import formats as published
from hypothesis import given, settings
from hypothesis import strategies as st

from diastole_sim.formats import FORMAT_NAMES, parse_format
from diastole_sim.golden.codes import (
    decode_magnitudes,
    encode_magnitudes,
    fold,
    is_inf,
    is_nan,
    is_negative,
    smallest_depth,
    unfold,
)
from diastole_sim.golden.convert import amax_exponent, quantise
from diastole_sim.golden.scale import TENSOR_EXPONENTS, nan_byte, scale_parts
from diastole_sim.golden.tiling import Tiling
from diastole_sim.numerics import CLASS_NAMES, Numerics
from diastole_sim.rounding import RULES
from oracle.rounding import round_fraction
from oracle.threefry import draw

WHERE = {"seed": 7, "tag": 9, "step": 11}
NAMES = (*FORMAT_NAMES, "e3m2", "e2m5", "e5m1")
MINIFLOATS = tuple(name for name in NAMES if parse_format(name).depth)
SCALE_RULES = ("floor", "even", "ceil", "rceil")
TINY = np.float32(2.0**-126)


def numerics(name, *, rule="nearest", block=4, bits=8, **changes):
    """All classes alike; ``changes``: of the class where it has such a key, else of the whole."""
    own = {"format": name, "rounding": rule}
    own |= {key: changes.pop(key) for key in ("grouping", "scale", "overflow") if key in changes}
    scalars = {"block": block, "random_bits": bits, "fraction": 8, "headroom": 4}
    return Numerics.from_dict({**scalars, **changes, **dict.fromkeys(CLASS_NAMES, own)})


def convert(values, name="bfp4", scale_given=None, tensor_class="x", **kinds):
    array = np.array(values, np.float32, ndmin=2)
    return quantise(array, tensor_class, numerics(name, **kinds), scale=scale_given, **WHERE)


def spread(np_rng, shape, *, low=-6, high=6):
    """Signed data over some binades, with zeros."""
    data = np_rng.standard_normal(shape) * 2.0 ** np_rng.integers(low, high, shape)
    data[np_rng.random(shape) < 0.05] = 0.0
    return data.astype(np.float32)


def exponent_of(value):
    """floor(log2) of a positive fraction, by comparison."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent - (value < Fraction(2) ** exponent)


def top_binade(tensor, copy, row, column):
    """e of an element's group before folding, from the stored byte, and its scale's factor."""
    stored = tensor.copies[copy]
    cells = Tiling.cells(tensor.chosen.grouping, tensor.block)
    cell = row // cells.rows, column // cells.columns
    byte, folded = int(stored.exponents[cell]), int(stored.folds[cell])
    if byte == 0:
        return None, Fraction(1)
    if tensor.chosen.format.scale != "e4m3":
        return byte - 127 + folded, Fraction(1)
    field, low = divmod(byte, 8)
    scale = Fraction(low + 8 * (field > 0), 8) * Fraction(2) ** (max(field, 1) - 7)
    return 2 + tensor.tensor_exponent, scale


def rounded(tensor, value, e, factor, random, bits):
    """An element by the definition of a float with subnormals and a largest value."""
    kind, magnitude = tensor.chosen.format, abs(Fraction(value)) / factor
    if e is None or magnitude * factor < Fraction(2) ** -126:
        return Fraction(0)
    last = max(exponent_of(magnitude), e - kind.depth)
    ulp = Fraction(2) ** (min(last, e) - kind.precision + 1)
    largest = kind.max_significand * Fraction(2) ** (e - kind.precision + 1)
    kept = round_fraction(tensor.chosen.rounding, magnitude / ulp, random, bits) * ulp
    return math.copysign(1, value).__int__() * min(kept, largest) * factor


def check_elements(tensor, array, bits=8):
    """Every element of every copy, given the stored exponents."""
    rows, columns = array.shape
    for copy in range(len(tensor.copies)):
        tag = WHERE["tag"] ^ (0x80000000 if copy else 0)
        values = tensor.values(copy)
        assert values.dtype == np.float32 and values.shape == array.shape
        for i in range(rows):
            for j in range(columns):
                place = (j, i) if copy else (i, j)
                random = draw(
                    seed=WHERE["seed"],
                    tag=tag,
                    step=WHERE["step"],
                    index=i * columns + j,
                    bits=bits,
                )
                e, factor = top_binade(tensor, copy, *place)
                want = rounded(tensor, float(array[i, j]), e, factor, random, bits)
                assert Fraction(float(values[i, j])) == want, (copy, i, j, array[i, j])


def groupings(name):
    """Text of every kind of grouping, for blocks of 4."""
    sizes = {"square": ("4x4", "8x8"), "vector": ("1x4", "1x8"), "tensor": ("tensor",)}
    return [text for kind in parse_format(name).groupings for text in sizes[kind]]


# Elements.


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", NAMES)
def test_elements_are_rounded_once_with_their_own_draws(name, rule, np_rng):
    for grouping in groupings(name):
        array = spread(np_rng, (6, 11), low=-12)
        check_elements(convert(array, name, rule=rule, grouping=grouping), array)


@pytest.mark.parametrize("bits", [1, 16])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["bfp3", "fp8_e4m3", "nvfp4"])
def test_random_bits(name, rule, bits, np_rng):
    array = spread(np_rng, (9, 7))
    check_elements(convert(array, name, rule=rule, bits=bits), array, bits)


@pytest.mark.parametrize("name", ["bfp8", "fp8_e5m2", "mxfp8_e4m3", "mxint8", "nvfp4", "bf16"])
def test_the_smallest_and_the_largest_binary32(name, np_rng):
    """Subnormals count as zero; values themselves may be subnormal."""
    for top in (3 << 23, 0x7F800000):
        bits = np_rng.integers(top - (3 << 23), top, (8, 8), dtype=np.uint32)
        array = (bits | np_rng.integers(0, 2, (8, 8), dtype=np.uint32) << 31).view(np.float32)
        check_elements(convert(array, name), array)


def test_ties_go_to_even():
    got = convert([1.75, 0.125, 0.375, 0.625, 0.875, -0.125, -0.375], "bfp3", grouping="8x8")
    assert got.values().tolist() == [[1.75, 0, 0.5, 0.5, 1, 0, -0.5]]
    got = convert([6, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5], "e2m1", scale_given=2)
    assert got.values().tolist() == [[6, 0, 1, 1, 2, 2, 4, 4]]


def test_ties_of_quotients():
    """With a scale of 1.125: ties at 1.125 times those of E2M1, and none beside them."""
    ties = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5], np.float32) * np.float32(1.125)
    around = [np.nextafter(ties, np.float32(0)), ties, np.nextafter(ties, np.float32(9))]
    for wanted, values in zip(
        ([0, 0.5, 1, 1.5, 2, 3, 4], [0, 1, 1, 2, 2, 4, 4], [0.5, 1, 1.5, 2, 3, 4, 6]),
        around,
        strict=True,
    ):
        row = [6 * 1.125, *values]
        got = convert(row, "nvfp4", scale_given=0, grouping="1x8", block=8)
        assert got.copies[0].exponents[0, 0] == 0x39  # 1.125
        assert (got.values()[0, 1:] / 1.125).tolist() == wanted


@pytest.mark.parametrize("name", MINIFLOATS)
def test_a_carry_reaches_the_next_binade(name):
    """Just below a power of two is that power, a subnormal becomes normal."""
    kind = parse_format(name)
    powers = [2.0 ** (kind.top_exponent - d) for d in range(1, min(kind.depth, 60) + 1)]
    below = [np.nextafter(np.float32(power), np.float32(0)) for power in powers]
    largest = kind.max_significand * 2.0 ** (kind.top_exponent - kind.precision + 1)
    array = np.array([[largest, *below]], np.float32)
    if kind.scale == "e4m3":
        array *= np.float32(448)  # so that both scales are powers of two
    got = convert(array, name, grouping="tensor" if "tensor" in kind.groupings else "64x64")
    np.testing.assert_array_equal(
        got.values()[0, 1:],
        array[0, 1:] * 0 + np.array(powers) * (448 if kind.scale == "e4m3" else 1),
    )
    assert got.saturated == 0


@pytest.mark.parametrize("rule", RULES)
def test_saturation_is_counted(rule):
    """15.75 ulp: up to 16 by all rules for some draws, and 16 is no 4-bit magnitude."""
    got = convert(np.full((16, 16), 15.75 / 8), "bfp4", rule=rule)
    assert 0 < got.saturated <= 256
    assert (got.saturated == 256) == (rule == "nearest")
    assert got.values().max() == 15 / 8


def test_zeros_and_subnormals():
    array = [[-0.0, 0.0, -1e-40, 1e-40, -1e-30, -1.0]]
    block = convert(array, "bfp4", grouping="8x8")
    assert np.signbit(block.values()).tolist() == [[False] * 5 + [True]]
    minifloat = convert(array, "fp8_e4m3")
    assert np.signbit(minifloat.values()).tolist() == [[True, False, True, False, True, True]]
    assert block.underflowed == minifloat.underflowed == 1  # only the number that was one


@pytest.mark.parametrize("name", NAMES)
def test_a_tensor_of_zeros(name):
    got = convert([[0.0, -0.0, 1e-40, -1e-45]] * 3, name)
    for copy in got.copies:
        for field in (copy.exponents, copy.row_max, copy.col_max, copy.folds):
            assert not field.any()
    assert (got.amax, got.saturated, got.underflowed, got.nan, got.inf) == (0, 0, 0, False, False)
    signs = got.values().view(np.uint32) >> 31
    assert signs.tolist() == [[0, 1, 0, 1] if parse_format(name).depth else [0] * 4] * 3


# Scales.


def expected_exponent(rule, amax, kind):
    if rule == "fixed":
        return 127
    exponent = exponent_of(amax)
    ulp = Fraction(2) ** (exponent - kind.precision + 1)
    power = Fraction(2) ** exponent
    largest = kind.max_significand * ulp
    raised = {
        "floor": False,
        "even": round(amax / ulp) * ulp > largest and round(amax / ulp) == 2**kind.precision,
        "ceil": amax > power,
        "rceil": amax > largest,
    }[rule]
    return min(exponent + raised, 127)


@pytest.mark.parametrize("rule", SCALE_RULES)
@pytest.mark.parametrize(
    "name", [name for name in NAMES if "rceil" in parse_format(name).scale_rules]
)
def test_scale_rules_around_their_thresholds(name, rule):
    """Both sides of powers of two, of the largest element and of what rounds to a power of two."""
    kind = parse_format(name)
    p, low = kind.precision, kind.lowest_exponent + 1
    places = [2**23, kind.max_significand << (24 - p), 2**24 - 2 ** (23 - p), 2**24]
    for x in {low, -1, 0, 1, 126, 127}:
        for s in {min(max(place + by, 2**23), 2**24 - 1) for place in places for by in (-1, 0, 1)}:
            amax = Fraction(s) * Fraction(2) ** (x - 23)
            grouping = "tensor" if kind.scale == "power" else "1x4"
            got = convert([[float(amax), 0]], name, scale=rule, grouping=grouping)
            e, _ = top_binade(got, 0, 0, 0)
            assert e == expected_exponent(rule, amax, kind), (x, s)
            if kind.scale == "power":
                assert got.tensor_exponent == e
            if rule == "rceil" and e < 127:
                assert got.saturated == 0


@settings(max_examples=200, deadline=None)
@given(st.integers(1 << 23, 0x7F7FFFFF), st.sampled_from(SCALE_RULES), st.sampled_from(NAMES))
def test_scale_rules_anywhere(bits, rule, name):
    kind = parse_format(name)
    if kind.scale in ("one", "e4m3"):
        rule = kind.default_scale_rule
    amax = float(np.array([bits], np.uint32).view(np.float32)[0])
    got = convert([[amax]], name, scale=rule)
    e, _ = top_binade(got, 0, 0, 0)
    if kind.scale == "e4m3":
        assert got.tensor_exponent == expected_two_level(Fraction(amax))
    elif (
        kind.scale == "e8m0"
        and expected_exponent(rule, Fraction(amax), kind) - kind.top_exponent < -126
    ):
        assert e is None
    else:
        assert e == expected_exponent(rule, Fraction(amax), kind)


@pytest.mark.parametrize("power", [-126, -125, -1, 0, 1, 10, 127])
def test_just_below_a_power_of_two(power):
    """A logarithm in floating point rounds up here; the exponent must not. The magnitude does."""
    top = np.ldexp(np.float32(1), power)
    below = np.nextafter(top, np.float32(0))
    got = convert([[below, -below, below / 2]], "bfp4")
    if power == -126:  # below it are subnormals only
        assert got.copies[0].exponents[0, 0] == 0
        return
    assert got.copies[0].exponents[0, 0] == power - 1 + 127
    assert got.saturated == 2
    assert convert([[top]], "bfp4").copies[0].exponents[0, 0] == power + 127


@pytest.mark.parametrize("name", ["mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp4_e2m1"])
def test_smallest_e8m0_scale(name):
    """A scale of 2^-126 is the last; below it a group is one of zeros, and counted."""
    kind = parse_format(name)
    last = 2.0 ** (-126 + kind.top_exponent)
    got = convert([[last, -last / 2]], name, grouping="8x8")
    assert got.copies[0].exponents[0, 0] == 1 + kind.top_exponent
    assert got.underflowed == 0 and got.values().tolist() == [[last, -last / 2]]
    below = [[np.nextafter(np.float32(last), np.float32(0)), -last / 2, 0.0]]
    got = convert(below, name, grouping="8x8")
    assert not got.copies[0].exponents.any() and not got.values().any()
    assert np.signbit(got.values()).tolist() == [[False, True, False]]
    assert got.underflowed == 2
    raised = convert(below, name, grouping="8x8", scale="ceil")  # 2^-126 after all
    assert raised.copies[0].exponents[0, 0] == 1 + kind.top_exponent
    assert raised.underflowed == 0


def test_no_exponent_is_above_127():
    """What would need more saturates."""
    largest = np.finfo(np.float32).max
    for rule in SCALE_RULES:
        got = convert([[largest]], "bfp4", scale=rule)
        assert (got.copies[0].exponents[0, 0], got.saturated) == (254, 1)
        assert got.values()[0, 0] == 15 * 2.0**124


def expected_two_level(amax):
    exponent = exponent_of(amax / 2688)
    return exponent + (amax > 2688 * Fraction(2) ** exponent)


def test_tensor_exponents_of_nvfp4():
    """The smallest T with amax <= 2688 * 2^T, on both sides; the ends are those of binary32."""
    for x in (-126, -1, 0, 1, 127):
        for s in (1 << 23, 21 << 19, (21 << 19) + 1, 2**24 - 1):
            amax = s * 2.0 ** (x - 23)
            assert convert([[amax]], "nvfp4").tensor_exponent == expected_two_level(Fraction(amax))
    ends = [convert([[end]], "nvfp4").tensor_exponent for end in (TINY, 2.0**127 * 1.5)]
    assert tuple(ends) == TENSOR_EXPONENTS


@pytest.mark.parametrize("scale", ["nearest", "up"])
def test_scale_codes_of_nvfp4(scale):
    """Every midpoint and every value of E4M3, and their neighbours in binary32."""
    table = [
        Fraction(float(v)) for v in np.arange(127, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn)
    ]
    middles = [(a + b) / 2 for a, b in zip(table, table[1:], strict=False)]
    for ratio in [*table, *middles]:
        for side in (-1, 0, 1):
            amax = np.float32(float(ratio * 6))
            amax = np.nextafter(amax, np.float32(side * 1e9)) if side else amax
            if not TINY <= amax <= 6 * 448:
                continue
            quotient = Fraction(float(amax)) / 6
            if scale == "up":
                want = min(code for code in range(127) if table[code] >= quotient)
            else:
                want = min(range(127), key=lambda c: (abs(table[c] - quotient), c % 2))
            got = convert([[amax]], "nvfp4", scale_given=0, scale=scale)
            assert got.copies[0].exponents[0, 0] == want, (ratio, side)


def test_nvfp4_scales_at_their_ends():
    """A scale that rounds to 0 makes a group of zeros; the largest is 448."""
    array = np.array([[2688 * 2.0**20, 0, 0, 0, 1.0, -2.0, 0.0, 0]], np.float32)
    got = convert(array, "nvfp4", grouping="1x4")
    assert got.tensor_exponent == 20
    assert got.copies[0].exponents[0].tolist() == [0x7E, 0] and got.underflowed == 4  # two copies
    assert np.signbit(got.values())[0, 5]
    up = convert(array, "nvfp4", grouping="1x4", scale="up")
    assert up.copies[0].exponents[0].tolist() == [0x7E, 1]
    beyond = convert(array, "nvfp4", grouping="1x4", scale_given=8)
    assert beyond.copies[0].exponents[0].tolist() == [0x7E, 1]
    assert beyond.saturated == 2 and beyond.values()[0, 0] == 2688 * 2.0**8
    field, significand = scale_parts(np.array([0, 1, 7, 8, 0x7E]))
    assert field.tolist() == [1, 1, 1, 1, 15] and significand.tolist() == [0, 1, 7, 8, 14]


def test_nvfp4_beyond_binary32():
    """A group's scale may round up to more than its largest element needs."""
    got = convert([[np.finfo(np.float32).max]], "nvfp4")
    assert got.values()[0, 0] == np.inf and got.saturated == 0


@pytest.mark.parametrize("name, lowest", [("fp8_e4m3", -126), ("e2m1", -126), ("fp8_e5m2", -126)])
@pytest.mark.parametrize("overflow", ["saturate", "specification"])
def test_given_scale(name, lowest, overflow):
    """An exponent too small for the data: all that lies beyond overflows, in whole binades too."""
    kind = parse_format(name)
    largest = kind.max_significand * 2.0 ** (1 - kind.precision)
    array = [[largest, -2.0, 2.0**100, 0.0, 2.0**-3]]
    got = convert(array, name, scale_given=0, overflow=overflow)
    assert got.saturated == 2 and got.tensor_exponent == 0
    beyond = {None: largest, 1: math.nan, 4: math.inf}[
        kind.overflow_code and (1 if kind.specials == "nan" else 4)
    ]
    beyond = largest if overflow == "saturate" else beyond
    want = [largest, math.copysign(beyond, -1), beyond, 0, 0.125]
    np.testing.assert_array_equal(got.values()[0, :4], want[:4])
    assert got.values()[0, 4] == 0.125 or name == "e2m1"
    for scale in (lowest, 127):
        assert convert(array, name, scale_given=scale).tensor_exponent == scale
    for scale in (lowest - 1, 128):
        with pytest.raises(ValueError, match=f"^scale must be an integer in {lowest}..127, not"):
            convert(array, name, scale_given=scale)


def test_scales_have_their_place():
    with pytest.raises(ValueError, match="^scale must be an integer in -137..117, not 118$"):
        convert([[1.0]], "nvfp4", scale_given=118)
    for name, grouping in (("bfp4", "4x4"), ("bf16", "tensor"), ("fp8_e4m3", "1x4")):
        message = f"scale must be absent: {name} in groups {grouping} has no tensor's"
        with pytest.raises(ValueError, match=f"^{message}$"):
            convert([[1.0]], name, grouping=grouping, scale_given=0)


@pytest.mark.parametrize("name", ["fp8_e4m3", "fp8_e5m2", "e3m2", "nvfp4"])
def test_what_a_host_would_choose(name, np_rng):
    """``amax_exponent`` of the tensor's own largest is the scale that is measured."""
    array = spread(np_rng, (9, 9), low=-30, high=30)
    chosen = numerics(name)
    measured = quantise(array, "x", chosen, **WHERE)
    assert measured.amax == int(np.abs(array).max().view(np.uint32))
    scale = amax_exponent(measured.amax, chosen.x)
    assert scale == measured.tensor_exponent
    again = quantise(array, "x", chosen, scale=scale, **WHERE)
    np.testing.assert_array_equal(again.copies[0].codes, measured.copies[0].codes)
    assert amax_exponent(0, chosen.x) == (0 if name == "nvfp4" else chosen.x.format.top_exponent)


def test_amax_is_the_largest_finite_magnitude():
    got = convert([[np.inf, np.nan, -3.0, 2.0]], "fp8_e4m3")
    assert np.uint32(got.amax).view(np.float32) == 3.0
    assert (got.nan, got.inf) == (True, True)
    assert convert([[np.inf, 1e-40]], "fp8_e4m3").amax == 0


# Codes and folding.


@pytest.mark.parametrize("name", NAMES)
def test_codes_decode_and_encode(name):
    kind = parse_format(name)
    codes = np.arange(2**kind.magnitude_bits, dtype=np.uint16)
    sig, d = decode_magnitudes(codes, kind)
    finite = codes <= kind.max_code
    assert not sig[~finite].any() and not d[~finite].any() and d[0] == 0
    number = finite & (codes != 0)
    np.testing.assert_array_equal(encode_magnitudes(sig, d, kind)[number], codes[number])
    values = sig * 2.0 ** (-d.astype(float))
    assert (np.diff(values[finite]) > 0).all()  # a code grows with its value
    assert (sig < 2**kind.precision).all() and (d <= kind.depth).all() and (d >= 0).all()
    signed = codes | np.uint16(1 << kind.magnitude_bits)
    np.testing.assert_array_equal(decode_magnitudes(signed, kind)[0], sig)
    assert is_negative(signed, kind).all() and not is_negative(codes, kind).any()
    np.testing.assert_array_equal(is_inf(codes, kind) | is_nan(codes, kind), ~finite)
    infinite = [kind.overflow_code] if kind.specials == "ieee" else []
    assert codes[is_inf(signed, kind)].tolist() == infinite


@pytest.mark.parametrize("name", MINIFLOATS)
def test_folding_keeps_every_value(name):
    kind = parse_format(name)
    codes = np.arange(2**kind.magnitude_bits)
    limit = smallest_depth(codes, kind)
    sig, d = decode_magnitudes(codes, kind)
    for by in {0, 1, 2, kind.depth // 2, kind.depth - 1, kind.depth}:
        number = (codes > 0) & (codes <= kind.max_code)
        may = number & (limit >= by) if by else number
        folded = fold(codes, np.int64(by), kind)
        new_sig, new_d = decode_magnitudes(folded, kind)
        assert (folded[may] <= kind.max_code).all()
        assert (sig * 2.0 ** (kind.depth - d))[may].tolist() == (
            new_sig * 2.0 ** (kind.depth - new_d - by)
        )[may].tolist()
        np.testing.assert_array_equal(unfold(folded, np.int64(by), kind)[may], codes[may])
        np.testing.assert_array_equal(folded[~number], codes[~number])
        np.testing.assert_array_equal(unfold(codes, np.int64(by), kind)[~number], codes[~number])
        largest = number & (limit == by) & (sig >= 2 ** (kind.precision - 1))
        assert not smallest_depth(folded[largest], kind).any()
        assert largest.any() and limit[1] == kind.depth  # a subnormal alone is not at the top


@pytest.mark.parametrize("name", MINIFLOATS)
def test_the_largest_code_of_a_group_decides_its_fold(name):
    kind = parse_format(name)
    numbers = np.arange(1, kind.max_code + 1)
    assert (np.diff(smallest_depth(numbers, kind)) <= 0).all()
    assert smallest_depth(numbers, kind)[[0, -1]].tolist() == [kind.depth, 0]


def test_all_ones_of_e4m3_is_no_number():
    """1.875 * 2^d would fold to the code of NaN; it is folded by one less."""
    got = convert([[1.75, 1.875, 240.0, 448]], "fp8_e4m3", block=1, scale_given=8)
    assert got.copies[0].folds.tolist() == [[8, 7, 0, 0]]
    assert got.values().tolist() == [[1.75, 1.875, 240, 448]]
    assert convert([[1.875]], "e4m3", scale_given=9).copies[0].folds.tolist() == [[9]]


@pytest.mark.parametrize("name", ["fp8_e4m3", "mxfp8_e4m3", "mxfp6_e3m2", "e2m5", "mxfp6_e2m3"])
def test_a_folded_tensor_is_the_same_tensor(name, np_rng):
    array = spread(np_rng, (13, 21), low=-20)
    array[4:8] = np.where(array[4:8] == 0, 0, array[4:8] * 2.0**-40)
    for grouping in groupings(name):
        plain, folded = (
            convert(array, name, grouping=grouping, window=window, headroom=1, fraction=0)
            for window in (0, 12)
        )
        assert not any(copy.folds.any() for copy in plain.copies)
        for number, (a, b) in enumerate(zip(plain.copies, folded.copies, strict=True)):
            np.testing.assert_array_equal(plain.values(number), folded.values(number))
            check_folds(folded, b)
            cells = Tiling.cells(folded.chosen.grouping, folded.block)
            kind = folded.chosen.format
            sign = b.codes & (1 << kind.magnitude_bits)
            by = cells.spread(b.folds)[: b.codes.shape[0], : b.codes.shape[1]].astype(np.int64)
            np.testing.assert_array_equal(
                unfold((b.codes - sign).astype(int), by, kind) + sign, a.codes
            )
            zeros = b.exponents == 0
            assert (a.exponents[~zeros] == b.exponents[~zeros] + b.folds[~zeros]).all()
            assert not b.folds[zeros].any()
        assert (plain.saturated, plain.underflowed) == (folded.saturated, folded.underflowed)


def check_folds(tensor, copy):
    """The smallest d is 0 in every group but those of zeros, and of subnormals alone."""
    kind, grouping = tensor.chosen.format, tensor.chosen.grouping
    rows, columns = copy.codes.shape
    whole = np.zeros((-(-rows // 8) * 8, -(-columns // 8) * 8), dtype=np.int64)
    whole[:rows, :columns] = copy.codes & (2**kind.magnitude_bits - 1)
    tiling = Tiling.groups(grouping, tensor.block)
    least = tiling.reduce(np.minimum, smallest_depth(whole, kind))
    least, folds, stored = (
        each[:rows, :columns]
        for each in (
            tiling.spread(least),
            Tiling.cells(grouping, tensor.block).spread(copy.folds),
            Tiling.cells(grouping, tensor.block).spread(copy.exponents),
        )
    )
    np.testing.assert_array_equal(stored == 0, least > kind.depth)
    assert not least[(stored != 0) & (folds != kind.depth)].any()
    assert (least == 0).any()


def test_a_block_that_rounds_to_zeros():
    """With one scale for the tensor it is stored as one of zeros if folded, else with the scale."""
    array = np.zeros((1, 12), np.float32)
    array[0, [0, 4]] = 448, 1e-20
    assert convert(array, "fp8_e4m3").copies[0].exponents.tolist() == [[127 + 8, 0, 0]]
    plain = convert(array, "fp8_e4m3", window=0)
    assert plain.copies[0].exponents.tolist() == [[127 + 8, 127 + 8, 0]]
    assert plain.underflowed == 1


# Copies, shapes, padding.


@pytest.mark.parametrize("name", NAMES)
def test_both_copies_are_of_the_wide_values(name, np_rng):
    if "vector" not in parse_format(name).groupings:
        assert len(convert([[1.0]], name).copies) == 1
        return
    array = spread(np_rng, (10, 21))
    got = convert(array, name, grouping="1x8")
    turned = convert(np.ascontiguousarray(array.T), name, grouping="1x8")
    for mine, theirs in zip(got.copies, reversed(turned.copies), strict=True):
        assert mine.transposed != theirs.transposed and mine.shape == theirs.shape
        for field in ("codes", "exponents", "row_max", "col_max", "folds"):
            np.testing.assert_array_equal(getattr(mine, field), getattr(theirs, field))
    assert (got.saturated, got.underflowed) == (turned.saturated, turned.underflowed)
    np.testing.assert_array_equal(got.values(1), turned.values(0).T)


def test_copies_by_axis(np_rng):
    array = spread(np_rng, (6, 9))
    axes = {"x": ["k", "m"], "w": ["n", "k"], "dy": ["n", "m"]}
    for tensor_class, names in axes.items():
        vectors = convert(array, "mxfp4_e2m1", tensor_class=tensor_class)
        assert list(vectors.copy_values()) == names
        for number, values in enumerate(vectors.copy_values().values()):
            np.testing.assert_array_equal(values, vectors.values(number))
        squares = convert(array, "bfp4", tensor_class=tensor_class)
        assert list(squares.copy_values()) == [""]
        np.testing.assert_array_equal(squares.copy_values()[""], squares.values())


def test_counters_are_of_both_copies():
    """Each copy of the column has its own groups: 2^-9 is lost beside 1 only down the column."""
    got = convert([[1.0], [2.0**-9]], "bfp4", grouping="1x4")
    assert got.underflowed == 1
    assert got.values(0).tolist() == [[1.0], [2.0**-9]]
    assert got.values(1).tolist() == [[1.0], [0.0]]
    assert convert([[31 / 16], [31 / 16]], "bfp4", grouping="1x4").saturated == 4


@pytest.mark.parametrize("shape", [(1, 1), (3, 5), (31, 32), (1, 33), (17, 2)])
@pytest.mark.parametrize("block", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize(
    "name, grouping",
    [
        ("bfp4", "32x32"),
        ("bfp4", None),
        ("mxfp8_e5m2", "1x32"),
        ("e3m2", "tensor"),
        ("nvfp4", "1x64"),
    ],
)
def test_odd_shapes(name, grouping, block, shape, np_rng):
    grouping = grouping or f"{block}x{block}"
    got = convert(spread(np_rng, shape), name, block=block, grouping=grouping)
    rows, columns = (-(-side // block) for side in shape)
    for copy in got.copies:
        side = (rows, columns)[:: -1 if copy.transposed else 1]
        inner = copy.shape
        assert inner == (shape[::-1] if copy.transposed else shape)
        assert copy.codes.shape == (side[0] * block, side[1] * block)
        assert not copy.codes[inner[0] :].any() and not copy.codes[:, inner[1] :].any()
        if got.chosen.two_copies:
            groups = -(-side[1] * block // got.chosen.grouping.size)
            assert copy.exponents.shape == (side[0] * block, groups)
            assert copy.row_max.shape == (side[0] * block,) and copy.col_max.shape == (0,)
        else:
            assert copy.exponents.shape == side
            np.testing.assert_array_equal(copy.col_max, copy.exponents.max(axis=0))
        assert copy.folds.shape == copy.exponents.shape
        np.testing.assert_array_equal(copy.row_max, copy.exponents.max(axis=1))
        assert copy.codes.dtype == np.uint16
        for field in (copy.exponents, copy.row_max, copy.col_max, copy.folds):
            assert field.dtype == np.uint8


@pytest.mark.parametrize("name", ["bfp4", "mxfp8_e4m3", "mxfp4_e2m1", "nvfp4"])
def test_squares_larger_than_a_block(name, np_rng):
    """The same as larger blocks, but stored once per block."""
    array = spread(np_rng, (19, 37))
    array[:16, 16:32] *= np.float32(2.0**-40)
    small, large = (convert(array, name, block=block, grouping="16x16") for block in (4, 16))
    np.testing.assert_array_equal(small.values(), large.values())
    assert small.copies[0].exponents.shape == (5, 10)
    repeated = large.copies[0].exponents.repeat(4, axis=0).repeat(4, axis=1)[:5, :10]
    np.testing.assert_array_equal(small.copies[0].exponents, repeated)
    np.testing.assert_array_equal(small.copies[0].codes, large.copies[0].codes[:20, :40])


def test_a_block_of_zeros_in_a_larger_square_has_the_exponent_of_the_square():
    array = np.zeros((4, 8), np.float32)
    array[0, 0] = 1.0
    assert convert(array, "bfp4", grouping="8x8").copies[0].exponents.tolist() == [[127, 127]]


@pytest.mark.parametrize("name", NAMES)
def test_layout_and_writability(name, np_rng):
    """Any strides give the same; the result is not tied to the data, and cannot be written."""
    array = spread(np_rng, (12, 10))
    chosen = numerics(name, rule="stochastic-b")
    want = quantise(array, "x", chosen, **WHERE)
    for same in (np.asfortranarray(array), np.repeat(array, 2, axis=1)[:, ::2]):
        got = quantise(same, "x", chosen, **WHERE)
        for mine, theirs in zip(got.copies, want.copies, strict=True):
            np.testing.assert_array_equal(mine.codes, theirs.codes)
    for copy in want.copies:
        for field in (copy.codes, copy.exponents, copy.row_max, copy.col_max, copy.folds):
            with pytest.raises(ValueError, match="read-only"):
                field[...] = 0


def test_classes_have_their_own_format_and_rounding(np_rng):
    array = spread(np_rng, (9, 9))
    own = {"x": ("bfp4", "nearest"), "w": ("mxfp8_e4m3", "stochastic-a"), "dy": ("bf16", "nearest")}
    mixed = Numerics.from_dict(
        {
            **numerics("bfp1").to_dict(),
            **{key: {"format": name, "rounding": rule} for key, (name, rule) in own.items()},
        }
    )
    for key, (name, rule) in own.items():
        got = quantise(array, key, mixed, **WHERE)
        want = convert(array, name, rule=rule)
        assert (got.tensor_class, got.chosen) == (key, mixed.tensor_class(key))
        np.testing.assert_array_equal(got.values(), want.values())


# Specials.


def test_flags_replace_what_is_no_number():
    array = [[np.nan, -np.nan], [np.inf, -np.inf], [1.5, -0.25]]
    got = convert(array, "bfp4")
    assert (got.nan, got.inf, got.saturated, got.underflowed) == (True, True, 0, 0)
    assert got.values().tolist() == [[0, 0], [1.875, -1.875], [1.5, -0.25]]
    got = convert(array, "fp8_e4m3", overflow="specification")
    assert got.values().tolist() == [[0, 0], [1.75, -1.75], [1.5, -0.25]]
    assert not np.signbit(got.values()[0]).any()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value, flags", [(np.nan, (True, False)), (-np.inf, (False, True))])
@pytest.mark.parametrize("rest", [0.0, -0.0, 1e-40])
def test_flags_in_a_group_without_a_number(name, value, flags, rest):
    got = convert([[value, rest], [value, value]], name)
    assert (got.nan, got.inf) == flags
    for copy in got.copies:
        assert not copy.exponents.any() and not copy.row_max.any()
    assert not got.values().any()


def test_an_inf_beside_the_smallest_number():
    got = convert([[TINY, np.inf]], "bfp4")
    assert got.copies[0].exponents[0, 0] == 1
    assert got.values()[0, 1] == 15 * 2.0**-129


def test_an_inf_counts_when_its_block_is_folded():
    got = convert([[1.0, 448, 1.0, 1.0, 1.0, np.inf]], "fp8_e4m3", block=4)
    assert got.copies[0].folds.tolist() == [[0, 0]]
    got = convert([[448, 0, 0, 0, 1.0, np.inf]], "fp8_e4m3", special="poison")
    assert got.copies[0].folds.tolist() == [[0, 8]]
    assert math.isnan(got.values()[0, 5]) and got.values()[0, 4] == 1


@pytest.mark.parametrize("name", [name for name in NAMES if parse_format(name).nan_code])
def test_poison_has_codes_in_some_formats(name):
    kind = parse_format(name)
    array = [[np.nan, -np.nan, np.inf, -np.inf, 1.0, 0, 0, 0, np.nan, 0.0]]
    got = convert(array, name, special="poison")
    sign = 1 << kind.magnitude_bits
    want = [kind.nan_code, sign | kind.nan_code, kind.overflow_code, sign | kind.overflow_code]
    for copy in got.copies:
        codes = copy.codes.T if copy.transposed else copy.codes
        assert codes[0, :4].tolist() == want and codes[0, 8] == kind.nan_code
    assert (got.nan, got.inf, got.saturated, got.underflowed) == (True, True, 0, 0)
    values = got.values()[0]
    assert np.isnan(values[[0, 1, 8]]).all() and values[4] == 1
    assert (np.isinf(values[[2, 3]]) if kind.specials == "ieee" else np.isnan(values[[2, 3]])).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", [name for name in NAMES if not parse_format(name).nan_code])
def test_poison_takes_whole_groups_in_others(name, value):
    array = np.full((4, 16), 31 / 16, np.float32)
    array[:, 3], array[1, 1], array[:, 8:] = -1e-30, value, 0.5
    got = convert(array, name, special="poison", grouping=groupings(name)[0])
    same = convert(np.where(np.isfinite(array), array, 0), name, grouping=groupings(name)[0])
    byte = 0x7F if name == "nvfp4" else 255
    assert nan_byte(parse_format(name)) == byte
    copy = got.copies[0]
    hit = copy.exponents == byte
    assert hit.tolist()[0] == [True, False, False, False]
    assert np.isnan(got.values()[:, :4]).all() and not np.isnan(got.values()[:, 4:]).any()
    assert not copy.codes[:, :4].any()
    np.testing.assert_array_equal(copy.codes[:, 4:], same.copies[0].codes[:, 4:])
    np.testing.assert_array_equal(copy.row_max, np.where(hit, 0, copy.exponents).max(axis=1))
    assert copy.col_max[0] == 0
    left = np.where(np.arange(16) < 4, 0, array)
    clean = convert(left, name, grouping=groupings(name)[0])
    if not got.chosen.has_tensor_scale:
        assert (got.saturated, got.underflowed) == (clean.saturated, clean.underflowed)
    assert got.saturated + got.underflowed < same.saturated + same.underflowed + 1


def test_poison_of_vectors():
    """Each copy has its own groups."""
    array = np.ones((4, 8), np.float32)
    array[2, 5] = np.inf
    got = convert(array, "mxfp4_e2m1", special="poison", grouping="1x4")
    assert np.argwhere(np.isnan(got.values(0)))[:, 0].tolist() == [2] * 4
    assert np.argwhere(np.isnan(got.values(1)))[:, 1].tolist() == [5] * 4
    assert got.copies[0].row_max.tolist() == [127] * 4
    assert got.copies[1].row_max.tolist() == [127] * 5 + [0] + [127] * 2


# Libraries.


def every_bfloat16():
    return (np.arange(2**16, dtype=np.uint32) << 16).view(np.float32)


def every_binary16():
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)


def standard_codes(tensor):
    """Stored elements as the format's specification has them, unfolded; of a copy in 1x1 blocks."""
    copy, kind = tensor.copies[0], tensor.chosen.format
    sign = copy.codes & (1 << kind.magnitude_bits)
    plain = unfold((copy.codes - sign).astype(np.int64), copy.folds.astype(np.int64), kind)
    return (plain + sign)[: tensor.shape[0], : tensor.shape[1]]


def convert_at_scale_1(values, name, **modes):
    kind = parse_format(name)
    given_scale = None if kind.scale == "one" else kind.top_exponent
    array = values.reshape(256, 256)
    got = convert(array, name, scale_given=given_scale, block=1, grouping="tensor", **modes)
    return standard_codes(got).ravel()


GFLOAT = {
    "fp8_e4m3": published.format_info_ocp_e4m3,
    "fp8_e5m2": published.format_info_ocp_e5m2,
    "bf16": published.format_info_bfloat16,
    "e2m1": published.format_info_ocp_e2m1,
    "e3m2": published.format_info_ocp_e3m2,
    "e2m3": published.format_info_ocp_e2m3,
}
ML_DTYPES = {
    "fp8_e4m3": (ml_dtypes.float8_e4m3fn, np.uint8),
    "fp8_e5m2": (ml_dtypes.float8_e5m2, np.uint8),
    "bf16": (ml_dtypes.bfloat16, np.uint16),
}
WIDE = [every_bfloat16, every_binary16]


def without_subnormals(values):
    return np.where(np.abs(values) < TINY, np.copysign(np.float32(0), values), values)


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("name", GFLOAT)
def test_every_number_against_gfloat(name, wide):
    values = wide()
    values = np.where(np.isfinite(values), values, np.float32(0))
    wanted = round_ndarray(
        GFLOAT[name], without_subnormals(values).astype(np.float64), RoundMode.TiesToEven, True
    )
    got = convert_at_scale_1(values, name)
    np.testing.assert_array_equal(got, encode_ndarray(GFLOAT[name], wanted))


@pytest.mark.parametrize("wide", WIDE)
@pytest.mark.parametrize("name", ML_DTYPES)
def test_every_value_against_ml_dtypes(name, wide):
    """Inf and NaN among them; a NaN may have another payload."""
    kind, values = parse_format(name), wide()
    dtype, word = ML_DTYPES[name]
    got = convert_at_scale_1(values, name, overflow="specification", special="poison")
    with np.errstate(over="ignore", invalid="ignore"):
        wanted = without_subnormals(values).astype(dtype).view(word)
    for nan in (is_nan(got, kind), is_nan(wanted, kind)):
        np.testing.assert_array_equal(nan & np.isnan(values), np.isnan(values))
    numbers = ~np.isnan(values)
    np.testing.assert_array_equal(got[numbers], wanted[numbers])


def test_bf16_is_binary32_to_bfloat16(np_rng):
    values = np_rng.integers(0, 2**32, 1 << 16, dtype=np.uint32)
    values[::4] &= 0xFFFF8000  # ties
    values = values.view(np.float32)
    values = np.where(np.isnan(values), np.float32(np.inf), values)
    got = convert_at_scale_1(values, "bf16", overflow="specification", special="poison")
    with np.errstate(over="ignore"):
        wanted = without_subnormals(values).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(got, wanted.view(np.uint16))


def test_nearest_against_mpfr(np_rng):
    """With 1 x 1 blocks every element is a float of m bits, as MPFR rounds it."""
    for bits in range(1, 9):
        array = spread(np_rng, (20, 20), low=-100, high=100)
        values = convert(array, f"bfp{bits}", block=1).values()
        with gmpy2.context(precision=bits):
            for got, given_value in zip(
                values.ravel().tolist(), array.ravel().tolist(), strict=True
            ):
                kept = float(gmpy2.mpfr(given_value))
                exponent = math.frexp(given_value)[1]
                if math.frexp(kept)[1] > exponent:  # carried into the next power of two
                    kept = math.copysign(math.ldexp(1 - 2.0**-bits, exponent), given_value)
                assert got == kept, given_value


# Properties.

floats = st.integers(0, 2**32 - 1).map(lambda bits: np.uint32(bits).view(np.float32))
finite = floats.filter(np.isfinite)
rows = st.lists(finite, min_size=1, max_size=20)


@settings(max_examples=150, deadline=None)
@given(rows, st.sampled_from(NAMES), st.sampled_from(("floor", "rceil")))
def test_nearest_is_odd_and_grows(values, name, rule):
    kind = parse_format(name)
    options = {} if kind.scale in ("one", "e4m3") else {"scale": rule}
    grouping = "tensor" if kind.groupings[0] == "tensor" else "1x32"
    got = convert([values], name, grouping=grouping, **options).values()[0]
    mirrored = convert([[-value for value in values]], name, grouping=grouping, **options)
    np.testing.assert_array_equal(mirrored.values()[0], -got)
    order = np.argsort(values, kind="stable")
    with np.errstate(invalid="ignore"):
        assert (got[order][1:] >= got[order][:-1]).all()


@settings(max_examples=150, deadline=None)
@given(rows, st.sampled_from([name for name in NAMES if parse_format(name).scale != "e4m3"]))
def test_what_is_representable_stays(values, name):
    """Converting what was converted changes nothing, with the exponent of the largest element."""
    options = {} if name == "bf16" else {"scale": "floor"}
    once = convert([values], name, **options).values()
    again = convert(once, name, **options)
    large = np.abs(once) >= TINY
    np.testing.assert_array_equal(again.values()[large], once[large])
    assert again.saturated == 0


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.floats(-4, 4, width=32), min_size=1, max_size=20),
    st.sampled_from(NAMES),
    st.integers(-60, 60),
)
def test_powers_of_two_go_through(values, name, power):
    plain = np.array([values], np.float32)
    plain[np.abs(plain) < 2.0**-40] = 0
    got = convert(plain * np.float32(2.0**power), name).values()
    np.testing.assert_array_equal(got, convert(plain, name).values() * np.float32(2.0**power))


# What is refused.


@pytest.mark.parametrize(
    "array, message",
    [
        (np.zeros((2, 2)), "a tensor must be a float32 array, not float64"),
        ([[1.0]], "a tensor must be a float32 array, not list"),
        (np.zeros(3, np.float32), "a tensor must have two axes, none empty, not the shape 3"),
        (np.ones((), np.float32), "a tensor must have two axes, none empty, not the shape ()"),
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
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        quantise(array, "x", numerics("bfp4"), **WHERE)
