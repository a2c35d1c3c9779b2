"""The object that holds everything a result depends on."""

import json
from itertools import combinations

import pytest

from diastole_sim.spec.formats import Grouping, parse_format
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics, TensorClass, contradictions
from support.texts import exactly

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


def test_widest_accumulator_is_accepted_and_one_more_refused():
    numerics = make("bfp8", block=32, fraction=32, headroom=9)
    assert numerics.accumulator_bits == 63
    message = (
        "accumulator.fraction and accumulator.headroom must make SW + F + G at most 63 bits, "
        "not 22 + 32 + 10 = 64 (SW follows from the formats, cell.window and array.block): "
        "F + G of at most 41 would do"
    )
    with pytest.raises(ValueError, match=exactly(message)):
        make("bfp8", block=32, fraction=32, headroom=10)


def test_what_no_accumulator_holds():
    message = (
        "accumulator.fraction and accumulator.headroom must make SW + F + G at most 63 bits, "
        "not 68 + 18 + 9 = 95 (SW follows from the formats, cell.window and array.block): "
        "no F and G would do; a cell.window of 16 or 24 would"
    )
    with pytest.raises(ValueError, match=exactly(message)):
        make("fp8_e5m2", window=0)


@pytest.mark.parametrize(
    "key, value, message",
    [
        ("block", 3, "block must be one of 1, 2, 4, 8, 16, 32, not 3"),
        ("block", 64, "block must be one of 1, 2, 4, 8, 16, 32, not 64"),
        ("random_bits", 0, "random_bits must be an integer in 1..24, not 0"),
        ("random_bits", 25, "random_bits must be an integer in 1..24, not 25"),
        (
            "rounding_kind",
            "coin",
            "rounding_kind must be one of counter, lfsr, lfsr3, data, not 'coin'",
        ),
        ("lfsr_bits", 2, "lfsr_bits must be an integer in 3..24, not 2"),
        ("lfsr_bits", 25, "lfsr_bits must be an integer in 3..24, not 25"),
        ("fraction", -1, "fraction must be an integer in 0..32, not -1"),
        ("fraction", 33, "fraction must be an integer in 0..32, not 33"),
        ("headroom", 0, "headroom must be an integer in 1..16, not 0"),
        ("headroom", 17, "headroom must be an integer in 1..16, not 17"),
        ("window", 7, "window must be an integer in 8..48, not 7"),
        ("window", 49, "window must be an integer in 8..48, not 49"),
        ("window", -1, "window must be an integer in 8..48, not -1"),
        ("special", "nan", "special must be one of flag, poison, not 'nan'"),
        ("source", "host", "source must be one of current, delayed, given, not 'host'"),
    ],
)
def test_values_are_checked(key, value, message):
    with pytest.raises(ValueError, match=exactly(message)):
        make("fp8_e4m3", **{key: value})


@pytest.mark.parametrize(
    "kind, bits, lfsr_bits, message",
    [
        ("counter", 17, 24, "rounding.bits must be an integer in 1..16 where {kind}, not 17"),
        ("data", 13, 24, "rounding.bits must be an integer in 1..12 where {kind}, not 13"),
        ("lfsr3", 2, 24, "rounding.bits must be 3 where {kind}, not 2"),
        ("lfsr3", 4, 24, "rounding.bits must be 3 where {kind}, not 4"),
        (
            "lfsr",
            9,
            8,
            "rounding.lfsr_bits must be at least rounding.bits = 9 where {kind}, not 8",
        ),
        ("counter", 16, 3, None),
        ("data", 12, 3, None),
        ("lfsr3", 3, 24, None),
        ("lfsr", 8, 8, None),
        ("lfsr", 24, 24, None),
    ],
)
def test_draws_have_the_bits_of_their_kind(kind, bits, lfsr_bits, message):
    given = {"rounding_kind": kind, "random_bits": bits, "lfsr_bits": lfsr_bits}
    if message is None:
        numerics = make("bfp4", **given)
        assert Numerics.from_dict(numerics.to_dict()).to_dict() == numerics.to_dict()
        return
    with pytest.raises(ValueError, match=exactly(message.format(kind=f"rounding.kind is {kind}"))):
        make("bfp4", **given)


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


