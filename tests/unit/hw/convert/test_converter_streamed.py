# amaranth: UnusedElaboratable=no
"""The converter fed by a chain, against the golden model: the same bits as of floats in memory."""

import numpy as np
import pytest

from diastole_hw.convert.converter_control import ConverterControl, convert_layout
from diastole_hw.emit.sharing import convert_ports
from diastole_hw.emit.verilog import emit
from support.bench import put, run, simulation
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
            own = scale if dut.sizes.scanned[cls] else None
            if not dut.sizes.accepts_chain(cls, cols=shape[1], scale=int(own is not None)):
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
        sweep(8, 128, ("bfp4",) * 3, {}, [*SHAPES, (17, 70)]),
        sweep(8, 64, ("bfp4", "bfp8", "bfp2"), {}, [(1, 1), (1, 37), (9, 70)]),
        sweep(4, 32, ("bfp8", "bfp4", "bfp3"), {}, SHAPES),
        sweep(4, 64, ("bfp4",) * 3, {}, SHAPES),
        sweep(4, 128, ("bfp4", "bfp8", "bfp4"), {}, [*SHAPES, (9, 70)]),
        sweep(16, 64, ("bfp4", "bfp8", "bfp4"), {}, [(1, 1), (19, 37)]),
        sweep(8, 32, ("bfp4",) * 3, {}, [(1, 1), (1, 37), (9, 70)]),
        sweep(16, 32, ("bfp4",) * 3, {}, [(1, 1), (3, 150)]),
        sweep(16, 128, ("bfp4",) * 3, {}, [(1, 1), (19, 37), (3, 150)]),
        sweep(32, 64, ("bfp4",) * 3, {}, [(5, 40)]),
        sweep(4, 512, ("bfp4",) * 3, {}, [*SHAPES, (9, 70)]),  # words of several blocks
        sweep(2, 128, ("bfp3", "bfp6", "bfp4"), {}, SHAPES),
        sweep(1, 512, ("bfp2", "bfp4", "bfp8"), {}, [(1, 1), (3, 40), (2, 75)]),
        sweep(1, 64, ("bfp4",) * 3, {}, SHAPES),
        sweep(8, 512, ("bfp4",) * 3, {}, [*SHAPES, (17, 129)]),
        (2, 128, ("bfp3", "bfp6", "bfp4"), {}, [(1, 1), (3, 37)]),
    ],
)
def test_blocks(block, data_width, formats, keys, shapes, rng):
    """Squares of a block's size: any tensor."""
    dut = make(block, data_width, formats, streamed=True, **keys)
    convert(dut, fed_jobs(dut, shapes, rng), rng, *rng.choice(STALLS))


@pytest.mark.parametrize(
    "block, data_width, formats, keys, shapes",
    [
        sweep(4, 64, ("bfp4",) * 3, {"grouping": ("16x16", "4x4", "8x8")}, [*SHAPES, (18, 32)]),
        sweep(2, 32, ("bfp4",) * 3, {"grouping": ("32x32", "2x2", "16x16")}, [(1, 1), (35, 9)]),
        sweep(2, 256, ("bfp4",) * 3, {"grouping": ("8x8", "4x4", "16x16")}, [(9, 16), (17, 3)]),
        sweep(4, 64, ("bfp4",) * 3, {"grouping": ("1x16", "1x4", "16x16")}, [*SHAPES, (37, 18)]),
        sweep(8, 64, ("bfp4",) * 3, {"grouping": ("1x16", "1x8", "8x8")}, [(1, 1), (19, 64)]),
        sweep(4, 128, ("mxfp4_e2m1",) * 3, {}, [(3, 5), (37, 31)]),
        sweep(2, 64, ("bfp4",) * 3, {"grouping": ("1x64", "1x2", "1x16")}, [(5, 41), (18, 3)]),
        sweep(1, 64, ("bfp4",) * 3, {"grouping": ("1x2", "1x8", "1x1")}, [(1, 1), (9, 8), (17, 3)]),
        (1, 64, ("bfp4",) * 3, {"grouping": ("1x2", "1x8", "1x1")}, [(1, 1), (9, 7)]),
        sweep(8, 128, ("bfp4",) * 3, {"grouping": ("1x16", "1x32", "32x32")}, [(70, 64), (67, 9)]),
    ],
)
def test_high_tiles(block, data_width, formats, keys, shapes, rng):
    """Squares of several blocks, and vectors with both copies: tensors no wider than a tile."""
    dut = make(block, data_width, formats, STOCHASTIC, streamed=True, **keys)
    convert(dut, fed_jobs(dut, shapes, rng), rng, *rng.choice(STALLS))


