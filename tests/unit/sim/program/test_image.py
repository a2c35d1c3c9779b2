"""The memory image against a writer that sets one bit at a time."""

from itertools import product

import numpy as np
import pytest

from diastole_sim.golden.convert import quantise
from diastole_sim.numerics import Numerics
from diastole_sim.program.image import (
    DATA_WIDTHS,
    FloatLayout,
    ImageLayout,
    StoredTensor,
    image_layout,
)

SHAPES = [(1, 1), (3, 5), (8, 64), (9, 65), (17, 70)]


def stored(layout, rng):
    """Random whole blocks; no relation between the fields, so that none can stand for another."""
    shape = (layout.row_blocks * layout.block, layout.col_blocks * layout.block)
    blocks = (layout.row_blocks, layout.col_blocks)
    return StoredTensor(
        magnitudes=rng.integers(0, 2**layout.mantissa_bits, shape, dtype=np.uint8),
        negative=rng.integers(0, 2, shape).astype(bool),
        exponents=rng.integers(0, 256, blocks, dtype=np.uint8),
        row_max=rng.integers(0, 256, blocks[0], dtype=np.uint8),
        col_max=rng.integers(0, 256, blocks[1], dtype=np.uint8),
    )


def written_bit_by_bit(tensor, rows, cols, side, m, width):
    """The image from the text of the format, one value after the other; as a list of bytes."""
    image = []

    def put(bits):
        """Append bits (lowest first), then zeros up to a beat."""
        bits = list(bits)
        bits += [0] * (-len(bits) % width)
        for n in range(0, len(bits), 8):
            image.append(sum(bit << k for k, bit in enumerate(bits[n : n + 8])))

    def bits_of(value, count):
        return [int(value) >> k & 1 for k in range(count)]

    row_blocks, col_blocks = (rows + side - 1) // side, (cols + side - 1) // side
    for row_block in range(row_blocks):
        for first in range(0, col_blocks, 8):
            exponents, mantissas = [], []
            for col_block in range(first, first + 8):
                present = col_block < col_blocks
                exponents += bits_of(tensor.exponents[row_block, col_block] if present else 0, 8)
                for r, c in product(range(side), range(side)):
                    if not present:
                        mantissas += [0] * (m + 1)
                        continue
                    at = (row_block * side + r, col_block * side + c)
                    mantissas += bits_of(tensor.magnitudes[at], m) + [int(tensor.negative[at])]
            put(exponents)
            put(mantissas)
    put(bit for value in tensor.row_max for bit in bits_of(value, 8))
    put(bit for value in tensor.col_max for bit in bits_of(value, 8))
    return image


@pytest.mark.parametrize("width", DATA_WIDTHS)
@pytest.mark.parametrize("m", range(2, 9))
@pytest.mark.parametrize("side", [1, 2, 4, 8, 16, 32])
def test_every_bit_is_where_the_format_has_it(side, m, width):
    rng = np.random.default_rng([side, m, width])
    for rows, cols in SHAPES[:: 1 if side in (1, 4) else 2]:
        layout = ImageLayout(rows=rows, cols=cols, block=side, mantissa_bits=m, data_width=width)
        tensor = stored(layout, rng)
        image = layout.pack(tensor)
        expected = written_bit_by_bit(tensor, rows, cols, side, m, width)
        assert image.tolist() == expected, f"{rows} x {cols}"
        back = layout.unpack(image)
        for name in ("magnitudes", "negative", "exponents", "row_max", "col_max"):
            assert np.array_equal(getattr(back, name), getattr(tensor, name)), (
                f"{rows}x{cols} {name}"
            )


def test_offsets_point_at_what_they_name():
    layout = ImageLayout(rows=20, cols=80, block=8, mantissa_bits=4, data_width=64)
    assert (layout.row_blocks, layout.col_blocks, layout.row_groups) == (3, 10, 2)
    assert layout.group_bytes == 8 + 8 * 8 * 5
    tensor = stored(layout, np.random.default_rng(1))
    image = layout.pack(tensor)
    assert image[layout.group_offset(2, 1)] == tensor.exponents[2, 8]
    assert image[layout.row_max_offset :][:3].tolist() == tensor.row_max.tolist()
    assert image[layout.col_max_offset :][:10].tolist() == tensor.col_max.tolist()
    assert layout.total_bytes == 6 * 328 + 8 + 16


def test_unpack_ignores_padding():
    layout = ImageLayout(rows=3, cols=3, block=2, mantissa_bits=2, data_width=512)
    tensor = stored(layout, np.random.default_rng(2))
    image = layout.pack(tensor)
    noisy = image.copy()
    noisy[2:64] = 255  # the exponents of absent blocks, and padding
    assert np.array_equal(layout.unpack(noisy).exponents, tensor.exponents)
    assert np.array_equal(layout.unpack(noisy).magnitudes, tensor.magnitudes)


def test_image_of_a_converted_tensor():
    """What the golden model converts has the fields of a stored tensor, of their types."""
    tensor_class = {"format": "bfp7", "rounding": "nearest"}
    numerics = Numerics.from_dict(
        {"block": 4, "x": tensor_class, "w": tensor_class, "dy": tensor_class}
        | {"random_bits": 8, "fraction": 18, "headroom": 4}
    )
    values = np.random.default_rng(6).standard_normal((3, 5)).astype(np.float32)
    converted = quantise(values, "x", numerics, seed=0, tag=0, step=0)
    layout = image_layout(converted, 128)
    assert layout == ImageLayout(rows=3, cols=5, block=4, mantissa_bits=7, data_width=128)
    image = layout.pack(converted)
    assert image.tolist() == written_bit_by_bit(converted, 3, 5, 4, 7, 128)


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
    assert layout.total_bytes == len(expected) and layout.pitch_bytes == len(expected) // rows
    image.reshape(rows, -1)[:, 4 * cols :] = 0xAA
    assert np.array_equal(layout.unpack(image).view(np.uint32), bits)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"rows": 0}, "rows must be an integer in 1..16777215, not 0"),
        ({"cols": 2**24}, "cols must be an integer in 1..16777215, not 16777216"),
        ({"block": 3}, "block must be one of 1, 2, 4, 8, 16, 32, not 3"),
        ({"mantissa_bits": 9}, "mantissa_bits must be an integer in 2..8, not 9"),
        ({"data_width": 48}, "data_width must be one of 32, 64, 128, 256, 512, not 48"),
    ],
)
def test_refused_parameters(change, message):
    good = {"rows": 3, "cols": 3, "block": 2, "mantissa_bits": 2, "data_width": 32}
    with pytest.raises(ValueError) as raised:
        ImageLayout(**(good | change))
    assert str(raised.value) == message


def test_refused_arrays():
    layout = ImageLayout(rows=3, cols=3, block=2, mantissa_bits=2, data_width=32)
    tensor = stored(layout, np.random.default_rng(4))
    with pytest.raises(ValueError) as raised:
        layout.unpack(np.zeros(layout.total_bytes + 1, dtype=np.uint8))
    total = layout.total_bytes
    expected = f"image must be uint8 of shape ({total},), not uint8 of shape ({total + 1},)"
    assert str(raised.value) == expected
    tensor.magnitudes[0, 0] = 4
    with pytest.raises(ValueError) as raised:
        layout.pack(tensor)
    assert str(raised.value) == "largest magnitude must be an integer in 0..3, not 4"
    with pytest.raises(ValueError, match="group must be an integer in 0..0, not 1"):
        layout.group_offset(0, 1)
