"""The load unit's first half: turns chunks into read requests, ahead of the data."""

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole.bus.service import request_layout
from diastole.control.descriptors import PRODUCT, chunk_layout
from diastole.control.region import STEPS, RegionSteps, granules, region_layout
from diastole.plan import ADDRESS_BITS, GROUP, Plan
from diastole.uses import Mode


class RegionIssue(wiring.Component):
    """Request every beat that a chunk needs, region by region, and tell :class:`Fill` what comes.

    A chunk starts when a half of the stream buffers is free (``credit`` high: it is taken with
    ``take``). Its chunk descriptor goes on to ``chunks_out`` at once; Fill releases it when the
    last block is written. Requests: the exponents and mantissas of the blocks in one group, a row
    of blocks at a time; a region that starts inside a group needs two per group.

    Timing: one request per cycle, and for each region of blocks one cycle more than its first
    row number has bits, to find its address.
    """

    chunks_in: stream.Interface
    chunks_out: stream.Interface
    regions: stream.Interface
    requests: stream.Interface
    product: data.View

    def __init__(self, plan: Plan):
        self.plan = plan
        chunk = stream.Signature(chunk_layout(plan))
        super().__init__(
            {
                "product": In(PRODUCT),
                "chunks_in": In(chunk),
                "chunks_out": Out(chunk),
                "credit": In(1),
                "take": Out(1),
                "regions": Out(stream.Signature(region_layout(plan))),
                "requests": Out(stream.Signature(request_layout())),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        chunk = Signal(chunk_layout(plan))
        half = Signal(init=1)
        west_half = Signal(init=1)  # flipped before the first use
        step = Signal(range(STEPS))
        table = RegionSteps(plan)
        table.elaborate(m, step, chunk, self.product)
        tensor = Signal(self.product.tensors[0].shape())
        m.d.comb += tensor.eq(Array(self.product.tensors)[table.tensor])
        maxima = Signal()
        m.d.comb += maxima.eq(table.kind.as_value()[2])
        self._describe(m, table, chunk, step, half, west_half)

        row_addr = Signal(ADDRESS_BITS)
        group_addr = Signal(ADDRESS_BITS)
        factor = Signal(len(table.row0))
        addend = Signal(ADDRESS_BITS)
        rows_left = Signal.like(table.rows, name="rows_left")
        cols_left = Signal.like(table.cols, name="cols_left")
        at_mantissas = Signal()
        offset = Signal(range(GROUP))

        with m.FSM():
            with m.State("CHUNK"):
                ready = Signal()
                m.d.comb += [
                    ready.eq(self.chunks_in.valid & self.credit),
                    self.chunks_out.valid.eq(ready),
                    self.chunks_out.payload.eq(self.chunks_in.payload),
                    self.chunks_in.ready.eq(self.credit & self.chunks_out.ready),
                    self.take.eq(ready & self.chunks_out.ready),
                ]
                with m.If(self.take):
                    m.d.sync += [chunk.eq(self.chunks_in.payload), step.eq(0), half.eq(~half)]
                    with m.If(self.chunks_in.p.first):
                        m.d.sync += west_half.eq(~west_half)
                    m.next = "STEP"
            with m.State("STEP"):
                with m.If(~table.enabled):
                    m.d.sync += step.eq(step + 1)
                with m.Elif(maxima):
                    self._request_maxima(m, table, tensor)
                    with m.If(self.requests.ready & self.regions.ready):
                        m.d.comb += [self.requests.valid.eq(1), self.regions.valid.eq(1)]
                        m.d.sync += step.eq(step + 1)
                with m.Else():
                    m.d.comb += self.regions.valid.eq(1)
                    with m.If(self.regions.ready):
                        m.d.sync += [
                            factor.eq(table.row0),
                            addend.eq(tensor.pitch),
                            row_addr.eq(tensor.base + self._group_bytes(table) * (table.col0 >> 3)),
                            rows_left.eq(table.rows),
                        ]
                        m.next = "MULTIPLY"
            with m.State("MULTIPLY"):  # row_addr += factor * addend
                m.d.sync += [factor.eq(factor >> 1), addend.eq(addend << 1)]
                with m.If(factor[0]):
                    m.d.sync += row_addr.eq(row_addr + addend)
                with m.If(factor == 0):
                    m.next = "ROW"
            with m.State("ROW"):
                m.d.sync += [
                    group_addr.eq(row_addr),
                    row_addr.eq(row_addr + tensor.pitch),
                    rows_left.eq(rows_left - 1),
                    cols_left.eq(table.cols),
                    offset.eq(table.col0),
                    at_mantissas.eq(0),
                ]
                m.next = "GROUP"
                with m.If(rows_left == 0):
                    m.d.sync += step.eq(step + 1)
                    m.next = "STEP"
                    with m.If(step == STEPS - 1):
                        m.next = "CHUNK"
            with m.State("GROUP"):
                self._request_group(m, table, group_addr, cols_left, offset, at_mantissas)
        return m

    def _entries(self, m, table):
        """First maximum of the region in bytes, and how many: a grouped class has B per block."""
        plan = self.plan
        first = Signal(len(table.row0) + plan.log_block, name="first_entry")
        count = Signal(len(table.rows) + plan.log_block, name="entries")
        m.d.comb += [first.eq(table.row0), count.eq(table.rows)]
        for cls in filter(plan.grouped, range(3)):
            with m.If(table.tensor == cls):
                m.d.comb += first.eq(table.row0 << plan.log_block)
                m.d.comb += count.eq(table.rows << plan.log_block)
        return first, count

    def _describe(self, m, table, chunk, step, half, west_half):
        region = self.regions.p
        bytes_ = self.plan.beat_bytes
        first, count = self._entries(m, table)
        fused = self.product.mode == Mode.FUSED
        m.d.comb += [
            region.kind.eq(table.kind),
            region.cls.eq(table.tensor),
            region.rows.eq(table.rows),
            region.cols.eq(table.cols),
            region.offset.eq(table.col0),
            region.by_column.eq(table.by_column),
            region.turned.eq(table.turned),
            region.stream_offset.eq(self._offset(m, table, chunk.t0, "stream")),
            region.held_offset.eq(self._offset(m, table, chunk.l0, "held")),
            region.beats.eq(
                ((first & (bytes_ - 1)) + count + (bytes_ - 1)) >> (bytes_.bit_length() - 1)
            ),
            region.index.eq(chunk.index),
            region.c0.eq(chunk.c0),
            region.fused.eq(fused),
            region.tile.eq(chunk.tile),
            region.half.eq(half),
            region.west_half.eq(Mux(fused, west_half, half)),
            region.last.eq(step == STEPS - 1),
        ]
        self._first_entry = first

    def _offset(self, m, table, position, name):
        """Byte in its beat of the first maximum of a tile of the region's class."""
        plan = self.plan
        offset = Signal(range(plan.beat_bytes), name=f"{name}_offset")
        m.d.comb += offset.eq(position)
        for cls in filter(plan.grouped, range(3)):
            with m.If(table.tensor == cls):
                m.d.comb += offset.eq(position << plan.log_block)
        return offset

    def _request_maxima(self, m, table, tensor):
        base = Mux(table.maxima_of_columns, tensor.col_max, tensor.row_max)
        first = self._first_entry
        aligned = first & ~(self.plan.beat_bytes - 1)
        m.d.comb += [
            self.requests.p.addr.eq(base + aligned[: len(first)]),
            self.requests.p.beats.eq(self.regions.p.beats),
        ]

    def _group_bytes(self, table):
        plan = self.plan
        return Array([plan.group_beats(c) * plan.beat_bytes for c in (0, 1, 2, 2)])[table.tensor]

    def _request_group(self, m, table, group_addr, cols_left, offset, at_mantissas):
        plan, p = self.plan, self.requests.p
        blocks = Signal(range(GROUP + 1))
        whole = Signal(range(GROUP + 1))
        beats = Signal(range(max(plan.mantissa_beats(c, GROUP) for c in range(3)) + 1))
        exponents = Signal(range(max(plan.exponent_beats(c) for c in range(3)) + 1))
        skipped = Signal(16)
        room = Signal(range(GROUP + 1))
        m.d.comb += [room.eq(GROUP - offset), blocks.eq(Mux(cols_left < room, cols_left, room))]
        for cls in range(3):
            with m.If(table.tensor == cls):
                beat_table = [plan.mantissa_beats(cls, n) for n in range(GROUP + 1)]
                m.d.comb += [
                    whole.eq(granules(blocks, plan.granule(cls))),
                    beats.eq(Array(beat_table)[whole]),
                    skipped.eq(Array(beat_table)[offset] * plan.beat_bytes),
                    exponents.eq(plan.exponent_beats(cls)),
                ]
        done = Signal()
        m.d.comb += self.requests.valid.eq(1)
        with m.If(offset == 0):
            m.d.comb += [p.addr.eq(group_addr), p.beats.eq(beats + exponents), done.eq(1)]
        with m.Elif(~at_mantissas):
            m.d.comb += [p.addr.eq(group_addr), p.beats.eq(exponents)]
        with m.Else():
            m.d.comb += p.addr.eq(group_addr + (exponents << exact_log2(plan.beat_bytes)) + skipped)
            m.d.comb += [p.beats.eq(beats), done.eq(1)]
        with m.If(self.requests.ready):
            m.d.sync += at_mantissas.eq(~at_mantissas)
            with m.If(done):
                m.d.sync += [
                    group_addr.eq(group_addr + self._group_bytes(table)),
                    cols_left.eq(cols_left - blocks),
                    offset.eq(0),
                    at_mantissas.eq(0),
                ]
                with m.If(cols_left == blocks):
                    m.next = "ROW"
