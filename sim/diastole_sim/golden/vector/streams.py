"""Read and write the streams of a chain: convert between bytes of memory and values.

A stream is read as a whole before the chain begins, and written as a whole when the chain is done.
Within a chain no stream depends on a stream that the chain writes to memory.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from diastole_sim.golden.random import tensor_draws
from diastole_sim.golden.vector import numbers
from diastole_sim.golden.vector.order import Order
from diastole_sim.spec.rounding import DRAW_BITS
from diastole_sim.spec.stream_table import ELEMENT_BITS, GATHERED, Descriptor, Kind

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

MAX_LABEL = 2**24
"""Largest number of a label."""


class ByteMemory(Protocol):
    """Memory of bytes."""

    def rows(self, address: int, count: int, pitch: int, length: int) -> Bytes: ...
    def write_rows(self, address: int, pitch: int, data: Bytes) -> None: ...


def read_stream(
    stream: Descriptor,
    memory: ByteMemory,
    order: Order,
    step: int,
    index_list: Descriptor | None = None,
) -> Floats:
    """Return the values of a stream in memory, which broadcast to the tensor. ``index_list``: for
    gathered rows, the descriptor of the list of row numbers."""
    kind, address = Kind(stream.kind), stream.at_step(step)
    if kind == Kind.MASK:
        return _read_mask(stream, memory, order, step)
    if kind in GATHERED:
        assert index_list is not None
        return _gather(stream, memory, order, step, index_list)
    if kind == Kind.LABELS:
        (data,) = memory.rows(address, 1, 0, 4 * order.rows)
        return labels(data.view("<i4"))[:, None]
    if kind in (Kind.ROW, Kind.COLUMN):
        length = order.rows if kind == Kind.ROW else order.cols
        (data,) = memory.rows(address, 1, 0, 4 * length)
        return data.view("<f4").reshape((-1, 1) if kind == Kind.ROW else (1, -1))
    bytes_ = row_bytes(kind, order.cols)
    return numbers_of_rows(kind, memory.rows(address, order.rows, stream.pitch, bytes_))


def drawn_numbers(order: Order, *, seed: int, tag: int, step: int) -> Floats:
    """Return a random number for every element of a tensor: the draw of 16 bits of a conversion
    of the tensor, times 2^-16."""
    shape = order.rows, order.cols
    drawn = tensor_draws(shape, seed=seed, tag=tag, step=step, bits=DRAW_BITS)
    return np.ldexp(drawn.astype(np.float32), -DRAW_BITS)


def write_stream(
    stream: Descriptor, memory: ByteMemory, order: Order, step: int, values: Floats
) -> None:
    """Write the values of a chain's output to the place that its stream in memory names."""
    kind, address = Kind(stream.kind), stream.at_step(step)
    if kind == Kind.MASK:
        memory.write_rows(address, stream.pitch, pack_mask(values, order.block))
        return
    rows = rows_of_numbers(kind, np.atleast_2d(values))
    memory.write_rows(address, stream.pitch, rows)


def row_bytes(kind: int, cols: int) -> int:
    """Return the bytes of a row of ``cols`` elements, for kinds with whole bytes."""
    return cols * ELEMENT_BITS[Kind(kind)] // 8


def mask_bytes(cols: int, block: int) -> int:
    """Return the bytes of a row of blocks of a mask."""
    return -(-(-(-cols // block) * block**2) // 8)


def numbers_of_rows(kind: int, rows: Bytes) -> Floats:
    """Return the numbers in rows of bytes."""
    if kind in (Kind.U8, Kind.GATHERED_U8):
        return rows.astype(np.float32)
    if kind == Kind.BF16:
        return numbers.from_bf16(np.ascontiguousarray(rows).view("<u2"))
    return np.ascontiguousarray(rows).view("<f4")


def rows_of_numbers(kind: int, values: Floats) -> Bytes:
    """Invert :func:`numbers_of_rows`, for numbers that the kind can hold."""
    encoders: dict[int, Callable[[Floats], NDArray[Any]]] = {
        Kind.U8: numbers.to_u8,
        Kind.BF16: numbers.to_bf16,
    }
    encoder = encoders.get(kind)
    stored = values if encoder is None else encoder(values)
    return np.ascontiguousarray(stored).view(np.uint8)


def labels(integers: NDArray[np.int32]) -> Floats:
    """Return integers as floats; -1 for integers outside 0 .. 2^24."""
    allowed = (integers >= 0) & (integers <= MAX_LABEL)
    return np.where(allowed, integers, -1).astype(np.float32)


def pack_mask(values: Floats, block: int) -> Bytes:
    """Return a row of bytes for every row of blocks. For block j, row slot r and lane l the bit j
    B^2 + r B + l is 1 if the value is not a zero. Bits outside the tensor, up to the end of the
    last block and to a whole byte, are zeros."""
    rows, cols = values.shape
    high, wide = -(-rows // block), -(-cols // block)
    bits = np.zeros((high * block, wide * block), np.bool_)
    bits[:rows, :cols] = ~numbers.is_zero(values)
    blocks = bits.reshape(high, block, wide, block).swapaxes(1, 2)
    return np.packbits(blocks.reshape(high, -1), axis=1, bitorder="little")


def unpack_mask(data: Bytes, rows: int, cols: int, block: int) -> Floats:
    """Invert :func:`pack_mask`: return 1.0 or +0."""
    high, wide = -(-rows // block), -(-cols // block)
    bits = np.unpackbits(data, axis=1, count=wide * block**2, bitorder="little")
    blocks = bits.reshape(high, wide, block, block).swapaxes(1, 2)
    return blocks.reshape(high * block, -1)[:rows, :cols].astype(np.float32)


def _read_mask(stream: Descriptor, memory: ByteMemory, order: Order, step: int) -> Floats:
    high = -(-order.rows // order.block)
    length = mask_bytes(order.cols, order.block)
    data = memory.rows(stream.at_step(step), high, stream.pitch, length)
    return unpack_mask(data, order.rows, order.cols, order.block)


def _gather(
    stream: Descriptor, memory: ByteMemory, order: Order, step: int, index_list: Descriptor
) -> Floats:
    (listed,) = memory.rows(index_list.at_step(step), 1, 0, 4 * order.rows)
    row_numbers = listed.view("<i4").astype(np.int64)
    length, first = row_bytes(stream.kind, order.cols), int(row_numbers.min())
    count = int(row_numbers.max()) - first + 1
    address = stream.at_step(step) + first * stream.pitch
    rows = memory.rows(address, count, stream.pitch, length)
    return numbers_of_rows(stream.kind, rows[row_numbers - first])
