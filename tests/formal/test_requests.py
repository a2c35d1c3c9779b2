"""The block address generator: inside the images of the tensors, and every wanted beat once."""

import pytest
from amaranth.hdl import Array, Assert, Assume, Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from diastole_hw.load.region_requests import RegionRequests
from diastole_hw.plan.modes import Mode
from diastole_hw.schedule.regions import STEPS
from diastole_hw.schedule.tokens import POSITION, TENSOR, Region, chunk_layout, region_layout
from diastole_hw.transfer.times import times
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.image import GROUP_BLOCKS
from diastole_sim.spec.sizes.uses import DY, W, X
from formal.prove import prove, refute
from support.plans import make_numerics, make_plan
from support.regions import BLOCKS, COL_MAX, OPERANDS, REGIONS, ROW_MAX
from support.sweep import sweep

ASSERTIONS = 23  # one of them is the address unit's own
IMAGE_GROUPS = 3
CHUNK, STEP, MAXIMA, LOCATE, ROW, REQUEST, GROUP = range(7)  # states of the unit

REGISTERS = ("step", "left", "group_addr", "rows_left", "cols_left", "at_mantissas", "offset")
PROBES = {name: f"dut.{name}" for name in (*REGISTERS, "described")} | {
    "wanted": "dut.table.needed",
    "mode_kept": "dut.mode",
    "row_addr": "dut.first_row.address",
    "columns_at": "dut.columns_at",
    "column_before": "dut.col0",
    "kind_before": "dut.kind",
    "kind_of_step": "dut.table.kind",
    "factor": "dut.first_row.left",
    "addend": "dut.first_row.term",
    "located": "dut.first_row.none",
    "cls": "dut.cls",
    "beats": "dut.beats",
    "group_beats": "dut.group_beats",  # of what is asked for next, at a group
    "state": "dut.fsm_state",
    "kept": "dut.chunk",
}


