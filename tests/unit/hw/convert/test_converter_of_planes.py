"""The converter of tensors in planes: every byte of memory, and what the monitor counts, against
fractions; nothing of the code that is tested has a part in what is expected."""

import numpy as np
import pytest

from diastole_hw.convert.converter import Converter
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from support.bench import design
from support.classes import make_numerics
from support.converter_bench import SEED, ExpectedConversion, rows_of_blocks, run_all
from support.planes import largest_magnitude, planar_tensor
from support.sweep import sweep

MIXED = ("nearest", "stochastic-b", "stochastic-c")
FAST = ("fast",) * 3
ODD = np.array([0, 1 << 31, 1, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F7FFFFF, 0x800000], np.uint32)


def make(block, data_width, formats=FAST, rounding=MIXED, streamed=False, **keys):
    numerics = make_numerics(*formats, block=block, rounding=rounding, **{"random_bits": 8} | keys)
    sizes = ConverterSizes(numerics=numerics, data_width=data_width)
    return design(Converter, sizes, max_col_blocks=40, streamed=streamed)


def tensor(shape, rng, rate=0.05):
    """Signed, of many sizes, with ties of 2 and of 4 bits, and specials."""
    draw = np.random.default_rng(rng.getrandbits(32))
    values = np.ldexp(draw.standard_normal(shape), draw.integers(-5, 3, shape))
    ties = np.ldexp(draw.integers(-63, 64, shape), -5)
    values = np.where(draw.random(shape) < 0.3, ties, values).astype(np.float32)
    return np.where(draw.random(shape) < rate, draw.choice(ODD.view(np.float32), shape), values)


def convert(dut, jobs, rng, p_read=1.0, p_write=1.0):
    """Jobs (values, class, planes, tag, step). Where the converter can be fed, a chain gives all
    that it may."""
    conversions = []
    for values, cls, planes, tag, step in jobs:
        rows, cols = values.shape
        where = {"seed": SEED, "tag": tag, "step": step}
        want = planar_tensor(
            values, CLASS_NAMES[cls], dut.sizes.numerics, planes, dut.sizes.data_width, **where
        )
        streamed = dut.streamed and dut.sizes.accepts_chain(cls, cols=cols, scale=0)
        command = {"cls": cls, "rows": rows, "cols": cols, "scale": 0, "tag": tag, "step": step}
        command |= {"planes": planes - 1} | ({"streamed": streamed} if dut.streamed else {})
        monitor = dict(zip(("improvement_num", "improvement_den"), want.monitor, strict=True))
        report = {"nan": want.nan, "inf": want.inf, "amax": largest_magnitude(values)}
        conversions.append(
            ExpectedConversion(
                values=values,
                command=command,
                images=[*want.images],
                report=report | monitor,
                counted=[want.saturated, want.underflowed],
                what=f"{rows}x{cols} class {cls}, {planes} planes, {want.lengths} bytes each",
                rows=[*rows_of_blocks(values, dut.sizes.numerics.block, rng)] if streamed else None,
            )
        )
    run_all(dut, conversions, rng, p_read, p_write, p_row=p_read)


def some_jobs(dut, shapes, rng, rate=0.05):
    """The classes in turn, each in all numbers of planes that it may have."""
    turns = [
        (cls, planes)
        for cls in range(3)
        for planes in dut.sizes.numerics.planes_of(CLASS_NAMES[cls])
    ]
    rng.shuffle(turns)
    return [
        (
            tensor(shapes[n % len(shapes)], rng, rate), *turn,
            rng.getrandbits(32), rng.getrandbits(32),
        )
        for n, turn in enumerate(turns)
    ]  # fmt: skip


SMALL = [(1, 1), (3, 5), (9, 34)]
EVERY = {"widths": (2, 4, 6, 8)}
VECTORS = {"grouping": ("1x8",) * 3}


