"""What tiles, banks and words promise each other, over all arrays that can be configured."""

from dataclasses import replace
from math import ceil, gcd

import pytest

from diastole.config.presets import PRODUCTS_ONLY
from diastole_hw.plan.modes import OPERATION_OF, PRODUCTS, Mode
from diastole_sim.spec.formats import FORMAT_NAMES
from diastole_sim.spec.image import DATA_WIDTHS, GROUP_BLOCKS, MAX_CONVERT_BLOCKS, ImageLayout
from diastole_sim.spec.integers import pow2ceil
from diastole_sim.spec.numerics import BLOCK_SIDES, CLASS_NAMES
from diastole_sim.spec.sizes.uses import DY, W, X
from support.plans import make_numerics, make_plan, with_vector
from support.sweep import sweep
from support.texts import exactly

MIXED = [name for name in FORMAT_NAMES if name != "nvfp4"]  # which goes with itself only
SIDES = range(1, 65)  # cells


def is_power_of_two(value):
    return value > 0 and value & (value - 1) == 0


def random_numerics(rng, block, in_place):
    """Formats at random, in squares or in vector groups where they may be."""
    if rng.random() < 0.1:
        formats = ["nvfp4"] * 3
    else:
        formats = [rng.choice(MIXED) for _ in range(3)]
    groupings = []
    for cls, name in enumerate(formats):
        choices = ["tensor"] if name[:4] in ("fp8_", "bf16") else [f"{block}x{block}"]
        if name != "bf16" and (in_place or cls == X):
            choices.append(f"1x{block * rng.choice([2, 4])}")
        groupings.append(rng.choice(choices))
    return make_numerics(
        block=block, formats=formats, groupings=groupings,
        fraction=rng.randrange(20), headroom=rng.randrange(1, 10),
    )  # fmt: skip


def plans(rng, block, data_width, in_place=True):
    """Every number of rows, each with some numbers of columns; numbers at random."""
    for rows in SIDES:
        for cols in rng.sample(SIDES, 6):
            numerics = random_numerics(rng, block, in_place)
            yield make_plan(
                numerics, rows=rows, cols=cols, in_place=in_place, data_width=data_width
            )


def check_tiles(plan):
    assert is_power_of_two(plan.tile_blocks)
    assert is_power_of_two(plan.groups)
    assert plan.tile_blocks >= max(GROUP_BLOCKS, plan.rows)
    for side, north in ((plan.rows, True), (plan.cols, False)):
        lanes = plan.groups * side  # blocks of a lane tile
        assert lanes % GROUP_BLOCKS == 0, "a lane tile starts inside a group"
        assert lanes * plan.block * 4 % plan.beat_bytes == 0, "its rows start inside a beat"
        chunk = plan.chunk(north=north)
        assert chunk == side * GROUP_BLOCKS // gcd(side, GROUP_BLOCKS)
        assert chunk // side <= plan.groups, "the slices of a chunk do not fit"
    assert plan.tile_sums == plan.groups * plan.tile_words
    assert plan.sum_words == 2 * plan.tile_sums
    assert 2 * plan.groups**2 * plan.rows * plan.block <= plan.stationary_words


def check_fused(plan):
    words = plan.fused_tile_words
    assert is_power_of_two(plan.fused_tile_blocks)
    along = plan.cols if plan.grouped(X) else plan.fused_tile_blocks
    assert along % plan.group_layouts[X].granule == 0, "X is read in parts of a granule"
    assert 2 * words >= plan.rows * plan.block, "the next blocks are not loaded in time"
    assert plan.fused_slices_n >= 1
    assert plan.tile_sums % words == 0
    assert plan.fused_slices_n * words <= plan.tile_sums, "dW's sums, or W's vectors"
    of_slice = plan.fused_slices_n * plan.rows
    assert plan.fused_slices_m * of_slice <= plan.stationary_blocks, "dY"
    assert plan.fused_slices_n * words <= plan.stream_words // 2, "W of a tile, beside the next's"
    assert 2 * plan.fused_tile_blocks <= plan.stream_blocks, "X of a chunk, beside the next's"
    assert plan.fused_blocks_n == plan.fused_slices_n * plan.rows
    assert plan.fused_blocks_m == plan.fused_slices_m * plan.cols
    assert plan.fused_blocks_m >= plan.fused_blocks_n
    assert max(plan.fused_blocks_m, plan.fused_blocks_n) <= plan.maxima_depth * plan.beat_bytes