@pytest.mark.parametrize(
    "block, data_width, formats, keys, shapes",
    [
        sweep(8, 128, FLOATS, {}, [(1, 1), (3, 5), (9, 70)]),
        sweep(4, 32, FLOATS, {"window": 16}, [(1, 1), (1, 37), (9, 34)]),
        sweep(4, 64, FLOATS, {"window": 16, "overflow": ("specification",) * 3}, [(3, 5), (9, 34)]),
        sweep(16, 64, FLOATS, {}, [(1, 1), (17, 35)]),
        sweep(2, 512, FLOATS, {"window": 16}, [(3, 5), (5, 37)]),
        sweep(4, 64, ("nvfp4",) * 3, {}, [(3, 5), (18, 31)]),
        sweep(4, 64, FLOATS, {"rounding_kind": "lfsr3", "random_bits": 3}, [(3, 5), (9, 37)]),
        sweep(
            2, 512, FLOATS, {"rounding_kind": "lfsr", "lfsr_bits": 9, "random_bits": 5}, [(5, 37)]
        ),
        (4, 64, FLOATS, {"window": 16, "overflow": ("specification",) * 3}, [(3, 5), (5, 18)]),
    ],
)
def test_tensor_scales(block, data_width, formats, keys, shapes, rng):
    """Given with the command, as every delayed scale is; folded at intake with draws."""
    keys = {"headroom": 1, "rounding": STOCHASTIC} | keys
    dut = make(block, data_width, formats, streamed=True, **keys)
    jobs = fed_jobs(dut, shapes, rng, scale=rng.randrange(-3, 6))
    convert(dut, jobs, rng, *rng.choice(STALLS))


@pytest.mark.parametrize(
    "block, data_width, formats, keys, shapes",
    [
        sweep(4, 64, ("bf16", "bfp4", "bfp8"), {}, [(3, 5), (9, 34)]),
        sweep(
            4, 64, ("mxfp8_e4m3",) * 3, {"scale": ("rceil", "floor", "even")}, [(3, 5), (33, 18)]
        ),
        (2, 128, ("fp8_e5m2", "e5m1", "fp8_e4m3"), {"grouping": ("16x16", "2x2", "4x4")}, [(5, 9)]),
        sweep(
            8, 64, ("bfp4",) * 3, {"rounding_kind": "lfsr3", "random_bits": 3}, [(3, 5), (9, 70)]
        ),
        sweep(
            4, 64, ("bfp4",) * 3, {"rounding_kind": "data", "random_bits": 12}, [(3, 5), (9, 37)]
        ),
        sweep(1, 512, ("bfp4",) * 3, {"rounding_kind": "lfsr", "lfsr_bits": 9}, [(2, 75)]),
        (4, 64, ("bfp4",) * 3, {"rounding_kind": "lfsr3", "random_bits": 3}, [(3, 13)]),
    ],
)
def test_passes_and_draws(block, data_width, formats, keys, shapes, rng):
    """What is found by a pass over the tile first; draws of other kinds."""
    dut = make(block, data_width, formats, STOCHASTIC, streamed=True, headroom=1, **keys)
    convert(dut, fed_jobs(dut, shapes, rng), rng, *rng.choice(STALLS))


@pytest.mark.parametrize("stalls", [(1.0, 0.05, 1.0), (1.0, 1.0, 0.05)], ids=["write", "rows"])
@pytest.mark.parametrize("keys", [{}, sweep({"grouping": ("1x16", "1x4", "4x4")})])
@pytest.mark.sampled(2)
def test_one_slow_side(stalls, keys, rng):
    """The chain waits for the converter, or the converter for the chain."""
    dut = make(2, 64, streamed=True, **keys)
    shape = (3, 60) if not keys else (17, 14)
    streamed = ((0, True), (2, False), (1, True))
    jobs = [(specials(*shape, rng), cls, 1, 2, None, by_chain) for cls, by_chain in streamed]
    convert(dut, jobs, rng, *stalls)


