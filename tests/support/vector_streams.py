"""Streams of the vector unit as bytes in memory, in plain Python: written from their definition."""

import struct
from dataclasses import dataclass, replace

from diastole_hw.vector.stream_layouts import VectorShape
from diastole_sim.spec.stream_table import Kind
from oracle.threefry import draw

MINUS_ONE = 0xBF80_0000
SPECIALS = (
    *(0x7FC0_0000, 0xFFC0_0001, 0x7F80_0001, 0x7F80_0000, 0xFF80_0000),  # NaN, Inf
    *(0x0000_0000, 0x8000_0000, 0x0000_0001, 0x807F_FFFF, 0x0080_0000),  # zeros, subnormals
    *(0x7F7F_7FFF, 0x7F7F_8000, 0xFF7F_FFFF, 0x3F80_8000, 0x3F81_8000),  # to bfloat16
    *(0x3F00_0000, 0x3F00_0001, 0x3FC0_0000, 0x4020_0000, 0xBF80_0000),  # to a byte
    *(0x437E_8000, 0x437F_7FFF, 0x437F_8000, 0x4380_0000, 0x3EFF_FFFF),
)
LABELS = (0, 1, 2**24 - 1, 2**24, 2**24 + 1, 2**25, 2**31 - 1, 2**32 - 1, 2**31)


DRAWN = {"seed": 0x1234_5678, "step": 0xFEDC_BA98}
"""Seed and step of random numbers."""


def vector_shape(block: int, data_width: int, *, draws: bool = False) -> VectorShape:
    return VectorShape(
        block=block, data_width=data_width, specials=1, panel_vectors=16, draws=draws
    )


def bits_of(number: float) -> int:
    """Of its binary32."""
    return int.from_bytes(struct.pack("<f", number), "little")


def float_of(bits: int) -> float:
    """The number that the bits of a binary32 are."""
    return struct.unpack("<f", bits.to_bytes(4, "little"))[0]


def some_number(rng, tame: bool = False) -> int:
    """Bits of a binary32: of a number between -2 and 300, or but for ``tame`` ones often any."""
    kind = 2 if tame else rng.randrange(4)
    if kind == 0:
        return rng.choice(SPECIALS)
    return rng.getrandbits(32) if kind == 1 else bits_of(rng.uniform(-2, 300))


@dataclass(frozen=True)
class Block:
    """Of a walk over ``rows`` x ``cols`` elements."""

    i: int
    j: int
    rows: int
    cols: int
    first: bool
    last: bool
    first_row: bool
    end: bool

    def fields(self) -> dict[str, int]:
        return {name: int(value) for name, value in vars(self).items()}


