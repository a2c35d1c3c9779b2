"""From what a device stores to what formats define, and back: no value changes."""

import re
from dataclasses import replace

import numpy as np
import pytest

from diastole_sim.codes.codes import from_codes, suffixes, to_codes
from diastole_sim.codes.standard import Codes, Form
from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.numerics import Numerics
from support.texts import exactly

KINDS = [
    ("bfp4", None),
    ("bfp8", "16x16"),
    ("bfp7", "1x16"),
    ("fp8_e4m3", "tensor"),
    ("fp8_e5m2", "16x16"),
    ("fp8_e4m3", "1x8"),
    ("e3m2", "tensor"),
    ("bf16", None),
    ("mxint8", None),
    ("mxfp8_e4m3", None),
    ("mxfp8_e5m2", "1x128"),
    ("mxfp6_e3m2", "8x8"),
    ("mxfp6_e2m3", None),
    ("mxfp4_e2m1", "64x64"),
    ("nvfp4", None),
    ("nvfp4", "16x16"),
]
STORED = ("codes", "exponents", "row_max", "col_max", "folds")


def numerics(kind, grouping=None, *, special="flag", window=None, block=8, **chosen):
    chosen = {"format": kind, "rounding": "nearest", "grouping": grouping} | chosen
    return Numerics.from_dict(
        {"x": chosen, "w": chosen, "dy": chosen, "block": block, "random_bits": 8}
        | {"fraction": 0, "headroom": 2, "special": special, "window": window}
    )


def data(seed=0, shape=(37, 70), spread=30):
    rng = np.random.default_rng(seed)
    exponents = rng.integers(-spread, spread + 1, shape)
    array = (rng.normal(size=shape) * np.exp2(exponents)).astype(np.float32)
    array[20:30] = 0
    return array


def special_data(spread=30):
    array = data(spread=spread)
    array[3, 4], array[7, 9], array[20, 1] = np.nan, np.inf, np.nan
    return array


def convert(array, chosen, tensor_class="x", **given):
    seed = given.pop("seed", 0)
    return quantise(array, Conversion(tensor_class, **given), chosen, seed=seed)


def same_values(got, wanted):
    assert got.shape == wanted.shape
    assert np.array_equal(np.isnan(got), np.isnan(wanted))
    numbers = ~np.isnan(wanted)
    assert np.array_equal(got.view(np.uint32)[numbers], wanted.view(np.uint32)[numbers])


def same_stored(got, wanted):
    for one, other in zip(got.copies, wanted.copies, strict=True):
        assert (one.transposed, one.shape) == (other.transposed, other.shape)
        for name in STORED:
            first, second = getattr(one, name), getattr(other, name)
            assert first.dtype == second.dtype, name
            assert np.array_equal(first, second), name


def same_codes(got, wanted):
    for one, other in zip(got, wanted, strict=True):
        for name in ("form", "axis", "tensor_scale"):
            assert getattr(one, name) == getattr(other, name), name
        assert np.array_equal(one.codes, other.codes)
        assert (one.scales is None) == (other.scales is None)
        assert one.scales is None or np.array_equal(one.scales, other.scales)


@pytest.mark.parametrize("window", [None, 0, 20])
@pytest.mark.parametrize("special", ["flag", "poison"])
@pytest.mark.parametrize("kind, grouping", KINDS)
@pytest.mark.sampled(3)
def test_there_and_back(kind, grouping, special, window):
    if window == 0 and kind in ("bf16", "fp8_e5m2", "mxfp8_e5m2"):
        window = 24  # exactly would need more than 63 bits
    chosen = numerics(kind, grouping, special=special, window=window)
    array = special_data()
    if kind == "e3m2":  # no block of it may become zeros: that it was none is not in the codes
        array = data(spread=2) if special == "poison" else special_data(spread=2)
    tensor = convert(array, chosen)
    codes = to_codes(tensor)
    assert len(codes) == len(tensor.copies)
    for number, copy in enumerate(codes):
        assert copy.form == Form.of(chosen.x)
        assert copy.shape == array.shape
        same_values(copy.values(), tensor.values(number))
    back = from_codes(codes, "x", chosen)
    same_stored(back, tensor)
    assert (back.shape, back.storage, back.block) == (tensor.shape, tensor.storage, tensor.block)
    assert back.tensor_exponent == tensor.tensor_exponent
    assert (back.saturated, back.underflowed) == (0, 0)


@pytest.mark.parametrize("kind", ["fp8_e4m3", "e3m4", "e3m2"])
def test_folding_does_not_show(kind):
    """The codes are the standard's, whether a machine folds them or not."""
    array = data(spread=3)
    folded, plain = (numerics(kind, window=window) for window in (12, 0))
    assert folded.folds("x")
    assert not plain.folds("x")
    first, second = convert(array, folded), convert(array, plain)
    assert first.copies[0].folds.any()
    assert not second.copies[0].folds.any()
    same_codes(to_codes(first), to_codes(second))
    same_stored(from_codes(to_codes(first), "x", plain), second)
    same_stored(from_codes(to_codes(second), "x", folded), first)


