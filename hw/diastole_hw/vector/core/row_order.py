"""The order in which an instruction works on the rows of its block."""

from enum import IntEnum

from amaranth.hdl import Cat, Module, Mux, Signal

from diastole_hw.vector.core.entry import is_register
from diastole_hw.vector.core.timing import WRITTEN_AT
from diastole_hw.vector.stream_layouts import PIPELINE, VectorShape


class RowOrder(IntEnum):
    """Orders of rows.

    A row is written 7 cycles after its operands are read. In a block of 8 rows or more an
    instruction could so write a row before it reads the same row as an operand of another row. Each
    order keeps the read of a row at most 6 cycles behind the read of the row that replaces it.

    - ``ASCENDING``: row 0 first. The usual order.
    - ``DESCENDING``: the last row first, for an instruction that writes the panel 7 to B - 1
      vectors beyond the vectors that it reads.
    - ``PAIRED``: row r, then row r XOR d, for an instruction that turns the rows of a register by a
      distance d of 8 or more and writes the same register. No rule of a program lets one
      instruction need both this order and ``DESCENDING``.
    """

    ASCENDING = 0
    DESCENDING = 1
    PAIRED = 2


NEAR_BITS = 3
"""A turn by less than 2 to the power of this reads a row before that row is written."""
assert WRITTEN_AT < 1 << NEAR_BITS <= PIPELINE


def row_order_of(m: Module, shape: VectorShape, entry):
    """Return the :class:`RowOrder` that ``entry`` needs.

    ``entry``: as :func:`diastole_hw.vector.core.entry.entry_layout` has its bits.
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
    """Return the row that ``entry`` works on as number ``position``, 0 to B - 1."""
    bits = shape.row_bits
    row = position[:bits]
    if shape.block >= PIPELINE:
        row = row ^ (entry.order == RowOrder.DESCENDING).replicate(bits)
    for bit in range(NEAR_BITS, bits):
        paired = (entry.order == RowOrder.PAIRED) & entry.turn_rows[bit]
        exchanged = Cat(position[bit], position[1:bit], position[0], position[bit + 1 : bits])
        row = Mux(paired, exchanged, row)
    return row