def walked(rows: int, cols: int, side: int, by_columns: bool = False) -> list[Block]:
    """Blocks in their order."""
    high, wide = -(-rows // side), -(-cols // side)
    lines = [[(i, j) for j in range(wide)] for i in range(high)]
    if by_columns:
        lines = [[(i, j) for i in range(high)] for j in range(wide)]
    found = [
        Block(
            i=i,
            j=j,
            rows=min(side, rows - i * side),
            cols=min(side, cols - j * side),
            first=number == 0,
            last=number == len(line) - 1,
            first_row=i == 0,
            end=False,
        )
        for line in lines
        for number, (i, j) in enumerate(line)
    ]
    return [*found[:-1], replace(found[-1], end=True)]


@dataclass(frozen=True, kw_only=True)
class Stream:
    """A descriptor; ``index_list``: the address of a list of rows."""

    kind: int
    address: int = 0
    pitch: int = 0
    index_list: int = 0
    watch: int = 0

    def fields(self) -> dict[str, int]:
        kept = ("kind", "address", "pitch", "watch")
        return {"used": 1} | {name: getattr(self, name) for name in kept}

    def watched(self, watch: int) -> "Stream":
        return replace(self, watch=watch)


@dataclass
class Memory:
    """Bytes. ``touched``: those whose addresses were looked at."""

    data: bytearray
    side: int
    cols: int

    def __post_init__(self):
        self.touched: set[int] = set()

    def word(self, at: int, size: int) -> int:
        self.touched |= set(range(at, at + size))
        return int.from_bytes(self.data[at : at + size], "little")

    def number(self, stream: Stream, row: int, col: int) -> int:
        """Element (row, col) of an input, as bits of a binary32."""
        kind, at, side = stream.kind, stream.address, self.side
        if kind == Kind.DRAWS:
            index = row * self.cols + col
            return bits_of(draw(tag=stream.pitch, index=index, bits=16, **DRAWN) / 2**16)
        if kind == Kind.COLUMN:
            return self.word(at + 4 * col, 4)
        if kind == Kind.ROW:
            return self.word(at + 4 * row, 4)
        if kind == Kind.LABELS:
            label = self.word(at + 4 * row, 4)
            return bits_of(label) if label <= 2**24 else MINUS_ONE
        if kind == Kind.MASK:
            bit = col // side * side**2 + row % side * side + col % side
            byte = self.word(at + row // side * stream.pitch + bit // 8, 1)
            return bits_of(1.0) if byte >> bit % 8 & 1 else 0
        if kind in (Kind.GATHERED_F32, Kind.GATHERED_U8):
            row = self.word(stream.index_list + 4 * row, 4)
        at += row * stream.pitch
        if kind in (Kind.F32, Kind.GATHERED_F32):
            return self.word(at + 4 * col, 4)
        if kind == Kind.BF16:
            return self.word(at + 2 * col, 2) << 16
        assert kind in (Kind.U8, Kind.GATHERED_U8)
        return bits_of(self.word(at + col, 1))

    def block(self, stream: Stream, block: Block) -> list[list[int]]:
        """B rows of B numbers, +0 outside the tensor."""
        side = self.side
        return [
            [
                self.number(stream, block.i * side + row, block.j * side + col)
                if row < block.rows and col < block.cols
                else 0
                for col in range(side)
            ]
            for row in range(side)
        ]


ROW_BITS = {
    Kind.F32: 32,
    Kind.GATHERED_F32: 32,
    Kind.BF16: 16,
    Kind.U8: 8,
    Kind.GATHERED_U8: 8,
}


class Layout:
    """Gives streams places in memory, one behind the other, with room between."""

    def __init__(self, rows: int, cols: int, side: int, beat: int, rng):
        self.rows, self.cols, self.side, self.beat, self.rng = rows, cols, side, beat, rng
        self.end = beat * rng.randrange(1, 4)

    def _whole(self, size: int) -> int:
        return -(-size // self.beat) * self.beat

    def _take(self, size: int) -> int:
        at, self.end = self.end, self._whole(self.end + size) + self.beat
        return at

    def stream(self, kind: int, *, table_rows: int = 0) -> Stream:
        """``table_rows``: of what rows are gathered from."""
        wide, high = -(-self.cols // self.side), -(-self.rows // self.side)
        if kind in ROW_BITS:
            pitch = self._whole(self.cols * ROW_BITS[Kind(kind)] // 8)
            pitch += self.beat * self.rng.randrange(3)
            index_list = self._take(4 * self.rows) if table_rows else 0
            at = self._take(pitch * (table_rows or self.rows))
            return Stream(kind=kind, address=at, pitch=pitch, index_list=index_list)
        if kind == Kind.MASK:
            pitch = self._whole(-(-wide * self.side**2 // 8)) + self.beat * self.rng.randrange(3)
            return Stream(kind=kind, address=self._take(pitch * high), pitch=pitch)
        if kind == Kind.DRAWS:
            return Stream(kind=kind, pitch=self.rng.getrandbits(32))
        size = {Kind.COLUMN: self.cols, Kind.ROW: self.rows, Kind.LABELS: self.rows}.get(Kind(kind))
        return Stream(kind=kind, address=self._take(4 * size) if size else 0)
