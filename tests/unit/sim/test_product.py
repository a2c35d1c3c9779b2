"""Products against exact fractions rounded once by MPFR, and against the naive aligned sum."""

import re
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

from diastole_sim.golden import product
from diastole_sim.golden.convert import quantise
from diastole_sim.golden.product import to_binary32
from diastole_sim.numerics import Numerics
from oracle import product as oracle

SHAPES = [(1, 1, 1), (3, 5, 7), (9, 17, 8)]
FORMATS = [(2, 8, 4), (3, 5, 7), (4, 4, 4), (5, 3, 2), (6, 2, 8), (7, 6, 5), (8, 7, 6), (8, 8, 8)]
OPS = ("forward", "dx", "dw")


def numerics(*, block=4, bits=(4, 4, 4), fraction=18, headroom=14):
    classes = {
        name: {"format": f"bfp{m}", "rounding": "nearest"}
        for name, m in zip(("x", "w", "dy"), bits, strict=True)
    }
    scalars = {"block": block, "random_bits": 8, "fraction": fraction, "headroom": headroom}
    return Numerics.from_dict({**scalars, **classes})


def tensors(np_rng, shape, chosen, spread):
    """X, W and dY of M, K, N; signed, each block moved by up to ``spread`` binades, some zero."""
    m, k, n = shape
    quantised = []
    for name, (rows, columns) in zip(("x", "w", "dy"), ((m, k), (k, n), (m, n)), strict=True):
        blocks = [-(-side // chosen.block) for side in (rows, columns)]
        powers = np_rng.integers(-spread, spread + 1, blocks)
        factors = np.where(np_rng.random(blocks) < 0.1, 0.0, 2.0**powers)
        factors = factors.repeat(chosen.block, 0).repeat(chosen.block, 1)[:rows, :columns]
        array = (np_rng.standard_normal((rows, columns)) * factors).astype(np.float32)
        quantised.append(quantise(array, name, chosen, seed=0, tag=0, step=0))
    return quantised


def integers(tensor):
    signed = np.where(tensor.negative, -tensor.magnitudes.astype(int), tensor.magnitudes)
    return signed.astype(int).tolist()


def operands(op, x, w, dy):
    """(A, A's exponents, A's bits, B, ...) of a product A B, by the equations."""

    def plain(tensor):
        return integers(tensor), tensor.exponents.tolist(), tensor.format.mantissa_bits

    def turned(tensor):
        rows, exponents, bits = plain(tensor)
        return oracle.transpose(rows), oracle.transpose(exponents), bits

    return {
        "forward": lambda: (*plain(x), *plain(w)),
        "dx": lambda: (*plain(dy), *turned(w)),
        "dw": lambda: (*turned(x), *plain(dy)),
    }[op]()


def golden(op, x, w, dy, chosen):
    return {
        "forward": lambda: product.forward(x, w, chosen),
        "dx": lambda: product.input_gradient(w, dy, chosen),
        "dw": lambda: product.weight_gradient(x, dy, chosen),
    }[op]()


def exact_values(op, x, w, dy):
    """The product of the operands' values, as fractions."""

    def values(tensor):
        return [[Fraction(value) for value in row] for row in tensor.values().tolist()]

    pair = {
        "forward": lambda: (values(x), values(w)),
        "dx": lambda: (values(dy), oracle.transpose(values(w))),
        "dw": lambda: (oracle.transpose(values(x)), values(dy)),
    }[op]()
    return oracle.exact_product(*pair)


def bits_of(values):
    return np.asarray(values, np.float32).view(np.uint32)


def check(op, x, w, dy, chosen):
    """One product against both references; returns it."""
    got = golden(op, x, w, dy, chosen)
    sums, exact = oracle.aligned_product(
        *operands(op, x, w, dy), block=chosen.block, fraction=chosen.fraction
    )
    rows, columns = got.values.shape
    rounded = [[oracle.binary32(value) for value in row[:columns]] for row in sums[:rows]]
    want = [[value for value, _ in row] for row in rounded]
    np.testing.assert_array_equal(bits_of(got.values), bits_of(want))
    assert got.exact == exact
    assert got.overflow == any(over for row in rounded for _, over in row)
    assert got.values.dtype == np.float32
    if exact:
        once = [[oracle.binary32(v)[0] for v in row] for row in exact_values(op, x, w, dy)]
        np.testing.assert_array_equal(bits_of(got.values), bits_of(once))
    return got


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("bits", FORMATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_mixed_formats(op, bits, shape, np_rng):
    chosen = numerics(bits=bits)
    assert check(op, *tensors(np_rng, shape, chosen, 2), chosen).exact
    check(op, *tensors(np_rng, shape, chosen, 14), chosen)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("block", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize(
    "spread, fraction", [(1, 18), (3, 8), (9, 18), (20, 32), (100, 18), (1, 0)]
)
def test_blocks_and_spreads(op, block, spread, fraction, np_rng):
    """From exact products to those where nearly every block sum is shifted out."""
    shape = (5, 4 * block + 3, 6) if op == "forward" else (9, 7, 2 * block + 1)
    shape = (4 * block + 3, 5, 6) if op == "dw" else shape
    chosen = numerics(block=block, bits=(4, 8, 5), fraction=fraction, headroom=9)
    check(op, *tensors(np_rng, shape, chosen, spread), chosen)


@pytest.mark.parametrize("fraction", [0, 1, 18, 32])
@pytest.mark.parametrize("headroom", [9, 14])
def test_every_deficit_around_the_limits(fraction, headroom, np_rng):
    """Two blocks of the contraction, the second d below the first: d from 0 past SW + F."""
    bits = (8, 8, 8) if headroom == 9 else (4, 4, 4)
    chosen = numerics(block=2, bits=bits, fraction=fraction, headroom=headroom)
    for d in range(chosen.block_sum_bits + fraction + 4):
        split = int(np_rng.integers(0, d + 1))
        x = np_rng.uniform(-2, 2, (2, 4))
        w = np_rng.uniform(-2, 2, (4, 2))
        x[0, 0] = x[0, 2] = w[0, 0] = w[2, 0] = 1.5
        x[:, 2:] *= 2.0**-split
        w[2:] *= 2.0 ** (split - d)
        qx = quantise(x.astype(np.float32), "x", chosen, seed=0, tag=0, step=0)
        qw = quantise(w.astype(np.float32), "w", chosen, seed=0, tag=0, step=0)
        assert check("forward", qx, qw, None, chosen).exact == (d <= fraction), d


def test_ties_round_upward():
    """A block sum of +1 and of -1, one half below the unit: 1 and 0."""
    chosen = numerics(block=1, fraction=0, headroom=4)
    for sign, half in ((1, 1), (-1, 0)):
        x = np.array([[1.0, sign * 0.125]], np.float32)
        w = np.array([[1.0], [0.125]], np.float32)
        small = 8 * 8 * Fraction(1, 64)  # the second sum in units of the first: 64 * 2^-6 = 1
        assert small == 1
        x[0, 1] /= 2  # now one half
        result = check(
            "forward",
            quantise(x, "x", chosen, seed=0, tag=0, step=0),
            quantise(w, "w", chosen, seed=0, tag=0, step=0),
            None,
            chosen,
        )
        assert result.values[0, 0] == (64 + half) / 64
        assert not result.exact


@pytest.mark.parametrize("x_tail, w_tail, exact", [(1, 0, True), (0, 1, True), (1, 1, False)])
def test_a_zero_block_meets_nothing(x_tail, w_tail, exact):
    """A large deficit against a block of zeros drops nothing, and the product stays exact."""
    chosen = numerics(block=1, fraction=2, headroom=4)
    x = np.array([[1.0, x_tail * 2.0**-40]], np.float32)
    w = np.array([[1.0], [w_tail * 2.0**-40]], np.float32)
    qx = quantise(x, "x", chosen, seed=0, tag=0, step=0)
    qw = quantise(w, "w", chosen, seed=0, tag=0, step=0)
    assert check("forward", qx, qw, None, chosen).exact == exact


def test_sums_beyond_float64():
    """Large sums that cancel around a small block 2^-32 below them: 60 bits, none may be lost."""
    chosen = numerics(block=32, bits=(8, 8, 8), fraction=32, headroom=9)
    large = np.full(32 * 32, 255 / 128, np.float32)
    small = np.full(32, 2.0**-16, np.float32)
    small[0] *= 255 / 128  # its sum has an odd last bit
    x = np.concatenate([large, small, -large, small])[None, :]
    w = np.abs(x).T.copy()
    qx = quantise(np.repeat(x, 3, axis=0), "x", chosen, seed=0, tag=0, step=0)
    qw = quantise(np.repeat(w, 5, axis=1), "w", chosen, seed=0, tag=0, step=0)
    assert check("forward", qx, qw, None, chosen).exact


@pytest.mark.parametrize("op", OPS)
def test_zeros_give_plus_zero(op, np_rng):
    chosen = numerics()
    x, w, dy = tensors(np_rng, (5, 6, 7), chosen, 1)
    nothing = -0.0 * np.ones((5, 6 if op != "dx" else 7), np.float32)
    place = "dy" if op == "dx" else "x"
    zeros = quantise(nothing, place, chosen, seed=0, tag=0, step=0)
    result = check(op, x, w, zeros, chosen) if op == "dx" else check(op, zeros, w, dy, chosen)
    assert (bits_of(result.values) == 0).all()


def test_cancelled_sums_give_plus_zero():
    chosen = numerics()
    cancelled = quantise(np.array([[1, -1]], np.float32), "x", chosen, seed=0, tag=0, step=0)
    ones = quantise(np.ones((2, 3), np.float32), "w", chosen, seed=0, tag=0, step=0)
    assert (bits_of(check("forward", cancelled, ones, None, chosen).values) == 0).all()


def scaled(np_rng, shape, power):
    return np.ldexp(np_rng.uniform(-2, 2, shape), power).astype(np.float32)


@pytest.mark.parametrize("powers", [(70, 56), (70, 57), (63, 63), (63, 64), (127, 127), (127, 0)])
def test_overflow_to_inf(powers, np_rng):
    chosen = numerics()
    x = quantise(scaled(np_rng, (6, 9), powers[0]), "x", chosen, seed=0, tag=0, step=0)
    w = quantise(scaled(np_rng, (9, 6), powers[1]), "w", chosen, seed=0, tag=0, step=0)
    result = check("forward", x, w, None, chosen)
    assert result.overflow == bool(np.isinf(result.values).any())
    assert result.overflow == (sum(powers) > 125)


@pytest.mark.parametrize("powers", [(-63, -63), (-64, -64), (-66, -64), (-126, -126), (-126, 0)])
def test_flush_to_plus_zero(powers, np_rng):
    chosen = numerics()
    x = quantise(scaled(np_rng, (6, 9), powers[0]), "x", chosen, seed=0, tag=0, step=0)
    w = quantise(scaled(np_rng, (9, 6), powers[1]), "w", chosen, seed=0, tag=0, step=0)
    values = check("forward", x, w, None, chosen).values
    assert (np.abs(values[values != 0]) >= 2.0**-126).all()


def test_last_rounding_on_any_integer(np_rng):
    """Every bit length up to 62, every result exponent near the ends, ties and near ties."""
    lengths = np_rng.integers(0, 63, (60, 100))
    integers = np_rng.integers(0, 2**62, lengths.shape) >> (62 - lengths)
    ties = np_rng.random(lengths.shape) < 0.5
    keep = np.maximum(lengths - 24, 0)
    tie = (integers >> keep << keep) | np.where(keep > 0, np.int64(1) << np.maximum(keep - 1, 0), 0)
    integers = np.where(ties, tie + np_rng.integers(-1, 2, lengths.shape), integers)
    integers = np.clip(integers, 0, 2**62 - 1) * np_rng.choice([-1, 1], lengths.shape)
    ends = np_rng.choice([-127, -126, -125, 0, 126, 127, 128], lengths.shape)
    scale = ends - np.maximum(lengths - 1, 0) + np_rng.integers(-1, 2, lengths.shape)
    values, overflow = to_binary32(integers, scale)
    want = [
        [oracle.binary32(i * Fraction(2) ** s) for i, s in zip(*rows, strict=True)]
        for rows in zip(integers.tolist(), scale.tolist(), strict=True)
    ]
    np.testing.assert_array_equal(bits_of(values), bits_of([[v for v, _ in row] for row in want]))
    assert overflow and any(over for row in want for _, over in row)


@pytest.mark.parametrize(
    "integer, scale, want",
    [
        (2**24 - 1, -150, 2.0**-126 - 2.0**-150),  # 24 bits below 2^-126: numpy would keep it
        (2**25 - 1, -151, 2.0**-126),  # rounds up to 2^-126 at 24 bits, so it is kept
        (-(2**24 - 1), -150, -0.0),
        (1, -126, 2.0**-126),
        (2**24 - 1, 104, float(np.finfo(np.float32).max)),
        (2**25 - 1, 103, np.inf),
        (-(2**25 - 1), 103, -np.inf),
        (2**62 - 1, -62, 1.0),
    ],
)
def test_last_rounding_at_the_edges(integer, scale, want):
    values, overflow = to_binary32(np.array([[integer]]), np.array([[scale]]))
    if abs(want) < 2.0**-126:
        want = 0.0
    assert bits_of(values)[0, 0] == bits_of([[want]])[0, 0]
    assert overflow == (abs(want) == np.inf)


def test_largest_sums_at_the_widest_accumulator():
    """Every element at its largest, W = 63, the contraction as long as headroom allows."""
    chosen = numerics(block=32, bits=(8, 8, 8), fraction=32, headroom=9)
    assert chosen.accumulator_bits == 63
    length = chosen.max_contraction
    for sign in (1, -1):
        x = np.full((1, length), sign * 255 / 128, np.float32)
        w = np.full((length, 1), 255 / 128, np.float32)
        got = product.forward(
            quantise(x, "x", chosen, seed=0, tag=0, step=0),
            quantise(w, "w", chosen, seed=0, tag=0, step=0),
            chosen,
        )
        want, _ = oracle.binary32(Fraction(sign * length * 255 * 255, 128 * 128))
        assert got.values[0, 0] == want and got.exact


def test_path_does_not_matter(np_rng, monkeypatch):
    """The same bits when all block sums are taken one by one, and for any slab."""
    chosen = numerics(block=2)
    x, w, dy = tensors(np_rng, (13, 21, 9), chosen, 3)
    want = product.forward(x, w, chosen)
    monkeypatch.setattr(product, "FLOAT64_BITS", 20)
    for elements in (1, 40, 1 << 15):
        monkeypatch.setattr(product, "SLAB_ELEMENTS", elements)
        got = product.forward(x, w, chosen)
        np.testing.assert_array_equal(bits_of(got.values), bits_of(want.values))
        assert got.exact == want.exact


def test_padding_changes_nothing(np_rng):
    """Zero rows and columns beside the data, in blocks of their own, give the same values."""
    chosen = numerics(block=4)
    x, w = (np_rng.standard_normal(shape).astype(np.float32) for shape in ((5, 6), (6, 7)))
    wide_x = np.zeros((12, 16), np.float32)
    wide_w = np.zeros((16, 12), np.float32)
    wide_x[:5, :6], wide_w[:6, :7] = x, w
    one, other = (
        product.forward(
            quantise(a, "x", chosen, seed=0, tag=0, step=0),
            quantise(b, "w", chosen, seed=0, tag=0, step=0),
            chosen,
        ).values
        for a, b in ((x, w), (wide_x, wide_w))
    )
    np.testing.assert_array_equal(bits_of(one), bits_of(other[:5, :7]))
    assert not other[5:].any() and not other[:, 7:].any()


@pytest.mark.parametrize("op", OPS)
def test_longest_contraction(op, np_rng):
    chosen = numerics(block=2, headroom=2)
    shapes = {"forward": (2, 8, 2), "dx": (2, 2, 8), "dw": (8, 2, 2)}[op]
    check(op, *tensors(np_rng, shapes, chosen, 1), chosen)
    longer = tuple(9 if side == 8 else side for side in shapes)
    message = (
        "the contraction has 9 elements, more than the 8 that a headroom of 2 bits allows "
        "(2^2 blocks of 2)"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        golden(op, *tensors(np_rng, longer, chosen, 1), chosen)


@pytest.mark.parametrize(
    "op, shapes, message",
    [
        ("forward", ((3, 5), (4, 5), (3, 5)), "the columns of X are 5, but the rows of W are 4"),
        ("dx", ((3, 5), (5, 7), (3, 6)), "the columns of dY are 6, but the columns of W are 7"),
        ("dw", ((3, 5), (5, 7), (4, 7)), "the rows of X are 3, but the rows of dY are 4"),
    ],
)
def test_shapes_must_agree(op, shapes, message):
    chosen = numerics()
    x, w, dy = (
        quantise(np.ones(shape, np.float32), name, chosen, seed=0, tag=0, step=0)
        for name, shape in zip(("x", "w", "dy"), shapes, strict=True)
    )
    with pytest.raises(ValueError, match=f"^{message}; they must be equal$"):
        golden(op, x, w, dy, chosen)


def test_the_oracle_does_not_import_the_code_under_test():
    code = (
        "import sys; from oracle import bfp, product, rounding, threefry; "
        "sys.exit(any(name.split('.')[0] in ('diastole', 'diastole_sim', 'numpy') "
        "for name in sys.modules))"
    )
    tests = [path for path in sys.path if path.endswith("tests")]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tests[0])
