"""Products of operands in planes against plain integers, and widths that a conversion chooses."""

from dataclasses import replace
from itertools import product as every

import numpy as np
import pytest

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.operations import OPERATIONS
from oracle import product as oracle

FACTORS = {
    "forward": (("X", 0), ("W", 1)),
    "dx": (("dY", 0), ("W", 0)),
    "dw": (("X", 1), ("dY", 1)),
}
"""The factors of every product, and whether their columns (0) or their rows (1) are contracted."""
SHAPES = {"X": (13, 22), "W": (22, 17), "dY": (13, 17)}
TAGS = {"X": 0, "W": 1, "dY": 2}
GROUPS = {"squares": None, "vectors": "1x4", "long vectors": "1x8", "large squares": "8x8"}


def fast(
    *formats, grouping=None, fraction=22, widths=(2, 4), rounding="nearest", floats=None, **options
):
    formats = formats or ("fast",) * 3
    classes = {
        name: {"format": each, "rounding": rounding, "grouping": grouping} | options
        for name, each in zip(CLASS_NAMES, formats, strict=True)
    }
    rest = {"block": 4, "random_bits": 8, "fraction": fraction, "headroom": 9, "widths": widths}
    rest["accumulator"] = floats
    return Numerics.from_dict(classes | rest)


