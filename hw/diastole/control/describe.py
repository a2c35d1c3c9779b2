"""Where a block that comes from memory goes, and by how much its sums will be shifted."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Const, Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole.array.signature import SIGNIFICAND_BITS
from diastole.control.descriptors import Region
from diastole.control.parse import any_grouped, blocks_per_run, group_layout
from diastole.memory.maxima import (
    lookup_layout,
    maxima_entries,
    maxima_names,
    scale_exponent,
    values_layout,
)
from diastole.plan import GROUP, Plan, pow2ceil
from diastole_sim.formats import NAN_EXPONENT, SIGNIFICAND_FRACTION

NAN_SCALE = 0x7F
"""NaN as a group's E4M3 scale."""


def any_of(conditions):
    return reduce(or_, conditions, Const(0, 1))


def scale_significand(code):
    """Of a group's E4M3 scale."""
    normal = code[SIGNIFICAND_FRACTION:] != 0
    return Cat(code[:SIGNIFICAND_FRACTION], normal)


def lookup_members(plan: Plan) -> dict:
    """``NAME_index`` and ``NAME_value`` of every memory of maxima that the loader reads."""
    members = {}
    for name in maxima_names(plan):
        entries = maxima_entries(plan, name, "load")
        members[f"{name}_index"] = Out(lookup_layout(plan, entries))
        members[f"{name}_value"] = In(values_layout(entries))
    return members


def block_layout(plan: Plan) -> data.StructLayout:
    """A block whose vectors are about to come; ``addr`` is that of its first one in the bank.

    What may differ from vector to vector has as many entries as the rows of a block that may.
    """
    deficit = unsigned(plan.deficit_bits)
    entries = max(plan.stream_entries, plan.held_entries)
    members = {
        "kind": Region,
        "cls": unsigned(2),
        "bank": range(max(plan.rows, plan.cols)),
        "addr": range(max(plan.held_words, 2 * plan.half_words)),
        # Of the vectors; of a held block to the east, which has one.
        "deficit": data.ArrayLayout(deficit, plan.stream_entries),
        "deficit_north": data.ArrayLayout(deficit, plan.held_entries),
        "nonzero": data.ArrayLayout(unsigned(1), entries),
        "significand": data.ArrayLayout(unsigned(SIGNIFICAND_BITS), entries),
        "poison": data.ArrayLayout(unsigned(1), entries),  # the group's scale is no number
        "turned": 1,
        "drop": 1,  # it only fills a granule
        "last": 1,  # of its chunk
    }
    absent = {
        "cls": not plan.element().depth,
        "deficit_north": not plan.north,
        "significand": not plan.significands,
        "poison": not plan.poison,
    }
    return data.StructLayout({k: v for k, v in members.items() if not absent.get(k)})


class SliceCounter:
    """``mod`` and ``div`` of a block number by the array's side, kept by counting."""

    def __init__(self, name: str, most: int, side, width: int):
        self.mod = Signal(range(max(most, 2)), name=f"{name}_mod")
        self.div = Signal(width, name=f"{name}_div")
        self._side = side

    def step(self, m: Module):
        with m.If(self.mod == self._side - 1):
            m.d.sync += [self.mod.eq(0), self.div.eq(self.div + 1)]
        with m.Else():
            m.d.sync += self.mod.eq(self.mod + 1)

    def clear(self, m: Module):
        m.d.sync += [self.mod.eq(0), self.div.eq(0)]


