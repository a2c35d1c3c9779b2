"""The judge's arithmetic against MPFR at 24 bits, and against numpy."""

import struct

import gmpy2
import numpy as np
import pytest

from oracle import vector_numbers as numbers
from support.random_programs import SPECIAL_PATTERNS, random_pattern

NAN, INFINITY, MINUS_ZERO = 0x7FC00000, 0x7F800000, 0x80000000


def pairs(rng, count):
    """Any patterns, special ones, near sums, and products about 2^-126 and 2^128."""
    found = [(a, c) for a in SPECIAL_PATTERNS for c in SPECIAL_PATTERNS]
    for _ in range(count):
        a = random_pattern(rng, wild=True)
        near = (a ^ MINUS_ZERO) + rng.randrange(-3, 4) & 0xFFFFFFFF
        found += [(a, random_pattern(rng, wild=True)), (a, near), (a, near ^ rng.getrandbits(24))]
        for total in (-127, -126, 127, 128):
            exponent = rng.randrange(-100, 100)
            if -126 <= total - exponent <= 127:
                at = rng.choice((rng.getrandbits(23), 2**23 - 1 - rng.getrandbits(3)))
                at_other = rng.choice((rng.getrandbits(23), 2**23 - 1 - rng.getrandbits(3)))
                signs = rng.getrandbits(2)
                one = (signs & 1) << 31 | (exponent + 127) << 23 | at
                found.append((one, (signs & 2) << 30 | (total - exponent + 127) << 23 | at_other))
    return found


def to_mpfr(pattern):
    """Exact; subnormals as zeros of their sign."""
    if pattern & INFINITY == 0:
        pattern &= MINUS_ZERO
    return gmpy2.mpfr(struct.unpack("<f", struct.pack("<I", pattern))[0])


def from_mpfr(value):
    """Of a result at 24 bits without bounds of the exponent."""
    if gmpy2.is_nan(value):
        return NAN
    if value != 0 and abs(value) < gmpy2.mpfr(2) ** -126:
        return 0
    if abs(value) >= gmpy2.mpfr(2) ** 128:
        return INFINITY | (MINUS_ZERO if value < 0 else 0)
    return struct.unpack("<I", struct.pack("<f", float(value)))[0]


@pytest.mark.parametrize("name", ["add", "mul"])
def test_rounding_against_mpfr(name, rng):
    exact = {"add": lambda a, c: a + c, "mul": lambda a, c: a * c}[name]
    with gmpy2.context(precision=24, round=gmpy2.RoundToNearest):
        for a, c in pairs(rng, 4000):
            want = from_mpfr(exact(to_mpfr(a), to_mpfr(c)))
            assert getattr(numbers, name)(a, c) == want, f"{a:08x} {c:08x}"


def test_sums_and_products_against_numpy(rng):
    """As float32, and float64 rounded, do them."""
    some = np.array(pairs(rng, 4000), np.uint32)
    cleaned = np.where(some & INFINITY == 0, some & MINUS_ZERO, some)
    a, c = cleaned.view(np.float32).T
    with np.errstate(all="ignore"):
        total = a + c
        total = np.where((total != 0) & (np.abs(total) < 2.0**-126), np.float32(0), total)
        wide = a.astype(np.float64) * c.astype(np.float64)
        tiny = (wide != 0) & (np.abs(wide) < 2.0**-126 * (1 - 2.0**-25))
        product = np.where(tiny, np.float32(0), wide.astype(np.float32))
    for name, values in (("add", total), ("mul", product)):
        bits = np.where(np.isnan(values), NAN, values.astype(np.float32).view(np.uint32))
        got = [getattr(numbers, name)(int(x), int(y)) for x, y in some]
        assert got == bits.tolist()


def test_a_sum_of_a_product_has_two_roundings():
    a = 0x3F800001  # 1 + 2^-23, whose square is 1 + 2^-22 + 2^-46
    assert numbers.mad(a, a, 0xBF800002) == 0
    assert numbers.mad(0x00800000, 0x3F000000, MINUS_ZERO) == 0  # the product is +0
    assert numbers.mad(MINUS_ZERO, numbers.ONE, MINUS_ZERO) == MINUS_ZERO


def test_products_at_the_smallest_number():
    """From 2^-126 (1 - 2^-25) on they round to it, which is kept."""
    assert numbers.mul(0x3F7FFFFF, 0x00800000) == 0  # 2^-126 (1 - 2^-24)
    assert numbers.mul(0x00FFFFFF, 0x3F000001) == 0x00800000
    assert numbers.mul(0x00FFFFFF, 0x3F000000) == 0
    assert numbers.mul(0x80FFFFFF, 0x3F000000) == 0


