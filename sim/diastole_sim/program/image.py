"""The memory image: where every bit of a tensor lies, in memory and in vectors.

A *beat* is ``data_width / 8`` bytes, what the bus moves in one cycle. Every tensor starts on a
beat. The padding of an image is zeros; that of floats is ignored when they are read, and zeros or
left as it was when they are written. Everything is little-endian: bit n of a field is bit n % 8 of
its byte n / 8.

A float tensor is stored row by row; a row starts on a beat.

A quantised tensor of R x C elements is RB x CB blocks of side B, RB = ceil(R/B), CB = ceil(C/B).
Eight neighbouring blocks of a row of blocks form a *group*; the last group of a row is as long as
the others, and blocks that it lacks are zeros. A group holds, each padded to a beat:

- the exponent field: 8 bytes, the stored exponents of its blocks;
- the mantissa field: the element in row r, column c of block j at bit ((j*B + r)*B + c) * (m + 1);
  m bits of magnitude, the sign above them.

Then follow, each padded to a beat, row_max (RB bytes) and col_max (CB bytes): the largest stored
exponent of each row of blocks and of each column of blocks.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole_sim.check import require_choice, require_int

GROUP_BLOCKS = 8
"""Blocks of a group."""
DATA_WIDTHS = (32, 64, 128, 256, 512)
"""Widths of the memory bus in bits."""
MAX_SIZE = 2**24 - 1
"""Largest number of rows or columns of a tensor."""

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class FloatLayout:
    """A float32 tensor of ``rows`` x ``cols`` in memory. Sizes in bytes; ValueError if out of
    range."""

    rows: int
    cols: int
    data_width: int

    def __post_init__(self) -> None:
        _check_sizes(self.rows, self.cols, self.data_width)

    @property
    def pitch_bytes(self) -> int:
        """From one row to the next."""
        return round_up(4 * self.cols, self.data_width // 8)

    @property
    def total_bytes(self) -> int:
        return self.rows * self.pitch_bytes

    def pack(self, values: NDArray[np.float32]) -> Bytes:
        """The image of a float32 array of shape (rows, cols); every bit of a NaN is kept."""
        _require_array("values", values, (self.rows, self.cols), np.float32)
        image = np.zeros((self.rows, self.pitch_bytes), dtype=np.uint8)
        image[:, : 4 * self.cols] = np.ascontiguousarray(values, dtype="<f4").view(np.uint8)
        return image.reshape(-1)

    def unpack(self, image: Bytes) -> NDArray[np.float32]:
        """The inverse of :meth:`pack`; the padding is ignored."""
        _require_array("image", image, (self.total_bytes,), np.uint8)
        rows = image.reshape(self.rows, self.pitch_bytes)[:, : 4 * self.cols]
        return np.ascontiguousarray(rows).view("<f4").astype(np.float32)


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredTensor:
    """What an image holds: whole blocks, padded with zeros.

    ``magnitudes`` and ``negative`` are of shape (RB * B, CB * B), ``exponents`` (stored: e + 127, 0
    for a block of zeros) of shape (RB, CB), ``row_max`` (RB), ``col_max`` (CB).
    """

    magnitudes: NDArray[np.uint8]
    negative: NDArray[np.bool_]
    exponents: NDArray[np.uint8]
    row_max: NDArray[np.uint8]
    col_max: NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class ImageLayout:
    """A quantised tensor of ``rows`` x ``cols`` in memory, as the module's text has it.

    ``block``: side B of a block, a power of two in 1..32. ``mantissa_bits``: m, magnitude bits of
    an element (2..8). ``data_width``: of the bus, bits. Offsets are bytes from the tensor's
    address, which is aligned to a beat. ValueError if a parameter is out of range.
    """

    rows: int
    cols: int
    block: int
    mantissa_bits: int
    data_width: int

    def __post_init__(self) -> None:
        _check_sizes(self.rows, self.cols, self.data_width)
        require_choice("block", self.block, (1, 2, 4, 8, 16, 32))
        require_int("mantissa_bits", self.mantissa_bits, 2, 8)

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    @property
    def row_blocks(self) -> int:
        """RB."""
        return -(-self.rows // self.block)

    @property
    def col_blocks(self) -> int:
        """CB."""
        return -(-self.cols // self.block)

    @property
    def row_groups(self) -> int:
        """Groups of one row of blocks."""
        return -(-self.col_blocks // GROUP_BLOCKS)

    @property
    def exponent_bytes(self) -> int:
        """A group's exponent field, padding included."""
        return round_up(GROUP_BLOCKS, self.beat_bytes)

    @property
    def element_bits(self) -> int:
        return self.mantissa_bits + 1

    @property
    def mantissa_bytes(self) -> int:
        """A group's mantissa field, padding included."""
        return round_up(self._elements_bytes, self.beat_bytes)

    @property
    def group_bytes(self) -> int:
        return self.exponent_bytes + self.mantissa_bytes

    @property
    def pitch_bytes(self) -> int:
        """From one row of blocks to the next."""
        return self.row_groups * self.group_bytes

    def group_offset(self, block_row: int, group: int) -> int:
        """Of group ``group`` in row of blocks ``block_row``; ValueError if there is none."""
        require_int("block_row", block_row, 0, self.row_blocks - 1)
        require_int("group", group, 0, self.row_groups - 1)
        return block_row * self.pitch_bytes + group * self.group_bytes

    @property
    def row_max_offset(self) -> int:
        return self.row_blocks * self.pitch_bytes

    @property
    def col_max_offset(self) -> int:
        return self.row_max_offset + round_up(self.row_blocks, self.beat_bytes)

    @property
    def total_bytes(self) -> int:
        return self.col_max_offset + round_up(self.col_blocks, self.beat_bytes)

    def pack(self, stored: StoredTensor) -> Bytes:
        """The image of whole blocks; ValueError if an array's shape, type or range is wrong.

        Anything with the fields of a :class:`StoredTensor` will do, the golden model's tensors too.
        """
        self._check(stored)
        image = np.zeros(self.total_bytes, dtype=np.uint8)
        groups = image[: self.row_max_offset].reshape(self.row_blocks, self.row_groups, -1)
        exponents = self._grouped(stored.exponents)
        groups[..., :GROUP_BLOCKS] = exponents.reshape(self.row_blocks, self.row_groups, -1)

        elements = stored.magnitudes | stored.negative.astype(np.uint16) << self.mantissa_bits
        blocks = self._grouped(self._to_blocks(elements))
        bits = blocks.reshape(self.row_blocks, self.row_groups, -1, 1) >> np.arange(
            self.element_bits, dtype=np.uint16
        )
        bits = (bits & 1).astype(np.uint8).reshape(self.row_blocks, self.row_groups, -1)
        start = self.exponent_bytes
        groups[..., start : start + self._elements_bytes] = np.packbits(
            bits, axis=-1, bitorder="little"
        )
        image[self.row_max_offset :][: self.row_blocks] = stored.row_max
        image[self.col_max_offset :][: self.col_blocks] = stored.col_max
        return image

    def unpack(self, image: Bytes) -> StoredTensor:
        """The inverse of :meth:`pack`; padding and absent blocks are ignored."""
        _require_array("image", image, (self.total_bytes,), np.uint8)
        groups = image[: self.row_max_offset].reshape(self.row_blocks, self.row_groups, -1)
        exponents = groups[..., :GROUP_BLOCKS].reshape(self.row_blocks, -1)

        start = self.exponent_bytes
        packed = groups[..., start : start + self._elements_bytes]
        bits = np.unpackbits(packed, axis=-1, bitorder="little")
        bits = bits.reshape(self.row_blocks, -1, self.block, self.block, self.element_bits)
        weights = np.uint16(1) << np.arange(self.element_bits, dtype=np.uint16)
        elements = (bits * weights).sum(axis=-1, dtype=np.uint16)
        elements = self._from_blocks(elements[:, : self.col_blocks])
        return StoredTensor(
            magnitudes=(elements & (1 << self.mantissa_bits) - 1).astype(np.uint8),
            negative=elements >> self.mantissa_bits == 1,
            exponents=exponents[:, : self.col_blocks].copy(),
            row_max=image[self.row_max_offset :][: self.row_blocks].copy(),
            col_max=image[self.col_max_offset :][: self.col_blocks].copy(),
        )

    @property
    def _elements_bytes(self) -> int:
        """A group's mantissa field without padding: 8 blocks make whole bytes."""
        return GROUP_BLOCKS * self.block**2 * self.element_bits // 8

    def _to_blocks(self, elements: NDArray[Any]) -> NDArray[Any]:
        side = self.block
        cut = elements.reshape(self.row_blocks, side, self.col_blocks, side)
        return cut.transpose(0, 2, 1, 3)

    def _from_blocks(self, blocks: NDArray[Any]) -> NDArray[Any]:
        side = self.block
        return blocks.transpose(0, 2, 1, 3).reshape(self.row_blocks * side, self.col_blocks * side)

    def _grouped(self, per_block: NDArray[Any]) -> NDArray[Any]:
        """Add blocks of zeros, until every row of blocks is whole groups."""
        missing = self.row_groups * GROUP_BLOCKS - self.col_blocks
        return np.pad(per_block, [(0, 0), (0, missing)] + [(0, 0)] * (per_block.ndim - 2))

    def _check(self, stored: StoredTensor) -> None:
        blocks = (self.row_blocks, self.col_blocks)
        elements = (self.row_blocks * self.block, self.col_blocks * self.block)
        _require_array("magnitudes", stored.magnitudes, elements, np.uint8)
        _require_array("negative", stored.negative, elements, np.bool_)
        _require_array("exponents", stored.exponents, blocks, np.uint8)
        _require_array("row_max", stored.row_max, blocks[:1], np.uint8)
        _require_array("col_max", stored.col_max, blocks[1:], np.uint8)
        require_int("largest magnitude", int(stored.magnitudes.max()), 0, 2**self.mantissa_bits - 1)


def image_layout(quantised: Any, data_width: int) -> ImageLayout:
    """Layout of a tensor that the golden model converted (``golden.convert.Quantised``)."""
    return ImageLayout(
        rows=quantised.shape[0],
        cols=quantised.shape[1],
        block=quantised.block,
        mantissa_bits=quantised.format.mantissa_bits,
        data_width=data_width,
    )


def round_up(value: int, unit: int) -> int:
    """The smallest multiple of ``unit`` that is not below ``value``."""
    return -(-value // unit) * unit


def _check_sizes(rows: int, cols: int, data_width: int) -> None:
    require_int("rows", rows, 1, MAX_SIZE)
    require_int("cols", cols, 1, MAX_SIZE)
    require_choice("data_width", data_width, DATA_WIDTHS)


def _require_array(name: str, array: NDArray[Any], shape: tuple[int, ...], dtype: Any) -> None:
    if array.shape != shape or array.dtype != dtype:
        raise ValueError(
            f"{name} must be {np.dtype(dtype).name} of shape {shape}, "
            f"not {array.dtype.name} of shape {array.shape}"
        )
