"""Sizes of machines, by hand."""

import pytest

from diastole_sim.spec.sizes.array_sizes import ArraySizes
from support.modelled import modelled
from support.numerics import make_numerics

NANO = modelled(rows=2, cols=2, block=8, element_bits=(5, 5, 5), data_width=64)
ODD = modelled(rows=3, cols=5, block=1, element_bits=(3, 4, 9), data_width=512)


def test_the_image_of_nano():
    """Blocks of 8 x 8 x 5 bits, five beats of 64; 8 exponents are a beat."""
    assert (NANO.macs, NANO.beat_bytes, NANO.group_layouts[0].exponent_beats) == (256, 8, 1)
    assert NANO.group_layouts[0].row_bits == 40
    assert [NANO.group_layouts[0].block_beats(blocks) for blocks in (1, 3, 8)] == [5, 15, 40]
    assert NANO.group_layouts[0].granule == 1
    # 9 x 70 elements: 2 x 9 blocks, 2 groups in a row; maxima of 2 rows and of 9 columns.
    assert NANO.stored_beats(0, 9, 70) == 2 * 2 * (1 + 40) + 1 + 2


def test_images_of_narrow_elements():
    """Eight blocks of 3, 4 or 9 bits are far less than a beat."""
    assert [ODD.group_layouts[cls].block_beats(8) for cls in range(3)] == [1, 1, 1]
    assert [ODD.group_layouts[cls].granule for cls in range(3)] == [8, 8, 8]
    narrow = modelled(rows=1, cols=1, block=2, element_bits=(4, 6, 3), data_width=32)
    assert [narrow.group_layouts[cls].granule for cls in range(3)] == [2, 4, 8]
    assert [narrow.group_layouts[cls].block_beats(3) for cls in range(3)] == [2, 3, 2]
    assert narrow.group_layouts[0].exponent_beats == 2


def test_tiles():
    assert (NANO.tile_blocks, NANO.groups, NANO.chunk(north=True), NANO.tile_sums) == (
        16,
        4,
        8,
        512,
    )
    # 3 and 5 cells: 8 groups are whole groups of blocks, 16 are whole beats of 16 floats too.
    assert (ODD.tile_blocks, ODD.groups, ODD.chunk(north=True), ODD.chunk(north=False)) == (
        64,
        16,
        24,
        40,
    )
    large = modelled(rows=33, cols=1, block=32, element_bits=(5, 5, 5), data_width=64)
    assert large.tile_blocks == 64  # as many blocks as rows of cells, a power of two


def test_the_fused_pass():
    assert (NANO.fused_tile_blocks, NANO.fused_blocks_n, NANO.fused_blocks_m) == (2, 64, 64)
    assert ODD.fused_tile_blocks == 16
    assert (ODD.fused_blocks_n, ODD.fused_blocks_m) == (192, 195)  # whole slices of 5


@pytest.mark.parametrize("m, n, fits", [(512, 512, True), (513, 8, False), (8, 513, False)])
def test_what_fits(m, n, fits):
    assert NANO.fuses(m, n) == fits
    edge = modelled(rows=2, cols=2, block=8, element_bits=(5, 5, 5), data_width=64, in_place=False)
    assert not edge.fuses(m, n)