def as_read(tensor):
    """Without what memory does not show."""
    copies = (replace(copy, folds=0 * copy.folds) for copy in tensor.copies)
    return replace(tensor, copies=tuple(copies))


@pytest.mark.parametrize("kind, grouping", KINDS)
def test_scales_of_a_tensor_that_was_read(kind, grouping):
    tensor = convert(data(), numerics(kind, grouping, window=24))
    same_codes(to_codes(as_read(tensor), tensor), to_codes(tensor))


def test_a_machine_that_is_wrong_is_found():
    tensor = convert(data(), numerics("mxfp8_e4m3"))
    read = as_read(tensor)
    wrong = replace(read.copies[1], exponents=read.copies[1].exponents - np.uint8(8))
    wrong = replace(read, copies=(read.copies[0], wrong))
    text = "stored elements have no code in mxfp8_e4m3 under the scales of the tensor; the first"
    with pytest.raises(ValueError, match=re.escape(text)):
        to_codes(wrong, tensor)
    for kind in ("bfp4", "nvfp4"):
        tensor = convert(data(), numerics(kind))
        place = np.argwhere(tensor.copies[0].exponents)[0]
        exponents = tensor.copies[0].exponents.copy()
        exponents[tuple(place)] += 1
        wrong = (replace(tensor.copies[0], exponents=exponents), *tensor.copies[1:])
        with pytest.raises(ValueError, match="stored elements have no code in"):
            to_codes(replace(tensor, copies=wrong), tensor)
    tensor = convert(data(), numerics("nvfp4"))
    with pytest.raises(ValueError, match="the scale of the tensor has the exponent 3, not "):
        to_codes(replace(tensor, tensor_exponent=3), tensor)


@pytest.mark.parametrize("kind, grouping", KINDS)
@pytest.mark.sampled(3)
def test_any_codes(kind, grouping):
    """Codes of others: every one of them, NaN and subnormals too, in groups of any scale."""
    chosen = numerics(kind, grouping, special="poison", window=24)
    form, rng, copies = Form.of(chosen.x), np.random.default_rng(1), []
    for axis in (1, 0)[: 1 + chosen.x.two_copies]:
        codes = rng.integers(0, 2**form.format.element_bits, (33, 40)).astype(form.code_type)
        if not form.format.signed_zero:  # zeros of one kind: what comes back has no other
            codes[codes == 1 << form.format.magnitude_bits] = 0
        if kind == "mxint8":
            codes[codes == 0x80] = 0x81
        codes[-1] = 1  # no group of zeros, of which the scale is not kept
        low, high = {"nvfp4": (1, 127), "mxfp8_e5m2": (1, 231)}.get(kind, (1, 240))
        scales = None
        if form.has_scales:
            shape = form.scale_shape(codes.shape, axis)
            scales = rng.integers(low, high, shape).astype(form.scale_type)
        unit = 0.5 if form.has_tensor_scale and kind != "bf16" else None
        copies.append(Codes(form=form, codes=codes, scales=scales, tensor_scale=unit, axis=axis))
    tensor = from_codes(copies, "x", chosen)
    for number, copy in enumerate(copies):
        same_values(tensor.values(number), copy.values())
        stored = tensor.copies[number]
        assert np.array_equal(stored.row_max, stored.exponents.max(axis=1))
        if not chosen.x.two_copies:
            assert np.array_equal(stored.col_max, stored.exponents.max(axis=0))
    if kind != "nvfp4" and not any(np.isnan(copy.values()).any() for copy in copies):
        same_codes(to_codes(tensor), copies)


def test_products_of_codes():
    """A tensor that is given as codes multiplies as the one that they were made of."""
    chosen = numerics("mxfp8_e4m3")
    device, (x, w) = NumpyDevice(chosen), (data(shape=(9, 30), spread=3), data(2, (30, 35), 3))
    wanted = device.forward(x, w)
    given = [
        from_codes(to_codes(operand), operand.tensor_class, chosen)
        for operand in wanted.operands.values()
    ]
    got = device.forward(*given)
    assert np.array_equal(got.y, wanted.y)
    assert got.exact == wanted.exact


MX = Form.parse("mxfp8_e4m3 8x8")


def mx(codes, scale):
    scales = np.full(MX.scale_shape(codes.shape, 1), scale, np.uint8)
    return Codes(form=MX, codes=codes, scales=scales)


@pytest.mark.parametrize("window", [0, None])
def test_scales_beyond_what_is_stored(window):
    """2^127 times E4M3 is too large for a machine, unless the elements are small."""
    chosen = numerics("mxfp8_e4m3", "8x8", window=window)
    small = mx(np.full((8, 8), 0x3E, np.uint8), 254)
    tensor = from_codes([small], "x", chosen)
    assert tensor.values()[0, 0] == np.float32(1.75 * 2.0**127)
    assert tensor.copies[0].exponents.tolist() == [[254]]


