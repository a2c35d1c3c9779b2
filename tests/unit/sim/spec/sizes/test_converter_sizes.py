"""The converter's sizes against counting: which elements share a word, a block, a group, a beat."""

from itertools import product

import pytest

from diastole_sim.spec.image import DATA_WIDTHS
from diastole_sim.spec.numerics import BLOCK_SIDES
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from support.numerics import make_numerics
from support.tiles import MACHINES, class_of, draws_early, machine, tile_shape

FORMATS = ("bfp4", "bfp7", "mxint8", "mxfp6_e2m3", "mxfp8_e5m2", "fp8_e4m3", "bf16")


def random_numerics(block, rng):
    """Formats and groupings at random."""
    if rng.random() < 0.15:
        formats, kinds = ("nvfp4",) * 3, ("square", "vector")
    else:
        formats, kinds = [rng.choice(FORMATS) for _ in range(3)], ("square", "vector", "tensor")
    groupings = []
    for name in formats:
        size = block * rng.choice([k for k in (1, 2, 8, 32) if k * block <= 128])
        texts = {"square": f"{size}x{size}", "vector": f"1x{max(2, size)}", "tensor": "tensor"}
        groups = {"bf16": ["tensor"], "fp8": list(kinds)}
        accepted = groups.get(name.partition("_")[0], ["square", "vector"])
        groupings.append(texts[rng.choice(accepted)])
    return make_numerics(block=block, formats=formats, groupings=groupings, fraction=0, headroom=1)


