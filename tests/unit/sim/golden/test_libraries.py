"""Conversions against libraries of number formats: ml_dtypes, gfloat and MPFR."""

import math

import gmpy2
import ml_dtypes
import numpy as np
import pytest
from gfloat import RoundMode, encode_ndarray, round_ndarray
from gfloat import formats as published

from diastole_sim.golden.magnitudes import is_nan, unfold
from diastole_sim.spec.formats import parse_format
from support.conversions import (
    TINY,
    convert,
    spread,
)


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
