# amaranth: UnusedElaboratable=no
"""The converter fed by a chain, against the golden model: the same bits as of floats in memory."""

import numpy as np
import pytest

from diastole_hw.convert.control import convert_layout
from diastole_hw.emit.verilog import emit
from diastole_hw.place import convert_ports
from support.converter_bench import convert, make, specials
from support.sweep import sweep

STALLS = [(1.0, 1.0, 1.0), (0.5, 0.4, 0.6), (1.0, 0.2, 1.0), (1.0, 1.0, 0.2)]
"""How often the memory is willing to read, to write; how often the chain has a row."""
STOCHASTIC = ("stochastic-a", "stochastic-b", "stochastic-c")
FLOATS = ("fp8_e4m3", "fp8_e5m2", "fp8_e4m3")


def fed_jobs(dut, shapes, rng, scale=None, mixed=True):
    """Tensors of these shapes in every class that may be fed with them, with many specials, with
    few, with none; between them, if ``mixed``, some that lie in memory."""
    jobs = []
    for shape in shapes:
        for cls in range(3):
            own = scale if dut.geometry.scanned[cls] else None
            if not dut.geometry.can_feed(cls, cols=shape[1], scale=int(own is not None)):
                continue
            values = specials(*shape, rng, (0.15, 0.01, 0)[len(jobs) % 3])
            jobs.append((values, cls, rng.getrandbits(32), rng.getrandbits(32), own, True))
            if mixed and rng.random() < 0.4:
                small = specials(rng.randrange(1, 6), rng.randrange(1, 20), rng)
                jobs.append((small, rng.randrange(3), 1, 2, None, False))
    assert any(job[5] for job in jobs)
    return jobs


SHAPES = [(1, 1), (1, 37), (3, 5), (9, 34), (21, 3)]


@pytest.mark.parametrize(
    "block, data_width, formats, keys, shapes",
    [
        (8, 128, ("bfp4",) * 3, {}, [*SHAPES, (17, 70)]),
        (8, 64, ("bfp4", "bfp8", "bfp2"), {}, [(1, 1), (1, 37), (9, 70)]),
        (4, 32, ("bfp8", "bfp4", "bfp3"), {}, SHAPES),
        (4, 64, ("bfp4",) * 3, {}, SHAPES),
        (4, 128, ("bfp4", "bfp8", "bfp4"), {}, [*SHAPES, (9, 70)]),
        (16, 64, ("bfp4", "bfp8", "bfp4"), {}, [(1, 1), (19, 37)]),
        sweep(8, 32, ("bfp4",) * 3, {}, [(1, 1), (1, 37), (9, 70)]),
        sweep(16, 32, ("bfp4",) * 3, {}, [(1, 1), (3, 150)]),
        sweep(16, 128, ("bfp4",) * 3, {}, [(1, 1), (19, 37), (3, 150)]),
        sweep(32, 64, ("bfp4",) * 3, {}, [(5, 40)]),
        (4, 512, ("bfp4",) * 3, {}, [*SHAPES, (9, 70)]),  # words of several blocks
        (2, 128, ("bfp3", "bfp6", "bfp4"), {}, SHAPES),
        (1, 512, ("bfp2", "bfp4", "bfp8"), {}, [(1, 1), (3, 40), (2, 75)]),
        (1, 64, ("bfp4",) * 3, {}, SHAPES),
        sweep(8, 512, ("bfp4",) * 3, {}, [*SHAPES, (17, 129)]),
    ],
)
def test_blocks(block, data_width, formats, keys, shapes, rng):
    """Squares of a block's size: any tensor."""
    dut = make(block, data_width, formats, fed=True, **keys)
    convert(dut, fed_jobs(dut, shapes, rng), rng, *rng.choice(STALLS))