def test_small_groups_are_folded_as_far_as_bytes_go():
    """2^-126 * 2^-9: stored with the exponent -126, whose byte is 1."""
    form = Form.parse("fp8_e4m3 tensor")
    codes = np.full((8, 8), 1, np.uint8)
    tiny = Codes(form=form, codes=codes, scales=None, tensor_scale=2.0**-126)
    tensor = from_codes([tiny], "x", numerics("fp8_e4m3", window=12))
    assert tensor.copies[0].exponents.tolist() == [[1]]
    assert tensor.values()[0, 0] == np.float32(2.0**-135)
    assert tensor.amax == 0  # a subnormal counts as zero


@pytest.mark.parametrize("kind, byte, nan", [("mxfp4_e2m1", 200, 255), ("nvfp4", 0x38, 0x7F)])
def test_scales_that_are_nan(kind, byte, nan):
    form = Form.parse(f"{kind} 16x16")
    codes = np.full((16, 32), 3, np.uint8)
    scale = 1.0 if kind == "nvfp4" else None
    given = Codes(
        form=form, codes=codes, scales=np.array([[nan, byte]], np.uint8), tensor_scale=scale
    )
    poisoned = from_codes([given], "x", numerics(kind, "16x16", special="poison"))
    assert np.array_equal(np.isnan(poisoned.values()), np.tile(np.arange(32) < 16, (16, 1)))
    assert poisoned.copies[0].exponents[0, 0] == nan
    assert poisoned.copies[0].row_max[0] == poisoned.copies[0].exponents[0, 2] not in (0, nan)
    assert poisoned.copies[0].col_max[0] == 0
    flagged = from_codes([given], "x", numerics(kind, "16x16"))
    assert not flagged.values()[:, :16].any()
    assert flagged.copies[0].exponents[0, 0] == 0
    assert poisoned.nan
    assert flagged.nan
    assert not flagged.inf
    shown = to_codes(poisoned)[0]
    assert shown.scales.tolist() == [[nan, byte]]
    assert not shown.codes[:, :16].any()
    assert (shown.codes[:, 16:] == 3).all()


def test_an_nvfp4_scale_of_zero_makes_zeros():
    form = Form.parse("nvfp4 16x16")
    codes, scales = np.full((16, 32), 11, np.uint8), np.array([[0, 0x38]], np.uint8)
    given = Codes(form=form, codes=codes, scales=scales, tensor_scale=1.0)
    tensor = from_codes([given], "x", numerics("nvfp4", "16x16"))
    same_values(tensor.values(), given.values())
    assert set(tensor.copies[0].codes[:, :16].flat) == {8}
    assert tensor.values()[0, 16] == -1.5


@pytest.mark.parametrize("special, stored", [("flag", 127 + 15), ("poison", 0)])
def test_groups_of_inf(special, stored):
    """Flagged, an Inf counts as the largest element, so its group is none of zeros."""
    form = Form.parse("fp8_e5m2 8x8")
    codes = np.full((8, 8), 0x7C, np.uint8)
    given = Codes(form=form, codes=codes, scales=np.array([[127]], np.int16))
    tensor = from_codes([given], "x", numerics("fp8_e5m2", "8x8", special=special))
    assert tensor.copies[0].exponents.tolist() == [[stored]]
    assert (tensor.copies[0].codes == 0x7C).all()


def test_flags_and_amax():
    chosen = numerics("fp8_e5m2", special="poison")
    codes = np.array([[0x7C, 0x3C, 0xC2, 0x7D]], np.uint8)  # Inf, 1, -3, NaN
    given = Codes(form=Form.of(chosen.x), codes=codes, tensor_scale=4.0)
    tensor = from_codes([given], "x", chosen)
    assert (tensor.nan, tensor.inf) == (True, True)
    assert tensor.amax == int(np.float32(12).view(np.uint32))
    assert tensor.tensor_exponent == 2 + 15


def test_suffixes():
    vectors, squares = numerics("mxint8"), numerics("bfp4")
    assert suffixes("x", vectors.x) == ("_k", "_m")
    assert suffixes("w", vectors.w) == ("_n", "_k")
    assert suffixes("dy", vectors.dy) == ("_n", "_m")
    assert suffixes("w", squares.w) == ("",)


def test_a_block_that_is_no_number_has_no_codes_where_nothing_can_say_it():
    array = np.array([[np.nan, 1.0]], np.float32)
    chosen = numerics("e3m4", special="poison")
    stored = quantise(array, Conversion("x", tag=0, step=0), chosen, seed=0)
    with pytest.raises(
        ValueError,
        match=exactly("e3m4 tensor cannot store NaN and Inf, neither in elements nor in scales"),
    ):
        to_codes(stored)
    assert np.isnan(stored.values()).all()
