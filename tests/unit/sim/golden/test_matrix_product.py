"""Products against exact fractions rounded once by MPFR, and against the naive aligned sum."""

import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from diastole_sim.golden import matrix_product
from diastole_sim.golden.matrix_product import to_binary32
from diastole_sim.spec.formats import FORMAT_NAMES
from diastole_sim.spec.numerics import BLOCK_SIDES
from oracle import product as oracle
from support.golden_products import forward, input_gradient, weight_gradient
from support.stored import Draws, by_hand, make_numerics, stored
from support.sweep import sweep

RESULTS = ("Y", "dX", "dW")
FACTORS = {
    "Y": (("X", 0), ("W", 1)),
    "dX": (("dY", 0), ("W", 0)),
    "dW": (("X", 1), ("dY", 1)),
}
"""The factors of every result, and whether their columns (0) or their rows (1) are contracted."""


def tensors(np_rng, shape, chosen, **options):
    """X, W and dY of M, K, N."""
    return Draws(np_rng, chosen, **options).tensors(*shape)


def golden(name, x, w, dy, chosen):
    return {
        "Y": lambda: forward(x, w, chosen),
        "dX": lambda: input_gradient(w, dy, chosen),
        "dW": lambda: weight_gradient(x, dy, chosen),
    }[name]()


def bits_of(values):
    return np.asarray(values, np.float32).view(np.uint32)


def last_rounding(rows, shape):
    """(float32 values, whether one overflowed) of padded fractions, and of None for NaN."""
    rounded = [
        [(float("nan"), False) if v is None else oracle.binary32(v) for v in row[: shape[1]]]
        for row in rows[: shape[0]]
    ]
    values = np.array([[value for value, _ in row] for row in rounded], np.float32)
    return values, any(over for row in rounded for _, over in row)


def check(name, x, w, dy, chosen):
    """One product against both references; returns it."""
    got = golden(name, x, w, dy, chosen)
    (first, _), (second, _) = factors = FACTORS[name]
    named = {"X": x, "W": w, "dY": dy}
    sides = [oracle.read(named[which], number) for which, number in factors]
    poison = chosen.special == "poison"
    sums, exact = oracle.aligned_product(
        *sides,
        block=chosen.block,
        fraction=chosen.fraction,
        product_bits=chosen.product_bits(first.lower(), second.lower()),
        poison=poison,
        floats=chosen.accumulator,
    )
    values, overflow = last_rounding(sums, got.values.shape)
    np.testing.assert_array_equal(bits_of(got.values), bits_of(values))
    assert (got.exact, got.overflow) == (exact, overflow)
    assert got.values.dtype == np.float32
    if exact:
        whole = oracle.exact_product(*sides, poison=poison)
        once, _ = last_rounding(whole, got.values.shape)
        np.testing.assert_array_equal(bits_of(got.values), bits_of(once))
    return got


# Formats and windows.


@pytest.mark.parametrize("window", [11, 16, 17, 24, 33, 47, 48])
@pytest.mark.parametrize("block", [1, 4, 32])
@pytest.mark.sampled(3)
def test_windows(window, block, np_rng):
    """Products of any size in windows of any size, to the widest, which needs all of a float64."""
    formats = ("fp8_e4m3", "fp8_e5m2") if window < 16 else ("fp8_e5m2", "bf16")
    chosen = make_numerics(*formats, window=window, block=block, fraction=3, headroom=3)
    for deep, spread in ((0.0, 2), (0.0, 25), (0.3, 2), (1.0, 2)):
        given_ = tensors(np_rng, (3, 2 * block + 1, 5), chosen, deep=deep, spread=spread)
        check("Y", *given_, chosen)