@pytest.mark.parametrize(
    "block, formats, shape, scale",
    [
        sweep(8, ("bfp4",) * 3, (64, 64), None),
        sweep(4, ("bfp4",) * 3, (16, 128), None),
        sweep(16, ("bfp4",) * 3, (32, 128), None),
        sweep(8, FLOATS, (16, 128), 3),
        (8, FLOATS, (8, 40), 3),
    ],
)
def test_timing(block, formats, shape, scale, rng):
    """As fast as from memory: at 128 bits 0.25 cycles an element, and what begins and ends."""
    rounding = ("nearest", "stochastic-a", "stochastic-c")
    values = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    dut = make(block, 128, formats, rounding, streamed=True)
    jobs = [(values, cls, 1, 2, scale, streamed) for cls in (0, 1) for streamed in (True, False)]
    nearest, from_memory, stochastic, drawn_from_memory = convert(dut, jobs, rng)
    assert nearest <= values.size / 4 + 190
    assert stochastic <= values.size / 4 + 200
    assert nearest <= from_memory
    assert stochastic <= drawn_from_memory


@pytest.mark.parametrize("block, data_width, shape", [(8, 128, (9, 10)), sweep(4, 512, (1, 1))])
async def test_rows_that_come_late(block, data_width, shape, rng):
    """Those below the tensor end it, long after all is written; a command waits for them."""
    dut = make(block, data_width, streamed=True)
    rows = [[0] * block] * (-(-shape[0] // block) * -(-shape[1] // block) * block)
    inside = len(rows) - (-shape[0] % block)
    command = {"cls": 0, "rows": shape[0], "cols": shape[1], "streamed": 1}
    ctx = await simulation(dut)
    ctx.set(dut.write.requests.ready, 1)
    ctx.set(dut.write.beats.ready, 1)
    await put(ctx, dut.control.command, [command])
    await put(ctx, dut.rows, rows[:inside])
    for _ in range(400):
        done, busy, written = (
            await ctx.tick().sample(dut.control.done, dut.busy, dut.write.beats.valid)
        )[2:]
        assert (done, busy) == (0, 1)
    assert not written
    await put(ctx, dut.rows, rows[inside:])
    assert (await ctx.tick().sample(dut.control.done))[-1]
    for _ in range(3):
        watched = (dut.control.done, dut.busy, dut.rows.ready)
        assert (await ctx.tick().sample(*watched))[2:] == (0, 0, 0)


def test_what_is_scanned_cannot_be_fed(rng):
    """It would be read twice."""
    dut = make(4, 64, FLOATS, streamed=True)

    async def main(ctx):
        command = {"cls": 0, "rows": 1, "cols": 1, "streamed": 1}
        await put(ctx, dut.control.command, [command])
        for _ in range(9):
            await ctx.tick()

    with pytest.raises(AssertionError, match="what is fed was to be scanned"):
        run(dut, main)


def test_only_a_converter_that_is_fed_has_the_bit():
    for planes in (False, True):
        plain, streamed = (
            convert_layout(planes=planes).members,
            convert_layout(planes=planes, streamed=True).members,
        )
        assert streamed == plain | {"streamed": streamed["streamed"], "cut": streamed["cut"]}
        names = ConverterControl(planes=planes).members
        assert names.keys() == ConverterControl(planes=planes, streamed=True).members.keys()
    assert not hasattr(make(4, 64), "rows")


@pytest.mark.parametrize(
    "block, data_width, formats",
    [
        (4, 64, FLOATS),
        sweep(8, 128, ("mxfp8_e4m3", "fp8_e5m2", "bfp4")),
        sweep(1, 512, ("bfp4",) * 3),
    ],
)
def test_becomes_verilog(block, data_width, formats):
    dut = make(block, data_width, formats, streamed=True)
    emitted = emit(dut, name="converter", ports=convert_ports(dut))
    assert "\nmodule converter (" in "\n" + emitted.verilog
    assert "rows__payload" in emitted.verilog