def check_maxima(plan):
    """Four slots, each for a tile that may start at any byte of a beat that its size allows."""
    beat = plan.beat_bytes
    lanes = (plan.groups * side * plan.stationary_entries for side in (plan.rows, plan.cols))
    for length, words in (
        (plan.tile_blocks * plan.stream_entries, plan.stream_maxima_words),
        *((length, plan.stationary_maxima_words) for length in lanes),
    ):
        latest = beat - gcd(length, beat)  # tiles start at multiples of their length
        assert ceil((latest + length) / beat) <= words
        assert 4 * pow2ceil(words) <= plan.maxima_depth


def check_widths(plan):
    scales = 15**2 if plan.significands else 1
    for mode in PRODUCTS:
        use = plan.use(mode)
        a, b = plan.formats[use.stream], plan.formats[use.stationary]
        unit = plan.product_bits(use) - a.precision - b.precision
        largest = plan.block * (2**a.precision - 1) * (2**b.precision - 1) * 2**unit * scales
        assert unit >= 0, "a block sum does not fit"
        assert largest < 2 ** (plan.sum_bits - 1), "a block sum does not fit"
        stream = plan.shape.west if use.north else plan.shape.south
        for element, form in ((stream, a), (plan.shape.stationary, b)):
            assert element.significand_bits >= form.precision
            assert element.depth >= form.depth
    assert plan.deficit_bits == (plan.sum_bits + plan.fraction).bit_length()
    assert plan.accumulator_bits == plan.sum_bits + plan.fraction + plan.numerics.headroom <= 63


def check_image(plan):
    for cls, name in enumerate(CLASS_NAMES):
        chosen = plan.numerics.tensor_class(name)
        layout = ImageLayout(
            rows=1, cols=1, block=plan.block, element_bits=chosen.format.element_bits,
            vector=chosen.grouping.size if chosen.two_copies else None,
            header=chosen.format.name == "nvfp4", data_width=plan.data_width,
        )  # fmt: skip
        assert plan.group_layouts[cls].group_beats * plan.beat_bytes == layout.group_bytes
        assert plan.group_layouts[cls].exponent_beats * plan.beat_bytes == layout.exponent_bytes
        assert plan.group_layouts[cls].header_beats * plan.beat_bytes == layout.group_offset(0, 0)
        bits = plan.block**2 * layout.element_bits
        whole = [n for n in (1, 2, 4) if n * bits % plan.data_width == 0]
        assert plan.group_layouts[cls].granule == min(whole, default=GROUP_BLOCKS)
        beats = [plan.group_layouts[cls].block_beats(n) for n in range(GROUP_BLOCKS + 1)]
        assert beats == [ceil(n * bits / plan.data_width) for n in range(GROUP_BLOCKS + 1)]


ARRAYS = [(side, width) for side in enumerate(BLOCK_SIDES) for width in enumerate(DATA_WIDTHS)]


@pytest.mark.parametrize(
    "block, data_width",
    [(b, width) if (i + j) % 2 else sweep(b, width) for (i, b), (j, width) in ARRAYS],
)
@pytest.mark.sampled(8)
def test_every_array(block, data_width, rng):
    for in_place in (True, False):
        for plan in plans(rng, block, data_width, in_place):
            try:
                check_tiles(plan)
                check_maxima(plan)
                check_widths(plan)
                check_directions(plan)
                if plan.fused:
                    check_fused(plan)
            except AssertionError as error:
                raise AssertionError(f"{error}: {plan}") from error


@pytest.mark.parametrize("block", BLOCK_SIDES)
@pytest.mark.parametrize("data_width", DATA_WIDTHS)
@pytest.mark.parametrize("name", FORMAT_NAMES)
@pytest.mark.sampled(5)
def test_image(block, data_width, name):
    numerics = make_numerics(block=block, formats=name, fraction=0, headroom=1)
    check_image(make_plan(numerics, data_width=data_width))


