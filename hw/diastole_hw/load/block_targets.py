"""Compute the destination of every block from memory, and look up the maxima for the block's
deficits."""

from typing import NamedTuple

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.conditions import any_of
from diastole_hw.data_registers import data_register
from diastole_hw.load.parse import blocks_per_run
from diastole_hw.memory.maxima import load_signature, maxima_names
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.tokens import Region, any_grouped, block_group_layout, block_layout
from diastole_sim.spec.image import GROUP_BLOCKS
from diastole_sim.spec.integers import pow2ceil


class Position(NamedTuple):
    """Place of the blocks with a given number along one dimension of a region. The members are
    registers."""

    bank: Signal
    slice: Signal  # block of the bank at which the slice begins


def advance(m, at: Position, banks, stride, step: int = 1, first: int = 0):
    """Advance ``at`` by ``step`` numbers in the next cycle, by counting and not by dividing.
    ``first`` is the lowest bank that occurs. ``banks`` is a multiple of ``step``."""
    with m.If(at.bank == banks - (step - first)):
        m.d.sync += [at.bank.eq(first), at.slice.eq(at.slice + stride)]
    with m.Else():
        m.d.sync += at.bank.eq(at.bank + step)


def restart(m, at: Position, base, first: int = 0):
    """Set ``at`` to number ``first`` in the next cycle. ``first`` is less than the number of
    banks."""
    m.d.sync += [at.bank.eq(first), at.slice.eq(base)]


