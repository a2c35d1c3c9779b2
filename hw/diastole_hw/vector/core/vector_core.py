"""The core of the vector unit: programs over blocks."""

from amaranth.hdl import Array, Assert, Cat, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_hw.vector.core.entry import is_register
from diastole_hw.vector.core.issue import BLOCKS, Issue
from diastole_hw.vector.core.lane import Lane
from diastole_hw.vector.core.operands import Operands
from diastole_hw.vector.core.prefetch import Prefetch
from diastole_hw.vector.core.register_file import RowFile
from diastole_hw.vector.core.result_places import ResultPlaces
from diastole_hw.vector.core.special_lanes import SpecialLanes
from diastole_hw.vector.core.timing import OPERANDS_AT
from diastole_hw.vector.stream_layouts import (
    WORD,
    VectorShape,
    given_layout,
    row_layout,
    stream_layout,
    visited_layout,
)
from diastole_sim.spec.micro import (
    CONSTANTS,
    INPUTS,
    MICRO_BITS,
    MOST_INSTRUCTIONS,
    OUTPUTS,
    REGISTERS,
)
from diastole_sim.spec.stream_table import STREAMS, Kind


class VectorCore(wiring.Component):
    """Run a program over the blocks of a tensor, as :mod:`diastole_sim.spec.micro` and
    :mod:`diastole_sim.spec.stream_table` define it; programs that break a rule are not for it.

    Timing: an instruction takes ``slot_cycles``, max(B, 8), and begins when :class:`Issue` says;
    let cycle 0 be its first. Row r of its streams and of the panel is read in cycle r, and its
    results are written, to registers, panel and outputs, in cycle r + 7: seen by reads from cycle r
    + 8 on; where rows come in another order (:mod:`diastole_hw.vector.core.row_order`), likewise.
    :class:`Prefetch` says when instructions are there, :mod:`diastole_hw.vector.core.timing` how
    long special ones take. From ``start`` to the first instruction's first cycle 6 cycles pass, if
    a block is there by then, and all that it needs; ``done`` comes B + 8 cycles after the last
    one's first cycle, or later if the special lanes work.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    start : In(1)
        A pulse: a chain begins. ``streams``, ``program_first``, ``program_length`` must hold from
        then on until ``done``.
    streams : In(8 of :func:`stream_layout`)
    program_first, program_length : In(8), In(range(33))
    blocks : In(stream of :func:`visited_layout`)
        In the order of the walk.
    program_en, program_at, program_word : Out(1), Out(8), In(64)
    constant_en, constant_at, constant_word : Out(1), Out(8), In(32)
        Memories; their words are there one cycle after they were asked for.
    panel_read_en, panel_read_at, panel_read : Out(1), Out, In(:func:`row_layout`)
        Likewise.
    panel_write_en, panel_write_at, panel_write : Out(1), Out, Out(:func:`row_layout`)
        Never of the vector that is read in the same cycle.
    panel_write_watched : Out(1)
        What is written goes to an output that is watched.
    level : In(array of 4 range(5))
        By input stream of memory or a product: whole blocks in its buffer.
    row_at : Out(range(B))
    rows : In(array of 4 :func:`row_layout`)
        One cycle later; of the oldest block of each stream, +0 outside the tensor.
    give_back : Out(1)
        The oldest block of every stream that is used is done with; ``level`` is one less in the
        next cycle.
    given : Out(stream of :func:`given_layout`)
        An output block begins: its rows will come. Only offered when ``room`` is high.
    room : In(1)
        For B rows more than those of all blocks that were given.
    out_row : Out({"valid": 1, "row": row_layout})
        Rows of the blocks that were given, in their order; nobody can refuse them.
    done : Out(1)
        For one cycle: everything is written.
    working, wants_inputs, wants_outputs, wants_specials : Out(1)
        As of :class:`Issue`, to be counted.
    """

    blocks: stream.Interface
    given: stream.Interface

    def __init__(self, shape: VectorShape):
        self.shape = shape
        row = row_layout(shape)
        super().__init__(
            {
                "start": In(1),
                "streams": In(data.ArrayLayout(stream_layout(shape), STREAMS)),
                "program_first": In(8),
                "program_length": In(range(MOST_INSTRUCTIONS + 1)),
                "blocks": In(stream.Signature(visited_layout(shape))),
                "program_en": Out(1),
                "program_at": Out(8),
                "program_word": In(MICRO_BITS),
                "constant_en": Out(1),
                "constant_at": Out(range(CONSTANTS)),
                "constant_word": In(WORD),
                "panel_read_en": Out(1),
                "panel_read_at": Out(shape.panel_bits),
                "panel_read": In(row),
                "panel_write_en": Out(1),
                "panel_write_at": Out(shape.panel_bits),
                "panel_write": Out(row),
                "panel_write_watched": Out(1),
                "level": In(data.ArrayLayout(range(BLOCKS + 1), INPUTS)),
                "row_at": Out(range(shape.block)),
                "rows": In(data.ArrayLayout(row, INPUTS)),
                "give_back": Out(1),
                "given": Out(stream.Signature(given_layout(shape))),
                "room": In(1),
                "out_row": Out(data.StructLayout({"valid": unsigned(1), "row": row})),
                "done": Out(1),
                "working": Out(1),
                "wants_inputs": Out(1),
                "wants_outputs": Out(1),
                "wants_specials": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        shape = self.shape
        m.submodules.prefetch = prefetch = Prefetch(shape)
        m.submodules.issue = issue = Issue(shape)
        m.submodules.operands = operands = Operands(shape)
        m.submodules.registers = registers = RowFile(shape, rows=REGISTERS * shape.block)
        m.submodules.results = results = RowFile(shape, rows=max(2, shape.block))
        self._fetch(m, prefetch, issue)
        self._tell(m, issue)
        self._read(m, issue, operands, registers, results)
        rows = self._calculate(m, operands)
        self._write(m, issue, registers, rows)
        self._special(m, issue, operands, results)
        within = self.start & (issue.age != issue.latest)
        m.d.sync += Assert(~within, "a chain begins within another")
        return m

    def _fetch(self, m, prefetch, issue):
        wiring.connect(m, prefetch.o, issue.i)
        wiring.connect(m, wiring.flipped(self.blocks), prefetch.blocks)
        m.d.comb += [
            prefetch.start.eq(self.start),
            prefetch.first.eq(self.program_first),
            prefetch.length.eq(self.program_length),
            prefetch.streams.eq(self.streams),
            self.program_en.eq(prefetch.program_en),
            self.program_at.eq(prefetch.program_at),
            prefetch.program_word.eq(self.program_word),
            self.constant_en.eq(prefetch.constant_en),
            self.constant_at.eq(prefetch.constant_at),
            prefetch.constant_word.eq(self.constant_word),
            issue.block.eq(prefetch.block),
        ]

    def _tell(self, m, issue):
        """Others of what the core does."""
        wiring.connect(m, issue.given, wiring.flipped(self.given))
        in_buffers = Cat(
            self.streams[number].used & (self.streams[number].kind != Kind.PANEL)
            for number in range(INPUTS)
        )
        names = ("done", "working", "wants_inputs", "wants_outputs", "wants_specials", "give_back")
        m.d.comb += [getattr(self, name).eq(getattr(issue, name)) for name in names]
        m.d.comb += [
            issue.used.eq(in_buffers),
            issue.level.eq(self.level),
            issue.room.eq(self.room),
            self.row_at.eq(issue.row),
        ]

    def _read(self, m, issue, operands, registers, results):
        """The sources of a row: addresses now, data for the operands in the next cycle."""
        slot, bits = issue.slot, self.shape.row_bits
        for port, letter in enumerate("abc"):
            operand = slot.entry[letter]
            row = issue.row ^ slot.entry.turn_rows if letter == "c" and bits else issue.row
            m.d.comb += [
                registers.read_en[port].eq(
                    issue.active & is_register(operand) & ~slot.renamed[port]
                ),
                registers.read_at[port].eq(Cat(row[:bits], operand.source[:4])),
                results.read_en[port].eq(issue.active & slot.renamed[port]),
                results.read_at[port].eq(row[:bits]),
            ]
        m.d.comb += [
            self.panel_read_en.eq(issue.active & slot.entry.from_panel),
            self.panel_read_at.eq(slot.entry.panel_read + issue.row),
            operands.slot.eq(slot),
            operands.row.eq(issue.row),
            operands.registers.eq(registers.read),
            operands.results.eq(results.read),
            operands.streams.eq(self.rows),
            operands.panel.eq(self.panel_read),
        ]

    def _calculate(self, m, operands):
        """A row of results."""
        found = []
        for number in range(self.shape.block):
            m.submodules[f"lane{number}"] = lane = Lane()
            m.d.comb += [
                lane.op.eq(operands.op),
                lane.keep.eq(operands.keep[number]),
                lane.a.eq(operands.a[number]),
                lane.b.eq(operands.b[number]),
                lane.c.eq(operands.c[number]),
            ]
            found.append(lane.result)
        return Cat(found)

    def _write(self, m, issue, registers, rows):
        """Results, once they have come through the lanes, to register, panel and output."""
        m.submodules.places = places = ResultPlaces(self.shape)
        watched = [self.streams[INPUTS + number].watch for number in range(OUTPUTS)]
        m.d.comb += [
            places.slot.eq(issue.slot),
            places.age.eq(issue.age),
            registers.write_en.eq(places.register_en),
            registers.write_at.eq(Cat(places.row, places.register)),
            registers.write.eq(rows),
            self.panel_write_en.eq(places.panel_en),
            self.panel_write_at.eq(places.vector),
            self.panel_write.eq(rows),
            self.panel_write_watched.eq(Array(watched)[places.stream]),
            self.out_row.valid.eq(places.stream_en),
            self.out_row.row.eq(rows),
        ]
        meets = self.panel_read_en & self.panel_write_en
        same = meets & (self.panel_read_at == self.panel_write_at)
        m.d.sync += Assert(~same, "a vector of the panel is read while it is written")

    def _special(self, m, issue, operands, results):
        """The operands of a special instruction, and its result."""
        m.submodules.special = special = SpecialLanes(self.shape)
        entry = issue.slot.entry
        begins = issue.active & (issue.row == 0) & entry.special
        op = entry.op
        for cycle in range(OPERANDS_AT):
            late = Signal(name=f"begins_{cycle}")
            late_op = data_register(op.shape(), name=f"op_{cycle}")
            m.d.sync += [late.eq(begins), late_op.eq(op)]
            begins, op = late, late_op
        m.d.comb += [
            special.begins.eq(begins),
            special.op.eq(op),
            special.row.eq(operands.b),
            results.write_en.eq(special.write_en),
            results.write_at.eq(special.write_at),
            results.write.eq(special.write),
        ]