@pytest.mark.parametrize(
    "block, data_width, formats, keys, shapes",
    [
        sweep(4, 64, FAST, {}, SMALL),
        sweep(4, 64, FAST, EVERY, SMALL),
        sweep(2, 32, ("fast", "bfp2", "fast"), {"widths": (2, 4, 6)}, SMALL),
        sweep(
            8,
            128,
            FAST,
            {"grouping": ("16x16", "8x8", "32x32"), "widths": (4,)},
            [(3, 5), (17, 33)],
        ),
        (1, 64, FAST, {"scale": ("ceil", "floor", "ceil")}, [(1, 1), (3, 17)]),
        sweep(4, 512, FAST, EVERY, [(1, 1), (5, 70)]),
        sweep(8, 256, FAST, {"widths": (2, 4, 8)}, [(1, 1), (9, 70)]),
        sweep(16, 32, FAST, {}, [(3, 18), (17, 5)]),
        sweep(2, 512, FAST, EVERY, [(1, 1), (5, 40)]),
    ],
)
def test_squares(block, data_width, formats, keys, shapes, rng):
    dut = make(block, data_width, formats, **keys)
    convert(dut, some_jobs(dut, shapes, rng), rng, *rng.choice([(1.0, 1.0), (0.5, 0.4)]))


@pytest.mark.parametrize(
    "block, data_width, formats, keys, shapes",
    [
        (4, 64, FAST, VECTORS, [(1, 1), (3, 5), (5, 34)]),
        (4, 128, FAST, {"grouping": ("1x16", "4x4", "1x4"), "widths": (2, 8)}, [(1, 1), (9, 18)]),
        (2, 32, ("fast", "fast", "bfp2"), VECTORS | {"special": "poison"}, SMALL),
        sweep(8, 512, FAST, {"grouping": ("1x64", "1x16", "1x8")} | EVERY, [(3, 5), (33, 9)]),
        sweep(1, 64, FAST, {"grouping": ("1x2", "1x4", "1x1")} | EVERY, SMALL),
        sweep(8, 64, FAST, {"grouping": ("1x16", "16x16", "1x16")}, [(65, 7), (20, 66)]),
    ],
)
@pytest.mark.sampled(4)
def test_two_copies(block, data_width, formats, keys, shapes, rng):
    """The monitor counts the first copy; each copy's planes lie as far apart as it is long."""
    dut = make(block, data_width, formats, **keys)
    convert(dut, some_jobs(dut, shapes, rng), rng, *rng.choice([(1.0, 1.0), (0.5, 0.4)]))


@pytest.mark.parametrize(
    "block, data_width, keys, shapes",
    [
        sweep(4, 64, EVERY, SMALL),
        sweep(8, 128, {"grouping": ("8x8", "1x16", "16x16")}, [(3, 5), (17, 33)]),
        sweep(2, 512, EVERY, [(1, 1), (5, 40)]),
        (4, 64, {"grouping": ("4x4", "1x8", "8x8")}, [(3, 5), (9, 13)]),
    ],
)
def test_fed(block, data_width, keys, shapes, rng):
    """By a chain, as far as tensors are no wider than a tile; else from memory, in turn."""
    dut = make(block, data_width, streamed=True, **keys)
    convert(dut, some_jobs(dut, shapes, rng), rng, *rng.choice([(1.0, 1.0), (0.5, 0.4)]))


@pytest.mark.parametrize("p_read, p_write", [(1.0, 0.05), (0.05, 1.0)], ids=["write", "read"])
@pytest.mark.parametrize("keys, cols", [({}, 30), sweep({}, 60), sweep(VECTORS, 60)])
@pytest.mark.sampled(2)
def test_one_slow_side(keys, cols, p_read, p_write, rng):
    """Every buffer inside fills up, or runs empty."""
    dut = make(2, 64, **keys, **EVERY)
    jobs = [(tensor((3, cols), rng), 1, planes, 1, 2) for planes in (4, 1, 3)]
    convert(dut, jobs, rng, p_read, p_write)


def test_monitor_of_zeros_and_of_few(rng):
    """Counters begin at 0 with every tensor; groups of zeros, of Inf and of subnormals add 0."""
    dut = make(4, 64)
    hollow = np.full((5, 9), 1e-40, np.float32)
    hollow[0, 0], hollow[4, 8], hollow[2, 5] = np.inf, -np.inf, np.nan
    few = np.zeros((5, 9), np.float32)
    few[4, 8], few[0, 0] = -1.75, 1.25
    jobs = [(tensor((9, 17), rng), 0, 2, 1, 1), (hollow, 0, 2, 1, 1), (few, 1, 1, 1, 1)]
    convert(dut, [*jobs, (np.zeros((2, 3), np.float32), 2, 2, 1, 1)], rng)
