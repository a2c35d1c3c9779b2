"""What the lanes are told of a vector and a block, at every edge of a deficit and of an extent."""

import itertools

import pytest

from diastole_hw.cell.combine_marks import CombineMarks
from support.cells import KINDS, shape_of
from support.pipelines import check_pipeline


def fields(shape):
    """By hand: widths of deficits, lanes, the deficits and extents at which something changes."""
    widest = shape.sum_bits + shape.fraction
    ones = 2 ** widest.bit_length() - 1
    lanes = shape.block if shape.lane_deficits and "north" in shape.directions else 1
    edges = {0, 1, shape.fraction, shape.fraction + 1, widest, ones // 2, ones // 2 + 1}
    return ones, lanes, sorted(edge for edge in edges if edge <= widest)


def random_vector(rng, shape, deficits, extents):
    vector = {"deficit": rng.choice(deficits), "nonzero": int(rng.random() < 0.85)}
    if shape.significands:
        vector["significand"] = rng.choice((1, 8, 15, rng.randrange(16)))
    if shape.extents:
        vector["extent"] = rng.choice(extents)
    if shape.poison:
        vector["poison"] = int(rng.random() < 0.2)
    return vector


def random_block(rng, shape, lanes, deficits, extents):
    block = {"nonzero": [int(rng.random() < 0.85) for _ in range(lanes)]}
    if "east" in shape.directions:
        block["deficit_east"] = rng.choice(deficits)
    if "north" in shape.directions:
        block["deficit_north"] = [rng.choice(deficits) for _ in range(lanes)]
    if shape.significands:
        block["significand"] = [rng.randrange(16) for _ in range(lanes)]
    if shape.extents:
        block["extent"] = rng.choice(extents)
    if shape.poison:
        for name in shape.directions:
            block[f"poison_{name}"] = rng.getrandbits(shape.block) & rng.getrandbits(shape.block)
    return block


def meet(shape, ones, lanes, vector, block, north):
    """To the east a block has one deficit, ``nonzero`` and significand: those of its first row."""
    lane_marks = {"shifts": [], "inexact": False}
    scales = []
    for lane in range(lanes):
        at = lane if north else 0
        deficit = vector["deficit"]
        deficit += block["deficit_north"][lane] if north else block["deficit_east"]
        both_nonzero = vector["nonzero"] and block["nonzero"][at]
        lane_marks["shifts"].append(deficit if both_nonzero and deficit <= ones else ones)
        lane_marks["inexact"] |= bool(both_nonzero and deficit > shape.fraction)
        if shape.significands:
            scales.append(vector["significand"] * block["significand"][at])
    if shape.significands:
        lane_marks["scales"] = scales
    if shape.extents and vector["nonzero"] and vector["extent"] and block["extent"]:
        lane_marks["inexact"] |= vector["extent"] + block["extent"] > shape.window
    if shape.poison:
        stationary = block["poison_north" if north else "poison_east"]
        lane_marks["poison"] = 2**shape.block - 1 if vector["poison"] else stationary
    return lane_marks


def simulate(shape, cases):
    """Compare each case: vector, block and whether the slot goes north."""
    dut = CombineMarks(shape=shape)
    ones, lanes, _ = fields(shape)
    both_nonzero = len(shape.directions) == 2
    pipelined = []
    for vector, block, north in cases:
        want = meet(shape, ones, lanes, vector, block, north)
        assert set(dut.lane_marks.shape().members) == set(want)
        direction = north if both_nonzero else not north  # ignored where there is one
        given = {"vector": vector, "block": block, "direction": direction}
        pipelined.append((given, {"lane_marks": want}))
    check_pipeline(dut, pipelined, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("block, fraction", [(1, 0), (2, 7), (4, 18), (8, 3)])
@pytest.mark.sampled(4)
def test_met(kind, block, fraction, rng):
    shape = shape_of(kind, rows=2, block=block, fraction=fraction)
    _, lanes, deficits = fields(shape)
    extents = [0]
    if shape.extents:
        half = shape.window // 2
        extents = [e for e in (0, 1, half, half + 1, shape.window) if e < 2**shape.extent_bits]
    norths = [name == "north" for name in shape.directions]
    simulate(
        shape,
        [
            (
                random_vector(rng, shape, deficits, extents),
                random_block(rng, shape, lanes, deficits, extents),
                rng.choice(norths),
            )
            for _ in range(300)
        ],
    )


def test_every_pair_of_deficits():
    """A sum of two of them needs one bit more; beyond what a shift can say, all of it is gone."""
    shape = shape_of("bfp", rows=2, block=2, fraction=4)
    ones, _, _ = fields(shape)
    pairs = itertools.product(range(ones + 1), repeat=2)
    simulate(
        shape,
        [
            (
                {"deficit": first, "nonzero": 1},
                {"nonzero": [1], "deficit_east": second, "deficit_north": [ones - second]},
                north,
            )
            for first, second in pairs
            for north in (False, True)
        ],
    )


def test_every_pair_of_extents():
    """Loss begins where both together are wider than the window; without an element there is
    none."""
    shape = shape_of("E4M3", rows=1, block=2, fraction=9)
    extents = range(19)
    simulate(
        shape,
        [
            (
                {"deficit": 0, "nonzero": nonzero, "extent": vector_extent},
                {"nonzero": [1], "deficit_east": 0, "deficit_north": [0], "extent": block_extent},
                False,
            )
            for vector_extent, block_extent in itertools.product(extents, repeat=2)
            for nonzero in (0, 1)
        ],
    )
