"""Other people's formats under our names: gfloat, ml_dtypes and MPFR, and what they cannot do.

All take float64 arrays whose elements are already divided by their group's scale; ml_dtypes is
given float32 only, since it rounds float64 twice.
"""

import gmpy2
import ml_dtypes
import numpy as np
from gfloat import Domain, FormatInfo, RoundMode, round_ndarray
from gfloat import formats as known

GFLOAT_RULES = {
    "nearest": RoundMode.TiesToEven,
    "stochastic-a": RoundMode.StochasticFastest,
    "stochastic-b": RoundMode.StochasticFast,
    "stochastic-c": RoundMode.Stochastic,
}
ML_DTYPES = {
    "fp8_e4m3": ml_dtypes.float8_e4m3fn,
    "fp8_e5m2": ml_dtypes.float8_e5m2,
    "bf16": ml_dtypes.bfloat16,
    "mxfp8_e4m3": ml_dtypes.float8_e4m3fn,
    "mxfp8_e5m2": ml_dtypes.float8_e5m2,
    "mxfp6_e3m2": ml_dtypes.float6_e3m2fn,
    "mxfp6_e2m3": ml_dtypes.float6_e2m3fn,
    "mxfp4_e2m1": ml_dtypes.float4_e2m1fn,
    "nvfp4": ml_dtypes.float4_e2m1fn,
}


def _finite_float(name, exponent_bits, fraction_bits):
    return FormatInfo(
        name=name,
        k=1 + exponent_bits + fraction_bits,
        precision=fraction_bits + 1,
        bias=2 ** (exponent_bits - 1) - 1,
        is_signed=True,
        domain=Domain.Finite,
        has_nz=True,
        num_high_nans=0,
        has_subnormals=True,
        is_twos_complement=False,
    )


GFLOAT = {
    "fp8_e4m3": known.format_info_ocp_e4m3,
    "fp8_e5m2": known.format_info_ocp_e5m2,
    "bf16": known.format_info_bfloat16,
    "mxint8": known.format_info_ocp_int8,
    "mxfp8_e4m3": known.format_info_ocp_e4m3,
    "mxfp8_e5m2": known.format_info_ocp_e5m2,
    "mxfp6_e3m2": known.format_info_ocp_e3m2,
    "mxfp6_e2m3": known.format_info_ocp_e2m3,
    "mxfp4_e2m1": known.format_info_ocp_e2m1,
    "nvfp4": known.format_info_ocp_e2m1,
    "e2m5": _finite_float("e2m5", 2, 5),
    "e3m4": _finite_float("e3m4", 3, 4),
    "e5m1": _finite_float("e5m1", 5, 1),
}


def _is_fixed_point(name):
    return name.startswith("bfp")


def gfloat_round(name, values, rule="nearest", *, sat=True, draws=None, bits=0):
    """Values of the format called ``name``. ``sat``: too large is the largest, else Inf or NaN
    (ValueError where the format has neither).

    gfloat has no sign-magnitude fixed point: its subnormals serve, and the limit is set here; of
    its MXINT8, whose -128 is -2, too.
    """
    random = {} if rule == "nearest" else {"srbits": draws, "srnumbits": bits}
    with np.errstate(invalid="ignore"):
        if not _is_fixed_point(name):
            rounded = round_ndarray(GFLOAT[name], values, GFLOAT_RULES[rule], sat, **random)
            return np.maximum(rounded, -127 / 64) if name == "mxint8" else rounded
        m = int(name.removeprefix("bfp"))
        subnormals = _finite_float("fixed", 6, m)  # below 2^-30 its values are m bits apart
        unit = 2.0**-31
        rounded = round_ndarray(subnormals, values * unit, GFLOAT_RULES[rule], True, **random)
    largest = 2 - 2.0 ** (1 - m)
    return np.where(np.isnan(values), values, np.clip(rounded / unit, -largest, largest))


def ml_round(name, values):
    """Values as ml_dtypes converts the float32 array ``values``; None if it lacks the format."""
    assert values.dtype == np.float32
    if name not in ML_DTYPES:
        return None
    with np.errstate(all="ignore"):
        return values.astype(ML_DTYPES[name]).astype(np.float64)


def mpfr_round(values, *, precision, smallest_exponent):
    """Values by MPFR: ``precision`` bits, subnormals below 2^smallest_exponent, no largest value.

    A fixed point of m bits has ``precision`` = m and a smallest exponent of 0; MPFR has no
    subnormals of a single bit, so there it is m >= 2.
    """
    assert precision >= 2
    wide = gmpy2.context(
        precision=precision, emin=smallest_exponent - precision + 2, emax=5000, subnormalize=True
    )
    with wide:
        return np.array([float(gmpy2.mpfr(value)) for value in values.ravel().tolist()]).reshape(
            values.shape
        )


def decode_ml(name, codes):
    """ml_dtypes' values of stored elements, as float64."""
    kind = np.uint16 if name == "bf16" else np.uint8
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return codes.astype(kind).view(ML_DTYPES[name]).astype(np.float64)


# torchao's four ways to an E8M0 exponent, from its mx_tensor.py, on the bits of float32.


def _field(bits):
    return (bits >> 23).astype(np.int64) - 127


def torchao_exponent(rule, largest, precision, emax, reach):
    """e (unbiased scale + emax) of float32 maxima; normal numbers only, no limits.

    ``floor``: the exponent field. ``even``: half a unit of the element's last place is added to the
    bits first, and the carry reaches the field. ``ceil``: one more where any fraction bit is set.
    ``rceil``: the field of the float32 product largest * (1 / ``reach``), one more where any
    fraction bit is set, plus emax. Derived again here: torchao works on int32 views likewise.
    """
    bits = largest.view(np.uint32)
    if rule == "floor":
        return _field(bits)
    if rule == "even":
        return _field(bits + np.uint32(1 << (23 - precision)))
    if rule == "ceil":
        return _field(bits) + ((bits & 0x7FFFFF) != 0)
    assert rule == "rceil"
    scaled = (largest * np.float32(1 / reach)).astype(np.float32).view(np.uint32)
    return _field(scaled) + ((scaled & 0x7FFFFF) != 0) + emax
