"""What formats make of tensors: every figure from a tensor small enough to work out by hand."""

import math

import numpy as np
import pytest

from diastole_sim.codes.survey import Bits, bits_per_element, element_range, survey
from diastole_sim.spec.formats import FORMAT_NAMES, parse_format


def matrix(*rows):
    return np.array(rows, dtype=np.float32)


def blocks(*rows, side=2):
    """A matrix of constant blocks."""
    return matrix(*rows).repeat(side, axis=0).repeat(side, axis=1)


def bits(largest, usual=None):
    return Bits(largest=largest, usual=largest if usual is None else usual)


def test_one_block():
    """e = 1 and ulp = 1: 0.25 and 0.125 become 0, the others stay."""
    found = survey(matrix([1, -0.25], [0.125, 3]), "bfp2", block=2)
    assert (found.format, found.grouping, found.copies) == ("bfp2", "2x2", 1)
    assert found.snr_db == pytest.approx(10 * math.log10(10.078125 / 0.078125), rel=1e-12)
    assert (found.saturated, found.underflowed) == (0, 0.5)
    assert found.spread == bits(4)
    assert (found.row_deficit, found.column_deficit) == (bits(0), bits(0))


def test_saturation():
    """e = 0: the largest bfp2 is 1.5, and 1.9 would be 2."""
    found = survey(matrix([1.9, 1, 1, 1]), "bfp2", block=4)
    assert (found.saturated, found.underflowed) == (0.25, 0)
    assert found.snr_db == pytest.approx(10 * math.log10(6.61 / 0.16), rel=1e-6)


def test_shares_are_of_all_copies():
    """In rows of two 2^-9 is lost beside 1; down the columns it stands alone and stays."""
    found = survey(matrix([1, 2.0**-9]), "mxint8", block=2)
    assert (found.copies, found.underflowed) == (2, 0.25)
    assert found.snr_db == pytest.approx(10 * math.log10(2 * (1 + 2.0**-18) / 2.0**-18), rel=1e-12)


def test_deficits_of_squares():
    found = survey(blocks([8, 1], [0.5, 0]), "bfp4", block=2)
    assert (found.row_deficit, found.column_deficit) == (bits(3), bits(4))
    assert found.spread == bits(0)


@pytest.mark.parametrize("outliers, usual", [(2, 0), (3, 9)])
def test_usual_is_what_99_percent_do_not_exceed(outliers, usual):
    row = [1.0] * 200
    row[7 : 7 + outliers] = [2.0**-9] * outliers
    found = survey(matrix(row), "bfp4", block=1)
    assert found.row_deficit == bits(9, usual)
    assert found.column_deficit == bits(0)


def test_vectors_run_along_both_axes():
    row = [1.0] * 32 + [2.0**-5] * 31 + [2.0**-7]
    found = survey(matrix(row), "mxint8", block=8)
    assert (found.grouping, found.copies) == ("1x32", 2)
    assert (found.row_deficit, found.column_deficit) == (bits(5), bits(0))
    assert found.spread == bits(2), "2 groups along the row, and 64 of one element each"
    turned = survey(matrix(row).T, "mxint8", block=8)
    assert (turned.row_deficit, turned.column_deficit) == (bits(0), bits(5))
    assert (turned.spread, turned.snr_db) == (found.spread, found.snr_db)


def test_the_last_groups_of_a_tensor_are_no_smaller_for_their_padding():
    found = survey(np.full((3, 5), 2, dtype=np.float32), "bfp4", block=4)
    assert (found.spread, found.snr_db, found.underflowed) == (bits(0), None, 0)
    assert (found.row_deficit, found.column_deficit) == (bits(0), bits(0))


def test_a_tensor_is_one_group_and_its_blocks_meet_with_what_they_hold():
    """The window of E4M3 counts from the largest element that a block holds."""
    found = survey(blocks([256, 2.0**-5]), "fp8_e4m3", block=2)
    assert (found.grouping, found.spread) == ("tensor", bits(13))
    assert (found.row_deficit, found.column_deficit) == (bits(13), bits(0))
    assert (found.snr_db, found.underflowed) == (None, 0)


@pytest.mark.parametrize(
    "second, deficit",
    [(6, 8), (6 * 2.0**-6, 14), (6 * 2.0**-9, 14)],
    ids=["scale 1", "smallest normal scale", "subnormal scale"],
)
def test_deficits_of_nvfp4_are_those_of_its_scales(second, deficit):
    """The first scale is 448 = 1.75 * 2^8."""
    row = [2688.0] * 16 + [second] * 16
    found = survey(matrix(row), "nvfp4", block=8)
    assert (found.grouping, found.copies, found.snr_db) == ("1x16", 2, None)
    assert found.row_deficit == bits(deficit)


