"""Where a block that comes from memory goes, and by how much its sums will be shifted."""

from amaranth.hdl import Module, Mux, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole.control.descriptors import Region
from diastole.control.parse import group_layout
from diastole.memory.maxima import NAMES, lookup_layout
from diastole.plan import GROUP, Plan, pow2ceil


def block_layout(plan: Plan) -> data.StructLayout:
    """A block whose vectors are about to come; ``addr`` is that of its first one in the bank."""
    return data.StructLayout(
        {
            "kind": Region,
            "bank": range(max(plan.rows, plan.cols)),
            "addr": range(max(plan.held_words, 2 * plan.half_words)),
            "deficit": unsigned(plan.deficit_bits),  # of a vector; of a held block to the east
            "deficit_north": unsigned(plan.deficit_bits),
            "nonzero": 1,
            "turned": 1,
            "drop": 1,  # it only fills a granule
            "last": 1,  # of its chunk
        }
    )


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

    A deficit is the maximum of the block's row or column less its exponent, at most SW + F; a block
    of zeros has deficit 0 and ``nonzero`` 0. The maxima come from the memories of
    :class:`diastole.memory.maxima.Maxima` (``NAME_index`` with ``lookup_en``, ``NAME_value``).

    Timing: two cycles per block.
    """

    groups: stream.Interface
    blocks: stream.Interface

    def __init__(self, plan: Plan):
        self.plan = plan
        self.names = NAMES[: 4 if plan.in_place else 2]
        members = {
            "groups": In(stream.Signature(group_layout(plan))),
            "blocks": Out(stream.Signature(block_layout(plan))),
            "lookup_en": Out(1),
        }
        for name in self.names:
            members[f"{name}_index"] = Out(lookup_layout(plan.maxima_depth, plan.beat_bytes))
            members[f"{name}_value"] = In(8)
        super().__init__(members)

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
            m.d.sync += group.exponents.eq(group.exponents >> 8)
            col_at.step(m)
        self._lookups(m, group)
        self._block(m, group, left, row_at, col_at)
        return m

    def _counter(self, name, region) -> SliceCounter:
        """The bank and the slice of the next block, along one dimension of the region."""
        plan = self.plan
        side = plan.cols
        if plan.in_place:
            side = Mux(region.kind == Region.WEST, plan.rows, plan.cols)
        return SliceCounter(name, max(plan.rows, plan.cols), side, len(region.rows))

    def _lookups(self, m, group):
        """Entries of the memories of maxima that belong to this block: p across banks, q within."""
        plan, region = self.plan, group.region
        p = Mux(region.by_column, group.col, group.row)
        q = Mux(region.by_column, group.row, group.col)
        stream_slot = region.tile * pow2ceil(plan.stream_maxima_words)
        held_slot = Mux(region.fused, 0, region.tile * pow2ceil(plan.held_maxima_words))
        held_first = Mux(region.fused, 0, region.held_offset)
        entries = {
            "south": (stream_slot, region.stream_offset + q),
            "west": (stream_slot, region.stream_offset + q),
            "east": (held_slot, held_first + q),
            "north": (held_slot, Mux(region.fused, region.c0, region.held_offset) + p),
        }
        shift = plan.beat_bytes.bit_length() - 1
        for name in self.names:
            slot, entry = entries[name]
            index = getattr(self, f"{name}_index")
            m.d.comb += [index.word.eq(slot + (entry >> shift)), index.byte.eq(entry)]

    def _block(self, m, group, left, row_at, col_at):
        plan, region, block = self.plan, group.region, self.blocks.p
        by_column = region.by_column
        q = Mux(by_column, group.row, group.col)
        bank = Mux(by_column, col_at.mod, row_at.mod)
        slice_ = Mux(by_column, col_at.div, row_at.div)
        within = slice_ * self._stride(region) + (q << plan.log_block)
        last_col = group.col >= region.cols - 1
        last_row = group.row == region.rows - 1
        exponent = group.exponents[:8]
        streamed = self.south_value
        if plan.in_place:
            streamed = Mux(region.kind == Region.WEST, self.west_value, self.south_value)
            north = self._deficit(m, "north", self.north_value, exponent)
            m.d.comb += block.deficit_north.eq(north)
        maximum = Mux(region.kind == Region.HELD, self.east_value, streamed)
        m.d.comb += [
            block.kind.eq(region.kind),
            block.bank.eq(bank),
            block.addr.eq(self._half(region) + within),
            block.deficit.eq(self._deficit(m, "own", maximum, exponent)),
            block.nonzero.eq(exponent != 0),
            block.turned.eq(region.turned),
            block.drop.eq(group.col >= region.cols),
            block.last.eq(region.last & last_row & (left == 1) & last_col),
        ]

    def _deficit(self, m, name, maximum, exponent):
        plan = self.plan
        most = plan.sum_bits + plan.fraction
        difference = Signal(signed(9), name=f"{name}_difference")
        deficit = Signal(plan.deficit_bits, name=f"{name}_deficit")
        m.d.comb += difference.eq(maximum - exponent)
        m.d.comb += deficit.eq(Mux(difference > most, most, difference))
        return Mux(exponent != 0, deficit, 0)

    def _stride(self, region):
        """Words of a bank from one slice to the next."""
        plan = self.plan
        held, streamed = plan.held_stride, plan.tile_words
        if plan.in_place:
            held = Mux(region.fused, plan.fused_held_stride, held)
            streamed = Mux(region.fused, plan.fused_tile_words, streamed)
        return Mux(region.kind == Region.HELD, held, streamed)

    def _half(self, region):
        """First word of the half of a bank that the chunk fills; dY's place in the fused pass."""
        plan = self.plan
        held = region.half * plan.held_half_words
        if plan.in_place:
            held = Mux(region.fused, region.index * plan.fused_held_stride, held)
        half = Mux(region.kind == Region.WEST, region.west_half, region.half)
        return Mux(region.kind == Region.HELD, held, half * plan.half_words)
