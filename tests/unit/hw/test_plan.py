"""What tiles, banks and words promise each other, over all arrays that can be configured."""

from math import ceil, gcd

import pytest

from diastole.plan import GROUP, Plan, pow2ceil
from diastole.presets import PRESETS
from diastole_sim.formats import FORMAT_NAMES, parse_format
from diastole_sim.numerics import BLOCK_SIDES
from diastole_sim.program.image import DATA_WIDTHS, ImageLayout

FORMATS = [parse_format(name) for name in FORMAT_NAMES]
SIDES = range(1, 65)  # cells


def is_power_of_two(value):
    return value > 0 and value & (value - 1) == 0


def plans(rng, block, data_width, in_place=True):
    """Every number of rows, each with some numbers of columns; formats at random."""
    for rows in SIDES:
        for cols in rng.sample(SIDES, 16):
            x, w, dy = (rng.choice(FORMATS) for _ in range(3))
            yield Plan(
                rows=rows, cols=cols, block=block, in_place=in_place, x=x, w=w, dy=dy,
                fraction=rng.randrange(33), headroom=rng.randrange(1, 17), data_width=data_width,
            )  # fmt: skip


def check_tiles(plan):
    assert is_power_of_two(plan.tile_blocks) and is_power_of_two(plan.groups)
    assert plan.tile_blocks >= max(GROUP, plan.rows)
    for side in (plan.rows, plan.cols):
        lanes = plan.groups * side  # blocks of a lane tile
        assert lanes % GROUP == 0, "a lane tile starts inside a group"
        assert lanes * plan.block * 4 % plan.beat_bytes == 0, "its rows start inside a beat"
        chunk = plan.chunk(side)
        assert chunk == side * GROUP // gcd(side, GROUP)
        assert chunk // side <= plan.groups, "the slices of a chunk do not fit"
    assert plan.half_words == plan.groups * plan.tile_words
    assert 2 * plan.groups**2 * plan.rows * plan.block <= plan.held_words


def check_fused(plan):
    words = plan.fused_tile_words
    assert is_power_of_two(plan.fused_tile_blocks)
    assert plan.fused_tile_blocks % plan.granule(0) == 0, "X is read in parts of a granule"
    assert 2 * words >= plan.rows * plan.block, "the next blocks are not loaded in time"
    assert plan.fused_slices_n >= 1 and plan.half_words % words == 0
    assert plan.fused_slices_n * words <= plan.half_words, "dW's sums, or W's vectors"
    assert plan.fused_slices_m * plan.fused_held_stride <= plan.held_words, "dY"
    assert plan.fused_blocks_n == plan.fused_slices_n * plan.rows
    assert plan.fused_blocks_m == plan.fused_slices_m * plan.cols
    assert plan.fused_blocks_m >= plan.fused_blocks_n
    assert max(plan.fused_blocks_m, plan.fused_blocks_n) <= plan.maxima_depth * plan.beat_bytes


def check_maxima(plan):
    """Four slots, each for a tile that may start at any byte of a beat that its size allows."""
    beat = plan.beat_bytes
    lanes = (plan.groups * side for side in (plan.rows, plan.cols))
    for length, words in (
        (plan.tile_blocks, plan.stream_maxima_words),
        *((length, plan.held_maxima_words) for length in lanes),
    ):
        latest = beat - gcd(length, beat)  # tiles start at multiples of their length
        assert ceil((latest + length) / beat) <= words
        assert 4 * pow2ceil(words) <= plan.maxima_depth


def check_widths(plan):
    x, w, dy = (f.mantissa_bits for f in plan.formats)
    for a, b in ((x, w), (w, dy), (x, dy)):
        largest = plan.block * (2**a - 1) * (2**b - 1)
        assert largest < 2 ** (plan.sum_bits - 1), "a block sum does not fit"
    assert plan.deficit_bits == (plan.sum_bits + plan.fraction).bit_length()
    assert plan.accumulator_bits == plan.sum_bits + plan.fraction + plan.headroom
    assert plan.south_bits >= (x if plan.in_place else max(x, dy))
    assert min(plan.west_bits, plan.held_bits) >= max(w, dy)


def check_image(plan):
    for cls, form in enumerate(plan.formats):
        layout = ImageLayout(
            rows=1, cols=1, block=plan.block, mantissa_bits=form.mantissa_bits,
            data_width=plan.data_width,
        )  # fmt: skip
        assert plan.group_beats(cls) * plan.beat_bytes == layout.group_bytes
        assert plan.exponent_beats * plan.beat_bytes == layout.exponent_bytes
        bits = plan.block**2 * layout.element_bits
        whole = [n for n in (1, 2, 4) if n * bits % plan.data_width == 0]
        assert plan.granule(cls) == min(whole, default=GROUP)
        beats = [plan.mantissa_beats(cls, n) for n in range(GROUP + 1)]
        assert beats == [ceil(n * bits / plan.data_width) for n in range(GROUP + 1)]


@pytest.mark.parametrize("block", BLOCK_SIDES)
@pytest.mark.parametrize("data_width", DATA_WIDTHS)
def test_every_array(block, data_width, rng):
    for in_place in (True, False):
        for plan in plans(rng, block, data_width, in_place):
            try:
                check_tiles(plan)
                check_maxima(plan)
                check_widths(plan)
                if in_place:
                    check_fused(plan)
            except AssertionError as error:
                raise AssertionError(f"{error}: {plan}") from error


@pytest.mark.parametrize("block", BLOCK_SIDES)
@pytest.mark.parametrize("data_width", DATA_WIDTHS)
@pytest.mark.parametrize("form", FORMATS, ids=FORMAT_NAMES)
def test_image(block, data_width, form):
    sizes = {"rows": 1, "cols": 1, "block": block, "in_place": True, "data_width": data_width}
    check_image(Plan(**sizes, x=form, w=form, dy=form, fraction=0, headroom=1))


def memory_bits(plan):
    """Of the product engine: scratchpads, accumulators and maxima, as the design lists them."""
    b = plan.block

    def bank(words, bits, directions=1):
        vectors = words * b * (bits + 1)
        return vectors + words // b * (directions * plan.deficit_bits + 1)

    streams = plan.cols * bank(2 * plan.half_words, plan.south_bits)
    streams += plan.rows * bank(2 * plan.half_words, plan.west_bits)
    held = plan.cols * bank(plan.held_words, plan.held_bits, directions=2)
    ports = plan.rows + plan.cols
    sums = ports * 2 * plan.half_words * b * plan.accumulator_bits
    maxima = 8 * plan.maxima_depth * plan.data_width  # four memories, each with two readers
    return streams + held + sums + maxima


def test_nano_fits_its_target():
    """400 KiB for the whole machine, and the fused pass for dY of 512 x 512 in it."""
    plan = Plan.from_config(PRESETS["nano"])
    column_maxima = 8 * plan.converter_blocks
    queues_and_buffers = 10 * 1024 * 8
    assert memory_bits(plan) + column_maxima + queues_and_buffers <= 400 * 1024 * 8
    assert (plan.fused_blocks_m * plan.block, plan.fused_blocks_n * plan.block) == (512, 512)
