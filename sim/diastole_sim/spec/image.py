"""Memory image of a tensor: the place of every bit, in memory and in vectors.

A *beat* is ``data_width / 8`` bytes, moved by the bus in one cycle. Every tensor starts on a beat.
The padding of an image is zeros. Padding of floats is ignored by reads. A write of floats makes the
padding zeros or leaves it unchanged. All fields are little-endian: bit n of a field is bit n % 8 of
byte n / 8 of the field.

A float tensor is stored row by row, and every row starts on a beat.

A quantised tensor has an image for every copy. With vector groups a tensor has two copies, and the
second image is the image of the transposed tensor. The following describes a copy as stored: R x C
elements, with vector groups along the rows, are RB x CB blocks of side B, RB = ceil(R/B), CB =
ceil(C/B). The image has the following parts, each padded to a beat:

- a header, only where groups have scales beside the tensor's scale (NVFP4). Bytes 0 and 1 hold the
  exponent of the tensor's scale, as a 16-bit integer in two's complement;
- the blocks, row of blocks by row of blocks. Eight neighbouring blocks of a row form a *group of
  blocks*. The last group of a row has the full length, and absent blocks are zeros. A group holds
  an exponent field and an element field, each padded to a beat;
- row_max and col_max: the largest stored exponents, as bytes. For squares and for a tensor with one
  scale: the largest of each row of blocks (RB bytes) and of each column of blocks (CB bytes). For
  vectors: the largest of each row of elements (RB * B bytes), and no col_max.

The *exponent field* holds stored exponents, a byte each (for NVFP4 the codes of the scales). For
squares and for a tensor with one scale the field has 8 bytes, one for each block. The exponent of a
square of several blocks is repeated. For vectors of g elements the field has Q = max(1, 8 B / g)
runs of B bytes. Byte q * B + r belongs to row r and to the q-th vector that the group of blocks
meets: block j belongs to vector (j * B) / g, rounded down. The exponent of a vector longer than 8 B
is repeated in every group of blocks that the vector meets.

The *element field* has the element in row r, column c of block j from bit ((j * B + r) * B + c) * b
on, b bits: the magnitude code, and the sign as the highest bit.

A copy in the format ``fast``, with magnitudes of m bits, has m/2 images, the *planes*, one behind
the other. Plane i has bits m - 2 i - 1 and m - 2 i - 2 of every magnitude, and the sign (b = 3;
:mod:`diastole_sim.spec.planes`). Exponents and maxima are equal in all planes.
"""

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from diastole_sim.spec.formats import GROUP_SIZES
from diastole_sim.spec.numerics import BLOCK_SIDES, TensorClass
from diastole_sim.spec.require import require_choice, require_int

