"""Float accumulators against MPFR at p bits, in the order of the contraction."""

from dataclasses import replace
from fractions import Fraction

import gmpy2
import numpy as np
import pytest

from diastole_sim.golden.float_sums import FloatSums, to_precision
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.accumulator import FloatAccumulator
from oracle import product as oracle
from support import golden_products
from support.stored import Draws, make_numerics

FACTORS = {
    "forward": (("X", 0), ("W", 1)),
    "input_gradient": (("dY", 0), ("W", 0)),
    "weight_gradient": (("X", 1), ("dY", 1)),
}
"""The factors of every product, and whether their columns (0) or their rows (1) are contracted."""
FORMATS = {
    "bfp4": ("bfp4", {}),
    "vectors": (("bfp3", "1x8"), {}),
    "minifloats": ("fp8_e5m2", {}),
    "exact products": ("mxfp8_e4m3", {"window": 0, "fraction": 8}),
    "two levels": ("nvfp4", {"fraction": 25}),
    "wide sums": ("fp8_e5m2", {"window": 34, "fraction": 16, "headroom": 8}),
}
"""In blocks of 4."""


def to_bits(value, precision):
    with gmpy2.context(precision=precision, round=gmpy2.RoundToNearest):
        return int(gmpy2.mpfr(value))


@pytest.mark.parametrize("precision", [3, 10, 24, 52])
def test_rounding(precision, np_rng):
    """Of every length, near ties, ties, and what carries into the next binade."""
    lengths = np_rng.integers(1, 54, 4000)
    values = np_rng.integers(0, 2**53, 4000) >> (53 - lengths)
    below = np.maximum(lengths - precision, 0)
    half = np.where(below > 0, np.int64(1) << np.maximum(below - 1, 0), 0)
    ties = np.minimum((values >> below << below) + half + np_rng.integers(-1, 2, 4000), 2**53 - 1)
    ones = (np.int64(1) << lengths) - 1
    values = np.concatenate([values, np.maximum(ties, 0), ones]) * np_rng.choice([-1, 1], 12000)
    want = [to_bits(int(value), precision) for value in values]
    assert to_precision(values.astype(np.float64), precision).tolist() == want


def test_rounding_looks_at_no_exponent(np_rng):
    values = np_rng.integers(-(2**40), 2**40, 500).astype(np.float64)
    for scale in (-300, 300):
        moved = to_precision(np.ldexp(values, scale), 7)
        np.testing.assert_array_equal(moved, np.ldexp(to_precision(values, 7), scale))


@pytest.mark.parametrize("precision", [3, 10, 24])
def test_sums_of_chunks(precision, np_rng):
    """Of very different sizes, so that additions lose what is beyond 53 bits too; exact if none
    does, in each matrix of a stack."""
    chunks = np_rng.integers(-(2**52), 2**52, (12, 3, 5, 4)) >> np_rng.integers(
        0, 52, (12, 3, 5, 4)
    )
    chunks[:, 1] = np_rng.integers(-1, 2, (12, 5, 4))
    chunks[:, 2] = 0
    chunks[:2, 2, 0, 0] = 1 << 60, 1  # which is beyond 53 bits beside it
    total = FloatSums(precision=precision)
    want, lost = np.zeros((3, 5, 4), object), np.zeros((3, 5, 4), bool)
    for chunk in chunks:
        total.add(chunk.astype(np.float64))
        for place in np.ndindex(want.shape):
            q = int(chunk[place])
            added = to_bits(q, precision)
            new = to_bits(want[place] + added, precision)
            lost[place] |= (added, new) != (q, want[place] + added)
            want[place] = new
    np.testing.assert_array_equal(total.sums, want.astype(np.float64))
    assert total.exact.tolist() == [not each.any() for each in lost]


