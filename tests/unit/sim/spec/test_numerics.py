"""The object that holds everything a result depends on."""

import json
from itertools import combinations

import pytest

from diastole_sim.spec.formats import Grouping, parse_format
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics, TensorClass, contradictions

SCALARS = {"block": 8, "random_bits": 8, "fraction": 18, "headroom": 9}
MANIFEST = {
    **SCALARS,
    "window": None,
    "special": "flag",
    "source": "current",
    "x": {
        "format": "bfp4",
        "rounding": "nearest",
        "grouping": "8x8",
        "scale": "floor",
        "overflow": "saturate",
    },
    "w": {
        "format": "mxfp4_e2m1",
        "rounding": "stochastic-a",
        "grouping": "1x32",
        "scale": "even",
        "overflow": "saturate",
    },
    "dy": {
        "format": "fp8_e5m2",
        "rounding": "stochastic-c",
        "grouping": "tensor",
        "scale": "rceil",
        "overflow": "specification",
    },
}


def make(*formats, **changes):
    """Numerics of one to three formats, the last one repeated."""
    names = dict(zip(CLASS_NAMES, (*formats, formats[-1], formats[-1])[:3], strict=True))
    classes = {name: {"format": kind, "rounding": "nearest"} for name, kind in names.items()}
    return Numerics.from_dict({**SCALARS, **classes, **changes})


def test_round_trip():
    values = Numerics.from_dict(MANIFEST).to_dict()
    assert values == MANIFEST
    assert list(values) == list(MANIFEST)
    assert Numerics.from_dict(json.loads(json.dumps(values))) == Numerics.from_dict(MANIFEST)


def test_defaults():
    numerics = make("bfp4", "mxfp8_e4m3", "fp8_e5m2")
    assert (numerics.window, numerics.special, numerics.source) == (None, "flag", "current")
    assert [str(numerics.tensor_class(name).grouping) for name in CLASS_NAMES] == [
        "8x8",
        "1x32",
        "tensor",
    ]
    assert [numerics.tensor_class(name).scale for name in CLASS_NAMES] == [
        "floor",
        "rceil",
        "rceil",
    ]
    assert {numerics.tensor_class(name).overflow for name in CLASS_NAMES} == {"saturate"}


def test_an_absent_value_may_be_written_as_none():
    absent = dict.fromkeys(("grouping", "scale", "overflow"))
    with_none = make("bfp4", x={"format": "bfp4", "rounding": "nearest", **absent})
    assert with_none == make("bfp4")


@pytest.mark.parametrize(
    "name, grouping, copies, tensor_scale",
    [
        ("bfp4", "8x8", False, False),
        ("bfp4", "1x16", True, False),
        ("fp8_e4m3", "tensor", False, True),
        ("fp8_e4m3", "16x16", False, False),
        ("fp8_e4m3", "1x8", True, False),
        ("bf16", "tensor", False, False),
        ("mxfp4_e2m1", "1x32", True, False),
        ("nvfp4", "1x16", True, True),
        ("nvfp4", "16x16", False, True),
    ],
)
def test_copies_and_tensor_scales(name, grouping, copies, tensor_scale):
    own = {"format": name, "rounding": "nearest", "grouping": grouping}
    numerics = make(name, **dict.fromkeys(CLASS_NAMES, own))
    assert numerics.x.two_copies == copies
    assert numerics.x.has_tensor_scale == tensor_scale
    assert numerics.fused == (not copies)


@pytest.mark.parametrize(
    "formats, window, bits, windowed, folds",
    [
        (("bfp4",), None, (8, 8, 8), False, (False, False, False)),
        (("bfp2", "bfp4", "bfp8"), None, (6, 10, 12), False, (False, False, False)),
        (("mxfp6_e3m2",), None, (18,) * 3, False, (False, False, False)),
        (("mxfp6_e3m2",), 12, (12,) * 3, True, (False, False, False)),
        (("fp8_e4m3",), None, (16,) * 3, True, (True, True, True)),
        (("fp8_e4m3",), 0, (36,) * 3, False, (False, False, False)),
        (("fp8_e4m3",), 48, (36,) * 3, False, (False, False, False)),
        (("fp8_e5m2",), None, (24,) * 3, True, (True, True, True)),
        (("fp8_e4m3", "fp8_e4m3", "fp8_e5m2"), None, (16,) * 3, True, (True, True, True)),
        (("bf16",), None, (24,) * 3, True, (True, True, True)),
        (("bfp4", "bfp4", "bf16"), None, (24,) * 3, True, (False, False, True)),
        (("nvfp4",), None, (8,) * 3, False, (False, False, False)),
    ],
)
def test_windows(formats, window, bits, windowed, folds):
    numerics = make(*formats, window=window, fraction=0)
    pairs = list(combinations(CLASS_NAMES, 2))  # Y, dW, dX
    assert tuple(numerics.product_bits(a, b) for a, b in pairs) == bits
    assert tuple(numerics.product_bits(b, a) for a, b in pairs) == bits
    assert any(numerics.is_windowed(a, b) for a, b in pairs) == windowed
    assert tuple(numerics.folds(name) for name in CLASS_NAMES) == folds