class BlockDescribe(wiring.Component):
    """Describe the blocks of each group, one after the other.

    A deficit is the maximum of the block's row or column (of the row of elements, where those have
    groups of their own) less its exponent, at most SW + F. A group of zeros, or one whose scale is
    NaN, has deficit 0 and ``nonzero`` 0. The maxima come from the memories of
    :class:`diastole.memory.maxima.Maxima` (``NAME_index`` with ``lookup_en``, ``NAME_value``).

    Timing: two cycles per block.
    """

    groups: stream.Interface
    blocks: stream.Interface

    def __init__(self, plan: Plan):
        self.plan = plan
        self.names = maxima_names(plan)
        members = {
            "groups": In(stream.Signature(group_layout(plan))),
            "blocks": Out(stream.Signature(block_layout(plan))),
            "lookup_en": Out(1),
        }
        super().__init__(members | lookup_members(plan))

    def elaborate(self, platform):
        m = Module()
        group = Signal(group_layout(self.plan))
        left = Signal(range(GROUP + 1))  # blocks of the group still to be described
        looked_up = Signal()
        row_at = self._counter("row", group.region)
        col_at = self._counter("col", group.region)
        m.d.comb += [
            self.groups.ready.eq(left == 0),
            self.lookup_en.eq((left != 0) & ~looked_up),
            self.blocks.valid.eq(looked_up),
        ]
        with m.If(self.groups.valid & self.groups.ready):
            new = self.groups.p
            m.d.sync += [group.eq(self.groups.payload), left.eq(new.blocks)]
            with m.If(new.col == 0):
                col_at.clear(m)
                row_at.step(m)
                with m.If(new.row == 0):
                    row_at.clear(m)
        with m.If(self.lookup_en):
            m.d.sync += looked_up.eq(1)
        with m.If(looked_up & self.blocks.ready):
            m.d.sync += [looked_up.eq(0), left.eq(left - 1), group.col.eq(group.col + 1)]
            self._next_exponents(m, group)
            col_at.step(m)
        self._lookups(m, group)
        self._block(m, group, left, row_at, col_at)
        return m

    def _next_exponents(self, m, group):
        """Those of the following block: of the same rows, until its groups end."""
        plan = self.plan
        if any_grouped(plan):
            m.d.sync += group.place.eq(group.place + 1)
        for cls in range(3):
            with m.If(group.region.cls == cls):
                if not plan.grouped(cls):
                    m.d.sync += group.exponents.eq(group.exponents >> 8)
                    continue
                last = blocks_per_run(plan, cls) - 1
                with m.If((group.place & last) == last):
                    m.d.sync += group.exponents.eq(group.exponents >> (8 * plan.block))

    def _counter(self, name, region) -> SliceCounter:
        """The bank and the slice of the next block, along one dimension of the region."""
        plan = self.plan
        side = plan.cols
        if plan.north:
            side = Mux(region.kind == Region.WEST, plan.rows, plan.cols)
        return SliceCounter(name, max(plan.rows, plan.cols), side, len(region.rows))

    def _by_row(self, region):
        """Whether the region's class has an exponent per row of a block."""
        return any_of(region.cls == cls for cls in filter(self.plan.grouped, range(3)))

    def _lookups(self, m, group):
        """Entries of the memories of maxima that belong to this block: p across banks, q within."""
        plan, region = self.plan, group.region
        p = self._entry(m, "p", region, Mux(region.by_column, group.col, group.row))
        q = self._entry(m, "q", region, Mux(region.by_column, group.row, group.col))
        stream_slot = region.tile * pow2ceil(plan.stream_maxima_words)
        held_slot = Mux(region.fused, 0, region.tile * pow2ceil(plan.held_maxima_words))
        held_first = Mux(region.fused, 0, region.held_offset)
        entries = {
            "south": (stream_slot, region.stream_offset + q),
            "west": (stream_slot, region.stream_offset + q),
            "east": (held_slot, held_first + q),
            "north": (held_slot, Mux(region.fused, region.c0, region.held_offset) + p),
        }
        shift = exact_log2(plan.beat_bytes)
        for name in self.names:
            slot, entry = entries[name]
            index = getattr(self, f"{name}_index")
            m.d.comb += [index.word.eq(slot + (entry >> shift)), index.byte.eq(entry)]
            if maxima_entries(plan, name, "load") > 1:
                m.d.comb += index.by_row.eq(self._by_row(region))

    def _entry(self, m, name, region, blocks):
        """Maxima of as many blocks."""
        if not any_grouped(self.plan):
            return blocks
        entry = Signal(len(blocks) + self.plan.log_block, name=f"{name}_entry")
        scaled = blocks << self.plan.log_block
        m.d.comb += entry.eq(Mux(self._by_row(region), scaled, blocks))
        return entry

    def _block(self, m, group, left, row_at, col_at):
        plan, region, block = self.plan, group.region, self.blocks.p
        by_column = region.by_column
        q = Mux(by_column, group.row, group.col)
        bank = Mux(by_column, col_at.mod, row_at.mod)
        slice_ = Mux(by_column, col_at.div, row_at.div)
        within = slice_ * self._stride(region) + (q << plan.log_block)
        last_col = group.col >= region.cols - 1
        last_row = group.row == region.rows - 1
        m.d.comb += [
            block.kind.eq(region.kind),
            block.bank.eq(bank),
            block.addr.eq(self._half(region) + within),
            block.turned.eq(region.turned),
            block.drop.eq(group.col >= region.cols),
            block.last.eq(region.last & last_row & (left == 1) & last_col),
        ]
        if plan.element().depth:
            m.d.comb += block.cls.eq(region.cls)
        self._rows(m, group)

    def _rows(self, m, group):
        """What the rows of the block, or the block, say of their elements."""
        plan, block = self.plan, self.blocks.p
        nan = NAN_SCALE if plan.significands else NAN_EXPONENT
        for row in range(max(plan.stream_entries, plan.held_entries)):
            stored = Signal(8, name=f"stored_{row}")
            nonzero = Signal(name=f"nonzero_{row}")
            own = group.exponents.word_select(row, 8)
            if row:
                own = Mux(self._by_row(group.region), own, group.exponents[:8])
            m.d.comb += [
                stored.eq(own),
                nonzero.eq((stored != 0) & (stored != nan)),
                block.nonzero[row].eq(nonzero),
            ]
            if row < plan.stream_entries:
                deficit = self._deficit(m, f"own_{row}", self._maximum(group.region, row), stored)
                m.d.comb += block.deficit[row].eq(Mux(nonzero, deficit, 0))
            if plan.north and row < plan.held_entries:
                deficit = self._deficit(m, f"north_{row}", self.north_value[row], stored)
                m.d.comb += block.deficit_north[row].eq(Mux(nonzero, deficit, 0))
            if plan.poison:
                m.d.comb += block.poison[row].eq(stored == nan)
            if plan.significands:
                m.d.comb += block.significand[row].eq(scale_significand(stored))

    def _maximum(self, region, row):
        """Of a streamed vector, or of a held block to the east."""
        values = {name: getattr(self, f"{name}_value") for name in self.names if name != "north"}
        values = {name: value[row % len(value)] for name, value in values.items()}
        if not self.plan.east:
            return values["west"]
        streamed = values["south"]
        if self.plan.north:
            streamed = Mux(region.kind == Region.WEST, values["west"], streamed)
        return Mux(region.kind == Region.HELD, values["east"], streamed)

    def _deficit(self, m, name, maximum, stored):
        plan = self.plan
        maximum, exponent = scale_exponent(plan, maximum), scale_exponent(plan, stored)
        most = plan.sum_bits + plan.fraction
        difference = Signal(signed(9), name=f"{name}_difference")
        deficit = Signal(plan.deficit_bits, name=f"{name}_deficit")
        m.d.comb += difference.eq(maximum - exponent)
        m.d.comb += deficit.eq(Mux(difference > most, most, difference))
        return deficit

    def _stride(self, region):
        """Words of a bank from one slice to the next."""
        plan = self.plan
        held, streamed = plan.held_stride, plan.tile_words
        if plan.fused:
            held = Mux(region.fused, plan.fused_held_stride, held)
            streamed = Mux(region.fused, plan.fused_tile_words, streamed)
        return Mux(region.kind == Region.HELD, held, streamed)

    def _half(self, region):
        """First word of the half of a bank that the chunk fills; dY's place in the fused pass."""
        plan = self.plan
        held, half = region.half * plan.held_half_words, region.half
        if plan.fused:
            held = Mux(region.fused, region.index * plan.fused_held_stride, held)
            half = Mux(region.kind == Region.WEST, region.west_half, region.half)
        return Mux(region.kind == Region.HELD, held, half * plan.half_words)
