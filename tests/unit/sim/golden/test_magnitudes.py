"""Magnitude codes, and folding them."""

import numpy as np
import pytest

from diastole_sim.golden.magnitudes import (
    decode_magnitudes,
    encode_magnitudes,
    fold,
    is_inf,
    is_nan,
    is_negative,
    smallest_depth,
    unfold,
)
from diastole_sim.golden.partition import Partition
from diastole_sim.spec.formats import parse_format
from support.conversions import (
    MINIFLOATS,
    NAMES,
    convert,
    groupings,
    spread,
)


@pytest.mark.parametrize("name", NAMES)
def test_codes_decode_and_encode(name):
    kind = parse_format(name)
    codes = np.arange(2**kind.magnitude_bits, dtype=np.uint16)
    sig, d = decode_magnitudes(codes, kind)
    finite = codes <= kind.max_code
    assert not sig[~finite].any()
    assert not d[~finite].any()
    assert d[0] == 0
    number = finite & (codes != 0)
    np.testing.assert_array_equal(encode_magnitudes(sig, d, kind)[number], codes[number])
    values = sig * 2.0 ** (-d.astype(float))
    assert (np.diff(values[finite]) > 0).all()  # a code grows with its value
    assert (sig < 2**kind.precision).all()
    assert (d <= kind.depth).all()
    assert (d >= 0).all()
    signed = codes | np.uint16(1 << kind.magnitude_bits)
    np.testing.assert_array_equal(decode_magnitudes(signed, kind)[0], sig)
    assert is_negative(signed, kind).all()
    assert not is_negative(codes, kind).any()
    np.testing.assert_array_equal(is_inf(codes, kind) | is_nan(codes, kind), ~finite)
    infinite = [kind.overflow_code] if kind.specials == "ieee" else []
    assert codes[is_inf(signed, kind)].tolist() == infinite


