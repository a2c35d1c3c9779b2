"""The converter: elements, copies, specials; against exact fractions. Everything at once, at
length: ``tests/sweeps``."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diastole_sim.golden.convert import quantise
from diastole_sim.spec.formats import parse_format
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.rounding import RULES
from oracle.formats import element
from support.conversions import (
    MINIFLOATS,
    NAMES,
    TINY,
    WHERE,
    check_elements,
    convert,
    groupings,
    numerics,
    spread,
)
from support.sweep import sweep

# Elements.


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(3)
def test_elements_are_rounded_once_with_their_own_draws(name, rule, np_rng):
    for grouping in groupings(name):
        array = spread(np_rng, (6, 11), low=-12)
        check_elements(convert(array, name, rule=rule, grouping=grouping), array)


@pytest.mark.parametrize("bits", [1, 16])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", ["bfp3", "fp8_e4m3", "nvfp4"])
@pytest.mark.sampled(3)
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


# Copies, shapes, padding.


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.sampled(3)
def test_both_copies_are_of_the_wide_values(name, np_rng):
    if "vector" not in parse_format(name).groupings:
        assert len(convert([[1.0]], name).copies) == 1
        return
    array = spread(np_rng, (10, 21))
    got = convert(array, name, grouping="1x8")
    turned = convert(np.ascontiguousarray(array.T), name, grouping="1x8")
    for mine, theirs in zip(got.copies, reversed(turned.copies), strict=True):
        assert mine.transposed != theirs.transposed
        assert mine.shape == theirs.shape
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
@pytest.mark.sampled(4)
def test_odd_shapes(name, grouping, block, shape, np_rng):
    grouping = grouping or f"{block}x{block}"
    got = convert(spread(np_rng, shape), name, block=block, grouping=grouping)
    rows, columns = (-(-side // block) for side in shape)
    for copy in got.copies:
        side = (rows, columns)[:: -1 if copy.transposed else 1]
        inner = copy.shape
        assert inner == (shape[::-1] if copy.transposed else shape)
        assert copy.codes.shape == (side[0] * block, side[1] * block)
        assert not copy.codes[inner[0] :].any()
        assert not copy.codes[:, inner[1] :].any()
        if got.chosen.two_copies:
            groups = -(-side[1] * block // got.chosen.grouping.size)
            assert copy.exponents.shape == (side[0] * block, groups)
            assert copy.row_max.shape == (side[0] * block,)
            assert copy.col_max.shape == (0,)
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
@pytest.mark.sampled(4)
def test_flags_in_a_group_without_a_number(name, value, flags, rest):
    for grouping in groupings(name):
        got = convert([[value, rest], [value, value]], name, grouping=grouping)
        assert (got.nan, got.inf) == flags
        if grouping == "tensor" and math.isinf(value):  # its scale is 1
            largest = float(element(name).values[-1])
            assert got.values().tolist() == [[-largest, 0], [-largest, -largest]]
            continue
        for copy in got.copies:
            assert not copy.exponents.any()
            assert not copy.row_max.any()
        assert not got.values().any()


def test_an_inf_beside_the_smallest_number():
    got = convert([[TINY, np.inf]], "bfp4")
    assert got.copies[0].exponents[0, 0] == 1
    assert got.values()[0, 1] == 15 * 2.0**-129


@pytest.mark.parametrize("window", [16, 40])
@pytest.mark.parametrize("name", [name for name in NAMES if "tensor" in groupings(name)])
def test_an_inf_is_the_largest_in_a_block_of_zeros_under_a_scale_of_the_tensor(name, window):
    array = np.zeros((9, 9), np.float32)
    array[0, 1], array[5, 0], array[8, 8], array[4, 4] = np.inf, -np.inf, np.nan, 1.0
    exponent = None if name == "bf16" else 3
    got = convert(array, name, grouping="tensor", scale_given=exponent, window=window)
    kind = element(name)
    unit = 2.0 ** (0 if exponent is None else exponent - kind.largest_exponent)
    want = np.zeros((9, 9))
    want[0, 1], want[5, 0], want[4, 4] = (float(kind.values[-1]) * unit * s for s in (1, -1, 0))
    want[4, 4] = 1.0
    np.testing.assert_array_equal(got.values(), want)
    byte, last = 127 + (127 if exponent is None else exponent), got.copies[0]
    assert last.exponents[[0, 0, 2], [0, 1, 2]].tolist() == [byte, 0, 0]
    assert last.folds[0].tolist() == [0, 0, 0]


def test_an_inf_counts_when_its_block_is_folded():
    got = convert([[1.0, 448, 1.0, 1.0, 1.0, np.inf]], "fp8_e4m3", block=4)
    assert got.copies[0].folds.tolist() == [[0, 0]]
    got = convert([[448, 0, 0, 0, 1.0, np.inf]], "fp8_e4m3", special="poison")
    assert got.copies[0].folds.tolist() == [[0, 8]]
    assert math.isnan(got.values()[0, 5])
    assert got.values()[0, 4] == 1


@pytest.mark.parametrize("name", [name for name in NAMES if parse_format(name).nan_code])
def test_poison_has_codes_in_some_formats(name):
    kind = parse_format(name)
    array = [[np.nan, -np.nan, np.inf, -np.inf, 1.0, 0, 0, 0, np.nan, 0.0]]
    got = convert(array, name, special="poison")
    sign = 1 << kind.magnitude_bits
    want = [kind.nan_code, sign | kind.nan_code, kind.overflow_code, sign | kind.overflow_code]
    for copy in got.copies:
        codes = copy.codes.T if copy.transposed else copy.codes
        assert codes[0, :4].tolist() == want
        assert codes[0, 8] == kind.nan_code
    assert (got.nan, got.inf, got.saturated, got.underflowed) == (True, True, 0, 0)
    values = got.values()[0]
    assert np.isnan(values[[0, 1, 8]]).all()
    assert values[4] == 1
    assert (np.isinf(values[[2, 3]]) if kind.specials == "ieee" else np.isnan(values[[2, 3]])).all()


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", [name for name in NAMES if not parse_format(name).nan_code])
@pytest.mark.sampled(3)
def test_poison_takes_whole_groups_in_others(name, value):
    array = np.full((4, 16), 31 / 16, np.float32)
    array[:, 3], array[1, 1], array[:, 8:] = -1e-30, value, 0.5
    got = convert(array, name, special="poison", grouping=groupings(name)[0])
    same = convert(np.where(np.isfinite(array), array, 0), name, grouping=groupings(name)[0])
    byte = 0x7F if name == "nvfp4" else 255
    assert parse_format(name).nan_byte == byte
    copy = got.copies[0]
    hit = copy.exponents == byte
    assert hit.tolist()[0] == [True, False, False, False]
    assert np.isnan(got.values()[:, :4]).all()
    assert not np.isnan(got.values()[:, 4:]).any()
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


# Properties.

floats = st.integers(0, 2**32 - 1).map(lambda bits: np.uint32(bits).view(np.float32))
finite = floats.filter(np.isfinite)
rows = st.lists(finite, min_size=1, max_size=20)


@pytest.mark.parametrize("examples", [20, sweep(80)])
def test_nearest_is_odd_and_grows(examples):
    settings(max_examples=examples)(nearest_is_odd_and_grows)()


@given(rows, st.sampled_from(NAMES), st.sampled_from(("floor", "rceil")))
def nearest_is_odd_and_grows(values, name, rule):
    kind = parse_format(name)
    options = {} if kind.scale in ("one", "e4m3") else {"scale": rule}
    grouping = "tensor" if kind.groupings[0] == "tensor" else "1x32"
    got = convert([values], name, grouping=grouping, **options).values()[0]
    mirrored = convert([[-value for value in values]], name, grouping=grouping, **options)
    np.testing.assert_array_equal(mirrored.values()[0], -got)
    order = np.argsort(values, kind="stable")
    with np.errstate(invalid="ignore"):
        assert (got[order][1:] >= got[order][:-1]).all()


@settings(max_examples=150)
@given(rows, st.sampled_from([name for name in NAMES if parse_format(name).scale != "e4m3"]))
def test_what_is_representable_stays(values, name):
    """Converting what was converted changes nothing, with the exponent of the largest element."""
    options = {} if name == "bf16" else {"scale": "floor"}
    once = convert([values], name, **options).values()
    again = convert(once, name, **options)
    large = np.abs(once) >= TINY
    np.testing.assert_array_equal(again.values()[large], once[large])
    assert again.saturated == 0


@settings(max_examples=150)
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
