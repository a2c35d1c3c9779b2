"""Every stored code of every format, as the golden model reads it, against ml_dtypes and gfloat."""

from dataclasses import replace

import numpy as np
import pytest
from gfloat import decode_ndarray

from diastole_sim.device.conversion import Conversion
from oracle import formats as oracle
from oracle import libraries
from sweeps import judge

SIDE = {16: (256, 256)}


def every_code(name):
    bits = oracle.element(name).bits + 1
    return np.arange(2**bits).reshape(SIDE.get(bits, (-1, 2)))


def decoded(name, codes):
    """What the golden model makes of ``codes`` at a scale of 1 (of NVFP4: in a group of 1.0)."""
    chosen = judge.numerics(name, block=1, kind="tensor" if name == "bf16" else "square", size=1)
    if name == "nvfp4":
        chosen = judge.numerics(name, block=1, kind="square", size=1)
    seed = judge.quantise(
        np.ones(codes.shape, np.float32), Conversion("x", tag=0, step=0), chosen, seed=0
    )
    byte = 7 << 3 if name == "nvfp4" else oracle.element(name).largest_exponent + 127
    copy = replace(
        seed.copies[0],
        codes=codes.astype(np.uint16),
        exponents=np.full(codes.shape, byte, np.uint8),
    )
    exponent = 0 if name == "nvfp4" else seed.tensor_exponent
    return replace(seed, copies=(copy,), tensor_exponent=exponent).values().astype(np.float64)


def same(got, want):
    """NaN is NaN; zeros have signs, where a format keeps them."""
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got) | np.isnan(got), np.signbit(want) | np.isnan(got))


@pytest.mark.parametrize("name", oracle.NAMES)
def test_every_code_against_the_oracle(name):
    codes = every_code(name)
    chosen = oracle.element(name)
    want = [[float(oracle.decode(chosen, code)) for code in row] for row in codes.tolist()]
    np.testing.assert_array_equal(decoded(name, codes), want)


@pytest.mark.parametrize("name", libraries.ML_DTYPES)
def test_every_code_against_ml_dtypes(name):
    codes = every_code(name)
    same(decoded(name, codes), libraries.decode_ml(name, codes))


@pytest.mark.parametrize("name", [n for n in libraries.GFLOAT if n != "mxint8"])
def test_every_code_against_gfloat(name):
    codes = every_code(name)
    same(decoded(name, codes), decode_ndarray(libraries.GFLOAT[name], codes))


def test_mxint8_is_two_s_complement_elsewhere():
    """Stored here with a sign: the values of codes -127 to 127, with one zero."""
    codes = np.arange(-127, 128)
    theirs = decode_ndarray(libraries.GFLOAT["mxint8"], codes % 256)
    mine = decoded("mxint8", np.where(codes < 0, 128 - codes, codes)[None, :])[0]
    np.testing.assert_array_equal(mine, theirs)