@pytest.mark.parametrize(
    "block, data_width, formats, keys, shapes",
    [
        (4, 64, ("bfp4",) * 3, {"grouping": ("16x16", "4x4", "8x8")}, [*SHAPES, (18, 32)]),
        (2, 32, ("bfp4",) * 3, {"grouping": ("32x32", "2x2", "16x16")}, [(1, 1), (35, 9)]),
        (2, 256, ("bfp4",) * 3, {"grouping": ("8x8", "4x4", "16x16")}, [(9, 16), (17, 3)]),
        (4, 64, ("bfp4",) * 3, {"grouping": ("1x16", "1x4", "16x16")}, [*SHAPES, (37, 18)]),
        (8, 64, ("bfp4",) * 3, {"grouping": ("1x16", "1x8", "8x8")}, [(1, 1), (20, 64), (67, 9)]),
        (4, 128, ("mxfp4_e2m1",) * 3, {}, [(3, 5), (37, 31)]),
        (2, 64, ("bfp4",) * 3, {"grouping": ("1x64", "1x2", "1x16")}, [(5, 41), (18, 3)]),
        (1, 64, ("bfp4",) * 3, {"grouping": ("1x2", "1x8", "1x1")}, [(1, 1), (9, 8), (17, 3)]),
        sweep(8, 128, ("bfp4",) * 3, {"grouping": ("1x16", "1x32", "32x32")}, [(70, 64)]),
    ],
)
def test_high_tiles(block, data_width, formats, keys, shapes, rng):
    """Squares of several blocks, and vectors with both copies: tensors as wide as a tile at most."""
    dut = make(block, data_width, formats, STOCHASTIC, fed=True, **keys)
    convert(dut, fed_jobs(dut, shapes, rng), rng, *rng.choice(STALLS))


@pytest.mark.parametrize(
    "block, data_width, formats, keys, shapes",
    [
        (8, 128, FLOATS, {}, [(1, 1), (3, 5), (9, 70)]),
        (4, 32, FLOATS, {"window": 16}, [(1, 1), (1, 37), (9, 34)]),
        (4, 64, FLOATS, {"window": 16, "overflow": ("specification",) * 3}, [(3, 5), (9, 34)]),
        (16, 64, FLOATS, {}, [(1, 1), (17, 35)]),
        (2, 512, FLOATS, {"window": 16}, [(3, 5), (5, 37)]),
        (4, 64, ("nvfp4",) * 3, {}, [(3, 5), (18, 31)]),
        (4, 64, FLOATS, {"rounding_kind": "lfsr3", "random_bits": 3}, [(3, 5), (9, 37)]),
        (2, 512, FLOATS, {"rounding_kind": "lfsr", "lfsr_bits": 9, "random_bits": 5}, [(5, 37)]),
    ],
)
def test_tensor_scales(block, data_width, formats, keys, shapes, rng):
    """Given with the command, as every delayed scale is; folded at intake with draws."""
    keys = {"headroom": 1, "rounding": STOCHASTIC} | keys
    dut = make(block, data_width, formats, fed=True, **keys)
    jobs = fed_jobs(dut, shapes, rng, scale=rng.randrange(-3, 6))
    convert(dut, jobs, rng, *rng.choice(STALLS))


@pytest.mark.parametrize(
    "block, data_width, formats, keys, shapes",
    [
        (4, 64, ("bf16", "bfp4", "bfp8"), {}, [(3, 5), (9, 34)]),
        (4, 64, ("mxfp8_e4m3",) * 3, {"scale": ("rceil", "floor", "even")}, [(3, 5), (33, 18)]),
        (2, 128, ("fp8_e5m2", "e5m1", "fp8_e4m3"), {"grouping": ("16x16", "2x2", "4x4")}, [(5, 9)]),
        (8, 64, ("bfp4",) * 3, {"rounding_kind": "lfsr3", "random_bits": 3}, [(3, 5), (9, 70)]),
        (4, 64, ("bfp4",) * 3, {"rounding_kind": "data", "random_bits": 12}, [(3, 5), (9, 37)]),
        sweep(1, 512, ("bfp4",) * 3, {"rounding_kind": "lfsr", "lfsr_bits": 9}, [(2, 75)]),
    ],
)
def test_passes_and_draws(block, data_width, formats, keys, shapes, rng):
    """What is found by a pass over the tile first; draws of other kinds."""
    dut = make(block, data_width, formats, STOCHASTIC, fed=True, headroom=1, **keys)
    convert(dut, fed_jobs(dut, shapes, rng), rng, *rng.choice(STALLS))