GROUP_BLOCKS = 8
"""Blocks of a group of blocks."""
DATA_WIDTHS = (32, 64, 128, 256, 512)
"""Widths of the memory bus in bits."""
MAX_SIZE = 2**24 - 1
"""Largest number of rows or columns of a tensor."""
EXTENT_BITS = MAX_SIZE.bit_length()
"""Bits of a number of rows or columns."""
PITCH_BITS = EXTENT_BITS + 3
"""Bits of the distance in bytes between rows of floats, which are whole beats of at most 16
floats."""
MAX_CONVERT_BLOCKS = 4096
"""Most blocks in a row of a tensor that a machine converts."""
MIN_ELEMENT_BITS, MAX_ELEMENT_BITS = 2, 16
HEADER_EXPONENT_BYTES = 2
"""Bytes of the exponent in a header. The rest of the header's beat is zeros."""

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class FloatLayout:
    """Layout of a float32 tensor of ``rows`` x ``cols`` in memory. Sizes are in bytes. ValueError
    if a number is out of range."""

    rows: int
    cols: int
    data_width: int

    def __post_init__(self) -> None:
        _check_sizes(self.rows, self.cols, self.data_width)

    @property
    def pitch_bytes(self) -> int:
        """Distance between the beginnings of two rows."""
        return round_up(4 * self.cols, self.data_width // 8)

    @property
    def total_bytes(self) -> int:
        return self.rows * self.pitch_bytes

    def pack(self, values: NDArray[np.float32]) -> Bytes:
        """Return the image of a float32 array of shape (rows, cols). Every bit of a NaN is kept."""
        _require_array("values", values, (self.rows, self.cols), np.float32)
        image = np.zeros((self.rows, self.pitch_bytes), dtype=np.uint8)
        image[:, : 4 * self.cols] = np.ascontiguousarray(values, dtype="<f4").view(np.uint8)
        return image.reshape(-1)

    def unpack(self, image: Bytes) -> NDArray[np.float32]:
        """Return the array of an image: the inverse of :meth:`pack`. The padding is ignored."""
        _require_array("image", image, (self.total_bytes,), np.uint8)
        rows = image.reshape(self.rows, self.pitch_bytes)[:, : 4 * self.cols]
        return np.ascontiguousarray(rows).view("<f4").astype(np.float32)


class Blocks(Protocol):
    """Content of the image of a copy in whole blocks: a :class:`StoredCopy`, or a copy converted by
    the golden model (``golden.convert.Copy``)."""

    @property
    def codes(self) -> NDArray[np.uint16]: ...
    @property
    def exponents(self) -> NDArray[np.uint8]: ...
    @property
    def row_max(self) -> NDArray[np.uint8]: ...
    @property
    def col_max(self) -> NDArray[np.uint8]: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredCopy:
    """Content of the image of a copy: whole blocks, padded with zeros.

    ``codes``: stored elements, sign on top, (RB * B, CB * B). ``exponents``: stored bytes, (RB, CB)
    for squares and tensors, for vectors (RB * B, vectors of a row). ``row_max``: (RB), for vectors
    (RB * B). ``col_max``: (CB), for vectors empty.
    """

    codes: NDArray[np.uint16]
    exponents: NDArray[np.uint8]
    row_max: NDArray[np.uint8]
    col_max: NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class GroupLayout:
    """Layout of a group of blocks and of the header, equal in all images of a class.

    Parameters are described in :class:`ImageLayout`. Sizes in beats and in bytes include the
    padding. ValueError if a parameter is out of range.
    """

    block: int
    element_bits: int
    data_width: int
    vector: int | None = None
    header: bool = False

    def __post_init__(self) -> None:
        require_choice("block", self.block, BLOCK_SIDES)
        require_int("element_bits", self.element_bits, MIN_ELEMENT_BITS, MAX_ELEMENT_BITS)
        require_choice("data_width", self.data_width, DATA_WIDTHS)
        if self.vector is not None:
            require_choice("vector", self.vector, [g for g in GROUP_SIZES if g >= self.block])

    @classmethod
    def of(cls, storage: TensorClass, *, block: int, data_width: int) -> "GroupLayout":
        """Return the layout of the tensors of a class, equal for all copies."""
        return cls(
            block=block,
            element_bits=storage.format.image_bits,
            data_width=data_width,
            vector=storage.grouping.size if storage.two_copies else None,
            header=storage.format.two_level,
        )

    @property
    def beat_bytes(self) -> int:
        return self.data_width // 8

    @property
    def header_beats(self) -> int:
        """Beats of the header; 0 without a header."""
        return int(self.header)

    @property
    def runs(self) -> int:
        """Q: vectors of a row of elements in a group of blocks; 0 without vector groups."""
        return max(1, GROUP_BLOCKS * self.block // self.vector) if self.vector else 0

    @property
    def exponent_entries(self) -> int:
        """Bytes of an exponent field without padding."""
        return self.runs * self.block or GROUP_BLOCKS

    @property
    def exponent_beats(self) -> int:
        """Beats of an exponent field."""
        return -(-self.exponent_entries // self.beat_bytes)

    @property
    def row_bits(self) -> int:
        """Bits of a row of a block."""
        return self.block * self.element_bits

    def block_beats(self, blocks: int) -> int:
        """Return the number of beats of the first ``blocks`` blocks of an element field."""
        return -(-blocks * self.block * self.row_bits // self.data_width)

    @property
    def element_beats(self) -> int:
        """Beats of an element field."""
        return self.block_beats(GROUP_BLOCKS)

    @property
    def packed_bytes(self) -> int:
        """Bytes of an element field without padding. 8 blocks always fill whole bytes."""
        return GROUP_BLOCKS * self.block * self.row_bits // 8

    @property
    def group_beats(self) -> int:
        """Beats of the exponent field and the element field."""
        return self.exponent_beats + self.element_beats

    @property
    def header_bytes(self) -> int:
        return self.header_beats * self.beat_bytes

    @property
    def exponent_bytes(self) -> int:
        return self.exponent_beats * self.beat_bytes

    @property
    def group_bytes(self) -> int:
        return self.group_beats * self.beat_bytes

    @property
    def granule(self) -> int:
        """Smallest number of blocks that fill whole beats: 1, 2, 4 or 8. The number is 8 even if 8
        blocks fill no whole beats."""
        aligned = (n for n in (1, 2, 4) if n * self.block * self.row_bits % self.data_width == 0)
        return next(aligned, GROUP_BLOCKS)


@dataclass(frozen=True, kw_only=True)
class ImageLayout:
    """Layout of one copy of a quantised tensor in memory, as described at the top of the module.

    ``rows`` x ``cols``: elements of the copy as stored. ``block``: side B of a block.
    ``element_bits``: b, sign included (2..16). ``vector``: length g of the vector groups, a power
    of two from B to 128; None for squares and for a scale of the whole tensor. ``header``: true if
    the image has a header. ``data_width``: bits of the bus. Offsets are bytes from the image's
    address, which is aligned to a beat. ValueError if a parameter is out of range.
    """

    rows: int
    cols: int
    block: int
    element_bits: int
    data_width: int
    vector: int | None = None
    header: bool = False

    def __post_init__(self) -> None:
        _check_sizes(self.rows, self.cols, self.data_width)
        _ = self.group  # raises ValueError for parameters out of range

    @cached_property
    def group(self) -> GroupLayout:
        """Layout of every group of blocks."""
        return GroupLayout(
            block=self.block,
            element_bits=self.element_bits,
            data_width=self.data_width,
            vector=self.vector,
            header=self.header,
        )

    @property
    def beat_bytes(self) -> int:
        return self.group.beat_bytes

    @property
    def row_blocks(self) -> int:
        """RB: rows of blocks."""
        return -(-self.rows // self.block)

    @property
    def col_blocks(self) -> int:
        """CB: columns of blocks."""
        return -(-self.cols // self.block)

    @property
    def row_groups(self) -> int:
        """Groups of blocks in a row of blocks."""
        return -(-self.col_blocks // GROUP_BLOCKS)

    @property
    def row_vectors(self) -> int:
        """Vector groups of one row of elements, padding included; 0 without vector groups."""
        return -(-self.col_blocks * self.block // self.vector) if self.vector else 0

    @property
    def header_bytes(self) -> int:
        """Bytes of the header; 0 without a header."""
        return self.group.header_bytes

    @property
    def exponent_bytes(self) -> int:
        """Bytes of an exponent field, padding included."""
        return self.group.exponent_bytes

    @property
    def group_bytes(self) -> int:
        """Bytes of a group of blocks."""
        return self.group.group_bytes

    @property
    def pitch_bytes(self) -> int:
        """Distance in bytes between the beginnings of two rows of blocks."""
        return self.row_groups * self.group_bytes

    def group_offset(self, block_row: int, group: int) -> int:
        """Return the offset of group ``group`` in row of blocks ``block_row``. ValueError if the
        image has no group with these numbers."""
        require_int("block_row", block_row, 0, self.row_blocks - 1)
        require_int("group", group, 0, self.row_groups - 1)
        return self.header_bytes + block_row * self.pitch_bytes + group * self.group_bytes

    @property
    def row_max_entries(self) -> int:
        """Bytes of row_max without padding: RB, for vectors RB * B."""
        return self.row_blocks * (self.block if self.vector else 1)

    @property
    def col_max_entries(self) -> int:
        """Bytes of col_max without padding: CB, for vectors 0."""
        return 0 if self.vector else self.col_blocks

    @property
    def row_max_offset(self) -> int:
        return self.header_bytes + self.row_blocks * self.pitch_bytes

    @property
    def col_max_offset(self) -> int:
        return self.row_max_offset + round_up(self.row_max_entries, self.beat_bytes)

    @property
    def total_bytes(self) -> int:
        return self.col_max_offset + round_up(self.col_max_entries, self.beat_bytes)

    def pack(self, copy: Blocks, tensor_exponent: int | None = None) -> Bytes:
        """Return the image of whole blocks. ``tensor_exponent`` is the header's exponent, and None
        without a header. ValueError for an array of wrong shape, type or range, and for a wrong
        exponent."""
        self._check(copy)
        image = np.zeros(self.total_bytes, dtype=np.uint8)
        image[: self.header_bytes] = self._header(tensor_exponent)
        groups = self._groups_of(image)
        groups[..., : self.group.exponent_entries] = self._exponent_fields(copy.exponents)
        start = self.exponent_bytes
        groups[..., start : start + self.group.packed_bytes] = self._element_fields(copy.codes)
        image[self.row_max_offset :][: self.row_max_entries] = copy.row_max
        image[self.col_max_offset :][: self.col_max_entries] = copy.col_max
        return image

    def unpack(self, image: Bytes) -> tuple[StoredCopy, int | None]:
        """Return the copy and the header's exponent (None without a header): the inverse of
        :meth:`pack`.

        Padding and absent blocks are ignored. If an exponent is repeated for a long vector, the
        first byte counts.
        """
        _require_array("image", image, (self.total_bytes,), np.uint8)
        groups = self._groups_of(image)
        start = self.exponent_bytes
        copy = StoredCopy(
            codes=self._codes(groups[..., start : start + self.group.packed_bytes]),
            exponents=self._exponents(groups[..., : self.group.exponent_entries]),
            row_max=image[self.row_max_offset :][: self.row_max_entries].copy(),
            col_max=image[self.col_max_offset :][: self.col_max_entries].copy(),
        )
        return copy, self._tensor_exponent(image)

    def _groups_of(self, image: Bytes) -> Bytes:
        """Return a view of the groups of blocks: (RB, groups of a row, bytes of a group)."""
        groups = image[self.header_bytes : self.row_max_offset]
        return groups.reshape(self.row_blocks, self.row_groups, self.group_bytes)

    # The header.

    def _header(self, exponent: int | None) -> Bytes:
        if not self.header:
            if exponent is not None:
                raise ValueError("tensor_exponent must be None where the image has no header")
            return np.zeros(0, dtype=np.uint8)
        value = require_int("tensor_exponent", exponent, -(2**15), 2**15 - 1)
        header = np.zeros(self.beat_bytes, dtype=np.uint8)
        header[:HEADER_EXPONENT_BYTES] = np.array([value], dtype="<i2").view(np.uint8)
        return header

    def _tensor_exponent(self, image: Bytes) -> int | None:
        if not self.header:
            return None
        return int.from_bytes(image[:HEADER_EXPONENT_BYTES].tobytes(), "little", signed=True)

    # Exponent fields.

    def _exponent_fields(self, exponents: NDArray[np.uint8]) -> Bytes:
        """Return the exponent fields: (RB, groups of a row, bytes without padding)."""
        if not self.vector:
            return self._grouped(exponents).reshape(self.row_blocks, self.row_groups, -1)
        first = np.arange(self.row_groups) * GROUP_BLOCKS * self.block // self.vector
        vectors = first[:, None] + np.arange(self.group.runs)
        missing = max(0, int(vectors.max()) + 1 - self.row_vectors)
        rows = exponents.reshape(self.row_blocks, self.block, self.row_vectors)
        runs = np.pad(rows, [(0, 0), (0, 0), (0, missing)])[..., vectors]
        return runs.transpose(0, 2, 3, 1).reshape(self.row_blocks, self.row_groups, -1)

    def _exponents(self, fields: Bytes) -> Bytes:
        if not self.vector:
            return fields.reshape(self.row_blocks, -1)[:, : self.col_blocks].copy()
        runs = fields.reshape(self.row_blocks, self.row_groups, self.group.runs, self.block)
        vectors = np.arange(self.row_vectors)
        groups = vectors * self.vector // (GROUP_BLOCKS * self.block)
        exponents = runs[:, groups, vectors % self.group.runs]  # RB, vectors of a row, B
        return exponents.transpose(0, 2, 1).reshape(-1, self.row_vectors)

    # Element fields.

    def _element_fields(self, codes: NDArray[np.uint16]) -> Bytes:
        """Return the element fields: (RB, groups of a row, bytes without padding)."""
        elements = self._grouped(self._to_blocks(codes))
        shifts = np.arange(self.element_bits, dtype=np.uint16)
        bits = elements.reshape(self.row_blocks, self.row_groups, -1, 1) >> shifts
        bits = (bits & 1).astype(np.uint8).reshape(self.row_blocks, self.row_groups, -1)
        return np.packbits(bits, axis=-1, bitorder="little")

    def _codes(self, fields: Bytes) -> NDArray[np.uint16]:
        bits = np.unpackbits(fields, axis=-1, bitorder="little")
        bits = bits.reshape(self.row_blocks, -1, self.block, self.block, self.element_bits)
        weights = np.uint16(1) << np.arange(self.element_bits, dtype=np.uint16)
        elements = (bits * weights).sum(axis=-1, dtype=np.uint16)
        return self._from_blocks(elements[:, : self.col_blocks])

    def _to_blocks(self, elements: NDArray[Any]) -> NDArray[Any]:
        side = self.block
        cut = elements.reshape(self.row_blocks, side, self.col_blocks, side)
        return cut.transpose(0, 2, 1, 3)

    def _from_blocks(self, blocks: NDArray[Any]) -> NDArray[Any]:
        side = self.block
        return blocks.transpose(0, 2, 1, 3).reshape(self.row_blocks * side, self.col_blocks * side)

    def _grouped(self, per_block: NDArray[Any]) -> NDArray[Any]:
        """Add blocks of zeros until every row of blocks is whole groups."""
        missing = self.row_groups * GROUP_BLOCKS - self.col_blocks
        return np.pad(per_block, [(0, 0), (0, missing)] + [(0, 0)] * (per_block.ndim - 2))

    def _check(self, copy: Blocks) -> None:
        elements = (self.row_blocks * self.block, self.col_blocks * self.block)
        exponents = (self.row_blocks, self.col_blocks)
        if self.vector:
            exponents = (elements[0], self.row_vectors)
        _require_array("codes", copy.codes, elements, np.uint16)
        _require_array("exponents", copy.exponents, exponents, np.uint8)
        _require_array("row_max", copy.row_max, (self.row_max_entries,), np.uint8)
        _require_array("col_max", copy.col_max, (self.col_max_entries,), np.uint8)
        require_int("largest code", int(copy.codes.max()), 0, 2**self.element_bits - 1)


def image_layouts(
    storage: TensorClass, shape: tuple[int, int], *, block: int, data_width: int
) -> tuple[ImageLayout, ...]:
    """Return the layouts of all copies of a tensor of ``shape``: one, or two with vector groups."""
    rows, cols = shape
    shapes = [(rows, cols), (cols, rows)] if storage.two_copies else [(rows, cols)]
    group = GroupLayout.of(storage, block=block, data_width=data_width)
    return tuple(
        ImageLayout(rows=stored_rows, cols=stored_cols, **asdict(group))
        for stored_rows, stored_cols in shapes
    )


def round_up(value: int, unit: int) -> int:
    """Return ``value``, rounded up to a multiple of ``unit``."""
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