@pytest.mark.parametrize("sign", [0, 0x80])
def test_the_widest_window_keeps_every_bit(sign):
    """Large products that cancel, and one of the last place among them.

    1.75 * 1.75 is four times 1.75 * 0.4375, so that what one of these alone lost would be seen.
    """
    chosen = make_numerics("fp8_e5m2", window=48, block=32, fraction=0, headroom=2)
    x, w = np.zeros((32, 32), int), np.zeros((32, 32), int)
    x[0, :31] = 0x7B | sign  # 1.75 in the top binade
    w[:6, 0], w[6:30, 0] = 0x7B, 0x7B - 8 | 0x80
    x[0, 30], w[30, 0] = 0x78 - 4 * 23, 0x78 - 4 * 23  # 2^-23
    pair = by_hand("x", chosen, x, [[127]]), by_hand("w", chosen, w, [[127]])
    assert check("Y", *pair, None, chosen).values[0, 0] == 2.0**-46


def test_the_widest_exact_tree_keeps_every_bit():
    """The same in 50 bits, where block sums outgrow a float64 before they cancel."""
    chosen = make_numerics(
        "fp8_e4m3", "fp8_e5m2", "bfp2", window=0, block=32, fraction=0, headroom=2
    )
    x, w = np.zeros((32, 32), int), np.zeros((32, 32), int)
    x[0, :31], w[:31, 0] = 0x7E, 0x7B
    x[0, 16:31] |= 0x80
    x[0, 15], w[15, 0] = 0x01, 0x01
    pair = by_hand("x", chosen, x, [[127]]), by_hand("w", chosen, w, [[127]])
    got = check("Y", *pair, None, chosen)
    assert got.exact
    assert got.values[0, 0] == 2.0**-48


def test_sums_of_nvfp4_beyond_float64():
    """Large sums that cancel, and the smallest product that there is."""
    chosen = make_numerics(("nvfp4", "32x32"), block=32, fraction=28)
    row, scales = np.full(511 * 32, 7), np.full(511, 0x7E)  # 6 under scales of 448
    row[255 * 32 : 256 * 32], row[255 * 32], scales[255] = 0, 1, 1  # 0.5 under 2^-9
    negative = np.where(np.arange(row.size) < 256 * 32, 0, 8)
    x, w = np.zeros((32, row.size), int), np.zeros((row.size, 32), int)
    x[0], w[:, 0] = row | negative, row
    x = by_hand("x", chosen, x, scales[None], tensor_exponent=0)
    w = by_hand("w", chosen, w, scales[:, None], tensor_exponent=0)
    got = forward(x, w, chosen)
    assert got.exact
    assert got.values[0, 0] == 2.0**-20
    assert not got.values[0, 1:].any()


PAIRS = {
    "e4m3": (("fp8_e4m3", "fp8_e4m3"), 36),
    "e5m2": (("fp8_e5m2", "fp8_e5m2"), None),
    "e4m3 x e5m2": (("fp8_e4m3", "fp8_e5m2"), 50),
}
"""Formats, and the bits of the window that makes their products exact, if there may be one."""
CASES = [(name, window, "flag") for name in PAIRS for window in (16, 20, 24, 0)]
CASES += [(name, 16, "poison") for name in PAIRS]
CASES.remove(("e5m2", 0, "flag"))


@pytest.mark.parametrize("pair, window, special", CASES)
@pytest.mark.sampled(3)
def test_every_product_of_two_bytes(pair, window, special):
    """All 65 536, each alone in its block, from what the standard says that the bytes are."""
    formats, exact_bits = PAIRS[pair]
    options = {"block": 1, "fraction": 0, "headroom": 1, "special": special, "window": window}
    chosen = make_numerics(*formats, "bfp2", **options)
    bytes_, exponents = np.arange(256)[:, None], np.full((256, 1), 127)
    x, w = by_hand("x", chosen, bytes_, exponents), by_hand("w", chosen, bytes_.T, exponents.T)
    got = forward(x, w, chosen)
    numbers = [[standard(name, byte, special) for byte in range(256)] for name in formats]
    places = (window or exact_bits) - 2
    want = np.array([[in_tree(x, y, places) for y in numbers[1]] for x in numbers[0]], np.float32)
    np.testing.assert_array_equal(bits_of(got.values), bits_of(want))
    assert got.exact == (window == 0)
    assert not got.overflow