class RequestsSpec(wiring.Component):
    """Watch one beat that a chunk needs: of the exponents or elements of a block, or of maxima.

    Assumes that product, chunk and watched beat stay, the product from before a chunk is offered
    and the chunk from before it is taken; 1 to 8 blocks of each dimension from a
    position below 16 on, columns from whole granules on; of the watched rectangle 1 or 2 rows, from
    one below 4 on; its image of at most 7 rows of blocks and of three groups, below address 16,
    maxima at whole beats; in the fused pass all of N in a chunk, as the walk has it. Images of
    other tensors than the watched one may be anything. In the fused pass what streams is always
    loaded. Where only blocks are watched, that no chunk is the first of its tile, so that a fault
    in what follows is found in few steps.
    """

    def __init__(self, dut: RegionRequests, mode: Mode, parts):
        self.dut, self.mode = dut, mode
        self.regions = {k: found for k, found in REGIONS[mode].items() if found[2] in parts}
        chunk = chunk_layout(dut.plan)
        self.constant = {
            "tensors": data.ArrayLayout(TENSOR, 3),
            "to_columns": 5,
            "c_blocks": 5,  # of the whole contraction
            "chunk": chunk,
            "image_rows": 5,  # blocks of the watched tensor
            "image_cols": 5,
            "watched": Region,
            "watched_row": 3,  # a block
            "watched_col": 5,
            "watched_beat": 4,  # of the block's group, or of the maxima
        }
        free = {"offered": 1, "space": 1, "region_taken": 1, "ready": 1}
        region = region_layout(dut.plan)
        probes = dict.fromkeys(("row_addr", "group_addr", "addend"), unsigned(ADDRESS_BITS))
        probes |= dict.fromkeys(("rows_left", "cols_left"), region["rows"].shape)
        columns_at = dut._groups_bytes(Signal(2), Signal(POSITION)[3:])
        probes["columns_at"] = columns_at.shape()
        probes["column_before"] = POSITION
        probes |= {"kind_before": Region, "kind_of_step": Region}
        probes |= {"factor": POSITION, "at_mantissas": 1, "offset": range(GROUP_BLOCKS)}
        entry = Signal(POSITION.width + dut.plan.log_block)
        count = Signal(len(Signal(region["rows"].shape)) + dut.plan.log_block)
        of_maxima = len(dut._beats_of_maxima(entry, count))
        plan, classes = dut.plan, range(3)
        most = max(plan.group_layouts[cls].block_beats(GROUP_BLOCKS) for cls in classes)
        exponents = max(plan.group_layouts[cls].exponent_beats for cls in classes)
        of_group = (most + exponents).bit_length()
        probes |= {"located": 1, "beats": max(of_maxima, of_group), "group_beats": of_group}
        probes["cls"] = 2
        probes |= {"step": range(STEPS), "left": STEPS, "wanted": STEPS, "described": 1}
        probes |= {"mode_kept": Mode, "state": 3, "kept": chunk}
        super().__init__({n: In(s) for n, s in (self.constant | free | probes).items()})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        self.known = Signal()  # the product is, from the cycle before on
        m.d.comb += [
            dut.product.mode.eq(self.mode),
            dut.product.tensors.eq(self.tensors),
            dut.product.c_blocks.eq(self.c_blocks),
            dut.product.to_columns.eq(self.to_columns),
            dut.chunks.valid.eq(self.offered & self.known),
            dut.chunks.payload.eq(self.chunk),
            dut.space.eq(self.space),
            dut.regions.ready.eq(self.region_taken),
            dut.requests.ready.eq(self.ready),
        ]
        now = Cat(*(Value.cast(getattr(self, name)) for name in self.constant))
        before = Signal(len(now))
        waited = Signal()  # a chunk was offered in the cycle before
        m.d.sync += [self.known.eq(1), waited.eq(dut.chunks.valid)]
        m.d.comb += Assume((waited & (before == now)) | ~dut.chunks.valid | ~dut.chunks.ready)
        self.take = dut.chunks.valid & dut.chunks.ready
        m.d.sync += before.eq(now)
        self.ran = Signal()  # a chunk has been taken
        m.d.comb += Assume((before == now) | ~self.ran)
        self._axes(m)
        self._watch(m)
        self._place(m)
        self._requests(m)
        self._induction(m)
        return m

    def _axes(self, m):
        """First block and number of blocks of the chunk, by dimension."""
        chunk, most = self.chunk, self.dut.plan.chunk(north=False)
        pairs = ((chunk.t0, chunk.t_blocks), (chunk.l0, chunk.l_blocks), (chunk.c0, chunk.c_blocks))
        for first, count in pairs:
            m.d.comb += Assume((first < 16) & (count != 0) & (count <= most))
        if self.mode == Mode.FUSED:
            m.d.comb += Assume((chunk.l0 == 0) & chunk.load_stream)
            m.d.comb += Assume(chunk.c0 + chunk.c_blocks <= self.c_blocks)
        if not any(part != BLOCKS for _, _, part in self.regions.values()):
            m.d.comb += Assume(~chunk.first)
        self.axes = dict(zip("tlc", pairs, strict=True))

    def _watch(self, m):
        """What is known of the watched region: its tensor, rectangle, step, and whether it is due.

        Maxima are a row of ``cols`` entries from ``col0`` on.
        """
        plan = self.dut.plan
        widths = {"base": 6, "row0": 2, "rows": 2, "col0": 4, "cols": 5, "due": 1}
        widths |= {"due_step": 3, "due_cls": 2, "blocks": 1, "first_beat": 5, "end_beat": 5}
        for name, width in widths.items():
            setattr(self, name, Signal(width, name=name))
        self.first_beats = Array(Signal(5, name=f"first_beat_{j}") for j in range(GROUP_BLOCKS))
        self.starts = Array(Signal(10, name=f"start_{g}") for g in range(8 * IMAGE_GROUPS))
        chunk = self.chunk
        m.d.comb += Assume(
            (self.image_cols > 2 * GROUP_BLOCKS) & (self.image_cols <= 3 * GROUP_BLOCKS)
        )
        with m.Switch(self.watched):
            for kind, (step, cls, part) in self.regions.items():
                with m.Case(kind):
                    rows, cols = (self.axes[axis] for axis in OPERANDS[self.mode][cls])
                    due = chunk.first
                    if part == BLOCKS:
                        due = (
                            chunk.load_stationary
                            if kind == Region.STATIONARY
                            else chunk.load_stream
                        )
                        if self.mode == Mode.FUSED and cls == W:
                            due = chunk.first
                    elif self.mode == Mode.FUSED and cls == DY:  # once, for the whole pass
                        due = chunk.first & chunk.first_t & chunk.first_l
                        rows = 0, self.c_blocks
                    tensor = self.tensors[cls]
                    base = (tensor.base, tensor.row_max, tensor.row_max + self.to_columns)[part]
                    m.d.comb += [
                        self.base.eq(base),
                        self.due.eq(due),
                        self.due_step.eq(step),
                        self.due_cls.eq(cls),
                        self.blocks.eq(part == BLOCKS),
                    ]
                    m.d.comb += [
                        start.eq(group * self._group_bytes(cls))
                        for group, start in enumerate(self.starts)
                    ]
                    m.d.comb += Assume((base < 16) & (tensor.base < 16))
                    m.d.comb += Assume(base % plan.beat_bytes == 0)
                    m.d.comb += Assume(tensor.pitch == self._group_bytes(cls) * IMAGE_GROUPS)
                    if part == BLOCKS:
                        m.d.comb += [self.row0.eq(rows[0]), self.rows.eq(rows[1])]
                        m.d.comb += [self.col0.eq(cols[0]), self.cols.eq(cols[1])]
                        m.d.comb += Assume((rows[0] < 4) & (rows[1] < 3) & (self.image_rows < 8))
                        m.d.comb += Assume(cols[0] % plan.group_layouts[cls].granule == 0)
                        self._beats_of_block(m, cls)
                    else:
                        first, count = rows if part == ROW_MAX else cols
                        m.d.comb += [self.col0.eq(first), self.cols.eq(count), self.rows.eq(1)]
                        length = self.image_rows if part == ROW_MAX else self.image_cols
                        m.d.comb += Assume(first + count <= length)
            with m.Default():
                m.d.comb += Assume(0)

    def _group_bytes(self, cls):
        return self.dut.plan.group_layouts[cls].group_beats * self.dut.plan.beat_bytes

    def _offset(self, row, col=0):
        """Bytes from the watched image's start to the group of a block."""
        return self.starts[(row * IMAGE_GROUPS + (col >> 3))[:5]]

    def _beats_of_block(self, m, cls):
        """Beats of the group in which the watched block has elements."""
        plan = self.dut.plan
        bits = plan.block * plan.group_layouts[cls].row_bits
        first = plan.group_layouts[cls].exponent_beats
        starts = [first + j * bits // plan.data_width for j in range(GROUP_BLOCKS)]
        ends = [first + -(-(j + 1) * bits // plan.data_width) for j in range(GROUP_BLOCKS)]
        place = self.watched_col % GROUP_BLOCKS
        m.d.comb += [each.eq(first) for each, first in zip(self.first_beats, starts, strict=True)]
        m.d.comb += [self.first_beat.eq(Array(starts)[place]), self.end_beat.eq(Array(ends)[place])]

    def _place(self, m):
        """The address of the watched beat, which the chunk needs."""
        plan = self.dut.plan
        col, beat = self.watched_col, self.watched_beat
        in_rows = (self.watched_row >= self.row0) & (self.watched_row < self.row0 + self.rows)
        in_cols = (col >= self.col0) & (col < self.col0 + self.cols)
        m.d.comb += Assume(in_rows & in_cols)
        exponents = beat < plan.group_layouts[X].exponent_beats  # as of every class
        elements = (beat >= self.first_beat) & (beat < self.end_beat)
        maximum = beat == col >> (plan.beat_bytes.bit_length() - 1)
        m.d.comb += Assume(Mux(self.blocks, exponents | elements, maximum))
        m.d.comb += Assume(~self.blocks | (self.row0 + self.rows <= self.image_rows))
        m.d.comb += Assume(~self.blocks | (self.col0 + self.cols <= self.image_cols))
        self.group_start = Signal(16)
        self.address = Signal(16)
        start = Mux(self.blocks, self._offset(self.watched_row, col), 0)
        m.d.comb += self.group_start.eq(self.base + start)
        m.d.comb += self.address.eq(self.group_start + beat * plan.beat_bytes)

    def _requests(self, m):
        """Requests of the watched region are inside its image, and one has the watched beat."""
        plan, dut = self.dut.plan, self.dut
        request = dut.requests.p
        self.kind = kind = Signal(Region)  # of the region that was announced last
        announced = dut.regions.valid & self.region_taken
        with m.If(announced):
            m.d.sync += kind.eq(dut.regions.p.kind)
        # Maxima are announced with their request, which may be offered before it is taken.
        together = self.state == MAXIMA
        told = dut.requests.valid & self.ready
        m.d.comb += Assert(~together | (announced == told), "maxima apart from their region")
        current = Mux(announced | together, dut.regions.p.kind.as_value(), kind.as_value())
        mine = current == self.watched.as_value()
        asks = dut.requests.valid & mine
        end = request.addr + request.beats * plan.beat_bytes
        last_maxima = self.base + self._whole_beats(self.col0 + self.cols)
        image_end = Mux(self.blocks, self.base + self._offset(self.image_rows), last_maxima)
        self.seen = seen = Signal()
        hit = Signal()
        m.d.comb += hit.eq(
            asks & self.ready & (request.addr <= self.address) & (self.address < end)
        )
        with m.If(self.take):
            m.d.sync += [self.ran.eq(1), seen.eq(0)]
        with m.Elif(hit):
            m.d.sync += seen.eq(1)
        m.d.comb += Assert(~asks | self.due, "asked for what is not due")
        m.d.comb += Assert(
            ~asks | ((request.addr >= self.base) & (end <= image_end)), "outside the image"
        )
        m.d.comb += Assert(~asks | (request.beats != 0), "an empty request")
        m.d.comb += Assert(~(hit & seen), "a beat twice")
        m.d.comb += Assert(~self.take | ~self.ran | ~self.due | seen, "a beat left out")

    def _whole_beats(self, bytes_):
        unit = self.dut.plan.beat_bytes
        return (bytes_ + (unit - 1)) // unit * unit

    def _induction(self, m):
        """How the unit's registers stand to its position: what induction needs."""
        inside = self.state >= LOCATE
        busy = self.state != CHUNK  # with a step
        wanted = Signal(STEPS)  # in the cycle before
        m.d.sync += wanted.eq(self.wanted)
        m.d.comb += Assert(busy | (self.left == wanted), "not the steps of what is offered")
        m.d.comb += Assert(~self.known | (self.mode_kept == self.mode), "another product")
        kept = self.kind_before == self.kind_of_step
        m.d.comb += Assert(~busy | (self.state == STEP) | kept, "the kind of another step")
        here = busy & (self.step == self.due_step)
        moving = here & inside & self.blocks
        m.d.comb += Assert(self.state <= GROUP, "no such state")
        m.d.comb += Assert(
            (self.state == CHUNK) | (self.ran & (self.kept == self.chunk)), "the chunk changed"
        )
        behind = Cat(self.step < number for number in range(STEPS))
        at_step = Cat(self.step == number for number in range(STEPS))
        goes_on = ((at_step & self.wanted) != 0) & (self.left == (self.wanted & behind))
        m.d.comb += Assert(~busy | goes_on, "not the steps that ask for something")
        begin, end = self._maxima_from(), self._whole_beats(self.col0 + self.cols)
        these = self.group_addr == self.base + begin
        these &= self.beats * self.dut.plan.beat_bytes == end - begin
        at_maxima = (self.step < 4) & (~here | these)
        m.d.comb += Assert((self.state != MAXIMA) | at_maxima, "at other maxima")
        at_blocks = 0
        for kind, (step, _, part) in self.regions.items():
            if part == BLOCKS:
                at_blocks |= (self.step == step) & (self.kind == kind)
        announced = inside & (self.described | (self.state != LOCATE))
        m.d.comb += Assert(~announced | at_blocks, "not the blocks that were announced")
        m.d.comb += Assert(~inside | (self.step >= 4), "blocks that are maxima")
        row = Signal(4)  # of the rectangle: the one at work, or the next
        col = Signal(5)
        at_group = self.state >= REQUEST
        m.d.comb += row.eq(self.rows - self.rows_left - at_group)
        found = (self.state != REQUEST) | (self.beats == self.group_beats)
        m.d.comb += Assert(found, "asks for another number of beats than the group's")
        m.d.comb += Assert(~here | (self.cls == self.due_cls), "another tensor")
        m.d.comb += col.eq(self.col0 + self.cols - self.cols_left)
        sought = self.factor != 0  # the address of the first row is not known yet
        m.d.comb += Assert((self.state == LOCATE) | ~sought, "goes on without the address")
        m.d.comb += Assert(self.located == ~sought, "another idea of whether it is known")
        m.d.comb += Assert(~(moving) | self.due, "at work on what is not due")
        m.d.comb += Assert(~moving | self._position(row, col), "lost")

        wanted = self.watched_row - self.row0
        same_group = (col >> 3) == (self.watched_col >> 3)
        later_group = (col >> 3) > (self.watched_col >> 3)
        in_exponents = self.watched_beat < self.dut.plan.group_layouts[X].exponent_beats
        past_group = later_group | (same_group & self.at_mantissas & in_exponents)
        past_row = (row > wanted) | (at_group & (row == wanted) & past_group)
        past = (self.step > self.due_step) | (here & inside & (self.state != LOCATE) & past_row)
        past = Mux(self.state == CHUNK, self.ran, past)
        m.d.comb += Assert(self.seen == (past & self.due), "out of order")

    def _maxima_from(self):
        return self.col0 & ~(self.dut.plan.beat_bytes - 1)

    def _position(self, row, col):
        multiplying = 0  # after k cycles the low k bits of the first row have been used
        for k in range(4):
            multiplying |= (
                (self.factor == self.row0 >> k)
                & (self.addend == self._offset(Const(1)) << k)
                & (self.row_addr == self.base + self._offset(self.row0 & ((1 << k) - 1)))
            )
        done = self.row_addr == self.base + self._offset(self.row0)
        multiplying |= (self.factor == 0) & done  # what would be added next is anything then
        multiplying &= self.rows_left == self.rows
        next_row = self.base + self._offset(self.row0 + row + (self.state >= REQUEST))
        rows = (self.rows_left <= self.rows) & (self.row_addr == next_row)
        group = self.base + self._offset(self.row0 + row, col)
        elements = self.first_beats[col % GROUP_BLOCKS] * self.dut.plan.beat_bytes
        groups = (
            (self.rows_left < self.rows)
            & (self.cols_left != 0)
            & (self.cols_left <= self.cols)
            & (self.offset == col % GROUP_BLOCKS)
            & ((self.offset == 0) | (self.cols_left == self.cols))
            & (self.group_addr == group + Mux(self.at_mantissas, elements, 0))
            & (~self.at_mantissas | (self.offset != 0))
        )
        columns = (self.state == LOCATE) | (self.columns_at == self._offset(Const(0), self.col0))
        columns &= self.column_before == self.col0
        begins = (self.cols_left == self.cols) & (self.offset == self.col0 % GROUP_BLOCKS)
        begins &= ~self.at_mantissas
        at_work = Mux(self.state == ROW, begins, groups)
        located = Mux(self.state == LOCATE, multiplying, rows & at_work)
        return columns & located


def requests(mode, unit=RegionRequests, parts=(BLOCKS, ROW_MAX, COL_MAX)):
    formats = ("bfp3", "bfp5", "bfp2")  # granules of 2, 4 and 8 blocks
    numerics = make_numerics(block=2, formats=formats, fraction=3, headroom=2)
    return RequestsSpec(unit(make_plan(numerics, data_width=32)), mode, parts)


@pytest.mark.parametrize(
    "mode",
    [sweep(Mode.FORWARD), Mode.DX, sweep(Mode.DW), Mode.FUSED],
    ids=lambda mode: mode.name,
)
def test_requests(mode):
    prove(requests(mode), assertions=ASSERTIONS, probes=PROBES)


class ReadsPastTheMaxima(RegionRequests):
    """One beat too many."""

    def _beats_of_maxima(self, first, count):
        return super()._beats_of_maxima(first, count) + 1


class ReadsTheOtherMaxima(RegionRequests):
    """Those of rows always."""

    def _maxima(self, table, tensor, first):
        aligned = table.entry0 & ~(self.plan.beat_bytes - 1)
        return tensor.row_max + aligned[: len(table.entry0)]


@pytest.mark.parametrize("broken", [sweep(ReadsPastTheMaxima), ReadsTheOtherMaxima])
def test_broken_maxima_are_refuted(broken):
    refute(requests(Mode.FUSED, broken), assertions=ASSERTIONS, probes=PROBES)


class ReadsOn(RegionRequests):
    """Takes all blocks of every group."""

    def _group(self, m, *arguments):
        found = super()._group(m, *arguments)
        m.d.comb += found.beats.eq(self.plan.group_layouts[W].group_beats)
        return found


class MistakesTheTensor(RegionRequests):
    """Takes every group to be as long as one of X."""

    def _groups_bytes(self, cls, count):
        return times(count, self.plan.group_layouts[X].group_beats * self.plan.beat_bytes)


def blocks_only(unit):
    return requests(Mode.FORWARD, unit, parts=(BLOCKS,))


def test_blocks_only():
    prove(blocks_only(RegionRequests), assertions=ASSERTIONS, probes=PROBES)


@pytest.mark.parametrize("broken", [sweep(ReadsOn), MistakesTheTensor])
def test_broken_blocks_are_refuted(broken):
    refute(blocks_only(broken), assertions=ASSERTIONS, probes=PROBES)