def check(name, tensors, chosen):
    """One product of stored tensors against the oracle; its result."""
    named = dict(zip(("X", "W", "dY"), tensors, strict=True))
    (first, _), (second, _) = factors = FACTORS[name]
    got = getattr(golden_products, name)(*sorted((named[first], named[second]), key=_order), chosen)
    sums, exact = oracle.aligned_product(
        *(oracle.read(named[which], number) for which, number in factors),
        block=chosen.block,
        fraction=chosen.fraction,
        product_bits=chosen.product_bits(first.lower(), second.lower()),
        poison=chosen.special == "poison",
        floats=chosen.accumulator,
    )
    rows, columns = got.values.shape
    want = [
        [float("nan") if v is None else oracle.binary32(Fraction(v))[0] for v in row[:columns]]
        for row in sums[:rows]
    ]
    want = np.array(want, np.float32)
    np.testing.assert_array_equal(got.values.view(np.uint32), want.view(np.uint32))
    assert got.exact == exact
    return got


def _order(tensor):
    return ("x", "w", "dy").index(tensor.tensor_class)


@pytest.mark.parametrize("name", FACTORS)
@pytest.mark.parametrize("formats, options", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("mantissa, chunk", [(2, 8), (9, 12), (23, 20)])
@pytest.mark.sampled(3)
def test_products(name, formats, options, mantissa, chunk, np_rng):
    """Chunks of 2, 3 and 5 blocks of 4, the last one short; near one another and far apart."""
    floats = {"kind": "float", "mantissa": mantissa, "chunk": chunk}
    chosen = make_numerics(formats, accumulator=floats, **options)
    for spread in (1, 14):
        draws = Draws(np_rng, chosen, spread=spread, deep=0.2)
        check(name, draws.tensors(11, 26, 13), chosen)


def test_poison_reaches_over_chunks(np_rng):
    floats = {"kind": "float", "mantissa": 5, "chunk": 8}
    chosen = make_numerics("fp8_e5m2", accumulator=floats, special="poison")
    got = check("forward", Draws(np_rng, chosen, specials=0.02).tensors(9, 21, 7), chosen)
    assert 0 < np.isnan(got.values).sum() < got.values.size


def test_exact_where_no_rounding_loses_a_bit():
    """32 and 15 have 6 bits together, 64 and 15 have 7, of which 64 and 14 need 6."""
    floats = FloatAccumulator(mantissa=5, chunk=8)
    plain = make_numerics("bfp4", fraction=8)
    chosen = replace(plain, accumulator=floats)
    for parts, exact in (((32, 15), True), ((64, 15), False), ((64, 14), True)):
        x = np.zeros((1, 16), np.float32)
        w = np.zeros((16, 1), np.float32)
        x[0, 0], x[0, 8] = 1, 1
        w[0, 0], w[8, 0] = parts
        result = NumpyDevice(chosen).forward(x, w)
        assert result.exact == exact, parts
        assert (result.y[0, 0] == sum(parts)) == exact
        assert NumpyDevice(plain).forward(x, w).exact


def test_the_order_of_chunks_decides():
    """A large chunk first hides what comes after; where it comes last nothing is hidden."""
    floats = {"kind": "float", "mantissa": 3, "chunk": 8}
    device = NumpyDevice(make_numerics("bfp4", accumulator=floats, fraction=16))
    x, w = np.ones((1, 40), np.float32), np.ones((40, 1), np.float32)
    x[0, 32:] = 16
    assert device.forward(x, w).y[0, 0] == 160  # 8 + 8 + 8 + 8, then 128
    assert device.forward(x[:, ::-1], w).y[0, 0] == 128  # and 8 four times, half a unit


def test_chunks_longer_than_the_contraction_round_once(np_rng):
    chosen = make_numerics("bfp4", fraction=4)
    tensors = Draws(np_rng, chosen).tensors(7, 19, 5)
    whole = golden_products.forward(*tensors[:2], chosen)
    longest = FloatAccumulator(mantissa=23, chunk=512)
    got = golden_products.forward(*tensors[:2], replace(chosen, accumulator=longest))
    np.testing.assert_array_equal(got.values, whole.values)
    assert got.exact == whole.exact