class BlockTargets(wiring.Component):
    """Describe the blocks of each group one by one: destination, maxima and scales.

    A region's block in row ``row`` and column ``col`` has number p across the banks and q within
    the banks: (col, row) with ``by_column``, else (row, col). The block goes to bank p mod S, to
    block ``base`` + (p div S) * ``stride`` + q of the bank. S is the number of banks: the array's
    rows to the west, else the array's columns.

    A maximum is the maximum of the block's row or column, or of the row of elements if rows of
    elements have groups of their own. Maxima of directions that the current product does not have
    are undefined.

    If there are several ports, a port has the rows with its number, modulo the number of ports. The
    numbers of banks are multiples of the number of ports. Blocks beyond the last column or row are
    to be dropped.

    Not checked: the groups of a region come row by row and without gaps.

    Timing: block k of a group (from 0 on) is looked up k + 1 cycles after the group is accepted,
    and output in the cycle after the look-up. The next group is accepted in the cycle of the last
    block's look-up, for a block per cycle. A block that is not accepted stays, and the look-up of
    the following block stays with it. ``lookup.enable`` and ``groups.ready`` are combinational from
    ``blocks.ready``. All further outputs are functions of registers, except where values of
    ``lookup`` enter.

    Parameters
    ----------
    plan : Plan
    port : int
        Number of the port.

    Members
    -------
    groups : In(stream of block_group_layout(plan))
    blocks : Out(stream of block_layout(plan))
    lookup : Out(load_signature(plan))
        Values are read in the cycle after ``lookup.enable`` and as long as ``blocks`` waits.
    """

    groups: stream.Interface
    blocks: stream.Interface
    lookup: wiring.PureInterface

    def __init__(self, plan: Plan, port: int = 0):
        self.plan, self.port = plan, port
        super().__init__(
            {
                "groups": In(stream.Signature(block_group_layout(plan))),
                "blocks": Out(stream.Signature(block_layout(plan))),
                "lookup": Out(load_signature(plan)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        group = data_register(block_group_layout(self.plan))
        left = Signal(range(GROUP_BLOCKS + 1))  # blocks of the group still to be looked up
        block_valid = Signal()  # the block of the last look-up is output
        row_at = self._position("row")
        col_at = self._position("col")
        looks_up = self.lookup.enable
        m.d.comb += [
            looks_up.eq((left != 0) & (~block_valid | self.blocks.ready)),
            self.groups.ready.eq((left == 0) | ((left == 1) & looks_up)),
            self.blocks.valid.eq(block_valid),
        ]
        with m.If(self.blocks.ready):
            m.d.sync += block_valid.eq(0)
        with m.If(looks_up):
            m.d.sync += [block_valid.eq(1), left.eq(left - 1), group.col.eq(group.col + 1)]
            self._next_exponents(m, group)
            advance(m, col_at, self._banks(group.region), group.region.stride)
        with m.If(self.groups.valid & self.groups.ready):
            new = self.groups.p
            m.d.sync += [group.eq(self.groups.payload), left.eq(new.blocks)]
            with m.If(new.col == 0):
                restart(m, col_at, new.region.base)
                stride, ports = group.region.stride, self.plan.ports
                advance(m, row_at, self._banks(group.region), stride, ports, self.port)
                with m.If(new.row == self.port):
                    restart(m, row_at, new.region.base, self.port)
        self._lookups(m, group)
        self._block(m, group, left, row_at, col_at)
        return m

    def _next_exponents(self, m, group):
        """Shift to the exponents of the following block. In vector groups the exponents of the rows
        stay until the groups end."""
        plan = self.plan
        if any_grouped(plan):
            m.d.sync += group.place.eq(group.place + 1)
        for cls in range(3):
            with m.If(group.region.cls == cls):
                step = 8 * plan.block if plan.grouped(cls) else 8
                # The last exponents stay.
                behind = Cat(group.exponents[step:], group.exponents[-step:])
                if not plan.grouped(cls):
                    m.d.sync += group.exponents.eq(behind)
                    continue
                last = blocks_per_run(plan, cls) - 1
                with m.If((group.place & last) == last):
                    m.d.sync += group.exponents.eq(behind)

    def _position(self, name) -> Position:
        """Return registers for the position of the next block along one dimension of the region."""
        plan = self.plan
        base = self.groups.p.region.base
        return Position(
            Signal(range(max(plan.rows, plan.cols, 2)), name=f"{name}_bank"),
            Signal.like(base, name=f"{name}_slice"),
        )

    def _banks(self, region):
        """Return the number of banks on the region's side."""
        plan = self.plan
        if not plan.north:
            return plan.cols
        return Mux(region.kind == Region.WEST, plan.rows, plan.cols)

    def _by_row(self, region):
        """Return whether the region's class has an exponent per row of a block."""
        return any_of(region.cls == cls for cls in filter(self.plan.grouped, range(3)))

    def _lookups(self, m, group):
        """Drive the indices of the block's maxima: p counts across the banks, q within the
        banks."""
        plan, region = self.plan, group.region
        p = self._entry(m, "p", region, Mux(region.by_column, group.col, group.row))
        q = self._entry(m, "q", region, Mux(region.by_column, group.row, group.col))
        stream_slot = region.tile * pow2ceil(plan.stream_maxima_words)
        stationary_slot = Mux(region.fused, 0, region.tile * pow2ceil(plan.stationary_maxima_words))
        stationary_first = Mux(region.fused, 0, region.stationary_offset)
        entries = {
            "south": (stream_slot, region.stream_offset + q),
            "west": (stream_slot, region.stream_offset + q),
            "east": (stationary_slot, stationary_first + q),
            "north": (stationary_slot, region.stationary_offset + p),
        }
        shift = exact_log2(plan.beat_bytes)
        for name in maxima_names(plan):
            slot, entry = entries[name]
            lookup = getattr(self.lookup, name)
            index = lookup.index
            m.d.comb += [index.word.eq(slot + (entry >> shift)), index.byte.eq(entry)]
            if len(lookup.value) > 1:
                m.d.comb += index.by_row.eq(self._by_row(region))

    def _entry(self, m, name, region, blocks):
        """Return the number of maxima of ``blocks`` blocks."""
        if not any_grouped(self.plan):
            return blocks
        entry = Signal(len(blocks) + self.plan.log_block, name=f"{name}_entry")
        scaled = blocks << self.plan.log_block
        m.d.comb += entry.eq(Mux(self._by_row(region), scaled, blocks))
        return entry

    def _block(self, m, group, left, row_at, col_at):
        """Drive the description of the block in look-up, from the next cycle on."""
        plan, region, block = self.plan, group.region, self.blocks.p
        by_column = region.by_column
        q = Mux(by_column, group.row, group.col)
        bank = Mux(by_column, col_at.bank, row_at.bank)
        slice_ = Mux(by_column, col_at.slice, row_at.slice)
        drop = group.col >= region.cols
        last_col = drop | (group.col + 1 == region.cols)
        last_row = group.row + 1 == region.rows
        if plan.ports > 1:
            last_row = group.row + plan.ports >= region.rows
            drop |= group.row >= region.rows
        fields = {
            "kind": region.kind,
            "cls": region.cls,
            "bank": bank,
            "word": (slice_ + q) << (plan.log_block - exact_log2(plan.fill_vectors)),
            "transposed": region.transposed,
            "drop": drop,
            "ends": left == 1,
            "last": region.last & last_row & (left == 1) & last_col,
        }
        if plan.planar:
            fields["plane"] = region.plane
        for name, value in fields.items():
            register = data_register(block[name].shape(), name=f"block_{name}")
            m.d.comb += block[name].eq(register)
            with m.If(self.lookup.enable):
                m.d.sync += register.eq(value)
        self._rows(m, group)

    def _rows(self, m, group):
        """Drive the scales of the block, or of the block's rows, and the maxima that bound the
        scales."""
        plan, block = self.plan, self.blocks.p
        for row in range(max(plan.stream_entries, plan.stationary_entries)):
            scale = data_register(8, name=f"scale_{row}")
            own = group.exponents.word_select(row, 8)
            if row:
                own = Mux(self._by_row(group.region), own, group.exponents[:8])
            with m.If(self.lookup.enable):
                m.d.sync += scale.eq(own)
            m.d.comb += block.scale[row].eq(scale)
            if row < plan.stream_entries:
                m.d.comb += block.maximum[row].eq(self._maximum(block.kind, row))
            if plan.north and row < plan.stationary_entries:
                m.d.comb += block.maximum_north[row].eq(self.lookup.north.value[row])

    def _maximum(self, kind, row):
        """Return the maximum of a streaming vector, or of a stationary block to the east."""

        def of(lookup):
            return lookup.value[row % len(lookup.value)]

        if not self.plan.east:
            return of(self.lookup.west)
        streamed = of(self.lookup.south)
        if self.plan.north:
            streamed = Mux(kind == Region.WEST, of(self.lookup.west), streamed)
        return Mux(kind == Region.STATIONARY, of(self.lookup.east), streamed)
