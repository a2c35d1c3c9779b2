"""Order in which an instruction processes the rows of a block."""

from enum import IntEnum

from amaranth.hdl import Cat, Module, Mux, Signal

from diastole_hw.vector.core.entry import is_register
from diastole_hw.vector.core.timing import WRITTEN_AT
from diastole_hw.vector.stream_layouts import PIPELINE, VectorShape


class RowOrder(IntEnum):
    """Order in which an instruction processes rows.

    A row is written 7 cycles after the row's operands are read. In a block of 8 rows or more an
    instruction could therefore write a row before the instruction reads the old row as an operand
    of another row. Every order keeps the read of a row at most 6 cycles behind the read of the row
    that replaces the old row.

    - ``ASCENDING``: row 0 first. The usual order.
    - ``DESCENDING``: the last row first, for an instruction that writes the panel 7 to B - 1
      vectors beyond the vectors that the instruction reads.
    - ``PAIRED``: row r, then row r XOR d, for an instruction that permutes the rows of a register
      by a distance d of 8 or more and writes the same register. The rules of programs exclude an
      instruction that needs both ``PAIRED`` and ``DESCENDING``.
    """

    ASCENDING = 0
    DESCENDING = 1
    PAIRED = 2


NEAR_BITS = 3
"""Row distances below 2^``NEAR_BITS`` are safe in ascending order: a permuted row is read before
the row is overwritten."""
assert WRITTEN_AT < 1 << NEAR_BITS <= PIPELINE


def row_order_of(m: Module, shape: VectorShape, entry):
    """Return the :class:`RowOrder` that ``entry`` needs.

    ``entry``: a view with the bits of :func:`diastole_hw.vector.core.entry.entry_layout`.
    """
    if shape.block < PIPELINE:
        return RowOrder.ASCENDING
    beyond = Signal(shape.panel_bits, name="panel_beyond")
    m.d.comb += beyond.eq(entry.panel_write - entry.panel_read)
    overlaps = entry.from_panel & entry.to_panel & (beyond >= WRITTEN_AT) & (beyond < shape.block)
    far = entry.turn_rows >= 1 << NEAR_BITS
    own = entry.writes & is_register(entry.c) & (entry.c.source[:4] == entry.d)
    return Cat(overlaps, far & own)


def row_at(shape: VectorShape, entry, position):
    """Return the row that ``entry`` processes at ``position``, 0 to B - 1."""
    bits = shape.row_bits
    row = position[:bits]
    if shape.block >= PIPELINE:
        row = row ^ (entry.order == RowOrder.DESCENDING).replicate(bits)
    for bit in range(NEAR_BITS, bits):
        paired = (entry.order == RowOrder.PAIRED) & entry.turn_rows[bit]
        exchanged = Cat(position[bit], position[1:bit], position[0], position[bit + 1 : bits])
        row = Mux(paired, exchanged, row)
    return row
