"""The load unit's first half: turns chunks into read requests, ahead of the data."""

from typing import NamedTuple

from amaranth.hdl import Array, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.bus.services import request_layout
from diastole_hw.carry_save import sum_of_three
from diastole_hw.data_registers import data_register
from diastole_hw.plan.modes import Mode
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.halves import west_base
from diastole_hw.schedule.regions import MAXIMA_STEPS, STEPS, RegionSteps, granules
from diastole_hw.schedule.tokens import Region, chunk_layout, product_layout, region_layout
from diastole_hw.transfer.address import Locate, whole_beats
from diastole_hw.transfer.times import times
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.image import GROUP_BLOCKS


class GroupRequest(NamedTuple):
    """Beats of a request, bytes to the next one, blocks of the group, and whether it is the last of
    the group."""

    beats: Signal
    moved: Signal
    blocks: Signal
    done: Value


class RegionRequests(wiring.Component):
    """Request every beat that a chunk needs, region by region, and tell
    :class:`diastole_hw.load.fill.Fill` what comes.

    A port of several asks for the maxima, as each does, and of blocks for its rows: those whose
    number in their region is its own, modulo the ports. Where a region has no such row, it asks for
    the first one, so that something comes. Regions are described whole.

    A chunk starts when there is room for what it loads. Requests for blocks: a
    row of blocks at a time, group by group, the exponent field and the elements from it to the end
    of the last block wanted, rounded up to whole granules. In a group whose first block is not
    wanted the exponent field and the elements are two requests.

    Not checked: that a region starts on a whole granule of its group, and that a tensor's ``base``
    and maxima stand at whole beats.

    Timing: 1 cycle for a chunk, once ``room`` is high; then those steps of
    :class:`diastole_hw.schedule.regions.RegionSteps` in order that ask for something:

    - one of maxima takes 2 cycles: in the second ``regions`` and ``requests`` are valid when both
      are ready, and are taken together;
    - one of blocks n + 3 for the region, ``row0`` of n bits, then for each of its rows twice its
      requests. The region is described in the second of these cycles. A row's requests are valid
      in the second of its cycles, and every other one from there on: what is asked for is found
      out in the cycle before.

    Parameters
    ----------
    plan : Plan
    port : int
        Number of the port.

    Members
    -------
    product : In(product_layout(plan))
        Stable while chunks come, and in the cycle before the first; its ``mode``, ``c_blocks``,
        ``tensors``, ``to_columns``, ``t_step`` and ``held_stride`` are read.
    chunks : In(stream of chunk_layout(plan))
    room : In(1)
        In the scratchpads, for what the chunk at ``chunks`` loads. It is taken with the chunk,
        which must have been offered for a cycle.
    regions : Out(stream of region_layout(plan))
        ``beats`` counts for maxima only, ``base`` and ``stride`` for blocks only. In the fused pass
        the blocks from the west have two halves of their banks, which alternate from tile to tile.
    requests : Out(stream of request_layout())
    busy : Out(1)
        From the cycle after a chunk was taken until all of it has been asked for.
    """

    chunks: stream.Interface
    regions: stream.Interface
    requests: stream.Interface
    product: data.View

    def __init__(self, plan: Plan, port: int = 0):
        self.plan, self.port = plan, port
        super().__init__(
            {
                "product": In(product_layout(plan)),
                "chunks": In(stream.Signature(chunk_layout(plan))),
                "room": In(1),
                "regions": Out(stream.Signature(region_layout(plan))),
                "requests": Out(stream.Signature(request_layout())),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        chunk = data_register(chunk_layout(plan))
        group_addr = data_register(ADDRESS_BITS)  # of what is asked for next
        step = data_register(range(STEPS))
        cls = data_register(2)  # of its tensor, which hundreds of bits wait for
        left = Signal(STEPS)  # behind it that ask for something; of the chunk offered before
        mode = data_register(Mode)  # of the product, which is older than its chunks
        m.d.sync += mode.eq(self.product.mode)
        m.submodules.table = table = RegionSteps(plan)
        m.d.comb += [
            table.step.eq(step),
            table.chunk.eq(chunk),
            table.offered.eq(self.chunks.payload),
            table.mode.eq(mode),
            table.c_blocks.eq(self.product.c_blocks),
        ]
        tensor = Signal(self.product.tensors[0].shape())
        m.d.comb += tensor.eq(Array(self.product.tensors)[cls])
        first, count = self._entries(m, table, cls)
        self._describe(m, table, cls, chunk, mode)
        maxima = self._beats_of_maxima(first, count)
        m.d.comb += self.requests.p.addr.eq(group_addr)

        pitch = tensor.pitch if plan.ports == 1 else tensor.pitch << 1
        m.submodules.first_row = first_row = Locate(
            count_bits=len(table.row0),
            step_bits=len(pitch),
            beat_bytes=plan.beat_bytes,
            quick=True,
        )
        m.d.comb += [
            first_row.base.eq(self._image(m, table, cls, tensor)),
            first_row.pitch.eq(tensor.pitch),
            first_row.count.eq(self._first_row(table)),
            first_row.step.eq(pitch),
        ]
        col0 = Signal.like(table.col0, name="col0", reset_less=True)  # from the cycle after STEP on
        m.d.sync += col0.eq(table.col0)
        columns_bytes = self._groups_bytes(cls, col0 >> 3)
        columns_at = data_register(len(columns_bytes))  # in a row, from the cycle after that on
        m.d.sync += columns_at.eq(columns_bytes)
        rows_left = Signal.like(table.rows, name="rows_left")
        cols_left = Signal.like(table.cols, name="cols_left")
        at_mantissas = Signal()
        offset = Signal(range(GROUP_BLOCKS))
        described = data_register()  # the region of blocks at hand is
        begin_row = [cols_left.eq(table.cols), offset.eq(col0), at_mantissas.eq(0)]
        group = self._group(m, cls, cols_left, offset, at_mantissas)
        beats = data_register(max(len(maxima), len(group.beats)))  # of the cycle before
        m.d.sync += beats.eq(Mux(step < MAXIMA_STEPS, maxima, group.beats))
        m.d.comb += [self.regions.p.beats.eq(beats), self.requests.p.beats.eq(beats)]

        def next_step(steps):
            """Go on with the first of them, if there is one, or else to the next chunk."""
            m.d.sync += left.eq(Mux(steps.any(), steps & (steps - 1), table.wanted))
            m.next = "CHUNK"
            for number in reversed(range(STEPS)):
                with m.If(steps[number]):
                    m.d.sync += [step.eq(number), cls.eq(table.tensors[number])]
                    m.next = "STEP"

        with m.FSM() as fsm:
            m.d.comb += self.busy.eq(~fsm.ongoing("CHUNK"))
            with m.State("CHUNK"):
                m.d.comb += self.chunks.ready.eq(self.room)
                m.d.sync += left.eq(table.wanted)
                with m.If(self.chunks.valid & self.room):
                    m.d.sync += chunk.eq(self.chunks.payload)
                    next_step(left)
            with m.State("STEP"):
                with m.If(step < MAXIMA_STEPS):
                    address = self._maxima(table, tensor, first)
                    m.d.sync += group_addr.eq(whole_beats(address, plan.beat_bytes))
                    m.next = "MAXIMA"
                with m.Else():
                    m.d.comb += first_row.start.eq(1)
                    m.d.sync += [rows_left.eq(self._rows(table)), described.eq(0)]
                    m.next = "LOCATE"
            with m.State("MAXIMA"):
                m.d.comb += self.requests.valid.eq(self.regions.ready)
                m.d.comb += self.regions.valid.eq(self.requests.ready)
                with m.If(self.requests.ready & self.regions.ready):
                    next_step(left)
            with m.State("LOCATE"):
                m.d.comb += self.regions.valid.eq(~described)
                m.d.sync += begin_row
                with m.If(self.regions.ready):
                    m.d.sync += described.eq(1)
                with m.If(first_row.ready & (described | self.regions.ready)):
                    m.next = "ROW"
            with m.State("ROW"):
                m.d.comb += first_row.next.eq(1)
                m.d.sync += [
                    group_addr.eq(whole_beats(first_row.address + columns_at, plan.beat_bytes)),
                    rows_left.eq(rows_left - 1),
                ]
                m.next = "REQUEST"
                with m.If(rows_left == 0):
                    next_step(left)
            with m.State("GROUP"):
                m.next = "REQUEST"
            with m.State("REQUEST"):
                m.d.comb += self.requests.valid.eq(1)
                with m.If(self.requests.ready):
                    m.next = "GROUP"
                    m.d.sync += [
                        at_mantissas.eq(~at_mantissas),
                        group_addr.eq(whole_beats(group_addr + group.moved, plan.beat_bytes)),
                    ]
                    with m.If(group.done):
                        m.d.sync += [
                            cols_left.eq(cols_left - group.blocks),
                            offset.eq(0),
                            at_mantissas.eq(0),
                        ]
                        with m.If(cols_left == group.blocks):
                            m.d.sync += begin_row
                            m.next = "ROW"
        return m

    def _image(self, m, table, cls, tensor):
        """Where the blocks of the plane that is asked for begin."""
        if not self.plan.planar:
            return tensor.base
        length = Signal(ADDRESS_BITS, name="plane_length")
        base = Signal(ADDRESS_BITS, name="plane_base")
        chosen = Array(self.product.lengths)[cls]
        m.d.comb += [
            length.eq(chosen),
            base.eq(tensor.base + length * table.plane[: self.plan.plane_bits]),
        ]
        return base

    def _first_row(self, table):
        """Of the tensor, that the port asks for."""
        return table.row0 + (table.rows > 1) if self.port else table.row0

    def _rows(self, table):
        """Of the region, that the port asks for."""
        if self.plan.ports == 1:
            return table.rows
        return Mux(table.rows == 1, 1, table.rows >> 1) if self.port else (table.rows + 1) >> 1

    def _entries(self, m, table, cls):
        """First maximum of the region in bytes, and how many: a grouped class has B per block."""
        plan = self.plan
        first = Signal(len(table.entry0) + plan.log_block, name="first_entry")
        count = Signal(len(table.rows) + plan.log_block, name="entries")
        m.d.comb += [first.eq(table.entry0), count.eq(table.rows)]
        for each in filter(plan.grouped, range(3)):
            with m.If(cls == each):
                m.d.comb += first.eq(table.entry0 << plan.log_block)
                m.d.comb += count.eq(table.rows << plan.log_block)
        return first, count

    def _describe(self, m, table, cls, chunk, mode):
        region, product = self.regions.p, self.product
        fused = mode == Mode.FUSED
        base = Signal.like(region.base)
        kind = Signal(table.kind.shape(), name="kind", reset_less=True)  # from the second cycle on
        m.d.sync += kind.eq(table.kind)
        m.d.comb += base.eq(chunk.stream_base)
        with m.If(kind == Region.HELD):
            m.d.comb += base.eq(chunk.held_base)
        with m.Elif(fused & (kind == Region.WEST)):
            m.d.comb += base.eq(west_base(self.plan, product, chunk))
        m.d.comb += [
            region.kind.eq(kind),
            region.cls.eq(cls),
            region.rows.eq(table.rows),
            region.cols.eq(table.cols),
            region.offset.eq(table.col0),
            region.by_column.eq(table.by_column),
            region.turned.eq(table.turned),
            region.stream_offset.eq(self._offset(m, cls, chunk.t0, "stream")),
            region.held_offset.eq(Mux(fused, chunk.c0, self._offset(m, cls, chunk.l0, "held"))),
            region.base.eq(base),
            region.stride.eq(Mux(kind == Region.HELD, product.held_stride, product.t_step)),
            region.fused.eq(fused),
            region.tile.eq(chunk.tile),
            region.last.eq(table.last),
        ]
        if self.plan.planar:
            m.d.comb += region.plane.eq(table.plane)

    def _beats_of_maxima(self, first, count):
        bytes_ = self.plan.beat_bytes
        return ((first & (bytes_ - 1)) + count + (bytes_ - 1)) >> exact_log2(bytes_)

    def _offset(self, m, cls, position, name):
        """Byte in its beat of the first maximum of a tile of the region's class."""
        plan = self.plan
        offset = Signal(range(plan.beat_bytes), name=f"{name}_offset")
        m.d.comb += offset.eq(position)
        for each in filter(plan.grouped, range(3)):
            with m.If(cls == each):
                m.d.comb += offset.eq(position << plan.log_block)
        return offset

    def _maxima(self, table, tensor, first):
        """Where the beats of the region's maxima begin."""
        aligned = (first & ~(self.plan.beat_bytes - 1))[: len(first)]
        behind = Mux(table.maxima_of_columns, self.product.to_columns, 0)
        return sum_of_three(tensor.row_max, aligned, behind)

    def _groups_bytes(self, cls, count):
        """Of as many groups of the tensor at hand."""
        sizes = [
            self.plan.group_layouts[each].group_beats * self.plan.beat_bytes
            for each in (0, 1, 2, 2)
        ]
        if len(set(sizes)) == 1:
            return times(count, sizes[0])
        return Array([times(count, size) for size in sizes])[cls]

    def _group(self, m, cls, cols_left, offset, at_mantissas) -> "GroupRequest":
        """What is asked for next: a group, or, where it begins with a later block, its exponents,
        and then its elements."""
        plan = self.plan
        blocks = Signal(range(GROUP_BLOCKS + 1))
        whole = Signal(range(GROUP_BLOCKS + 1))
        layouts = plan.group_layouts
        most = max(layout.element_beats for layout in layouts)
        most_exponents = max(layout.exponent_beats for layout in layouts)
        beats = Signal(range(most + 1))
        exponents = Signal(range(most_exponents + 1))
        both = Signal(range(most + most_exponents + 1))
        group = max(layout.group_beats for layout in layouts) * plan.beat_bytes
        skipped = Signal(range(group))  # bytes of the group before the first elements
        rest = Signal(range(group + 1))  # and from there to the next group
        room = Signal(range(GROUP_BLOCKS + 1))
        m.d.comb += [
            room.eq(GROUP_BLOCKS - offset),
            blocks.eq(Mux(cols_left < room, cols_left, room)),
        ]
        for each in range(3):
            with m.If(cls == each):
                layout = layouts[each]
                beat_table = [layout.block_beats(n) for n in range(GROUP_BLOCKS + 1)]
                before, of_group = layout.exponent_beats, layout.group_beats * plan.beat_bytes
                starts = [(before + n) * plan.beat_bytes for n in beat_table[:-1]]
                m.d.comb += [
                    whole.eq(granules(blocks, layout.granule)),
                    beats.eq(Array(beat_table)[whole]),
                    both.eq(Array(n + before for n in beat_table)[whole]),
                    skipped.eq(Array(starts)[offset]),
                    rest.eq(Array(of_group - start for start in starts)[offset]),
                    exponents.eq(before),
                ]
        asked = Signal.like(both, name="group_beats")
        moved = Signal(range(group + 1))
        with m.If(offset == 0):
            m.d.comb += [asked.eq(both), moved.eq(self._groups_bytes(cls, Const(1, 1)))]
        with m.Elif(~at_mantissas):
            m.d.comb += [asked.eq(exponents), moved.eq(skipped)]
        with m.Else():
            m.d.comb += [asked.eq(beats), moved.eq(rest)]
        return GroupRequest(asked, moved, blocks, (offset == 0) | at_mantissas)