def test_the_edge_takes_no_vector_groups_of_what_is_held():
    for groupings in (("4x4", "1x8", "4x4"), ("4x4", "4x4", "1x8")):
        numerics = make_numerics(groupings=groupings)
        with pytest.raises(ValueError, match=r"^vector groups of W or dY need an array that trans"):
            make_plan(numerics, in_place=False)
    make_plan(make_numerics(groupings=("1x8", "4x4", "4x4")), in_place=False)


def check_directions(plan):
    """A held tensor in vector groups has a row per lane, so its sums go north."""
    norths = {mode: plan.use(mode).north for mode in PRODUCTS}
    assert plan.east == (False in norths.values())
    assert plan.north == (True in norths.values())
    if not plan.in_place:
        assert plan.directions == ("east",)
        return
    want = {Mode.FORWARD: plan.grouped(W), Mode.DX: True, Mode.DW: plan.grouped(DY)}
    assert norths == want
    assert not plan.fused or plan.directions == ("east", "north")


def memory_bits(plan):
    """Of the product engine: scratchpads, accumulators and maxima, as the design lists them."""
    b = plan.block

    def bank(words, bits, directions=1):
        vectors = words * b * (bits + 1)
        return vectors + words // b * (directions * plan.deficit_bits + 1)

    bits = plan.shape.stationary.significand_bits
    streams = (plan.rows + plan.cols) * bank(plan.stream_words, bits)
    held = plan.cols * bank(plan.stationary_words, bits, directions=2)
    ports = plan.rows + plan.cols
    sums = ports * plan.sum_words * b * plan.accumulator_bits
    maxima = 8 * plan.maxima_depth * plan.data_width  # four memories, each with two readers
    return streams + held + sums + maxima


def test_nano_fits_its_target():
    """400 KiB for the whole machine, and the fused pass for dY of 512 x 512 in it."""
    plan = PRODUCTS_ONLY["nano"].plan
    column_maxima = 8 * MAX_CONVERT_BLOCKS
    queues_and_buffers = 10 * 1024 * 8
    assert memory_bits(plan) + column_maxima + queues_and_buffers <= 400 * 1024 * 8
    assert (plan.fused_blocks_m * plan.block, plan.fused_blocks_n * plan.block) == (512, 512)


@pytest.mark.parametrize("rows, cols", [(3, 2), (2, 3), (1, 1)])
def test_two_ports_need_even_numbers_of_cells(rows, cols):
    make_plan(make_numerics(), rows=rows, cols=cols)
    with pytest.raises(ValueError, match=r"^two ports need even numbers of rows and of columns"):
        make_plan(make_numerics(), rows=rows, cols=cols, ports=2)
    with pytest.raises(ValueError, match=r"^ports must be an integer in 1\.\.2, not 3$"):
        make_plan(make_numerics(), rows=rows, cols=cols, ports=3)


@pytest.mark.parametrize("block", BLOCK_SIDES)
@pytest.mark.parametrize("data_width", DATA_WIDTHS)
@pytest.mark.sampled(2)
def test_words_of_two_ports(block, data_width, rng):
    """What leaves in a cycle: at most two beats, and no tile begins within it."""
    for rows in range(2, 65, 2):
        cols = rng.randrange(2, 65, 2)
        numerics = random_numerics(rng, block, True)
        plan = make_plan(numerics, rows=rows, cols=cols, data_width=data_width, ports=2)
        check_tiles(plan)
        check_maxima(plan)
        for side, north in ((plan.rows, False), (plan.cols, True)):
            drained = plan.drain_vectors(north=north)
            assert drained == 1 or is_power_of_two(drained)
            assert drained == 1 or 32 * block * drained <= 2 * data_width
            assert drained <= side < 2 * drained or 64 * block * drained > 2 * data_width
            assert plan.groups * side % drained == 0
        for mode in PRODUCTS:
            use = plan.use(mode)
            side = plan.cols if use.north else plan.rows
            limits = plan.nests.of(OPERATION_OF[mode].name)
            assert limits.lane_side == side
            drained = plan.drain_vectors(north=use.north)
            assert all(groups * side % drained == 0 for groups in limits.groups)
        if plan.fused:
            check_fused(plan)
            assert plan.fused_tile_words * 4 % plan.beat_bytes == 0


