"""Formats and the object that holds all numbers' parameters."""

import re

import pytest

from diastole_sim.formats import FORMAT_NAMES, BlockFormat, block_sum_bits, parse_format
from diastole_sim.numerics import CLASS_NAMES, Numerics, TensorClass

MANIFEST = {
    "block": 8,
    "x": {"format": "bfp4", "rounding": "nearest"},
    "w": {"format": "bfp2", "rounding": "stochastic-a"},
    "dy": {"format": "bfp7", "rounding": "stochastic-c"},
    "random_bits": 8,
    "fraction": 18,
    "headroom": 14,
}


def exactly(message):
    return f"^{re.escape(message)}$"


@pytest.mark.parametrize("bits", range(2, 9))
def test_every_name_gives_its_format(bits):
    chosen = parse_format(f"bfp{bits}")
    assert chosen == BlockFormat(name=f"bfp{bits}", mantissa_bits=bits)
    assert (chosen.element_bits, chosen.max_magnitude, chosen.point) == (
        bits + 1,
        2**bits - 1,
        bits - 1,
    )
    assert chosen.kept_shift(24) == 24 - bits
    assert chosen.name in FORMAT_NAMES


@pytest.mark.parametrize("name", ["bfp1", "bfp9", "bfp", "BFP4", "fp8_e4m3", "", None, 4])
def test_unknown_name(name):
    known = "bfp2, bfp3, bfp4, bfp5, bfp6, bfp7, bfp8"
    with pytest.raises(ValueError, match=exactly(f"format must be one of {known}, not {name!r}")):
        parse_format(name)


@pytest.mark.parametrize(
    "name, bits, message",
    [
        ("bfp9", 9, "mantissa_bits must be an integer in 2..8, not 9"),
        ("bfp4", 5, "name must be one of bfp5, not 'bfp4'"),
    ],
)
def test_format_is_checked(name, bits, message):
    with pytest.raises(ValueError, match=exactly(message)):
        BlockFormat(name=name, mantissa_bits=bits)


@pytest.mark.parametrize("block", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("a, b", [(2, 2), (2, 8), (8, 8), (4, 4)])
def test_block_sum_bits_hold_the_largest_sum(a, b, block):
    bits = block_sum_bits(parse_format(f"bfp{a}"), parse_format(f"bfp{b}"), block)
    assert block * (2**a - 1) * (2**b - 1) < 2 ** (bits - 1)
    assert bits == a + b + 1 + [1, 2, 4, 8, 16, 32].index(block)


def test_numerics_round_trip():
    assert Numerics.from_dict(MANIFEST).to_dict() == MANIFEST
    assert list(Numerics.from_dict(MANIFEST).to_dict()) == list(MANIFEST)


def test_numerics_properties():
    numerics = Numerics.from_dict(MANIFEST)
    assert numerics.block_sum_bits == 4 + 7 + 1 + 3  # X with dY is the widest pair
    assert numerics.accumulator_bits == 15 + 18 + 14
    assert numerics.max_contraction == 8 * 2**14
    assert numerics.tensor_class("dy").rounding == "stochastic-c"
    assert CLASS_NAMES == ("x", "w", "dy")


def test_widest_accumulator_is_accepted_and_one_more_refused():
    wide = {name: {"format": "bfp8", "rounding": "nearest"} for name in CLASS_NAMES}
    numerics = Numerics.from_dict({**MANIFEST, **wide, "block": 32, "fraction": 32, "headroom": 9})
    assert numerics.accumulator_bits == 63
    message = (
        "the accumulator must have at most 63 bits, not 64: "
        "block sums of 22 bits, fraction 32, headroom 10"
    )
    with pytest.raises(ValueError, match=exactly(message)):
        Numerics.from_dict({**MANIFEST, **wide, "block": 32, "fraction": 32, "headroom": 10})


@pytest.mark.parametrize(
    "key, value, message",
    [
        ("block", 3, "block must be one of 1, 2, 4, 8, 16, 32, not 3"),
        ("block", 64, "block must be one of 1, 2, 4, 8, 16, 32, not 64"),
        ("random_bits", 0, "random_bits must be an integer in 1..16, not 0"),
        ("random_bits", 17, "random_bits must be an integer in 1..16, not 17"),
        ("fraction", -1, "fraction must be an integer in 0..32, not -1"),
        ("fraction", 33, "fraction must be an integer in 0..32, not 33"),
        ("headroom", 0, "headroom must be an integer in 1..16, not 0"),
        ("headroom", 17, "headroom must be an integer in 1..16, not 17"),
    ],
)
def test_numerics_are_checked(key, value, message):
    with pytest.raises(ValueError, match=exactly(message)):
        Numerics.from_dict({**MANIFEST, key: value})


def test_unknown_and_missing_keys():
    message = "numerics.w must have the keys format, rounding, not format, round"
    with pytest.raises(ValueError, match=exactly(message)):
        Numerics.from_dict({**MANIFEST, "w": {"format": "bfp4", "round": "nearest"}})
    with pytest.raises(ValueError, match="^numerics must have the keys block, "):
        Numerics.from_dict({**MANIFEST, "bits": 4})
    with pytest.raises(ValueError, match="^numerics must have the keys block, "):
        Numerics.from_dict({key: MANIFEST[key] for key in MANIFEST if key != "dy"})


def test_unknown_rounding_and_class():
    message = "rounding must be one of nearest, stochastic-a, stochastic-b, stochastic-c, not 'up'"
    with pytest.raises(ValueError, match=exactly(message)):
        TensorClass(format=parse_format("bfp4"), rounding="up")
    with pytest.raises(ValueError, match=exactly("tensor class must be one of x, w, dy, not 'y'")):
        Numerics.from_dict(MANIFEST).tensor_class("y")