@pytest.mark.parametrize("name", MINIFLOATS)
def test_folding_keeps_every_value(name):
    kind = parse_format(name)
    codes = np.arange(2**kind.magnitude_bits)
    limit = smallest_depth(codes, kind)
    sig, d = decode_magnitudes(codes, kind)
    for by in {0, 1, 2, kind.depth // 2, kind.depth - 1, kind.depth}:
        number = (codes > 0) & (codes <= kind.max_code)
        may = number & (limit >= by) if by else number
        folded = fold(codes, np.int64(by), kind)
        new_sig, new_d = decode_magnitudes(folded, kind)
        assert (folded[may] <= kind.max_code).all()
        assert (sig * 2.0 ** (kind.depth - d))[may].tolist() == (
            new_sig * 2.0 ** (kind.depth - new_d - by)
        )[may].tolist()
        np.testing.assert_array_equal(unfold(folded, np.int64(by), kind)[may], codes[may])
        np.testing.assert_array_equal(folded[~number], codes[~number])
        np.testing.assert_array_equal(unfold(codes, np.int64(by), kind)[~number], codes[~number])
        largest = number & (limit == by) & (sig >= 2 ** (kind.precision - 1))
        assert not smallest_depth(folded[largest], kind).any()
        assert largest.any()
        assert limit[1] == kind.depth


@pytest.mark.parametrize("name", MINIFLOATS)
def test_the_largest_code_of_a_group_decides_its_fold(name):
    kind = parse_format(name)
    numbers = np.arange(1, kind.max_code + 1)
    assert (np.diff(smallest_depth(numbers, kind)) <= 0).all()
    assert smallest_depth(numbers, kind)[[0, -1]].tolist() == [kind.depth, 0]


def test_all_ones_of_e4m3_is_no_number():
    """1.875 * 2^d would fold to the code of NaN; it is folded by one less."""
    got = convert([[1.75, 1.875, 240.0, 448]], "fp8_e4m3", block=1, scale_given=8)
    assert got.copies[0].folds.tolist() == [[8, 7, 0, 0]]
    assert got.values().tolist() == [[1.75, 1.875, 240, 448]]
    assert convert([[1.875]], "e4m3", scale_given=9).copies[0].folds.tolist() == [[9]]


@pytest.mark.parametrize("name", ["fp8_e4m3", "e3m4", "e2m5", "e3m2"])
def test_a_folded_tensor_is_the_same_tensor(name, np_rng):
    array = spread(np_rng, (13, 21), low=-20)
    array[4:8] = np.where(array[4:8] == 0, 0, array[4:8] * 2.0**-40)
    plain, folded = (
        convert(array, name, grouping="tensor", window=window, headroom=1, fraction=0)
        for window in (0, 12)
    )
    (a,), (b,) = plain.copies, folded.copies
    assert not a.folds.any()
    np.testing.assert_array_equal(plain.values(), folded.values())
    check_folds(folded, b)
    kind, blocks = folded.chosen.format, Partition.cells(folded.chosen.grouping, folded.block)
    sign = b.codes & (1 << kind.magnitude_bits)
    by = blocks.spread(b.folds)[: b.codes.shape[0], : b.codes.shape[1]].astype(np.int64)
    np.testing.assert_array_equal(unfold((b.codes - sign).astype(int), by, kind) + sign, a.codes)
    zeros = b.exponents == 0
    assert (a.exponents[~zeros] == b.exponents[~zeros] + b.folds[~zeros]).all()
    assert not b.folds[zeros].any()
    assert (plain.saturated, plain.underflowed) == (folded.saturated, folded.underflowed)


@pytest.mark.parametrize("rounding", ["nearest", "stochastic-a", "stochastic-b", "stochastic-c"])
@pytest.mark.parametrize("rule", ["floor", "even", "ceil", "rceil"])
@pytest.mark.parametrize("name", ["mxfp8_e4m3", "mxfp8_e5m2", "mxfp6_e3m2", "mxfp6_e2m3"])
@pytest.mark.sampled(8)
def test_the_largest_of_a_group_lies_high(name, rule, rounding, np_rng):
    """In the top binade under ``floor``, in that below it or above under the other rules, whatever
    it is rounded to: so the exponent of a group's own stays as it is."""
    array = spread(np_rng, (40, 70), low=-12)
    ones = np_rng.random(array.shape) < 0.3
    array[ones] = np.ldexp(np.float32(1.9999), np_rng.integers(-4, 3, array.shape))[ones]
    array[np_rng.random(array.shape) < 0.02] = np.inf
    kwargs = {"window": 12, "headroom": 1, "fraction": 0, "rule": rounding}
    for grouping in groupings(name):
        tensor = convert(array.astype(np.float32), name, grouping=grouping, scale=rule, **kwargs)
        kind, whole = tensor.chosen.format, Partition.groups(tensor.chosen.grouping, tensor.block)
        for copy in tensor.copies:
            assert copy.exponents.any()
            assert not copy.folds.any()
            rows, columns = copy.codes.shape
            codes = np.zeros((-(-rows // 32) * 32, -(-columns // 32) * 32), np.int64)
            codes[:rows, :columns] = copy.codes & (1 << kind.magnitude_bits) - 1
            least = whole.reduce(np.minimum, smallest_depth(codes, kind))
            assert least[least <= kind.depth].max() <= (rule != "floor")


def check_folds(tensor, copy):
    """The smallest d is 0 in every group but those of zeros, and of subnormals alone."""
    kind, grouping = tensor.chosen.format, tensor.chosen.grouping
    rows, columns = copy.codes.shape
    whole = np.zeros((-(-rows // 8) * 8, -(-columns // 8) * 8), dtype=np.int64)
    whole[:rows, :columns] = copy.codes & (2**kind.magnitude_bits - 1)
    tiling = Partition.groups(grouping, tensor.block)
    least = tiling.reduce(np.minimum, smallest_depth(whole, kind))
    least, folds, stored = (
        each[:rows, :columns]
        for each in (
            tiling.spread(least),
            Partition.cells(grouping, tensor.block).spread(copy.folds),
            Partition.cells(grouping, tensor.block).spread(copy.exponents),
        )
    )
    np.testing.assert_array_equal(stored == 0, least > kind.depth)
    assert not least[(stored != 0) & (folds != kind.depth)].any()
    assert (least == 0).any()


def test_a_block_that_rounds_to_zeros():
    """With one scale for the tensor it is stored as one of zeros if folded, else with the scale."""
    array = np.zeros((1, 12), np.float32)
    array[0, [0, 4]] = 448, 1e-20
    assert convert(array, "fp8_e4m3").copies[0].exponents.tolist() == [[127 + 8, 0, 0]]
    plain = convert(array, "fp8_e4m3", window=0)
    assert plain.copies[0].exponents.tolist() == [[127 + 8, 127 + 8, 0]]
    assert plain.underflowed == 1