def test_only_what_loses_bits_is_folded():
    """A machine with one window, that the products of X and W do not need: no pair is exact then,
    unless it fits."""
    numerics = make("mxfp4_e2m1", "mxfp4_e2m1", "fp8_e4m3", fraction=0)
    assert numerics.product_bits("x", "w") == 16  # the window of the others
    assert not numerics.is_windowed("x", "w")
    assert numerics.is_windowed("x", "dy")
    assert [numerics.folds(name) for name in CLASS_NAMES] == [False, False, True]


@pytest.mark.parametrize("block", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("x, dy", [("bfp2", "bfp2"), ("bfp2", "bfp8"), ("bfp1", "bfp8")])
def test_block_sum_bits_hold_the_largest_sum(x, dy, block):
    numerics = make(x, x, dy, block=block)
    largest = block * parse_format(x).max_significand * parse_format(dy).max_significand
    assert largest < 2 ** (numerics.block_sum_bits - 1)
    assert numerics.accumulator_bits == numerics.block_sum_bits + 18 + 9
    assert numerics.max_contraction == block * 2**9


def test_block_sum_bits_of_nvfp4():
    numerics = make("nvfp4")
    assert numerics.scale_significands
    assert numerics.block_sum_bits == 20
    assert 8 * (3 * 15) ** 2 * 2 ** (8 - 4) < 2 ** (20 - 1)  # B products, w - pA - pB places up
    assert not make("mxfp4_e2m1").scale_significands


def test_widest_accumulator_is_accepted():
    numerics = make("bfp8", block=32, fraction=32, headroom=9)
    assert numerics.accumulator_bits == 63


@pytest.mark.parametrize(
    "kind, bits, lfsr_bits",
    [("counter", 16, 3), ("data", 12, 3), ("lfsr3", 3, 24), ("lfsr", 8, 8), ("lfsr", 24, 24)],
)
def test_draws_have_the_bits_of_their_kind(kind, bits, lfsr_bits):
    numerics = make("bfp4", rounding_kind=kind, random_bits=bits, lfsr_bits=lfsr_bits)
    assert Numerics.from_dict(numerics.to_dict()).to_dict() == numerics.to_dict()


def test_a_kind_is_said_where_it_is_another():
    plain = make("bfp4").to_dict()
    assert "rounding_kind" not in plain
    assert "lfsr_bits" not in plain
    given = {"random_bits": 3, "lfsr_bits": 5}
    data, lfsr = (make("bfp4", rounding_kind=kind, **given) for kind in ("data", "lfsr"))
    assert data.to_dict() == plain | {"random_bits": 3, "rounding_kind": "data"}
    assert lfsr.to_dict() == plain | given | {"rounding_kind": "lfsr"}
    assert (data.draws_by_rows, lfsr.draws_by_rows, lfsr.state_bits) == (False, True, 5)
    assert make("bfp4", rounding_kind="lfsr3", **given).state_bits == 3


def test_groups_of_several_blocks():
    own = {"format": "bfp4", "rounding": "nearest", "grouping": "16x16"}
    assert make("bfp4", w=own).w.grouping.size == 16


def test_a_window_holds_a_product_of_significands():
    numerics = make("bfp7", "fp8_e4m3", window=11)
    assert numerics.product_bits("x", "w") == 11
    assert not list(contradictions(numerics))


def test_class_names():
    numerics = Numerics.from_dict(MANIFEST)
    assert CLASS_NAMES == ("x", "w", "dy")
    assert numerics.tensor_class("dy") == TensorClass(
        format=parse_format("fp8_e5m2"),
        rounding="stochastic-c",
        grouping=Grouping(kind="tensor"),
        scale="rceil",
        overflow="specification",
    )


FLOATS = {"kind": "float", "mantissa": 9, "chunk": 64}


def test_float_accumulators():
    chosen = make("bfp4", block=8, fraction=18, headroom=14, accumulator=FLOATS)
    assert chosen.to_dict()["accumulator"] == FLOATS
    assert Numerics.from_dict(chosen.to_dict()) == chosen
    assert (chosen.accumulator_bits, chosen.chunk_sum_bits) == (44, 33)
    short = make("bfp4", block=8, fraction=18, headroom=1, accumulator=FLOATS)
    assert short.chunk_sum_bits == short.accumulator_bits == 31
    assert "accumulator" not in make("bfp4").to_dict()


def test_chunks_that_are_no_power_of_two_take_a_bit():
    """Beside SW = 12, F = 32: W = 63 with 8 blocks, 62 with 6."""
    sizes = {"block": 4, "fraction": 32, "headroom": 16}
    formats = ("bfp6",) * 3
    widest = make(*formats, accumulator=FLOATS | {"chunk": 32}, **sizes)
    assert widest.accumulator_bits == widest.max_accumulator_bits == 63