@pytest.mark.parametrize(
    "block, data_width, ports, parts",
    [(8, 128, 1, 2), (4, 32, 1, 4), (8, 256, 1, 1), (4, 256, 1, 1), (8, 64, 2, 2), (2, 32, 1, 2)],
)
def test_parts_of_words(block, data_width, ports, parts):
    """The beats of a vector; a vector unit takes all of it at once, and so does a fused pass."""
    in_groups = make_numerics(block=block, formats="bfp4", groupings=(None, None, f"1x{block}"))
    plan = make_plan(in_groups, rows=2, cols=2, data_width=data_width, ports=ports)
    assert plan.word_parts == parts
    if ports == 1 and data_width >= 64:
        assert with_vector(plan).word_parts == 1
    in_squares = make_numerics(block=block, formats="bfp4")
    fused = make_plan(in_squares, rows=2, cols=2, data_width=data_width, ports=ports)
    assert fused.fused
    assert fused.word_parts == 1


@pytest.mark.parametrize(
    "cells, block, change, problem",
    [
        (40, 1, {"groups": 2}, "groups must make lane tiles of 40 cells whole words of 32 vectors"),
        (2, 8, {"fused_t_blocks": 1}, "fused_t_blocks must be whole beats of floats"),
    ],
)
def test_tilings_that_two_ports_do_not_take(cells, block, change, problem):
    numerics = make_numerics(block=block, formats="bfp7")
    plan = make_plan(numerics, rows=cells, cols=cells, data_width=512, ports=2)
    (value,) = change.values()
    with pytest.raises(ValueError, match=f"^tiling: {problem}, not {value}$"):
        replace(plan, tiling=replace(plan.tiling, **change))


@pytest.mark.parametrize("widths, bits", [((2,), 1), ((2, 4), 1), ((2, 4, 6, 8), 2)])
def test_bits_of_the_number_of_a_plane(widths, bits):
    numerics = make_numerics(block=4, formats="fast", widths=widths, fraction=20)
    assert make_plan(numerics).plane_bits == bits


@pytest.mark.parametrize("register", [False, True])
def test_cycles_of_reads_and_cells(register):
    """A cell without a pipeline takes 2; a register behind the scratchpads one more."""
    plan = make_plan(make_numerics(), output_register=register)
    assert (plan.read_cycles, plan.cell_cycles) == (1 + register, 2 + register)


@pytest.mark.parametrize(
    "formats, windowed", [("bfp4", False), (("fp8_e4m3", "bfp3", "fp8_e5m2"), True)]
)
def test_cells_that_may_lose_bits(formats, windowed):
    shape = make_plan(make_numerics(formats=formats, fraction=2, headroom=8)).shape
    assert (shape.exact, shape.extents) == (not windowed, windowed)
    assert (shape.window is not None) == windowed


@pytest.mark.parametrize(
    "change, problem",
    [
        ({"choices": (True, False, False)}, "choices must be (False, False, False)"),
        ({"slot_words": 2}, "slot_words must be 1"),
    ],
)
def test_a_vector_unit_for_other_numbers(change, problem):
    plan = with_vector(make_plan(make_numerics()))
    with pytest.raises(ValueError, match=exactly(f"vector.{problem}, as the numbers have it")):
        replace(plan, vector=replace(plan.vector, **change))


FLOATS = {"kind": "float", "mantissa": 9, "chunk": 64}


def test_slices_of_a_chunk():
    plan = make_plan(make_numerics(block=4, accumulator=FLOATS), rows=4, cols=2)
    assert plan.floats
    assert (plan.overwriting_slices(north=False), plan.overwriting_slices(north=True)) == (8, 4)
    assert plan.shortest_pass == 4
    assert not make_plan(make_numerics()).floats


def test_no_chunks_of_planes():
    with pytest.raises(ValueError, match="sums of planes must be integers"):
        make_plan(make_numerics(formats="fast", accumulator=FLOATS), rows=4, cols=2)


@pytest.mark.parametrize(
    "sizes, cuts", [({"rows": 3, "cols": 2}, "8, 12"), ({"rows": 2, "cols": 3}, "12, 8")]
)
def test_chunks_that_passes_do_not_end_at(sizes, cuts):
    message = f"chunks of sums must be multiples of {cuts} elements"
    with pytest.raises(ValueError, match=exactly(message)):
        make_plan(make_numerics(block=4, accumulator=FLOATS), **sizes)