def test_comparisons_against_numpy(rng):
    some = np.array(pairs(rng, 1000), np.uint32)
    cleaned = np.where(some & INFINITY == 0, some & MINUS_ZERO, some)
    with np.errstate(all="ignore"):
        for pattern, clean in zip(some.tolist(), cleaned, strict=True):
            a, c = clean.view(np.float32)
            nan = np.isnan(a) or np.isnan(c)
            bits = [int(each) for each in clean]
            want = [NAN, NAN] if nan else [bits[0 if a > c else 1], bits[0 if a < c else 1]]
            want += [numbers.ONE if test else 0 for test in (a > c, a == c)]
            operations = numbers.maximum, numbers.minimum, numbers.greater, numbers.equal
            assert [each(*pattern) for each in operations] == want, pattern


@pytest.mark.parametrize(
    "operation, operands, want",
    [
        ("maximum", (MINUS_ZERO, 0), 0),
        ("maximum", (0, MINUS_ZERO), MINUS_ZERO),
        ("minimum", (0, MINUS_ZERO), MINUS_ZERO),
        ("maximum", (0x80000001, 0xC0000000), MINUS_ZERO),
        ("maximum", (0x7F800001, 0), NAN),
        ("greater", (numbers.ONE, 0xFFC00000), 0),
        ("equal", (MINUS_ZERO, 0x00000001), numbers.ONE),
        ("equal", (NAN, NAN), 0),
        ("select", (NAN, 0x00000001, 2), 0x00000001),
        ("select", (0x807FFFFF, 1, 0xFF800001), 0xFF800001),
        ("select", (INFINITY, 1, 2), 1),
        ("add", (INFINITY, 0xFF800000), NAN),
        ("add", (MINUS_ZERO, MINUS_ZERO), MINUS_ZERO),
        ("add", (MINUS_ZERO, 0), 0),
        ("add", (0x80000001, MINUS_ZERO), MINUS_ZERO),
        ("add", (0x00800001, 0x80800000), 0),
        ("add", (0x7F7FFFFF, 0x73000000), INFINITY),
        ("mul", (MINUS_ZERO, INFINITY), NAN),
        ("mul", (0x80000001, numbers.ONE), MINUS_ZERO),
        ("negated", (0x7F800001,), 0x7F800001),
        ("negated", (0x00000001,), 0x80000001),
        ("to_bf16", (0x3F808000,), 0x3F80),
        ("to_bf16", (0x3F818000,), 0x3F82),
        ("to_bf16", (0x7F7FFFFF,), 0x7F80),
        ("to_bf16", (0xFF800001,), 0x7FC0),
        ("to_bf16", (0x807FFFFF,), 0x8000),
        ("to_u8", (0x3F000000,), 0),
        ("to_u8", (0x3FC00000,), 2),
        ("to_u8", (0x40200000,), 2),
        ("to_u8", (0x437F0000,), 255),
        ("to_u8", (0x437EFFFF,), 255),
        ("to_u8", (0x4B000000,), 255),
        ("to_u8", (0x7F7FFFFF,), 255),
        ("to_u8", (INFINITY,), 255),
        ("to_u8", (0xFF800000,), 0),
        ("to_u8", (0xC2C80000,), 0),
        ("to_u8", (0x7F800001,), 0),
        ("from_label", (-1,), 0xBF800000),
        ("from_label", (2**24,), 0x4B800000),
        ("from_label", (2**24 + 1,), 0xBF800000),
        ("integer", (-3,), 0xC0400000),
    ],
)
def test_special_values(operation, operands, want):
    assert getattr(numbers, operation)(*operands) == want


def test_bytes_against_numpy(rng):
    for _ in range(2000):
        pattern = (rng.randrange(120, 137) << 23) | rng.choice((0, 0x400000, rng.getrandbits(23)))
        value = np.array(pattern, np.uint32).view(np.float32)
        assert numbers.to_u8(pattern) == int(np.clip(np.rint(value), 0, 255)), f"{pattern:08x}"


def test_halves_against_ml_dtypes(rng):
    from ml_dtypes import bfloat16

    some = np.array([rng.getrandbits(32) for _ in range(4000)], np.uint32)
    some = some[(some & INFINITY != 0) & (some & 0x7FFFFFFF <= INFINITY)]
    want = some.view(np.float32).astype(bfloat16).view(np.uint16)
    assert [numbers.to_bf16(int(each)) for each in some] == want.tolist()
    assert [numbers.from_bf16(int(each)) for each in want] == (
        want.astype(np.uint32) << 16
    ).tolist()
