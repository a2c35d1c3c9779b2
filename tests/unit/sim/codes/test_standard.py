"""Codes and scales as the formats define them, against ml_dtypes and the definitions by hand."""

from itertools import product

import ml_dtypes
import numpy as np
import pytest

from diastole_sim.codes.standard import Codes, Form, exponent_of
from oracle.libraries import ML_DTYPES

MINIFLOATS = sorted(ML_DTYPES)


def elements(name, codes):
    """What codes mean at a scale of 1, in float64."""
    if name.startswith("bfp"):
        bits = int(name[3:])
        magnitude = (codes & (2**bits - 1)) / 2.0 ** (bits - 1)
        return np.where((codes >> bits == 1) & (magnitude != 0), -magnitude, magnitude)
    if name == "mxint8":
        return np.maximum(codes.astype(np.uint8).view(np.int8), -127) / 64
    with np.errstate(invalid="ignore"):  # signalling NaN
        return codes.view(ML_DTYPES[name]).astype(np.float64)


def every_code(name):
    form = Form.parse(f"{name} {grouping_of(name)}")
    bits = form.format.element_bits
    return form, np.arange(2**bits, dtype=form.code_type).reshape(1, -1)


def grouping_of(name):
    return "tensor" if name == "bf16" else "1x16" if name == "nvfp4" else "1x128"


def unit_scales(form, codes):
    if not form.has_scales:
        return None
    one = 0x38 if form.format.scale == "e4m3" else 127
    return np.full(form.scale_shape(codes.shape, 1), one, form.scale_type)


def same(got, wanted):
    """Equal as binary32, and NaN in the same places."""
    wanted = wanted.astype(np.float32)
    assert got.dtype == np.float32
    assert got.shape == wanted.shape
    assert np.array_equal(np.isnan(got), np.isnan(wanted))
    numbers = ~np.isnan(wanted)
    assert np.array_equal(got.view(np.uint32)[numbers], wanted.view(np.uint32)[numbers])


@pytest.mark.parametrize("name", [*MINIFLOATS, "mxint8", *(f"bfp{m}" for m in range(1, 9))])
def test_every_code(name):
    form, codes = every_code(name)
    got = Codes(
        form=form,
        codes=codes,
        scales=unit_scales(form, codes),
        tensor_scale=1.0 if form.has_tensor_scale else None,
    )
    same(got.values(), elements(name, codes))
    assert got.clamped == (1 if name == "mxint8" else 0)


@pytest.mark.parametrize("name", ["mxfp8_e4m3", "mxfp4_e2m1", "mxint8", "bfp4"])
def test_every_scale(name):
    """E8M0, and its like for block floating point: also those that binary32 has no room for."""
    form = Form.parse(f"{name} 1x32")
    scales = np.arange(1, 256, dtype=np.uint8).reshape(-1, 1)
    codes = np.tile(np.arange(0, 4, dtype=np.uint8), (255, 1))
    got = Codes(form=form, codes=codes, scales=scales).values()
    wide = scales.view(ml_dtypes.float8_e8m0fnu).astype(np.float64)
    with np.errstate(over="ignore"):
        same(got, elements(name, codes) * wide)


def test_every_nvfp4_scale():
    form = Form.parse("nvfp4 1x16")
    scales = np.arange(128, dtype=np.uint8).reshape(-1, 1)
    codes = np.tile(np.arange(16, dtype=np.uint8), (128, 1))
    got = Codes(form=form, codes=codes, scales=scales, tensor_scale=2.0**-20).values()
    wide = scales.view(ml_dtypes.float8_e4m3fn).astype(np.float64)
    same(got, elements("nvfp4", codes) * wide * 2.0**-20)


@pytest.mark.parametrize("name", ["fp8_e4m3", "fp8_e5m2"])
@pytest.mark.parametrize("exponent", [-130, -3, 0, 100])
def test_powers_of_two(name, exponent):
    """In groups S + 127, which may be negative; for a tensor the power itself."""
    codes = np.arange(256, dtype=np.uint8).reshape(2, 128)
    wanted = elements(name, codes) * 2.0**exponent
    whole = Codes(form=Form.parse(f"{name} tensor"), codes=codes, tensor_scale=2.0**exponent)
    with np.errstate(over="ignore"):
        same(whole.values(), wanted)
        scales = np.full((2, 1), exponent + 127, np.int16)
        same(Codes(form=Form.parse(f"{name} 1x128"), codes=codes, scales=scales).values(), wanted)
    none = np.full((2, 1), 255, np.int16)
    assert np.isnan(
        Codes(form=Form.parse(f"{name} 1x128"), codes=codes, scales=none).values()
    ).all()


@pytest.mark.parametrize(
    "grouping, shape, axis, groups",
    [
        ("1x4", (3, 10), 1, (3, 3)),
        ("1x4", (3, 10), 0, (1, 10)),
        ("1x4", (10,), 0, (3,)),
        ("1x4", (2, 5, 3), 1, (2, 2, 3)),
        ("1x4", (2, 5, 3), -3, (1, 5, 3)),
        ("4x4", (6, 9), 1, (2, 3)),
    ],
)
def test_where_each_scale_counts(grouping, shape, axis, groups):
    rng = np.random.default_rng(1)
    form = Form.parse(f"mxfp8_e4m3 {grouping}")
    codes = rng.integers(0, 0x7F, shape, dtype=np.uint8)
    scales = rng.integers(110, 140, groups, dtype=np.uint8)
    got = Codes(form=form, codes=codes, scales=scales, axis=axis).values()
    plain = elements("mxfp8_e4m3", codes)
    wanted = np.zeros(shape)
    for place in product(*map(range, shape)):
        square = grouping == "4x4"
        at = tuple(i // 4 if square or n == axis % len(shape) else i for n, i in enumerate(place))
        wanted[place] = plain[place] * 2.0 ** (int(scales[at]) - 127)
    same(got, wanted)


MX = Form.parse("mxfp4_e2m1 1x4")
SCALES = np.full((2, 1), 127, np.uint8)


def test_scale_zero_of_zeros_and_nan():
    """A group of zeros may have the scale 0, whatever the signs; NaN codes are no numbers."""
    zeros = Codes(form=MX, codes=np.array([[0, 8, 0, 8]], np.uint8), scales=SCALES[:1] * 0)
    same(zeros.values(), np.array([[0.0, -0.0, 0.0, -0.0]]))
    form = Form.parse("mxfp8_e4m3 1x4")
    nans = Codes(form=form, codes=np.array([[0x7F, 0xFF]], np.uint8), scales=SCALES[:1] * 0)
    assert np.isnan(nans.values()).all()


def test_forms():
    for text in ("mxfp8_e4m3 1x32", "fp8_e5m2 tensor", "bfp4 8x8", "e3m2 1x16"):
        assert str(Form.parse(text)) == text


@pytest.mark.parametrize(
    "scale, exponent",
    [
        (1, 0),
        (0.5, -1),
        (np.float32(2.0**-149), -149),
        (np.int64(4096), 12),
        (np.array([8.0]), 3),
        (3, None),
        (0, None),
        (-2.0, None),
        (np.inf, None),
        (np.nan, None),
        (None, None),
        ("2", None),
        (True, None),
        ([1, 1], None),
    ],
)
def test_exponent_of(scale, exponent):
    assert exponent_of(scale) == exponent