@pytest.mark.parametrize("data_width", [32, 64, 512])
@pytest.mark.parametrize(
    "formats, bits, run, header",  # of an element; elements of a vector group
    [
        ("bfp4", 5, None, 0),
        ("mxfp8_e4m3", 8, 32, 0),
        ("nvfp4", 4, 16, 1),
        ("fp8_e5m2", 8, None, 0),
        ("bf16", 16, None, 0),
    ],
)
def test_stored_beats_are_counted(formats, bits, run, header, data_width):
    """A header; of each group of eight blocks its exponents and elements, both in whole beats; then
    a maximum for each row of blocks and each column, or for each row of elements of vectors."""
    groupings = run and f"1x{run}"
    numerics = make_numerics(block=4, formats=formats, groupings=groupings)
    machine = ArraySizes.of(numerics, rows=2, cols=1, data_width=data_width)

    def beats(bits):
        return len(range(0, bits, data_width))

    exponents = 8 if run is None else 4 * (32 // run)
    group = beats(8 * exponents) + beats(8 * 16 * bits)
    for rows, cols in ((1, 1), (37, 70), (70, 9)):
        down, across = len(range(0, rows, 4)), len(range(0, cols, 4))
        groups = down * len(range(0, across, 8))
        maxima = beats(8 * down) + beats(8 * across) if run is None else beats(8 * 4 * down)
        found = [machine.stored_beats(cls, rows, cols) for cls in range(3)]
        assert found == [header + groups * group + maxima] * 3
    assert [machine.grouped(cls) for cls in range(3)] == [run is not None] * 3


def test_what_vector_groups_add():
    """A largest exponent for each row of a block, in the memories of those that stream and of
    those that are held; an exponent of the tensor in front of NVFP4's images."""
    in_groups = modelled(rows=2, cols=2, data_width=64, vectors=(16, None, None))
    assert [in_groups.entries(cls) for cls in range(3)] == [8, 1, 1]
    assert (in_groups.stream_entries, in_groups.stationary_entries) == (8, 1)
    all_in_groups = modelled(rows=2, cols=2, data_width=64, vectors=(16, 16, 16))
    assert (all_in_groups.stream_entries, all_in_groups.stationary_entries) == (8, 8)
    assert (NANO.stream_entries, NANO.stationary_entries, NANO.has_headers) == (1, 1, False)
    numerics = make_numerics(block=8, formats="nvfp4")
    assert ArraySizes.of(numerics, rows=2, cols=2, data_width=64).has_headers


def fast(formats=("bfp2", "fast", "fast"), widths=(2, 4, 6, 8), **options):
    """Of x one width, of w and dy several."""
    numerics = make_numerics(block=8, formats=formats, widths=list(widths))
    return ArraySizes.of(numerics, rows=2, cols=2, data_width=64, **options)


def test_planes():
    """One for every two bits of magnitude; the widest, if nothing is said."""
    machine = fast()
    assert [machine.planes(cls) for cls in range(3)] == [1, 4, 4]
    assert [machine.planes(2, width) for width in (2, 4, 6, 8)] == [1, 2, 3, 4]
    assert machine.stored_beats(2, 9, 70, 6) == 3 * machine.stored_beats(0, 9, 70)
    assert machine.stored_beats(2, 9, 70) == 4 * machine.stored_beats(0, 9, 70)


def test_widths_are_those_of_the_numbers():
    machine = fast(("fast", "bfp2", "fast"), (2, 6))
    assert [machine.widths(cls) for cls in range(3)] == [(2, 6), None, (2, 6)]
    others = fast(("bfp2",) * 3, (2, 8))
    assert [others.widths(cls) for cls in range(3)] == [None] * 3


@pytest.mark.parametrize("widths, chunks", [((2,), 2), ((2, 4), 2), ((2, 6), 3), ((2, 4, 6, 8), 4)])
def test_rings_hold_all_planes_of_a_chunk(widths, chunks):
    for place in range(3):
        formats = tuple("fast" if cls == place else "bfp2" for cls in range(3))
        machine = fast(formats, widths, in_place=False)
        assert (machine.stream_blocks, machine.stationary_blocks) == (chunks * 64, chunks * 32)
    turning = fast(("fast", "bfp2", "bfp2"), widths)  # which holds dY of 64 x 64 blocks
    assert (turning.stream_blocks, turning.stationary_blocks) == (chunks * 64, 32 * 64)


@pytest.mark.parametrize(
    "widths, m, n",  # the largest
    [
        ((None, 2, 2), 512, 512),
        ((None, 4, 2), 512, 256),
        ((None, 2, 4), 256, 512),
        ((None, 2, 6), 160, 512),  # 10 slices of 3 planes, of 32 slabs
        ((None, None, None), 128, 128),
    ],
)
def test_planes_of_the_fused_pass_share_its_memories(widths, m, n):
    machine = fast()
    found = [machine.fuses(*size, widths) for size in ((m, n), (m + 1, n), (m, n + 1))]
    assert found == [True, False, False]


@pytest.mark.parametrize("width, n", [(2, 512), (4, 256), (6, 128), (8, 128)])
def test_the_west_is_cut_in_powers_of_two(width, n):
    machine = fast()
    assert [machine.fuses(8, size, (None, width, 2)) for size in (n, n + 1)] == [True, False]


def test_two_ports():
    sizes = {"rows": 16, "cols": 16, "block": 8, "element_bits": (5, 5, 5), "data_width": 512}
    one, two = modelled(**sizes), modelled(**sizes, ports=2)
    assert [each.drain_vectors(north=True) for each in (one, two)] == [2, 4]
    assert one.groups == two.groups == 4
    # Rows of 128 vectors are 32 words of 4.
    assert (two.fused_blocks_n, two.queued_words(4)) == (128, 20)
    long = modelled(**sizes | {"rows": 64, "data_width": 64}, ports=2)
    assert long.queued_words(1) == 128
    # 40 x 40 cells of one element: words of 32 vectors, of which 2 slices of 40 are no multiple.
    ones = modelled(**sizes | {"rows": 40, "cols": 40, "block": 1}, ports=2)
    assert ones.groups == 4