def standard(name, byte, special):
    """An OFP8 byte as a fraction, divided by the power of two below the largest number; None if it
    poisons."""
    _exponent_bits, fraction_bits, bias = {"fp8_e4m3": (4, 3, 7), "fp8_e5m2": (5, 2, 15)}[name]
    sign, magnitude = (-1) ** (byte >> 7), byte & 0x7F
    largest = 0x7E if name == "fp8_e4m3" else 0x7B
    if magnitude > largest and special == "poison":
        return None
    if magnitude > largest:
        return Fraction(sign * 7, 4) if name == "fp8_e5m2" and magnitude == 0x7C else Fraction(0)
    field, fraction = divmod(magnitude, 2**fraction_bits)
    significand = Fraction(fraction, 2**fraction_bits) + (field != 0)
    top = largest // 2**fraction_bits - bias
    return sign * significand * Fraction(2) ** (max(field, 1) - bias - top)


def in_tree(x, y, places):
    """x y rounded to ``places`` binary places, half away from zero; NaN if one is None."""
    if x is None or y is None:
        return np.nan
    scaled = abs(x * y) * 2**places
    whole = (2 * scaled + 1) // 2
    return float(Fraction(whole, 2**places)) * (-1 if x * y < 0 and whole else 1)


def test_ties_of_a_window_go_away_from_zero():
    chosen = make_numerics("fp8_e4m3", window=16, block=2, fraction=0, headroom=1)
    x = by_hand("x", chosen, [[0x78, 0x78], [0, 0]], [[127]])  # 1 in the top binade
    for low, want in ((0x08, 1), (0x01, 0), (0x03, 0), (0x04, 1), (0x05, 1), (0x0C, 2)):
        for sign in (0, 0x80):  # low: 1, 1/8, 3/8, 1/2, 5/8, 3/2 of the last place, 2^-14
            w = by_hand("w", chosen, [[low | sign, 0], [0, 0]], [[127]])
            got = check("Y", x, w, None, chosen).values[0, 0]
            assert got == (-want if sign else want) * 2.0**-14, (low, sign)


@pytest.mark.parametrize("d, exact", [(7, True), (8, False)])
def test_exact_says_whether_a_window_could_cut(d, exact):
    """E4M3 in 16 bits: elements of 4 + d and 4 + 1 bits that never meet, but could."""
    chosen = make_numerics("fp8_e4m3", window=16, block=2, fraction=0, headroom=1)
    top = by_hand("w", chosen, [[0x7E, 0], [0, 0]], [[127]])
    below = by_hand("w", chosen, [[0x7E, 0x76], [0, 0]], [[127]])
    nothing = by_hand("w", chosen, [[0, 0], [0, 0]], [[127]])
    first = by_hand("x", chosen, [[0x7E, 0x7E - 8 * d], [0, 0]], [[127]])
    deepest = by_hand("x", chosen, [[0x7E, 0x01], [0, 0]], [[127]])
    assert check("Y", first, top, None, chosen).exact
    assert check("Y", first, below, None, chosen).exact == exact
    assert not check("Y", deepest, top, None, chosen).exact
    assert check("Y", deepest, nothing, None, chosen).exact


@pytest.mark.parametrize("special", ["flag", "poison"])
def test_an_infinity_has_an_extent_where_it_is_an_element(special):
    """Where it is poison, no bit is lost of any number."""
    chosen = make_numerics("fp8_e5m2", window=16, block=2, special=special)
    x = by_hand("x", chosen, [[0x7C, 0], [0, 0]], [[127]])
    w = by_hand("w", chosen, [[0x7B, 0x01], [0, 0]], [[127]])
    assert check("Y", x, w, None, chosen).exact == (special == "poison")