def check(numerics, data_width):
    sizes = ConverterSizes(numerics=numerics, data_width=data_width)
    block, floats = numerics.block, data_width // 32
    row = range(8 * block)  # elements of a row of a group
    classes = [class_of(numerics, cls) for cls in range(3)]
    two_copies = [chosen.grouping.kind == "vector" for chosen in classes]
    assert sizes.vectors == tuple(two_copies)
    assert sizes.two_copies == (True in two_copies)
    assert sizes.squares == (False in two_copies)

    # Words.
    assert sizes.beat_bytes * 8 == data_width
    assert sizes.floats == floats
    assert sizes.group_cols == len(row)
    limit = block if sizes.two_copies else len(row)
    assert sizes.lanes == max(n for n in (1, 2, 4, 8, 16) if n <= floats and n <= limit)
    word = range(sizes.lanes)
    assert sizes.beat_words == len({n // sizes.lanes for n in range(floats)})
    assert sizes.row_words == len({col // sizes.lanes for col in row})
    assert sizes.group_words == len(list(product(range(block), row))) // sizes.lanes
    assert sizes.chunk == len([n for n in word if n // block == 0])
    assert sizes.word_chunks == len({n // block for n in word})
    assert sizes.block_words == len({col // sizes.lanes for col in range(block)})

    # Groups and tiles.
    shapes = [tile_shape(numerics, cls) for cls in range(3)]
    pieces = []
    for cls, chosen in enumerate(classes):
        length = chosen.grouping.size
        met = {j * block // length for j in range(8)} if two_copies[cls] else set()
        entries = len(met) * block or 8
        bits = 8 * block * block * chosen.format.element_bits
        assert sizes.runs(cls) == len(met)
        assert sizes.exponent_entries(cls) == entries
        assert sizes.exponent_beats(cls) == 1 + (8 * entries - 1) // data_width
        assert sizes.element_beats(cls) == 1 + (bits - 1) // data_width
        assert sizes.group_beats(cls) == sizes.exponent_beats(cls) + sizes.element_beats(cls)
        assert sizes.side(cls) == (block if chosen.grouping.kind == "tensor" else length)
        assert (sizes.tile_rows(cls), sizes.tile_cols(cls)) == shapes[cls]
        assert sizes.element_bits[cls] == chosen.format.element_bits
        pieces.append(shapes[cls][1])
        if shapes[cls][0] == block and not sizes.tries_scales[cls]:
            pieces[cls] = min(pieces[cls], max(16, 4 * floats, block))
    assert sizes.by_class(sizes.piece_cols) == tuple(pieces)
    pairs = list(zip(pieces, shapes, strict=True))
    assert sizes.piece_words == tuple(cols // sizes.lanes for cols in pieces)
    assert sizes.in_pieces == tuple(cols < wide for cols, (_, wide) in pairs)
    assert sizes.max_pieces == max(wide // cols for cols, (_, wide) in pairs)
    squares = [pieces[cls] // sizes.side(cls) for cls in range(3) if not two_copies[cls]]
    assert sizes.piece_squares == max([0, *squares])
    height, width = (max(sides) for sides in zip(*shapes, strict=True))
    assert (sizes.max_tile_rows, sizes.max_tile_cols) == (height, width)
    assert sizes.tile_row_words * sizes.lanes == width
    assert sizes.tile_words * sizes.lanes == height * width
    if True in two_copies:
        strips = [wide for (_, wide), vectors in zip(shapes, two_copies, strict=True) if vectors]
        assert sizes.strip_rows == len(row)
        assert sizes.strip_cols == max(strips)
        assert sizes.strip_groups * block == max(strips)
    drawn = [chosen.rounding != "nearest" for chosen in classes]
    assert sizes.drawn_copies == 1 + ((True, True) in zip(two_copies, drawn, strict=True))
    assert sizes.buffered_tiles == (1 if height * width > 4096 else 2)
    assert 2**sizes.tile_number_bits == sizes.buffered_tiles
    assert sizes.by_class(sizes.tile_rows) == tuple(shape[0] for shape in shapes)


@pytest.mark.parametrize("data_width", DATA_WIDTHS)
@pytest.mark.parametrize("block", BLOCK_SIDES)
def test_sizes(block, data_width, rng):
    for _ in range(25):
        check(random_numerics(block, rng), data_width)


@pytest.mark.parametrize("name", MACHINES)
def test_sizes_of_machines_for_tests(name):
    check(*machine(name))


@pytest.mark.parametrize(
    "name, folds, scanned, draws, header",
    [
        ("squares", (0, 0, 0), (0, 0, 0), (0, 0, 1), False),
        ("vectors", (0, 0, 0), (0, 0, 0), (0, 0, 1), False),
        ("long vectors", (0, 0, 0), (0, 0, 0), (0, 0, 0), False),
        ("tensor scales", (0, 0, 0), (1, 1, 1), (0, 0, 1), False),
        ("two levels", (0, 0, 0), (1, 1, 1), (0, 0, 1), True),
        ("scales of their own", (0, 0, 0), (0, 0, 0), (0, 0, 1), False),
        ("folding what overflows", (1, 0, 1), (1, 0, 1), (0, 0, 1), False),
        ("folding elements", (1, 0, 0), (1, 0, 0), (0, 0, 1), False),
    ],
)
def test_what_classes_ask_for(name, folds, scanned, draws, header):
    numerics, data_width = machine(name)
    sizes = ConverterSizes(numerics=numerics, data_width=data_width)
    assert sizes.folds == folds
    assert sizes.scanned == scanned
    assert sizes.draws == draws
    assert sizes.header == header
    assert [chosen.format.name for chosen in sizes.classes] == [
        class_of(numerics, cls).format.name for cls in range(3)
    ]


@pytest.mark.parametrize(
    "formats, keys, folds",
    [
        ("mxfp8_e4m3", {}, False),  # an exponent of their own
        ("mxfp8_e5m2", {"scales": ("floor", "even", "ceil")}, False),
        ("fp8_e5m2", {}, True),
        ("fp8_e5m2", {"overflows": "specification"}, True),
        ("fp8_e4m3", {"window": 0, "fraction": 0, "headroom": 1}, False),
        ("fp8_e5m2", {"groupings": ("tensor", "16x16", "1x16")}, (True, False, False)),
        ("bf16", {}, True),
        ("bfp4", {}, False),
    ],
)
def test_what_may_fold(formats, keys, folds):
    """Only blocks whose exponent is the tensor's, and only for a window."""
    numerics = make_numerics(formats=formats, **keys)
    sizes = ConverterSizes(numerics=numerics, data_width=64)
    assert sizes.folds == (folds if isinstance(folds, tuple) else (folds,) * 3)


def test_where_draws_are_needed_first():
    """Only by a class that folds and rounds stochastically."""
    for name, wanted in {"folding tensors": (0, 0, 1), "scales of their own": (0, 0, 0)}.items():
        numerics, data_width = machine(name)
        sizes = ConverterSizes(numerics=numerics, data_width=data_width)
        assert sizes.folds_by_draws == wanted
        assert wanted == tuple(draws_early(numerics, cls) for cls in range(3))


@pytest.mark.parametrize(
    "name, widest",
    [
        ("squares", (None, 32, 32)),  # the latter are several blocks high
        ("large squares", (32, None, 16)),
        ("vectors", (32, 32, 32)),
        ("long vectors", (64, 16, 16)),
        ("tensor scales", (None, None, None)),
    ],
)
def test_what_can_be_fed(name, widest):
    numerics, data_width = machine(name)
    sizes = ConverterSizes(numerics=numerics, data_width=data_width)
    assert sizes.by_class(sizes.chain_block_cols) == widest
    for cls, cols in enumerate(widest):
        for scale in (0, 131):
            read_once = scale != 0 or not sizes.scanned[cls]
            assert sizes.accepts_chain(cls, cols=cols or 10**6, scale=scale) == read_once
            if cols is not None:
                assert not sizes.accepts_chain(cls, cols=cols + 1, scale=scale)


def test_only_tiles_that_are_complete_with_a_row_of_blocks_begin_beside_others():
    """By walking: a tensor wider than a tile comes back to its first tile, if that is higher."""
    for name in MACHINES:
        numerics, data_width = machine(name)
        sizes = ConverterSizes(numerics=numerics, data_width=data_width)
        for cls in range(3):
            height, width = tile_shape(numerics, cls)
            block = numerics.block
            for cols in (width, width + 1):
                places = product(range(0, height + 1, block), range(0, cols, block))
                tiles = [(row // height, col // width) for row, col in places]
                again = len([n for n, tile in enumerate(tiles[1:]) if tile != tiles[n]])
                once = again + 1 == len(set(tiles))
                assert sizes.accepts_chain(cls, cols=cols, scale=1) == once, (name, cls, cols)


@pytest.mark.parametrize("name", MACHINES)
def test_blocks_of_a_tile(name):
    numerics, data_width = machine(name)
    sizes = ConverterSizes(numerics=numerics, data_width=data_width)
    for cls in range(3):
        height, width = tile_shape(numerics, cls)
        assert sizes.cut_blocks(cls) == (height // numerics.block, width // numerics.block)


@pytest.mark.parametrize(
    "block, data_width, tiles",
    [
        (8, 128, 4),  # 8 x 64 floats are 128 beats, of which 2 tiles are 256
        (8, 256, 4),
        (8, 512, 8),  # 32 beats
        (1, 512, 8),  # a tile is one beat
    ],
)
def test_tiles_that_are_asked_for_ahead(block, data_width, tiles):
    """As many as make 256 beats, but at least 4 and at most 8."""
    numerics = make_numerics(block=block, formats="bfp4")
    assert ConverterSizes(numerics=numerics, data_width=data_width).tiles_ahead == tiles
