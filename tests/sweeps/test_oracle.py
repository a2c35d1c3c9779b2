"""The oracle itself against the libraries, before it judges."""

from fractions import Fraction

import numpy as np
import pytest

from oracle import bfp, libraries
from oracle import formats as oracle
from sweeps import judge

LARGEST = {  # of the specifications: OFP8, MX 1.0, bfloat16
    "fp8_e4m3": 448,
    "fp8_e5m2": 57344,
    "bf16": (2 - 2.0**-7) * 2.0**127,
    "mxint8": 127 / 64,
    "mxfp8_e4m3": 448,
    "mxfp8_e5m2": 57344,
    "mxfp6_e3m2": 28,
    "mxfp6_e2m3": 7.5,
    "mxfp4_e2m1": 6,
    "nvfp4": 6,
    "bfp4": 15 / 8,
    "bfp1": 1,
}
SMALLEST = {
    "fp8_e4m3": 2.0**-9,
    "fp8_e5m2": 2.0**-16,
    "bf16": 2.0**-133,
    "mxint8": 2.0**-6,
    "mxfp6_e3m2": 2.0**-4,
    "mxfp6_e2m3": 2.0**-3,
    "mxfp4_e2m1": 0.5,
    "bfp8": 2.0**-7,
}


@pytest.mark.parametrize("name", LARGEST)
def test_largest(name):
    assert oracle.element(name).values[-1] == Fraction(LARGEST[name])


@pytest.mark.parametrize("name", SMALLEST)
def test_smallest(name):
    assert oracle.element(name).values[:2] == (0, Fraction(SMALLEST[name]))


@pytest.mark.parametrize("name", libraries.ML_DTYPES)
def test_every_code_against_ml_dtypes(name):
    chosen = oracle.element(name)
    codes = np.arange(2 << chosen.bits)
    theirs = libraries.decode_ml(name, codes).tolist()
    for code, value in zip(codes.tolist(), theirs, strict=True):
        mine = oracle.decode(chosen, code)
        assert mine == Fraction(value) if isinstance(mine, Fraction) else repr(mine) == repr(value)


@pytest.mark.parametrize("name", oracle.NAMES)
def test_rounding_against_gfloat_and_mpfr(name):
    """Every middle between two values (of bf16 every 37th), and what is close to it."""
    chosen = oracle.element(name)
    values = np.array([float(value) for value in chosen.values])
    middles = ((values[1:] + values[:-1]) / 2)[:: 37 if name == "bf16" else 1]
    points = np.concatenate([middles, middles * (1 + 2.0**-30), middles * (1 - 2.0**-30), values])
    codes = [
        min(oracle.round_to_code(chosen, Fraction(point)), chosen.top) for point in points.tolist()
    ]
    np.testing.assert_array_equal(values[codes], libraries.gfloat_round(name, points))
    if chosen.precision > 1:
        rounded = libraries.mpfr_round(
            points, precision=chosen.precision, smallest_exponent=chosen.smallest_exponent
        )
        np.testing.assert_array_equal(values[codes], np.minimum(rounded, values[-1]))


@pytest.mark.parametrize("rule", ["floor", "even", "ceil", "rceil"])
@pytest.mark.parametrize("name", [n for n in oracle.NAMES if n not in ("bf16", "nvfp4")])
def test_scale_rules_against_torchao(name, rule, np_rng):
    """At random significands and at both sides of every place where a rule changes its mind.

    The float32 reciprocal form of ``rceil`` is the exact comparison for the MX minifloats only:
    1 / (127/64) is already rounded too far up.
    """
    chosen = oracle.element(name)
    reach = float(chosen.values[-1])
    edges = np.array([1, 2 - 2.0**-chosen.precision, reach / 2**chosen.largest_exponent])
    edges = edges.astype(np.float32).view(np.uint32).astype(np.int64)
    near = (edges[:, None] + np.arange(-2, 3)).ravel()
    bits = np.concatenate([near, 0x3F800000 + np_rng.integers(0, 2**23, 300)]).astype(np.uint32)
    largest = np.ldexp(bits.view(np.float32), np_rng.integers(-90, 90, bits.size))
    largest = largest.astype(np.float32)
    mine = [oracle.top_binade(chosen, rule, Fraction(value)) for value in largest.tolist()]
    if rule == "rceil" and (chosen.scale != "e8m0" or name == "mxint8"):
        for value, exponent in zip(largest.tolist(), mine, strict=True):
            scale = Fraction(2) ** (exponent - chosen.largest_exponent)
            assert scale * chosen.values[-1] / 2 < Fraction(value) <= scale * chosen.values[-1]
        return
    theirs = libraries.torchao_exponent(
        rule, largest, chosen.precision, chosen.largest_exponent, reach
    )
    assert mine == theirs.tolist()


@pytest.mark.parametrize("rule", libraries.GFLOAT_RULES)
@pytest.mark.parametrize("m", range(1, 9))
def test_block_floating_point_against_its_own_oracle(m, rule, np_rng):
    """The older oracle knows one format only, and computes where this one looks up."""
    for array in (judge.spread(np_rng, (9, 14)), judge.any_bits(np_rng, (6, 9))):
        where = {"rule": rule, "block": 4, "bits": 5, "seed": 1, "tag": 2, "step": 3}
        want = bfp.quantise(array.tolist(), mantissa_bits=m, **where)
        got = oracle.quantise(
            array.tolist(), name=f"bfp{m}", kind="square", size=4, scale_rule="floor", **where
        )
        (copy,) = got.copies
        signs, magnitudes = np.divmod(np.array(copy.codes), 2**m)
        assert (magnitudes.tolist(), signs.tolist()) == (want.mags, want.signs)
        assert (copy.exponents, copy.values) == (want.exponents, want.values)
        assert (copy.row_max, copy.col_max) == (want.row_max, want.col_max)
        assert (got.nan, got.inf, got.saturated) == (want.nan, want.inf, want.saturated)
