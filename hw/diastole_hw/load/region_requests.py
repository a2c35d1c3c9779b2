"""First half of the load unit: turn chunks into read requests, ahead of the data."""

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
from diastole_hw.transfer.address import AddressGenerator, whole_beats
from diastole_hw.transfer.times import times
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.image import GROUP_BLOCKS


class GroupRequest(NamedTuple):
    """Next request of a group. ``beats``: beats of the request. ``moved``: bytes to the next
    request. ``blocks``: blocks of the group. ``done``: the request is the last request of the
    group."""

    beats: Signal
    moved: Signal
    blocks: Signal
    done: Value


class RegionRequests(wiring.Component):
    """Request every beat that a chunk needs, region by region, and describe the regions to
    :class:`diastole_hw.load.write_scratchpads.WriteScratchpads`.

    A region is a run of maxima or a rectangle of blocks on the way from memory to a scratchpad.

    If there are several ports, every port requests the maxima. Of blocks, a port requests the rows
    whose number in the region is the port's number, modulo the number of ports. If a region has no
    such row, the port requests the first row, because every region must deliver something. The
    description always covers the whole region.

    A chunk starts when there is free space for its data. Blocks are requested by rows of blocks,
    and each row group by group. A request covers the exponent field and the elements up to the end
    of the last requested block, rounded up to whole granules. If the first block of a group is not
    requested, the exponent field and the elements are two requests.

    Not checked: a region starts on a whole granule of its group, and ``base`` and maxima of a
    tensor are aligned to beats.

    Timing: 1 cycle for a chunk, once ``space`` is high. Then follow, in order, the steps of
    :class:`diastole_hw.schedule.regions.RegionSteps` that request something:

    - A step of maxima takes 2 cycles. In the second cycle, ``regions`` and ``requests`` are valid
      when the two are ready, and are accepted together.
    - A step of blocks takes n + 3 cycles for the region, with ``row0`` of n bits. The region is
      described in the second of these cycles. Then each row takes twice as many cycles as it has
      requests. The requests of a row are valid in its second cycle and in every second cycle from
      there on. The cycle before a request computes the request.

    Parameters
    ----------
    plan : Plan
    port : int
        Number of the port.

    Members
    -------
    product : In(product_layout(plan))
        Stable while chunks come, and in the cycle before the first chunk. The unit reads ``mode``,
        ``c_blocks``, ``tensors``, ``to_columns``, ``t_step`` and ``stationary_stride``, and with
        planes ``planes`` and ``lengths``.
    chunks : In(stream of chunk_layout(plan))
    space : In(1)
        The scratchpads have free space for the data of the chunk at ``chunks``. The space is taken
        with the chunk, which must have been offered for a cycle.
    regions : Out(stream of region_layout(plan))
        ``beats`` is valid for maxima only, ``base`` and ``stride`` for blocks only. In the fused
        pass the blocks from the west use the two halves of their banks, alternating from tile to
        tile.
    requests : Out(stream of request_layout())
    busy : Out(1)
        High from the cycle after a chunk is accepted until all data of the chunk have been
        requested.
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
                "space": In(1),
                "regions": Out(stream.Signature(region_layout(plan))),
                "requests": Out(stream.Signature(request_layout())),
                "busy": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        chunk = data_register(chunk_layout(plan))
        group_addr = data_register(ADDRESS_BITS)  # address of the next request
        step = data_register(range(STEPS))
        cls = data_register(2)  # class of the step's tensor, on which hundreds of bits depend
        left = Signal(STEPS)  # later steps with requests; of the chunk offered a cycle ago
        mode = data_register(Mode)  # of the product, which comes before its chunks
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
        m.submodules.first_row = first_row = AddressGenerator(
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
        # The column is valid from the cycle after STEP on, the bytes from the next cycle on.
        col0 = Signal.like(table.col0, name="col0", reset_less=True)
        m.d.sync += col0.eq(table.col0)
        columns_bytes = self._groups_bytes(cls, col0 >> 3)
        columns_at = data_register(len(columns_bytes))  # in a row
        m.d.sync += columns_at.eq(columns_bytes)
        rows_left = Signal.like(table.rows, name="rows_left")
        cols_left = Signal.like(table.cols, name="cols_left")
        at_mantissas = Signal()
        offset = Signal(range(GROUP_BLOCKS))
        described = data_register()  # the current region of blocks has been described
        begin_row = [cols_left.eq(table.cols), offset.eq(col0), at_mantissas.eq(0)]
        group = self._group(m, cls, cols_left, offset, at_mantissas)
        beats = data_register(max(len(maxima), len(group.beats)))  # computed in the cycle before
        m.d.sync += beats.eq(Mux(step < MAXIMA_STEPS, maxima, group.beats))
        m.d.comb += [self.regions.p.beats.eq(beats), self.requests.p.beats.eq(beats)]

        def next_step(steps):
            """Go to the first of ``steps``, or to the next chunk if ``steps`` is empty."""
            m.d.sync += left.eq(Mux(steps.any(), steps & (steps - 1), table.needed))
            m.next = "CHUNK"
            for number in reversed(range(STEPS)):
                with m.If(steps[number]):
                    m.d.sync += [step.eq(number), cls.eq(table.tensors[number])]
                    m.next = "STEP"

        with m.FSM() as fsm:
            m.d.comb += self.busy.eq(~fsm.ongoing("CHUNK"))
            # Wait for a chunk and for free space.
            with m.State("CHUNK"):
                m.d.comb += self.chunks.ready.eq(self.space)
                m.d.sync += left.eq(table.needed)
                with m.If(self.chunks.valid & self.space):
                    m.d.sync += chunk.eq(self.chunks.payload)
                    next_step(left)
            # Compute the address of the maxima, or begin to locate the first row of blocks.
            with m.State("STEP"):
                with m.If(step < MAXIMA_STEPS):
                    address = self._maxima(table, tensor, first)
                    m.d.sync += group_addr.eq(whole_beats(address, plan.beat_bytes))
                    m.next = "MAXIMA"
                with m.Else():
                    m.d.comb += first_row.start.eq(1)
                    m.d.sync += [rows_left.eq(self._rows(table)), described.eq(0)]
                    m.next = "LOCATE"
            # Describe and request a region of maxima.
            with m.State("MAXIMA"):
                m.d.comb += self.requests.valid.eq(self.regions.ready)
                m.d.comb += self.regions.valid.eq(self.requests.ready)
                with m.If(self.requests.ready & self.regions.ready):
                    next_step(left)
            # Describe a region of blocks while its first row is being located.
            with m.State("LOCATE"):
                m.d.comb += self.regions.valid.eq(~described)
                m.d.sync += begin_row
                with m.If(self.regions.ready):
                    m.d.sync += described.eq(1)
                with m.If(first_row.ready & (described | self.regions.ready)):
                    m.next = "ROW"
            # Begin a row, or go to the next step after the last row.
            with m.State("ROW"):
                m.d.comb += first_row.next.eq(1)
                m.d.sync += [
                    group_addr.eq(whole_beats(first_row.address + columns_at, plan.beat_bytes)),
                    rows_left.eq(rows_left - 1),
                ]
                m.next = "REQUEST"
                with m.If(rows_left == 0):
                    next_step(left)
            # Compute the next request of the row.
            with m.State("GROUP"):
                m.next = "REQUEST"
            # Send the request.
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
        """Return the address of the first block of the requested plane."""
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
        """Return the first row of the tensor that the port requests."""
        return table.row0 + (table.rows > 1) if self.port else table.row0

    def _rows(self, table):
        """Return the number of rows of the region that the port requests."""
        if self.plan.ports == 1:
            return table.rows
        return Mux(table.rows == 1, 1, table.rows >> 1) if self.port else (table.rows + 1) >> 1

    def _entries(self, m, table, cls):
        """Return the byte of the region's first maximum and the number of maxima. A grouped class
        has B maxima per block."""
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
        # The kind is valid from the second cycle on.
        kind = Signal(table.kind.shape(), name="kind", reset_less=True)
        m.d.sync += kind.eq(table.kind)
        m.d.comb += base.eq(chunk.stream_base)
        with m.If(kind == Region.STATIONARY):
            m.d.comb += base.eq(chunk.stationary_base)
        with m.Elif(fused & (kind == Region.WEST)):
            m.d.comb += base.eq(west_base(self.plan, product, chunk))
        m.d.comb += [
            region.kind.eq(kind),
            region.cls.eq(cls),
            region.rows.eq(table.rows),
            region.cols.eq(table.cols),
            region.offset.eq(table.col0),
            region.by_column.eq(table.by_column),
            region.transposed.eq(table.transposed),
            region.stream_offset.eq(self._offset(m, cls, chunk.t0, "stream")),
            region.stationary_offset.eq(
                Mux(fused, chunk.c0, self._offset(m, cls, chunk.l0, "stationary"))
            ),
            region.base.eq(base),
            region.stride.eq(
                Mux(kind == Region.STATIONARY, product.stationary_stride, product.t_step)
            ),
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
        """Return the byte, within a beat, of the first maximum of a tile of the region's class."""
        plan = self.plan
        offset = Signal(range(plan.beat_bytes), name=f"{name}_offset")
        m.d.comb += offset.eq(position)
        for each in filter(plan.grouped, range(3)):
            with m.If(cls == each):
                m.d.comb += offset.eq(position << plan.log_block)
        return offset

    def _maxima(self, table, tensor, first):
        """Return the address of the first beat of the region's maxima."""
        aligned = (first & ~(self.plan.beat_bytes - 1))[: len(first)]
        behind = Mux(table.maxima_of_columns, self.product.to_columns, 0)
        return sum_of_three(tensor.row_max, aligned, behind)

    def _groups_bytes(self, cls, count):
        """Return the bytes of ``count`` groups of the current tensor."""
        sizes = [
            self.plan.group_layouts[each].group_beats * self.plan.beat_bytes
            for each in (0, 1, 2, 2)
        ]
        if len(set(sizes)) == 1:
            return times(count, sizes[0])
        return Array([times(count, size) for size in sizes])[cls]

    def _group(self, m, cls, cols_left, offset, at_mantissas) -> "GroupRequest":
        """Return the next request: a whole group, or the exponents of a group that begins with a
        later block, and then the elements of the group."""
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
        rest = Signal(range(group + 1))  # bytes from the first elements to the next group
        space = Signal(range(GROUP_BLOCKS + 1))
        m.d.comb += [
            space.eq(GROUP_BLOCKS - offset),
            blocks.eq(Mux(cols_left < space, cols_left, space)),
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
        requested = Signal.like(both, name="group_beats")
        moved = Signal(range(group + 1))
        with m.If(offset == 0):
            m.d.comb += [requested.eq(both), moved.eq(self._groups_bytes(cls, Const(1, 1)))]
        with m.Elif(~at_mantissas):
            m.d.comb += [requested.eq(exponents), moved.eq(skipped)]
        with m.Else():
            m.d.comb += [requested.eq(beats), moved.eq(rest)]
        return GroupRequest(requested, moved, blocks, (offset == 0) | at_mantissas)