def test_a_window_could_cut_only_inside_a_block_of_the_contraction():
    chosen = make_numerics("fp8_e4m3", window=16, block=2, fraction=0, headroom=2)
    top, deep, zero = [0x7E, 0x7E], [0x7E, 0x01], [0, 0]
    x = by_hand("x", chosen, [deep + zero, zero + zero], [[127, 127]])
    for rows, exact in (([zero, zero, top, deep], True), ([top, top, zero, zero], False)):
        w = by_hand("w", chosen, rows, [[127], [127]])
        assert check("Y", x, w, None, chosen).exact == exact


# Groups and scales.


@pytest.mark.parametrize("name", RESULTS)
def test_only_the_copy_of_the_right_axis_is_read(name, np_rng):
    """The hosts' table of copies says which; the other one is not even there."""
    chosen = make_numerics(("mxfp8_e4m3", "1x4"))
    given_ = dict(zip(("X", "W", "dY"), tensors(np_rng, (6, 7, 5), chosen), strict=True))
    want = golden(name, *given_.values(), chosen).values
    for which, number in FACTORS[name]:
        tensor = given_[which]
        copies = [copy if place == number else None for place, copy in enumerate(tensor.copies)]
        given_[which] = stored(tensor.tensor_class, chosen, tensor.shape, copies)
    np.testing.assert_array_equal(golden(name, *given_.values(), chosen).values, want)


@pytest.mark.parametrize("exponent", [0, -30, 17])
def test_every_scale_of_nvfp4_beside_every_other(exponent):
    """One element of 6 under each; scales are 1 to 1.875 times a power of two, or subnormal."""
    chosen = make_numerics(("nvfp4", "1x1"), block=1, fraction=28, headroom=9)
    scales = np.arange(1, 127)[:, None]
    sixes = np.full(scales.shape, 7)
    x = by_hand("x", chosen, sixes, scales, tensor_exponent=exponent)
    w = by_hand("w", chosen, sixes.T, scales.T, tensor_exponent=3)
    got = check("Y", x, w, None, chosen)
    field, fraction = np.divmod(np.arange(1, 127), 8)
    e4m3 = np.ldexp(fraction / 8 + (field != 0), np.maximum(field, 1) - 7)
    np.testing.assert_array_equal(got.values, 36 * np.outer(e4m3, e4m3) * 2.0 ** (exponent + 3))


@pytest.mark.parametrize("fraction", [27, 28])
def test_the_fraction_that_nvfp4_needs(fraction):
    """Scales of 2^-9 and of 448 in both operands of a contraction: deficits of 14 each."""
    chosen = make_numerics(("nvfp4", "1x1"), block=1, fraction=fraction, headroom=9)
    x = by_hand("x", chosen, [[7, 1]], [[0x7E, 0x01]], tensor_exponent=0)
    w = by_hand("w", chosen, [[7], [1]], [[0x7E], [0x01]], tensor_exponent=0)
    assert check("Y", x, w, None, chosen).exact == (fraction == 28)


# Deficits.


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("block", BLOCK_SIDES)
@pytest.mark.parametrize(
    "spread, fraction", [(1, 18), (3, 8), (9, 18), (20, 32), (100, 18), (1, 0)]
)
@pytest.mark.sampled(2)
def test_blocks_and_spreads(name, block, spread, fraction, np_rng):
    """From exact products to those where nearly every block sum is shifted out."""
    long = 4 * block + 3
    shape = {"Y": (5, long, 6), "dX": (5, 6, long), "dW": (long, 5, 6)}[name]
    chosen = make_numerics("bfp4", "bfp8", "bfp5", block=block, fraction=fraction)
    check(name, *tensors(np_rng, shape, chosen, spread=spread), chosen)


