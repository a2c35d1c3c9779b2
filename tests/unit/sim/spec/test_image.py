"""The memory image against a writer that sets one bit at a time."""

from itertools import product

import numpy as np
import pytest

from diastole_sim.spec.image import (
    DATA_WIDTHS,
    FloatLayout,
    GroupLayout,
    ImageLayout,
    StoredCopy,
    image_layouts,
)
from diastole_sim.spec.numerics import Numerics

SIDES = (1, 2, 4, 8, 16, 32)
SHAPES = [(1, 1), (3, 5), (8, 64), (9, 65), (17, 70)]
FIELDS = ("codes", "exponents", "row_max", "col_max")


def stored(layout, rng):
    """Random whole blocks; no relation between the fields, so that none can stand for another."""
    side = layout.block
    rows, cols = (-(-size // side) for size in (layout.rows, layout.cols))
    vectors = (rows * side, -(-cols * side // layout.vector)) if layout.vector else (rows, cols)

    def byte(*shape):
        return rng.integers(0, 256, shape, dtype=np.uint8)

    return StoredCopy(
        codes=rng.integers(0, 2**layout.element_bits, (rows * side, cols * side), dtype=np.uint16),
        exponents=byte(*vectors),
        row_max=byte(rows * side if layout.vector else rows),
        col_max=byte(0 if layout.vector else cols),
    )


def bits_of(value, count):
    return [int(value) >> k & 1 for k in range(count)]


def written_bit_by_bit(copy, tensor_exponent, *, rows, cols, side, bits, width, vector, header):
    """The image from the text of the format, one value after the other; as a list of bytes."""
    image = []

    def put(*values):
        """Append bits (lowest first), then zeros up to a beat."""
        beat = [bit for value in values for bit in value]
        beat += [0] * (-len(beat) % width)
        for n in range(0, len(beat), 8):
            image.append(sum(bit << k for k, bit in enumerate(beat[n : n + 8])))

    def exponent_field(row_block, first):
        if vector is None:
            blocks = range(first, first + 8)
            return [copy.exponents[row_block, j] if j < col_blocks else 0 for j in blocks]
        field = []
        met = sorted({j * side // vector for j in range(first, first + 8)})
        for run, row in product(met, range(side)):
            there = run < copy.exponents.shape[1]
            field.append(copy.exponents[row_block * side + row, run] if there else 0)
        return field

    if header:
        put(bits_of(tensor_exponent, 16))
    row_blocks, col_blocks = (rows + side - 1) // side, (cols + side - 1) // side
    for row_block in range(row_blocks):
        for first in range(0, col_blocks, 8):
            put(*(bits_of(exponent, 8) for exponent in exponent_field(row_block, first)))
            elements = []
            for col_block, r, c in product(range(first, first + 8), range(side), range(side)):
                at = (row_block * side + r, col_block * side + c)
                elements.append(bits_of(copy.codes[at] if col_block < col_blocks else 0, bits))
            put(*elements)
    put(*(bits_of(value, 8) for value in copy.row_max))
    if vector is None:
        put(*(bits_of(value, 8) for value in copy.col_max))
    return image


def check(rng, tensor_exponent=None, **given):
    named = {"side": "block", "bits": "element_bits", "width": "data_width"}
    layout = ImageLayout(**{named.get(key, key): value for key, value in given.items()})
    copy = stored(layout, rng)
    image = layout.pack(copy, tensor_exponent)
    expected = written_bit_by_bit(copy, tensor_exponent, **given)
    assert image.tolist() == expected, given
    back, exponent = layout.unpack(image)
    assert exponent == tensor_exponent, given
    for name in FIELDS:
        got, wanted = getattr(back, name), getattr(copy, name)
        assert got.dtype == wanted.dtype, (given, name)
        assert np.array_equal(got, wanted), (given, name)


@pytest.mark.parametrize("width", DATA_WIDTHS)
@pytest.mark.parametrize("bits", [2, 3, 4, 5, 8, 9, 16])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.sampled(3)
def test_every_bit_of_squares(side, bits, width):
    rng = np.random.default_rng([side, bits, width])
    for rows, cols in SHAPES[:: 1 if side in (1, 4) else 2]:
        given = {"rows": rows, "cols": cols, "side": side, "bits": bits, "width": width}
        check(rng, vector=None, header=False, **given)


@pytest.mark.parametrize("width", [32, 64, 512])
@pytest.mark.parametrize("vector", [1, 2, 4, 8, 16, 32, 64, 128])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.sampled(4)
def test_every_bit_of_vectors(side, vector, width):
    if vector < side:
        with pytest.raises(ValueError, match="vector must be one of "):
            ImageLayout(rows=1, cols=1, block=side, element_bits=4, data_width=width, vector=vector)
        return
    rng = np.random.default_rng([side, vector, width])
    for rows, cols in [*SHAPES[: 2 if side > 8 else 4], (3, 8 * side + vector + 1)]:
        given = {"rows": rows, "cols": cols, "side": side, "bits": 4, "width": width}
        check(rng, vector=vector, header=False, **given)


@pytest.mark.parametrize("width", DATA_WIDTHS)
@pytest.mark.parametrize("exponent", [-(2**15), -140, -1, 0, 116, 2**15 - 1])
@pytest.mark.parametrize("vector", [None, 16])
@pytest.mark.sampled(3)
def test_header(vector, exponent, width):
    rng = np.random.default_rng(7)
    given = {"rows": 5, "cols": 70, "side": 8, "bits": 4, "width": width, "header": True}
    check(rng, exponent, vector=vector, **given)


def test_offsets_point_at_what_they_name():
    layout = ImageLayout(rows=20, cols=80, block=8, element_bits=5, data_width=64)
    assert (layout.row_blocks, layout.col_blocks, layout.row_groups) == (3, 10, 2)
    assert layout.group_bytes == 8 + 8 * 8 * 5
    copy = stored(layout, np.random.default_rng(1))
    image = layout.pack(copy)
    assert image[layout.group_offset(2, 1)] == copy.exponents[2, 8]
    assert image[layout.row_max_offset :][:3].tolist() == copy.row_max.tolist()
    assert image[layout.col_max_offset :][:10].tolist() == copy.col_max.tolist()
    assert layout.total_bytes == 6 * 328 + 8 + 16


def test_offsets_of_vectors_behind_a_header():
    layout = ImageLayout(
        rows=20, cols=80, block=8, element_bits=4, data_width=128, vector=16, header=True
    )
    assert (layout.group.runs, layout.row_vectors, layout.exponent_bytes) == (4, 5, 32)
    copy = stored(layout, np.random.default_rng(1))
    image = layout.pack(copy, 0)
    last = layout.group_offset(2, 1)
    assert last == 16 + 5 * (32 + 256)
    assert image[last : last + 8].tolist() == copy.exponents[16:24, 4].tolist()
    assert not image[last + 8 : last + 32].any()
    assert image[layout.row_max_offset :][:24].tolist() == copy.row_max.tolist()
    assert layout.col_max_offset == layout.total_bytes == 16 + 6 * (32 + 256) + 32


def test_a_long_vector_is_repeated():
    """128 elements over 2 groups of 8 blocks of 8: both have the exponents of the same vector."""
    layout = ImageLayout(rows=8, cols=130, block=8, element_bits=4, data_width=64, vector=128)
    copy = stored(layout, np.random.default_rng(3))
    image = layout.pack(copy)
    fields = [image[layout.group_offset(0, group) :][:8].tolist() for group in range(3)]
    first, second = copy.exponents.T.tolist()
    assert fields == [first, first, second]
    image[layout.group_offset(0, 1)] ^= 1
    assert np.array_equal(layout.unpack(image)[0].exponents, copy.exponents)


def test_unpack_ignores_padding():
    layout = ImageLayout(rows=3, cols=3, block=2, element_bits=3, data_width=512, header=True)
    copy = stored(layout, np.random.default_rng(2))
    noisy = layout.pack(copy, -5)
    noisy[2:64] = 255  # behind the header's exponent
    noisy[66:128] = 255  # the exponents of absent blocks, and padding
    back, exponent = layout.unpack(noisy)
    assert exponent == -5
    assert np.array_equal(back.exponents, copy.exponents)
    assert np.array_equal(back.codes, copy.codes)


def numerics(block, **classes):
    default = {"format": "bfp4", "rounding": "nearest"}
    chosen = {"x": default, "w": default, "dy": default} | classes
    return Numerics.from_dict(
        chosen | {"block": block, "random_bits": 8, "fraction": 9, "headroom": 4}
    )


@pytest.mark.parametrize("width", DATA_WIDTHS)
@pytest.mark.parametrize("vector", [None, 1, 4, 16, 128])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.sampled(4)
def test_sizes_of_groups(side, vector, width):
    """What the text says of the last bit of a field, and of the first of each block."""
    if vector is not None and vector < side:
        return
    beat = width // 8
    for bits in range(2, 17):
        group = GroupLayout(block=side, element_bits=bits, data_width=width, vector=vector)
        runs = {j * side // vector for j in range(8)} if vector else set()
        entries = len(runs) * side if vector else 8
        assert (group.runs, group.exponent_entries) == (len(runs), entries), bits
        assert group.exponent_beats == 1 + (entries - 1) // beat, bits
        firsts = [side * side * bits * j for j in range(9)]  # bit of each block, and the end
        assert group.row_bits == firsts[1] // side, bits
        beats = [1 + (end - 1) // width for end in firsts]
        assert [group.block_beats(n) for n in range(9)] == beats, bits
        assert group.element_beats == beats[8], bits
        assert group.packed_bytes * 8 == firsts[8], bits
        assert group.group_beats == group.exponent_beats + beats[8], bits
        in_bytes = (group.header_bytes, group.exponent_bytes, group.group_bytes)
        in_beats = (0, group.exponent_beats, group.group_beats)
        assert in_bytes == tuple(beat * count for count in in_beats), bits
        whole = (n for n in (1, 2, 4, 8) if all(bit % width == 0 for bit in firsts[:8:n]))
        assert group.granule == next(whole), bits


def test_group_of_a_class():
    def group(**chosen):
        chosen = {"rounding": "nearest"} | chosen
        found = numerics(4, **dict.fromkeys(("x", "w", "dy"), chosen)).w
        return GroupLayout.of(found, block=4, data_width=64)

    common = {"block": 4, "data_width": 64}
    assert group(format="bfp7") == GroupLayout(element_bits=8, **common)
    assert group(format="bfp7", grouping="16x16") == GroupLayout(element_bits=8, **common)
    assert group(format="bf16") == GroupLayout(element_bits=16, **common)
    assert group(format="mxint8") == GroupLayout(element_bits=8, vector=32, **common)
    headed = GroupLayout(element_bits=4, vector=4, header=True, **common)
    assert group(format="nvfp4", grouping="1x4") == headed
    assert (headed.header_beats, headed.header_bytes) == (1, 8)


def test_layouts_of_a_class():
    def layouts(block, **chosen):
        chosen = {"rounding": "nearest"} | chosen
        found = numerics(block, **dict.fromkeys(("x", "w", "dy"), chosen)).x
        return image_layouts(found, (3, 50), block=block, data_width=128)

    common = {"block": 4, "data_width": 128}
    assert layouts(4, format="bfp7") == (ImageLayout(rows=3, cols=50, element_bits=8, **common),)
    assert layouts(4, format="bf16", rounding="stochastic-a") == (
        ImageLayout(rows=3, cols=50, element_bits=16, **common),
    )
    assert layouts(4, format="mxfp6_e2m3") == tuple(
        ImageLayout(rows=rows, cols=cols, element_bits=6, vector=32, **common)
        for rows, cols in ((3, 50), (50, 3))
    )
    assert layouts(4, format="nvfp4", grouping="16x16") == (
        ImageLayout(rows=3, cols=50, element_bits=4, header=True, **common),
    )


@pytest.mark.parametrize("width", DATA_WIDTHS)
@pytest.mark.parametrize("rows, cols", [(1, 1), (3, 5), (2, 16), (4, 33)])
def test_float_rows_start_on_a_beat(rows, cols, width):
    bits = np.random.default_rng(3).integers(0, 2**32, (rows, cols), dtype=np.uint32)
    bits[0, 0] = 0x7F800001  # a signalling NaN stays as it is
    layout = FloatLayout(rows=rows, cols=cols, data_width=width)
    expected = []
    for row in bits:
        data = b"".join(int(word).to_bytes(4, "little") for word in row)
        expected += list(data) + [0] * (-len(data) % (width // 8))
    image = layout.pack(bits.view(np.float32))
    assert image.tolist() == expected
    assert layout.total_bytes == len(expected)
    assert layout.pitch_bytes == len(expected) // rows
    image.reshape(rows, -1)[:, 4 * cols :] = 0xAA
    assert np.array_equal(layout.unpack(image).view(np.uint32), bits)