@pytest.mark.parametrize(
    "own, message",
    [
        (
            {"rounding": "up"},
            "rounding must be one of nearest, stochastic-a, stochastic-b, stochastic-c, not 'up'",
        ),
        ({"overflow": "wrap"}, "overflow must be one of saturate, specification, not 'wrap'"),
        ({"grouping": "tensor"}, "grouping of bfp4 must be one of square, vector, not 'tensor'"),
        ({"scale": "up"}, "scale of bfp4 must be one of floor, even, ceil, rceil, not 'up'"),
        (
            {"format": "nvfp4", "scale": "floor"},
            "scale of nvfp4 must be one of nearest, up, four-over-six, not 'floor'",
        ),
        (
            {"format": "bf16", "scale": "floor"},
            "scale of bf16 must be one of fixed, not 'floor'",
        ),
        (
            {"format": "bf16", "grouping": "8x8"},
            "grouping of bf16 must be one of tensor, not 'square'",
        ),
    ],
)
def test_classes_are_checked(own, message):
    with pytest.raises(ValueError, match=exactly(message)):
        make("bfp4", x={"format": "bfp4", "rounding": "nearest", **own})


def test_groups_are_whole_blocks():
    for grouping, advice in (("4x4", "8x8"), ("1x4", "1x8")):
        message = f'block.w must be a multiple of array.block = 8 (such as "{advice}"), not '
        with pytest.raises(ValueError, match=exactly(f'{message}"{grouping}"')):
            make("bfp4", w={"format": "bfp4", "rounding": "nearest", "grouping": grouping})
    own = {"format": "bfp4", "rounding": "nearest", "grouping": "16x16"}
    assert make("bfp4", w=own).w.grouping.size == 16


def test_nvfp4_goes_with_itself_only():
    message = (
        "format.x, format.w and format.dy must all be nvfp4, or none: its scales are no powers "
        "of two (nvfp4 is chosen for x and w)"
    )
    with pytest.raises(ValueError, match=exactly(message)):
        make("nvfp4", "nvfp4", "mxfp4_e2m1")


def test_a_window_holds_a_product_of_significands():
    message = (
        "cell.window must be 0 or at least 11, the bits of a product of two significands, not 10"
    )
    with pytest.raises(ValueError, match=exactly(message)):
        make("bfp7", "fp8_e4m3", window=10)
    numerics = make("bfp7", "fp8_e4m3", window=11)
    assert numerics.product_bits("x", "w") == 11
    assert not list(contradictions(numerics))


def test_unknown_and_missing_keys():
    message = "numerics.w must have the keys format, rounding, not format, round"
    with pytest.raises(ValueError, match=exactly(message)):
        make("bfp4", w={"format": "bfp4", "round": "nearest"})
    with pytest.raises(ValueError, match=r"^numerics must have the keys block, "):
        make("bfp4", bits=4)
    with pytest.raises(ValueError, match=r"^numerics must have the keys block, "):
        Numerics.from_dict({key: MANIFEST[key] for key in MANIFEST if key != "dy"})


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
    with pytest.raises(ValueError, match=exactly("tensor class must be one of x, w, dy, not 'y'")):
        numerics.tensor_class("y")


FLOATS = {"kind": "float", "mantissa": 9, "chunk": 64}


def test_float_accumulators():
    chosen = make("bfp4", block=8, fraction=18, headroom=14, accumulator=FLOATS)
    assert chosen.to_dict()["accumulator"] == FLOATS
    assert Numerics.from_dict(chosen.to_dict()) == chosen
    assert (chosen.accumulator_bits, chosen.chunk_sum_bits) == (44, 33)
    short = make("bfp4", block=8, fraction=18, headroom=1, accumulator=FLOATS)
    assert short.chunk_sum_bits == short.accumulator_bits == 31
    assert "accumulator" not in make("bfp4").to_dict()


def test_a_chunk_is_of_whole_blocks():
    message = "accumulator.chunk must be a multiple of array.block = 16, not 40"
    with pytest.raises(ValueError, match=exactly(message)):
        make("bfp4", block=16, accumulator=FLOATS | {"chunk": 40})


def test_chunks_that_are_no_power_of_two_take_a_bit():
    """Beside SW = 12, F = 32: W = 63 with 8 blocks, 62 with 6."""
    sizes = {"block": 4, "fraction": 32, "headroom": 16}
    formats = ("bfp6",) * 3
    widest = make(*formats, accumulator=FLOATS | {"chunk": 32}, **sizes)
    assert widest.accumulator_bits == widest.most_accumulator_bits == 63
    with pytest.raises(ValueError, match=r"must make SW \+ F \+ G at most 62 bits, not"):
        make(*formats, accumulator=FLOATS | {"chunk": 24}, **sizes)