@pytest.mark.parametrize("formats", ["bfp4", "bfp8", "mxfp8_e4m3", "nvfp4"])
@pytest.mark.parametrize("fraction", [0, 1, 18, 32])
@pytest.mark.parametrize("bits", [matrix_product.FLOAT64_BITS, 10])
@pytest.mark.sampled(2)
def test_every_deficit_around_the_limits(formats, fraction, bits, np_rng, monkeypatch):
    """Two blocks of the contraction, the second d below the first: d from 0 past SW + F.

    Beside the sums of the first, and with zeros there, where every bit of the second is seen; in
    float64, and all in integers.
    """
    monkeypatch.setattr(matrix_product, "FLOAT64_BITS", bits)
    chosen = make_numerics((formats, "2x2"), block=2, fraction=fraction)
    two_level = formats == "nvfp4"
    top, unit = (15, 8) if two_level else (200, 1)  # fields of E4M3, or exponents
    draws = Draws(np_rng, chosen)
    for d in range(29 if two_level else chosen.block_sum_bits + fraction + 4):
        split = int(np_rng.integers(max(0, d - 14), min(d, 14) + 1)) if two_level else d // 3
        exponents = [top, top - split], [top, top - d + split]
        x, w = (draws.codes(chosen.x.format, shape) for shape in ((2, 4), (4, 2)))
        right = by_hand("w", chosen, w, unit * np.array(exponents[1])[:, None], tensor_exponent=0)
        for kept in (True, False):
            x[:, :2] *= kept
            left = by_hand("x", chosen, x, unit * np.array([exponents[0]]), tensor_exponent=0)
            got = check("Y", left, right, None, chosen)
            assert formats.startswith("mxfp8") or got.exact == (d <= fraction), d


def test_ties_of_the_shift_go_upward():
    """A second block sum of one half of a unit, and of minus one half: 1 and 0."""
    chosen = make_numerics("bfp4", block=1, fraction=0, headroom=4)
    w = by_hand("w", chosen, [[8], [8]], [[127], [124]])  # 64 * 2^-7 is the second sum
    for sign, half in ((0, 1), (0x10, 0)):
        x = by_hand("x", chosen, [[8, 8 | sign]], [[127, 123]])
        got = check("Y", x, w, None, chosen)
        assert got.values[0, 0] == (64 + half) / 64
        assert not got.exact


@pytest.mark.parametrize("x_tail, w_tail, exact", [(1, 0, True), (0, 1, True), (1, 1, False)])
def test_a_zero_block_meets_nothing(x_tail, w_tail, exact):
    """A large deficit against a block of zeros drops nothing, and the product stays exact."""
    chosen = make_numerics("bfp4", block=1, fraction=2, headroom=4)
    x = by_hand("x", chosen, [[8, 8 * x_tail]], [[127, 87 * x_tail]])
    w = by_hand("w", chosen, [[8], [8 * w_tail]], [[127], [87 * w_tail]])
    assert check("Y", x, w, None, chosen).exact == exact


def test_sums_beyond_float64():
    """Large sums that cancel around a small block 2^-32 below them: 60 bits, none may be lost."""
    chosen = make_numerics("bfp8", block=32, fraction=32)
    small = np.full(32, 128)
    small[0] = 255  # its sum has an odd last bit
    row = np.concatenate([np.full(1024, 255), small, np.full(1024, 255), small])
    negative = np.concatenate([np.zeros(1056, int), np.full(1024, 256), np.zeros(32, int)])
    exponents = np.array([[127] * 32 + [111] + [127] * 32 + [111]])
    pad = np.zeros((31, row.size), int)
    x = by_hand("x", chosen, np.vstack([row | negative, pad]), exponents)
    w = by_hand("w", chosen, np.vstack([row, pad]).T, exponents.T)
    got = forward(x, w, chosen)
    want, _ = oracle.binary32(Fraction(2 * (255**2 + 31 * 128**2), 2 ** (14 + 32)))
    assert got.exact
    assert got.values[0, 0] == want
    assert not got.values[0, 1:].any()


