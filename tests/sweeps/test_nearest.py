"""Every bfloat16 and every binary16 value to every format, nearest, at scales that are known.

A square of 128 x 128 whose first element is the largest of its binade has just that exponent by
the rule ``floor``, so that the other 16383 elements are rounded at a scale that the test chooses;
formats with a scale for the tensor are given one besides. Judges: gfloat, ml_dtypes, MPFR (of
fixed point: numpy's rint).
"""

import numpy as np
import pytest

from diastole_sim.device.conversion import Conversion
from oracle import formats as oracle
from oracle import libraries
from sweeps import judge

SIDE = 128
ANCHORED = [name for name in oracle.NAMES if name not in ("bf16", "nvfp4")]


def without_subnormals(values):
    return np.where(np.abs(values) < 2.0**-126, np.copysign(0.0, values), values)


def tiles(values, exponent):
    """Squares, stacked, that hold all of ``values`` not beyond the binade of ``exponent``, and
    zeros instead of those that are; each begins with the largest float32 of it."""
    field = values.view(np.uint32) >> 23 & 255
    kept = np.where((field <= exponent + 127) | (field == 255), values, np.float32(0))
    room = SIDE * SIDE - 1
    count = -(-kept.size // room)
    padded = np.zeros((count, room), np.float32)
    padded.ravel()[: kept.size] = kept
    first = np.full((count, 1), np.ldexp(2 - 2.0**-23, exponent), np.float32)
    return np.hstack([first, padded]).reshape(count * SIDE, SIDE)


def read(tensor, exponent):
    """The stored elements divided by 2^``exponent``, as float64, by the oracle's table of codes."""
    copy = tensor.copies[0]
    chosen = oracle.element(tensor.chosen.format.name)
    finite = np.array([float(value) for value in chosen.values])
    table = np.full(2**chosen.bits, np.nan)
    table[: finite.size] = finite
    if chosen.infinity:
        table[chosen.infinity] = np.inf
    codes = copy.codes[: tensor.shape[0], : tensor.shape[1]].astype(np.int64)
    magnitudes = table[codes & (2**chosen.bits - 1)]
    stored = copy.exponents.astype(np.int64)
    stored = stored.repeat(tensor.block, 0).repeat(tensor.block, 1)
    shift = stored[: tensor.shape[0], : tensor.shape[1]] - 127 - exponent
    scaled = np.ldexp(magnitudes, shift - chosen.largest_exponent)
    magnitudes = np.where((shift == -127 - exponent) & np.isfinite(magnitudes), 0, scaled)
    return np.where(codes >> chosen.bits, -magnitudes, magnitudes)


def judged(name, scaled, *, sat, mpfr):
    """What the libraries make of scaled values, after they agree with each other."""
    chosen = oracle.element(name)
    want = libraries.gfloat_round(name, scaled, sat=sat)
    largest = float(chosen.values[-1])
    if name in libraries.ML_DTYPES:
        with np.errstate(over="ignore"):
            narrow = scaled.astype(np.float32)
        exact = (narrow == scaled) & (np.isfinite(scaled) if chosen.nan is None else True)
        theirs = libraries.ml_round(name, narrow)
        within = exact & (np.abs(want) < np.inf) & (np.abs(scaled) <= largest if sat else True)
        assert within.any()
        np.testing.assert_array_equal(theirs[within], want[within])
    if name.startswith("bfp") or name == "mxint8":
        unit = 2.0 ** (1 - chosen.precision)
        fixed = np.clip(np.rint(scaled / unit) * unit, -largest, largest)
        np.testing.assert_array_equal(want, fixed)
    elif mpfr:
        third_judge(chosen, scaled, want)
    return want


def third_judge(chosen, scaled, want):
    """MPFR, where the result is no special."""
    known = np.isfinite(want) & np.isfinite(scaled)
    rounded = libraries.mpfr_round(
        scaled[known], precision=chosen.precision, smallest_exponent=chosen.smallest_exponent
    )
    largest = float(chosen.values[-1])
    np.testing.assert_array_equal(np.clip(rounded, -largest, largest), want[known])


def expected(name, values, exponent, *, specification, poison):
    """What an array with known exponents converts to, divided by their powers of two."""
    chosen = oracle.element(name)
    finite = np.isfinite(values)
    scaled = without_subnormals(np.where(finite, values, 0).astype(np.float64))
    scaled = np.ldexp(scaled, chosen.largest_exponent - exponent)
    want = judged(
        name,
        scaled,
        sat=not specification or chosen.nan is None,
        mpfr=exponent == chosen.largest_exponent or name not in libraries.ML_DTYPES,
    )
    largest = float(chosen.values[-1])
    nan, inf = (np.nan, np.inf if chosen.infinity else np.nan) if poison else (0.0, largest)
    want = np.where(np.isnan(values), nan, want)
    want = np.where(np.isinf(values), np.copysign(inf, values), want)
    return np.ldexp(want, -chosen.largest_exponent)


def compare(tensor, name, values, exponent, **modes):
    got = read(tensor, exponent)
    want = expected(name, values, exponent, **modes)
    np.testing.assert_array_equal(got, want)
    if oracle.element(name).signed_zero:
        numbers = ~np.isnan(values)
        np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(values)[numbers])


def modes_of(name):
    """(overflow, special): all that differ; poison spoils whole groups of formats without NaN."""
    if oracle.element(name).nan is None:
        return [("saturate", "flag")]
    overflow = "specification" if name in judge.SPECIFIED else "saturate"
    return [("saturate", "flag"), (overflow, "poison")]


def exponents_of(name):
    """Top binades: a scale of 1, the two ends, and 2^0."""
    chosen = oracle.element(name)
    lowest = -126 + (chosen.largest_exponent if chosen.scale == "e8m0" else 0)
    return sorted({chosen.largest_exponent, 15, 127, 0, lowest})


@pytest.mark.parametrize("source", judge.EVERY)
@pytest.mark.parametrize("name", ANCHORED)
def test_squares(name, source):
    for exponent in exponents_of(name):
        values = tiles(judge.EVERY[source](), exponent)
        for overflow, special in modes_of(name):
            chosen = judge.numerics(
                name,
                block=32,
                size=SIDE,
                scale="floor",
                overflow=overflow,
                special=special,
                window=0 if name not in ("fp8_e5m2", "mxfp8_e5m2", "e5m1") else None,
                fraction=0,
                headroom=4,
            )
            tensor = judge.quantise(values, Conversion("x", **judge.AT), chosen, seed=judge.SEED)
            copy = tensor.copies[0]
            unfolded = copy.exponents.astype(int) + copy.folds
            assert ((unfolded == exponent + 127) | (copy.exponents == 0)).all()
            compare(
                tensor,
                name,
                values,
                exponent,
                specification=overflow == "specification",
                poison=special == "poison",
            )


@pytest.mark.parametrize("source", judge.EVERY)
@pytest.mark.parametrize("name", [*judge.TENSOR_SCALED, "bf16"])
def test_given_scale(name, source):
    """What is beyond the top binade too."""
    values = judge.EVERY[source]().reshape(256, 256)
    for exponent in [127] if name == "bf16" else exponents_of(name):
        for overflow, special in modes_of(name):
            chosen = judge.numerics(
                name, block=16, kind="tensor", overflow=overflow, special=special
            )
            scale = None if name == "bf16" else exponent
            tensor = judge.quantise(
                values, Conversion("x", scale=scale, **judge.AT), chosen, seed=judge.SEED
            )
            compare(
                tensor,
                name,
                values,
                exponent,
                specification=overflow == "specification",
                poison=special == "poison",
            )
