# amaranth: UnusedElaboratable=no
"""The converter fed patch by patch, as products give their results, against the golden model."""

import numpy as np
import pytest

from diastole_hw.emit.sharing import convert_ports
from diastole_hw.emit.verilog import emit
from support.converter_bench import convert, make, specials
from support.sweep import sweep

STALLS = [(1.0, 1.0, 1.0), (0.5, 0.4, 0.6), (1.0, 0.2, 1.0), (1.0, 1.0, 0.2)]
"""How often the memory is willing to read, to write; how often the chain has a row."""
STOCHASTIC = ("stochastic-a", "stochastic-b", "stochastic-c")
FLOATS = ("fp8_e4m3", "fp8_e5m2", "fp8_e4m3")
KEPT = 40
"""Rows of blocks whose maxima wait."""


def cut_jobs(dut, sizes, rng, scale=None):
    """Tensors of so many tiles, the last ones with less, in every class; in patches of 1, 2 or 3
    tiles, in both orders; between them some that come whole, or lie in memory."""
    jobs, block = [], dut.sizes.block
    for number, (tall, broad) in enumerate(sizes):
        for cls in range(3):
            high, wide = dut.sizes.cut_blocks(cls)
            rows = max(1, tall * high * block - rng.randrange(high * block))
            cols = max(1, broad * wide * block - rng.randrange(wide * block))
            by_columns = number % 2
            across = 1 if high > 1 else rng.randrange(1, 3)
            down = high * rng.randrange(1, 3)
            if by_columns and -(-rows // block) > KEPT:
                by_columns = 0
            values = specials(rows, cols, rng, (0.15, 0.01, 0)[len(jobs) % 3])
            own = scale if dut.sizes.scanned[cls] else None
            cut = (down, across * wide, by_columns)
            jobs.append((values, cls, rng.getrandbits(32), rng.getrandbits(32), own, cut))
            if rng.random() < 0.3:
                small = specials(rng.randrange(1, 6), rng.randrange(1, block * wide + 1), rng)
                streamed = dut.sizes.accepts_chain(cls, cols=small.shape[1], scale=0)
                jobs.append((small, cls, 1, 2, None, streamed and rng.random() < 0.6))
    return jobs


CUT = [
    (4, 64, ("bfp4",) * 3, {}),
    (1, 512, ("bfp2", "bfp4", "bfp8"), {}),
    (2, 64, ("bfp4",) * 3, {"grouping": ("16x16", "2x2", "8x8")}),
    (1, 64, ("bfp4",) * 3, {"grouping": ("1x2", "1x8", "1x1")}),
    (2, 64, ("bfp4",) * 3, {"grouping": ("1x4", "1x2", "8x8")}),
    (4, 64, FLOATS, {"window": 16, "headroom": 1}),
    (4, 32, ("bfp8", "bfp4", "bfp3"), {}),
    (1, 64, ("bfp4",) * 3, {}),
    (2, 128, ("bfp3", "bfp6", "bfp4"), {}),
    (4, 64, ("bf16", "bfp4", "bfp8"), {"headroom": 1}),
    (2, 64, ("bfp4",) * 3, {"rounding_kind": "data", "random_bits": 12}),
    (8, 128, ("bfp4",) * 3, {}),
    (16, 64, ("bfp4",) * 3, {}),
    (8, 64, ("bfp4",) * 3, {"grouping": ("1x16", "1x8", "8x8")}),
    (1, 64, ("bfp4",) * 3, {"grouping": ("1x16", "1x8", "4x4")}),
    (2, 64, ("nvfp4",) * 3, {"headroom": 1}),
    (4, 128, ("mxfp4_e2m1",) * 3, {}),
]


@pytest.mark.parametrize(
    "block, data_width, formats, keys, sizes",
    [(*CUT[2], [(2, 1), (1, 2)]), *(sweep(*case, [(2, 3), (3, 2)]) for case in CUT)],
)
def test_patches(block, data_width, formats, keys, sizes, rng):
    dut = make(block, data_width, formats, STOCHASTIC, streamed=True, stored_rows=KEPT, **keys)
    jobs = cut_jobs(dut, sizes, rng, scale=rng.randrange(-3, 6))
    convert(dut, jobs, rng, *rng.choice(STALLS))


@pytest.mark.parametrize("stalls", [(1.0, 0.05, 1.0), (1.0, 1.0, 0.05)], ids=["write", "rows"])
@pytest.mark.parametrize("grouping", [None, sweep(("1x2", "1x8", "1x1"))])
@pytest.mark.sampled(2)
def test_one_slow_side_of_patches(stalls, grouping, rng):
    """The chain waits for the converter, or the converter for the chain."""
    keys = {} if grouping is None else {"grouping": grouping}
    dut = make(1, 64, streamed=True, stored_rows=KEPT, **keys)
    convert(dut, cut_jobs(dut, [(2, 2)], rng), rng, *stalls)


@pytest.mark.parametrize("rows", [16, sweep(64)])
def test_patches_take_no_longer(rows, rng):
    """Than the tensor whole."""
    values = np.random.default_rng(1).standard_normal((rows, 64)).astype(np.float32)
    dut = make(4, 128, ("bfp4",) * 3, "nearest", streamed=True, stored_rows=KEPT)
    jobs = [(values, 0, 1, 2, None, streamed) for streamed in (True, (2, 8, 0), (4, 8, 1))]
    whole, by_rows, by_columns = convert(dut, jobs, rng)
    assert whole <= values.size / 4 + 190
    assert max(by_rows, by_columns) <= whole + 16


def test_only_patches_ask_for_rows_that_wait():
    """A converter that keeps none does not look at cuts."""
    plain, kept = make(4, 64, streamed=True), make(4, 64, streamed=True, stored_rows=KEPT)
    assert plain.signature.members.keys() == kept.signature.members.keys()
    emitted = [
        emit(dut, name="converter", ports=convert_ports(dut)).verilog for dut in (plain, kept)
    ]
    assert len(emitted[1]) > len(emitted[0])
