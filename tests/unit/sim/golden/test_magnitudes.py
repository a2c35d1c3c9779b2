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
from diastole_sim.spec.formats import parse_format
from support.conversions import (
    MINIFLOATS,
    NAMES,
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
