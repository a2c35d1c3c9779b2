"""Formats and groupings: their numbers against published ones, their codes against libraries."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from gfloat import decode_float
from gfloat import formats as published

from diastole_sim.spec.formats import (
    FORMAT_NAMES,
    FORMATS,
    NVFP4,
    SCALE_FORMAT,
    SIGNIFICAND_FRACTION,
    TWO_LEVEL_EXPONENT,
    TWO_LEVEL_LARGEST,
    Grouping,
    default_product_bits,
    exact_product_bits,
    parse_format,
    parse_grouping,
)

GFLOAT = {
    "fp8_e4m3": published.format_info_ocp_e4m3,
    "fp8_e5m2": published.format_info_ocp_e5m2,
    "bf16": published.format_info_bfloat16,
    "mxfp8_e4m3": published.format_info_ocp_e4m3,
    "mxfp8_e5m2": published.format_info_ocp_e5m2,
    "mxfp6_e3m2": published.format_info_ocp_e3m2,
    "mxfp6_e2m3": published.format_info_ocp_e2m3,
    "mxfp4_e2m1": published.format_info_ocp_e2m1,
    "nvfp4": published.format_info_ocp_e2m1,
    "e3m2": published.format_info_ocp_e3m2,
    "e2m3": published.format_info_ocp_e2m3,
}


def test_what_a_scale_of_a_tensor_is_in_a_command():
    """A byte of 1 to 255, which is 0 to be measured; T = 0 of NVFP4 is 138 = 127 + 11, since
    448 * 6 = 2688 lies in [2^11, 2^12)."""
    kinds = {name: parse_format(name) for name in ("fp8_e4m3", "fp8_e5m2", "e3m2", "nvfp4")}
    assert {name: kind.tensor_scale_bias for name, kind in kinds.items()} == {
        "fp8_e4m3": 127,
        "fp8_e5m2": 127,
        "e3m2": 127,
        "nvfp4": 138,
    }
    for kind in kinds.values():
        low, high = kind.tensor_exponents
        assert low + kind.tensor_scale_bias == 1
        assert high + kind.tensor_scale_bias == 254 + kind.two_level
    assert NVFP4.tensor_exponents == (-137, 117)
    assert {name: kind.unit_exponent for name, kind in kinds.items()} == {
        "fp8_e4m3": 8,
        "fp8_e5m2": 15,
        "e3m2": 4,
        "nvfp4": 0,
    }
    assert Fraction(TWO_LEVEL_LARGEST, 16) * 2**TWO_LEVEL_EXPONENT == 448 * 6


def test_nvfp4_scales_are_those_of_e4m3():
    assert [name for name in FORMAT_NAMES if FORMATS[name].two_level] == ["nvfp4"]
    scale = published.format_info_ocp_e4m3
    assert SCALE_FORMAT.bias == scale.bias == 7
    assert SCALE_FORMAT.fraction_bits == SIGNIFICAND_FRACTION == scale.precision - 1
    assert decode_float(scale, SCALE_FORMAT.max_code).fval == 448
    for name in FORMAT_NAMES:
        assert FORMATS[name].nan_byte == (0x7F if name == "nvfp4" else 255)
    assert np.isnan(decode_float(scale, NVFP4.nan_byte).fval)
    one = decode_float(scale, 0x38)  # 1 = 2^0, its field 7: an element of 6 has the exponent 2
    assert one.fval == 1
    assert (0x38 >> SIGNIFICAND_FRACTION) - NVFP4.scale_offset == 2


@pytest.mark.parametrize(
    "name, precision, depth, top, bits, largest",
    [
        ("bfp1", 1, 0, 0, 2, 1),
        ("bfp4", 4, 0, 0, 5, 1.875),
        ("bfp8", 8, 0, 0, 9, 255 / 128),
        ("mxint8", 7, 0, 0, 8, 127 / 64),
        ("fp8_e4m3", 4, 14, 8, 8, 448),
        ("fp8_e5m2", 3, 29, 15, 8, 57344),
        ("bf16", 8, 253, 127, 16, 255 * 2.0**120),
        ("mxfp8_e4m3", 4, 14, 8, 8, 448),
        ("mxfp8_e5m2", 3, 29, 15, 8, 57344),
        ("mxfp6_e3m2", 3, 6, 4, 6, 28),
        ("mxfp6_e2m3", 4, 2, 2, 6, 7.5),
        ("mxfp4_e2m1", 2, 2, 2, 4, 6),
        ("nvfp4", 2, 2, 2, 4, 6),
        ("e2m5", 6, 2, 2, 8, 7.875),
        ("e5m1", 2, 30, 16, 7, 1.5 * 2**16),
    ],
)
def test_published_numbers(name, precision, depth, top, bits, largest):
    kind = parse_format(name)
    assert (kind.precision, kind.depth, kind.top_exponent) == (precision, depth, top)
    assert (kind.element_bits, kind.magnitude_bits) == (bits, bits - 1)
    assert kind.max_significand * 2.0 ** (top - precision + 1) == largest
    assert kind.signed_zero == (depth > 0)


def code_value(kind, code):
    """The definition: sig * 2^(emax - d - p + 1)."""
    field, low = divmod(code, 2 ** (kind.precision - 1)) if kind.depth else (0, code)
    sig = low + 2 ** (kind.precision - 1) * (field > 0)
    d = (kind.depth - max(field - 1, 0)) if kind.depth else 0
    return sig * 2.0 ** (kind.top_exponent - d - kind.precision + 1)


@pytest.mark.parametrize("name", GFLOAT)
def test_every_code_is_the_published_one(name):
    kind, info = parse_format(name), GFLOAT[name]
    assert (info.k, info.precision, info.bias) == (kind.element_bits, kind.precision, kind.bias)
    for code in range(2**kind.magnitude_bits):
        value = float(decode_float(info, code).fval)
        if code <= kind.max_code:
            assert value == code_value(kind, code), code
        elif kind.specials == "ieee" and code == kind.max_code + 1:
            assert value == np.inf
            assert kind.overflow_code == code
        else:
            assert np.isnan(value), code
    if kind.nan_code is not None:
        assert np.isnan(float(decode_float(info, kind.nan_code).fval))


@pytest.mark.parametrize(
    "name, dtype",
    [
        ("fp8_e4m3", ml_dtypes.float8_e4m3fn),
        ("fp8_e5m2", ml_dtypes.float8_e5m2),
        ("bf16", ml_dtypes.bfloat16),
    ],
)
def test_nan_and_inf_codes_are_those_of_the_library(name, dtype):
    kind = parse_format(name)
    word = np.uint16 if kind.element_bits > 8 else np.uint8
    infinite, nan = np.array([np.inf, np.nan], np.float32).astype(dtype).view(word)
    assert (kind.overflow_code, kind.nan_code) == (infinite, nan)


def test_formats_without_specials_have_no_codes_for_them():
    for name in ("bfp4", "mxint8", "mxfp6_e3m2", "mxfp4_e2m1", "nvfp4", "e4m3"):
        kind = parse_format(name)
        assert kind.overflow_code is None
        assert kind.nan_code is None
        assert kind.max_code == 2**kind.magnitude_bits - 1


PUBLISHED = (
    "bfp1 bfp2 bfp3 bfp4 bfp5 bfp6 bfp7 bfp8 fp8_e4m3 fp8_e5m2 bf16 mxint8 mxfp8_e4m3 mxfp8_e5m2 "
    "mxfp6_e3m2 mxfp6_e2m3 mxfp4_e2m1 nvfp4"
).split()
"""Names that users rely on; others may come to them."""


def test_names():
    assert [name for name in FORMAT_NAMES if name in PUBLISHED] == PUBLISHED
    assert len(FORMAT_NAMES) == len(set(FORMAT_NAMES))
    for name in FORMAT_NAMES:
        assert parse_format(name) is FORMATS[name]
        assert FORMATS[name].name == name
    generic = [f"e{e}m{m}" for e in range(2, 6) for m in range(1, 6) if 1 + e + m <= 8]
    assert [parse_format(name).name for name in generic] == generic


@pytest.mark.parametrize(
    "name, rules, default, lowest",
    [
        ("bfp4", ("floor", "even", "ceil", "rceil"), "floor", -126),
        ("fp8_e4m3", ("floor", "even", "ceil", "rceil"), "rceil", -126),
        ("e3m2", ("floor", "even", "ceil", "rceil"), "rceil", -126),
        ("bf16", (), "fixed", -126),
        ("mxint8", ("floor", "even", "ceil", "rceil"), "rceil", -126),
        ("mxfp8_e5m2", ("floor", "even", "ceil", "rceil"), "rceil", -111),
        ("mxfp4_e2m1", ("floor", "even", "ceil", "rceil"), "rceil", -124),
        ("nvfp4", ("nearest", "up", "four-over-six"), "nearest", -126),
    ],
)
def test_scales(name, rules, default, lowest):
    kind = parse_format(name)
    assert (kind.scale_rules, kind.default_scale_rule) == (rules, default)
    assert kind.lowest_exponent == lowest


@pytest.mark.parametrize(
    "name, block, tensor_class, grouping",
    [
        ("bfp4", 8, "x", "8x8"),
        ("bfp4", 1, "dy", "1x1"),
        ("fp8_e4m3", 8, "w", "tensor"),
        ("bf16", 8, "x", "tensor"),
        ("mxfp4_e2m1", 8, "w", "1x32"),
        ("mxint8", 32, "x", "1x32"),
        ("nvfp4", 8, "x", "1x16"),
        ("nvfp4", 8, "w", "16x16"),
        ("nvfp4", 32, "dy", "1x32"),
        ("nvfp4", 32, "w", "32x32"),
        ("e3m2", 8, "x", "tensor"),
    ],
)
def test_default_grouping(name, block, tensor_class, grouping):
    kind = parse_format(name)
    assert str(kind.default_grouping(block, tensor_class)) == grouping
    assert kind.default_grouping(block, tensor_class).kind in kind.groupings


@pytest.mark.parametrize(
    "text, kind, size",
    [("8x8", "square", 8), ("1x1", "square", 1), ("1x128", "vector", 128), ("tensor", "tensor", 0)],
)
def test_groupings(text, kind, size):
    grouping = parse_grouping(text)
    assert grouping == Grouping(kind=kind, size=size)
    assert str(grouping) == text


@pytest.mark.parametrize(
    "a, b, exact, default",
    [
        ("bfp4", "bfp4", 8, 8),
        ("bfp8", "bfp8", 16, 16),
        ("mxfp4_e2m1", "mxfp4_e2m1", 8, 8),
        ("mxfp6_e2m3", "mxfp6_e2m3", 12, 12),
        ("mxfp6_e3m2", "mxfp6_e3m2", 18, 18),
        ("fp8_e4m3", "fp8_e4m3", 36, 16),
        ("fp8_e4m3", "fp8_e5m2", 50, 16),
        ("fp8_e5m2", "fp8_e5m2", 64, 24),
        ("bf16", "bf16", 522, 24),
        ("bf16", "bfp4", 265, 24),
    ],
)
def test_product_bits(a, b, exact, default):
    first, second = parse_format(a), parse_format(b)
    assert exact_product_bits(first, second) == exact_product_bits(second, first) == exact
    assert default_product_bits(first, second) == default_product_bits(second, first) == default
    smallest = code_value(first, 1) * code_value(second, 1)
    if exact <= 64:  # the window's last place is that of the smallest product
        assert smallest == 2.0 ** (first.top_exponent + second.top_exponent + 2 - exact)