def tensors(rng, spread):
    """Neighbours of like size, and 8 x 8 that are not."""
    found = {}
    for name, shape in SHAPES.items():
        powers = rng.integers(-spread, spread + 1, [-(-side // 8) for side in shape])
        powers = powers.repeat(8, 0).repeat(8, 1)[: shape[0], : shape[1]]
        found[name] = (rng.standard_normal(shape) * 2.0**powers).astype(np.float32)
    return found


def convert(device, arrays, widths, step=0):
    return {
        name: device.convert(array, name.lower(), tag=TAGS[name], step=step, width=width)
        for (name, array), width in zip(arrays.items(), widths, strict=True)
    }


def check(device, operands, op):
    """One product against the oracle; returns it."""
    got = getattr(device, op)(*(operands[n] for n in OPERATIONS[op].operand_names))
    sides = [oracle.read(operands[name], number) for name, number in FACTORS[op]]
    counts = [(operands[name].width or 2) // 2 for name, _ in FACTORS[op]]
    sizes = {"block": 4, "fraction": device.numerics.fraction}
    sizes["floats"] = device.numerics.accumulator
    sums, exact = oracle.plane_product(*sides, counts, **sizes)
    (values,) = got.values.values()
    rows, columns = values.shape
    wanted = [[oracle.binary32(value)[0] for value in row[:columns]] for row in sums[:rows]]
    np.testing.assert_array_equal(values.view(np.uint32), np.array(wanted, "f4").view(np.uint32))
    assert got.exact == exact
    if exact:
        whole = oracle.exact_product(*sides)
        once = [[oracle.binary32(value)[0] for value in row[:columns]] for row in whole[:rows]]
        np.testing.assert_array_equal(values, np.array(once, "f4"))
    return got


@pytest.mark.parametrize("op", FACTORS)
@pytest.mark.parametrize("widths", [(2, 2, 2), (4, 2, 4), (2, 4, 2), (4, 4, 4)])
@pytest.mark.parametrize("grouping", GROUPS.values(), ids=GROUPS)
@pytest.mark.sampled(3)
def test_products(op, widths, grouping, np_rng):
    """Near one another, and so far apart that every pass rounds."""
    device, exact = NumpyDevice(fast(grouping=grouping)), set()
    for spread in (1, 9, 30):
        operands = convert(device, tensors(np_rng, spread), widths)
        exact.add(check(device, operands, op).exact)
    assert exact == {True, False}


@pytest.mark.parametrize("op", FACTORS)
@pytest.mark.parametrize("widths", [(2, 6, 8), (8, 8, 8), (6, 4, 6)])
def test_wider_ones(op, widths, np_rng):
    device = NumpyDevice(fast(widths=(2, 4, 6, 8), fraction=30))
    for spread in (1, 14):
        check(device, convert(device, tensors(np_rng, spread), widths), op)


@pytest.mark.parametrize("op", FACTORS)
@pytest.mark.parametrize("widths", [(4, 2, 4), (4, 4, 4)])
def test_a_chunk_of_a_float_accumulator_has_all_planes(op, widths, np_rng):
    device = NumpyDevice(fast(floats={"kind": "float", "mantissa": 5, "chunk": 8}))
    for spread in (1, 9):
        check(device, convert(device, tensors(np_rng, spread), widths), op)


@pytest.mark.parametrize("op", FACTORS)
def test_beside_bfp2(op, np_rng):
    device = NumpyDevice(fast("fast", "bfp2", "fast", fraction=12))
    for spread in (1, 9):
        check(device, convert(device, tensors(np_rng, spread), (4, None, 2)), op)


def test_every_pair_of_elements():
    """Signed magnitudes of 2 and of 4 bits: as products of one element, with another one that
    makes its group's exponent what it is."""
    device = NumpyDevice(fast(grouping="1x4"))
    for left, right in every((2, 4), repeat=2):
        values = [np.arange(1 - 2**width, 2**width) for width in (left, right)]
        x = np.zeros((len(values[0]), 4), np.float32)
        w = np.zeros((4, len(values[1])), np.float32)
        x[:, 0], x[:, 1] = values[0], 2 ** (left - 1)
        w[0], w[2] = values[1], 2 ** (right - 1)
        held = device.convert(x, "x", width=left), device.convert(w, "w", width=right)
        np.testing.assert_array_equal(held[0].values(0), x)
        np.testing.assert_array_equal(held[1].values(1), w)
        result = device.forward(*held)
        np.testing.assert_array_equal(result.y, np.outer(*values).astype(np.float32))
        assert result.exact


def test_a_zero_chunk_of_a_group_is_asked_about_and_a_group_of_zeros_is_not(np_rng):
    """d is 21 and 22 at F = 22: with planes 4 below only the sum of 2-bit tensors is exact."""
    numerics = fast(fraction=22)
    device = NumpyDevice(numerics)
    x, w = np.zeros((1, 8), np.float32), np.ones((8, 1), np.float32)
    x[0, 0], x[0, 4] = 1, 2.0**-21
    w[4:] = 0.5  # so d is 22 in the second block; every low chunk there is zero
    for widths, exact in (((2, 2), True), ((2, 4), False), ((4, 4), False)):
        held = device.convert(x, "x", width=widths[0]), device.convert(w, "w", width=widths[1])
        assert device.forward(*held).exact is exact
    x[0, 4] = 0
    held = device.convert(x, "x", width=4), device.convert(w, "w", width=4)
    assert device.forward(*held).exact


@pytest.mark.parametrize("rounding", ["nearest", "stochastic-a", "stochastic-b", "stochastic-c"])
@pytest.mark.parametrize("grouping", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize("scale", ["floor", "ceil"])
@pytest.mark.sampled(3)
def test_a_width_is_block_floating_point_of_that_width(rounding, grouping, scale, np_rng):
    """With the same draws, for both copies: the narrow version is not the top of the wide one."""
    array = tensors(np_rng, 5)["dY"]
    widths = (2, 4, 6, 8)
    own = fast(grouping=grouping, rounding=rounding, scale=scale, widths=widths)
    for width in widths:
        kind = fast(*(f"bfp{width}",) * 3, grouping=grouping, rounding=rounding, scale=scale)
        got, wanted = (
            quantise(array, Conversion("dy", tag=2, step=7, width=asked), numerics, seed=3)
            for numerics, asked in ((own, width), (kind, None))
        )
        for copy, other in zip(got.copies, wanted.copies, strict=True):
            np.testing.assert_array_equal(copy.codes, other.codes)
            np.testing.assert_array_equal(copy.exponents, other.exponents)
        np.testing.assert_array_equal(got.values(), wanted.values())
        assert (got.saturated, got.underflowed) == (wanted.saturated, wanted.underflowed)
        assert (got.width, wanted.width) == (width, None)


def test_a_sum_of_more_bits_than_a_double_has():
    """A tie of the last rounding but for a product far below: no bit is lost in the accumulators,
    and one would be in a sum of doubles."""
    chosen = {"format": "fast", "rounding": "nearest", "grouping": "1x8"}
    sizes = {"block": 8, "random_bits": 8, "fraction": 32, "headroom": 16, "widths": (2, 8)}
    device = NumpyDevice(Numerics.from_dict(dict.fromkeys(CLASS_NAMES, chosen) | sizes))
    length = 21 * 2**18 // 20 // 8 * 8  # for a sum to have a bit more than planes tell
    x, w = np.full(length, 255, np.float32), np.full(length, 255, np.float32)
    total = 255 * 255 * (length - 16)
    half = 2 ** (total.bit_length() - 25)  # of the last place of 24 bits
    missing = (half - total) % (2 * half)
    # Every group has an exponent of its own, by an element that meets a zero.
    x[-16:] = 255, missing % 255, 128, 0, 0, 0, 0, 0, 2.0**-12, 2.0**-19, 0, 0, 0, 0, 0, 0
    w[-16:] = missing // 255, 1, 0, 128, 0, 0, 0, 0, 0, 1, 128, 0, 0, 0, 0, 0
    tie = total + missing
    assert (tie // half) % 4 == 1  # to even it would go down
    held = device.convert(x[None], "x", width=8), device.convert(w[:, None], "w", width=8)
    result = device.forward(*held)
    assert result.exact
    assert result.y[0, 0] == tie + half


def test_what_is_not_said_is_the_widest(np_rng):
    arrays = tensors(np_rng, 1)
    device = NumpyDevice(fast())
    assert device.convert(arrays["X"], "x").width == 4
    assert device.forward(arrays["X"], arrays["W"]).operands["W"].width == 4
    stack = device.convert_stack(np.stack([arrays["X"]] * 3), "x", width=2)
    assert [tensor.width for tensor in stack.tensors] == [2, 2, 2]


def test_a_stack_is_its_products_one_by_one(np_rng):
    """Also where planes are summed."""
    numerics = fast(fraction=8)
    x = np.stack([tensors(np_rng, 9)["X"] for _ in range(3)])
    w = tensors(np_rng, 9)["W"]
    whole = NumpyDevice(numerics).forward(x, w, tags=(0, 1))
    for index in range(3):
        one = NumpyDevice(numerics).forward(x[index], w, tags=(4 * index, 1))
        np.testing.assert_array_equal(whole.y[index], one.y)
    assert not whole.exact


def test_uploaded_tensors_keep_their_width(np_rng):
    device = NumpyDevice(fast())
    tensor = device.convert(tensors(np_rng, 1)["X"], "x", width=2)
    assert device.upload(replace(tensor)).width == 2