@pytest.mark.parametrize("sign", [0, 0x100])
def test_largest_sums_at_the_widest_accumulator(sign):
    """Every element at its largest, W = 63, the contraction as long as headroom allows."""
    chosen = make_numerics("bfp8", block=32, fraction=32, headroom=9)
    assert chosen.accumulator_bits == 63
    length = chosen.max_contraction
    exponents = np.full((1, length // 32), 127)
    x = by_hand("x", chosen, np.full((32, length), 255 | sign), exponents)
    w = by_hand("w", chosen, np.full((length, 32), 255), exponents.T)
    got = forward(x, w, chosen)
    want = Fraction((-1 if sign else 1) * length * 255 * 255, 128 * 128)
    assert (got.values == oracle.binary32(want)[0]).all()
    assert got.exact


# Zeros and the ends of the range.


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("formats", ["bfp4", "fp8_e4m3", ("mxfp8_e5m2", "1x4"), ("nvfp4", "1x4")])
def test_zeros_give_plus_zero(name, formats, np_rng):
    """Groups of zeros, and zeros of both signs in groups of numbers."""
    chosen = make_numerics(formats)
    x, w, dy = tensors(np_rng, (5, 6, 7), chosen)
    for of_zeros in (False, True):
        changed = dy if name == "dX" else x
        for copy in changed.copies:
            copy.codes[...] &= 1 << chosen.x.format.magnitude_bits
            copy.exponents[...] *= not of_zeros
        assert (bits_of(check(name, x, w, dy, chosen).values) == 0).all()


def test_cancelled_sums_give_plus_zero():
    chosen = make_numerics("bfp4")
    cancelled, ones = np.zeros((4, 4), int), np.full((4, 4), 8)
    cancelled[:, 0], cancelled[:, 3] = 8, 0x18
    x, w = by_hand("x", chosen, cancelled, [[127]]), by_hand("w", chosen, ones, [[127]])
    assert (bits_of(check("Y", x, w, None, chosen).values) == 0).all()


ENDS = [(70, 56), (70, 57), (63, 63), (63, 64), (127, 127), (127, 0)]


@pytest.mark.parametrize("formats", ["bfp4", ("mxfp8_e4m3", "4x4"), "bf16"])
@pytest.mark.parametrize("powers", [*ENDS, (-63, -63), (-66, -64), (-126, -126), (-126, 0)])
@pytest.mark.sampled(3)
def test_ends_of_the_range(formats, powers, np_rng):
    """Inf where a result is too large, and said; +0 where it is too small."""
    chosen = make_numerics(formats)
    draws = Draws(np_rng, chosen, deep=0.0, spread=0)
    pair = []
    for name, shape, power in (("x", (8, 12), powers[0]), ("w", (12, 8), powers[1])):
        codes = draws.tensor(name, shape).copies[0].codes
        exponents = np.full([side // 4 for side in shape], power + 127)
        pair.append(by_hand(name, chosen, codes, exponents))
    result = check("Y", *pair, None, chosen)
    assert result.overflow == bool(np.isinf(result.values).any())
    if sum(powers) != 126:  # there it depends on the data
        assert result.overflow == (sum(powers) > 126)
    assert (np.abs(result.values[result.values != 0]) >= 2.0**-126).all()


# What is not a number.


def with_code(tensor, place, code):
    """The element at ``place`` of the tensor, in every copy."""
    for copy in tensor.copies:
        copy.codes[place[::-1] if copy.transposed else place] = code


@pytest.mark.parametrize("formats", ["fp8_e5m2", ("mxfp8_e5m2", "1x4"), "fp8_e4m3"])
@pytest.mark.parametrize("code", [0x7F, 0xFF, 0x7C, 0xFD])
def test_poison_reaches_its_row_or_its_column(formats, code, np_rng):
    """A NaN or an Inf: nothing beside the results that it contributes to, whatever it meets."""
    chosen = make_numerics(formats, special="poison")
    code = code if formats != "fp8_e4m3" else code | 0x7F
    x, w, dy = tensors(np_rng, (5, 9, 6), chosen)
    with_code(x, (2, 7), code)
    with_code(w, (3, 4), code)
    y, dx, dw = (check(name, x, w, dy, chosen).values for name in RESULTS)
    rows, columns = np.indices(y.shape)
    np.testing.assert_array_equal(np.isnan(y), (rows == 2) | (columns == 4))
    np.testing.assert_array_equal(np.isnan(dx), np.indices(dx.shape)[1] == 3)
    np.testing.assert_array_equal(np.isnan(dw), np.indices(dw.shape)[0] == 7)
    assert set(bits_of(y)[np.isnan(y)]) == {0x7FC00000}


@pytest.mark.parametrize(
    "formats, byte, lanes",
    [
        ("bfp4", 255, (0, 1, 2, 3)),
        (("bfp4", "1x8"), 255, (2,)),
        (("mxfp4_e2m1", "1x4"), 255, (2,)),
        (("nvfp4", "1x4"), 127, (2,)),
        (("nvfp4", "8x8"), 127, (0, 1, 2, 3, 4)),
    ],
)
@pytest.mark.parametrize("special", ["flag", "poison"])
def test_groups_that_are_no_numbers(formats, byte, lanes, special, np_rng):
    """They poison the rows that they are in; with ``flag`` they are zeros."""
    chosen = make_numerics(formats, special=special)
    x, w, dy = tensors(np_rng, (5, 9, 6), chosen)
    (copy, *_) = x.copies
    groups = [lane if chosen.x.two_copies else lane // 4 for lane in lanes]
    copy.exponents[groups, 0] = byte
    if chosen.x.grouping.size == 8 and not chosen.x.two_copies:
        copy.exponents[groups, 1] = byte
    y = check("Y", x, w, dy, chosen).values
    poisoned = np.isin(np.indices(y.shape)[0], lanes) & (special == "poison")
    np.testing.assert_array_equal(np.isnan(y), poisoned)
    copy.exponents[groups, 0] = 0
    if chosen.x.grouping.size == 8 and not chosen.x.two_copies:
        copy.exponents[groups, 1] = 0
    zeros = golden("Y", x, w, dy, chosen).values
    np.testing.assert_array_equal(bits_of(y)[~poisoned], bits_of(zeros)[~poisoned])


def test_flagged_infinities_are_the_largest_elements():
    chosen = make_numerics("fp8_e5m2", block=2, fraction=0, headroom=1)
    w = by_hand("w", chosen, [[0x78, 0x78], [0x78, 0x78]], [[127]])  # 1 in the top binade
    x = by_hand("x", chosen, [[0x7C, 0x7E], [0xFC, 0xFF]], [[127]])
    assert check("Y", x, w, None, chosen).values.tolist() == [[1.75] * 2, [-1.75] * 2]


def test_what_is_poisoned_overflows_not():
    chosen = make_numerics("fp8_e5m2", block=2, special="poison")
    w = by_hand("w", chosen, [[0x78, 0x78], [0x78, 0x78]], [[250]])
    for code, overflow in ((0x7C, False), (0x7B, True)):
        x = by_hand("x", chosen, [[0x78, code], [0, 0]], [[250]])
        assert check("Y", x, w, None, chosen).overflow == overflow


# Everything at once.

NAMES = [*FORMAT_NAMES, "e2m2", "e3m4", "e4m3", "e5m1"]


def machine(rng, name):
    """Numerics whose x has this format, in groups of any kind; None where nothing holds them."""

    def one_of(*choices):
        return choices[rng.integers(len(choices))]

    block = one_of(1, 2, 4, 8)
    names = [name, *(one_of(name, *NAMES) for _ in range(2))]
    if "nvfp4" in names:
        names = ["nvfp4"] * 3
    groupings = [None, f"1x{max(block, 2)}", f"1x{2 * block}", "1x128", f"{block}x{block}", "16x16"]
    formats = [(each, None if each == "bf16" else one_of(*groupings)) for each in names]
    options = {
        "window": one_of(None, None, 0, 16, 19, 30, 48),
        "fraction": int(rng.integers(0, 29)),
        "headroom": int(rng.integers(4, 10)),
        "special": one_of("flag", "poison"),
    }
    try:
        return make_numerics(*formats, block=block, **options)
    except ValueError:
        return None


@pytest.mark.parametrize("examples", [8, sweep(150)])
@pytest.mark.parametrize("name", NAMES)
def test_any_machine(name, examples):
    """Any codes beside any others: near each other or far apart, at the bottom or at the top."""

    @settings(max_examples=examples)
    @given(st.integers(0, 2**32 - 1))
    def equal(seed):
        np_rng = np.random.default_rng(seed)
        chosen = machine(np_rng, name)
        assume(chosen)
        rare = np_rng.choice([0.0, 0.02])
        options = {"spread": int(np_rng.choice([0, 2, 14, 25])), "deep": np_rng.choice([0, 0.3, 1])}
        shape = np_rng.integers(1, 14, 3)
        given_ = tensors(np_rng, shape, chosen, specials=rare, nans=rare, **options)
        for result in RESULTS:
            check(result, *given_, chosen)

    equal()


# The last rounding.


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
    assert overflow
    assert any(over for row in want for _, over in row)


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


# Paths, padding, refusals.


@pytest.mark.parametrize("formats", ["bfp4", "fp8_e4m3", ("mxfp6_e3m2", "1x4"), ("nvfp4", "1x4")])
@pytest.mark.parametrize("bits", [10, 26])
def test_path_does_not_matter(formats, bits, np_rng, monkeypatch):
    """The same bits when all block sums are taken one by one, in integers too, for any slab."""
    chosen = make_numerics(formats, block=2)
    x, w, _dy = tensors(np_rng, (13, 21, 9), chosen, spread=3)
    want = forward(x, w, chosen)
    monkeypatch.setattr(matrix_product, "FLOAT64_BITS", bits)
    for elements in (1, 40, 1 << 15):
        monkeypatch.setattr(matrix_product, "SLAB_ELEMENTS", elements)
        got = forward(x, w, chosen)
        np.testing.assert_array_equal(bits_of(got.values), bits_of(want.values))
        assert got.exact == want.exact


@pytest.mark.parametrize("formats", ["bfp4", "fp8_e4m3", ("nvfp4", "4x4")])
def test_padding_changes_nothing(formats, np_rng):
    """Zero rows and columns beside the data, in blocks of their own, give the same values."""
    chosen = make_numerics(formats)
    pair, wide = [], []
    for name, shape in (("x", (8, 12)), ("w", (12, 8))):
        tensor = Draws(np_rng, chosen).tensor(name, shape)
        (copy,) = tensor.copies
        pair.append(by_hand(name, chosen, copy.codes, copy.exponents, tensor_exponent=0))
        codes, exponents = (np.pad(a, (0, n)) for a, n in ((copy.codes, 8), (copy.exponents, 2)))
        wide.append(by_hand(name, chosen, codes, exponents, tensor_exponent=0))
    one, other = (forward(*given_, chosen).values for given_ in (pair, wide))
    np.testing.assert_array_equal(bits_of(one), bits_of(other[:8, :8]))
    assert not other[8:].any()
    assert not other[:, 8:].any()


@pytest.mark.parametrize("name", RESULTS)
def test_longest_contraction(name, np_rng):
    chosen = make_numerics("bfp4", block=2, headroom=2)
    shape = {"Y": (2, 8, 2), "dX": (2, 2, 8), "dW": (8, 2, 2)}[name]
    check(name, *tensors(np_rng, shape, chosen), chosen)


def test_the_oracle_does_not_import_the_code_under_test():
    code = (
        "import sys; from oracle import product; "
        "sys.exit(any(name.split('.')[0] in ('diastole', 'diastole_sim', 'numpy') "
        "for name in sys.modules))"
    )
    tests = [path for path in sys.path if path.endswith("tests")]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tests[0])