def test_nvfp4_weights_are_in_squares():
    found = survey(np.ones((16, 16), dtype=np.float32), "nvfp4", block=8, tensor_class="w")
    assert (found.grouping, found.copies) == ("16x16", 1)
    # The tensor scale is 2^-11, and the scale nearest to 2048 / 6 is 352: every element is 6.
    error = 6 * 352 / 2048 - 1
    assert found.snr_db == pytest.approx(-20 * math.log10(error), rel=1e-6)


def test_specials_and_subnormals_are_no_noise():
    found = survey(matrix([np.nan, np.inf, -np.inf, 1e-40, 1, 2]), "bfp4", block=8)
    assert found.snr_db is None
    assert (found.saturated, found.underflowed) == (0, 0)
    assert found.spread == bits(1)
    assert found.counted == 2


@pytest.mark.parametrize(
    "value, counted",
    [(np.nan, 0), (np.inf, 0), (-np.inf, 0), (1e-40, 0), (0, 4), (-0.0, 4), (2.0**-126, 4), (3, 4)],
)
def test_what_has_a_part_in_the_noise(value, counted):
    """Subnormals of float32 lie below 2^-126."""
    assert survey(np.full((2, 2), value, np.float32), "bfp4", block=2).counted == counted


def test_a_tensor_of_zeros_has_no_groups():
    found = survey(np.zeros((3, 3), dtype=np.float32), "mxfp4_e2m1", block=4)
    assert (found.snr_db, found.saturated, found.underflowed) == (None, 0, 0)
    assert found.spread is None
    assert found.row_deficit is None
    assert found.column_deficit is None


@pytest.mark.parametrize("name", [*FORMAT_NAMES, "e3m4"])
@pytest.mark.parametrize("block", [1, 8, 32])
@pytest.mark.sampled(3)
def test_every_format_in_every_block(name, block, rng):
    """Noise is bounded by half an ulp of what neither saturates nor underflows."""
    random = np.random.default_rng(rng.randrange(2**32))
    data = random.standard_normal((40, 70)).astype(np.float32)
    found = survey(data, name, block=block)
    assert 0 <= found.saturated < 0.5
    assert 0 <= found.underflowed < 0.9
    assert found.snr_db is not None
    assert found.snr_db > 6 * (parse_format(name).precision - 1) - 6
    assert None not in (found.spread, found.row_deficit, found.column_deficit)


def test_the_largest_numbers_make_no_infinite_noise():
    largest = np.finfo(np.float32).max
    found = survey(np.full((1, 16), largest, dtype=np.float32), "nvfp4", block=8)
    assert found.snr_db is None or math.isfinite(found.snr_db)


@pytest.mark.parametrize(
    "name, largest, smallest",
    [  # OCP OFP8 r1.0 and MX v1.0, tables of their formats; bfloat16 as in its definition
        ("fp8_e4m3", 448, 2.0**-9),
        ("fp8_e5m2", 57344, 2.0**-16),
        ("mxfp8_e4m3", 448, 2.0**-9),
        ("mxfp6_e3m2", 28, 0.0625),
        ("mxfp6_e2m3", 7.5, 0.125),
        ("mxfp4_e2m1", 6, 0.5),
        ("nvfp4", 6, 0.5),
        ("mxint8", 127 / 64, 1 / 64),
        ("bf16", 255 * 2.0**120, 2.0**-133),
        ("bfp4", 1.875, 0.125),
        ("bfp1", 1, 1),
    ],
)
def test_element_range(name, largest, smallest):
    assert element_range(parse_format(name)) == (largest, smallest)


@pytest.mark.parametrize(
    "name, block, tensor_class, one, every",
    [
        ("bfp4", 8, "x", 5.125, 5.125),
        ("bfp4", 4, "x", 5.5, 5.5),
        ("fp8_e4m3", 8, "dy", 8.125, 8.125),
        ("bf16", 32, "w", 16 + 1 / 128, 16 + 1 / 128),
        ("mxfp4_e2m1", 8, "x", 4.25, 8.5),
        ("nvfp4", 8, "x", 4.5, 9),
        ("nvfp4", 8, "w", 4.125, 4.125),
        ("mxint8", 1, "x", 9, 18),  # the image has one exponent for 8 blocks at most
    ],
)
def test_bits_per_element(name, block, tensor_class, one, every):
    assert bits_per_element(name, block, tensor_class) == (one, every)
