"""The order in which the converter visits a tensor: groups of eight blocks, and their reads."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole.bus.service import request_layout
from diastole.plan import ADDRESS_BITS
from diastole.random.draws import INDEX_BITS
from diastole_sim.program.image import GROUP_BLOCKS


def group_layout(block: int) -> data.StructLayout:
    """One group of eight blocks side by side, clipped to the tensor.

    ``address``: of its first float, bytes. ``index``: of its first element in the tensor.
    ``rows``, ``cols``: how many lie in the tensor. ``first_row``: it lies in the first row of
    blocks. ``last_group``, ``last``: it is the last of its row of blocks, of the tensor.
    """
    return data.StructLayout(
        {
            "address": unsigned(ADDRESS_BITS),
            "index": unsigned(INDEX_BITS),
            "rows": range(block + 1),
            "cols": range(GROUP_BLOCKS * block + 1),
            "first_row": 1,
            "last_group": 1,
            "last": 1,
        }
    )


class GroupWalk(wiring.Component):
    """Visit the groups of a tensor, row of blocks by row of blocks.

    Timing: the first group is valid in the cycle after ``start``; one group per cycle. ``o`` is
    combinational from registers only.

    Parameters
    ----------
    block : int
        Block side (a power of two, 1 to 32).

    Members
    -------
    start : In(1)
        Begin a tensor; only while no group is left of the one before, not checked.
    rows, cols : In(32)
        At least 1; not checked. Must hold until the last group is taken, as must the next two.
    source : In(40)
        Address of the float tensor, aligned to beats.
    pitch : In(35)
        Bytes from one row of floats to the next.
    o : Out(stream of :func:`group_layout`)
    """

    def __init__(self, *, block: int):
        self.block = block
        super().__init__(
            {
                "start": In(1),
                "rows": In(32),
                "cols": In(32),
                "source": In(ADDRESS_BITS),
                "pitch": In(35),
                "o": Out(stream.Signature(group_layout(block))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        group_cols = GROUP_BLOCKS * self.block
        shift = exact_log2(self.block)
        rows_left = Signal(32)
        cols_left = Signal(32)
        row_address = Signal(ADDRESS_BITS)
        row_index = Signal(INDEX_BITS)
        address = Signal(ADDRESS_BITS)
        index = Signal(INDEX_BITS)
        first_row = Signal()
        group = self.o.p
        last_row = rows_left <= self.block
        m.d.comb += [
            group.address.eq(address),
            group.index.eq(index),
            group.rows.eq(Mux(last_row, rows_left, self.block)),
            group.cols.eq(Mux(group.last_group, cols_left, group_cols)),
            group.first_row.eq(first_row),
            group.last_group.eq(cols_left <= group_cols),
            group.last.eq(group.last_group & last_row),
        ]
        next_address = (row_address + (self.pitch << shift))[:ADDRESS_BITS]
        next_index = (row_index + (self.cols << shift))[:INDEX_BITS]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [
                cols_left.eq(cols_left - group_cols),
                address.eq(address + 4 * group_cols),
                index.eq(index + group_cols),
            ]
            with m.If(group.last_group):
                m.d.sync += [rows_left.eq(rows_left - self.block), cols_left.eq(self.cols)]
                m.d.sync += [row_address.eq(next_address), address.eq(next_address)]
                m.d.sync += [row_index.eq(next_index), index.eq(next_index)]
                m.d.sync += first_row.eq(0)
            with m.If(group.last):
                m.d.sync += self.o.valid.eq(0)
        with m.If(self.start):
            m.d.sync += [rows_left.eq(self.rows), cols_left.eq(self.cols)]
            m.d.sync += [row_address.eq(self.source), address.eq(self.source)]
            m.d.sync += [row_index.eq(0), index.eq(0)]
            m.d.sync += [first_row.eq(1), self.o.valid.eq(1)]
        return m


class ReadRequests(wiring.Component):
    """Ask the reader for the row segments of a group, those rows only that lie in the tensor.

    A segment is read in whole beats; where it is shorter than a beat, the beat that it lies in.

    Timing: one request per cycle, combinational from the group at the input.

    Parameters
    ----------
    block : int
        Block side (a power of two, 1 to 32).
    data_width : int
        Bits of a beat (a power of two, 32 to 512).

    Members
    -------
    i : In(stream of :func:`group_layout`)
    pitch : In(35)
        Bytes from one row of floats to the next, a multiple of the beat; not checked.
    o : Out(stream of {"addr": unsigned(40), "beats": unsigned(16)})
    """

    def __init__(self, *, block: int, data_width: int):
        self.block, self.data_width = block, data_width
        super().__init__(
            {
                "i": In(stream.Signature(group_layout(block))),
                "pitch": In(35),
                "o": Out(stream.Signature(request_layout())),
            }
        )

    def elaborate(self, platform):
        m = Module()
        beat_shift = exact_log2(self.data_width // 8)
        floats = self.data_width // 32
        row = Signal(range(self.block + 1))
        offset = Signal(ADDRESS_BITS)
        address = Signal(ADDRESS_BITS)
        m.d.comb += address.eq(self.i.p.address + offset)
        m.d.comb += self.o.p.addr[beat_shift:].eq(address[beat_shift:])
        m.d.comb += self.o.p.beats.eq((self.i.p.cols + (floats - 1)) >> exact_log2(floats))
        m.d.comb += self.o.valid.eq(self.i.valid)
        last = row + 1 == self.i.p.rows
        m.d.comb += self.i.ready.eq(self.o.ready & last)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [row.eq(row + 1), offset.eq(offset + self.pitch)]
            with m.If(last):
                m.d.sync += [row.eq(0), offset.eq(0)]
        return m
