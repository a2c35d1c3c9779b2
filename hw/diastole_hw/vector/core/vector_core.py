"""Core of the vector unit: run programs over blocks."""

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
from diastole_hw.vector.core.result_destinations import ResultDestinations
from diastole_hw.vector.core.special_lanes import SpecialLanes
from diastole_hw.vector.core.timing import OPERANDS_AT
from diastole_hw.vector.stream_layouts import (
    WORD,
    VectorShape,
    output_block_layout,
    row_layout,
    stream_layout,
    visited_layout,
)
from diastole_sim.spec.micro import (
    CONSTANTS,
    INPUTS,
    MAX_INSTRUCTIONS,
    MICRO_BITS,
    OUTPUTS,
    REGISTERS,
)
from diastole_sim.spec.stream_table import STREAMS, Kind


class VectorCore(wiring.Component):
    """Run a program over the blocks of a tensor, as :mod:`diastole_sim.spec.micro` and
    :mod:`diastole_sim.spec.stream_table` define. The core does not check programs: a program that
    breaks a rule must be refused earlier.

    Timing: an instruction takes ``slot_cycles``, max(B, 8), and begins as defined by
    :class:`Issue`. In cycle r of an instruction, from 0 on, row r of the streams and of the panel
    is read. The result of the row is written, to registers, panel and outputs, in cycle r + 7, and
    can be read from cycle r + 8 on. The delays are equal for rows in another order
    (:mod:`diastole_hw.vector.core.row_order`). :class:`Prefetch` defines when instructions are
    available, and :mod:`diastole_hw.vector.core.timing` the cycles of special instructions. The
    first instruction begins 6 cycles after ``start``, if a block and everything that the
    instruction needs are available. ``done`` is high B + 8 cycles after the first cycle of the last
    instruction, or later if the special lanes are busy.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    start : In(1)
        Pulse: a chain begins. ``streams``, ``program_first`` and ``program_length`` are stable from
        ``start`` to ``done``.
    streams : In(8 of :func:`stream_layout`)
    program_first, program_length : In(8), In(range(33))
    blocks : In(stream of :func:`visited_layout`)
        Blocks in the order of the walk.
    program_en, program_at, program_word : Out(1), Out(8), In(64)
    constant_en, constant_at, constant_word : Out(1), Out(8), In(32)
        Read ports of tables. A word is valid 1 cycle after the request.
    panel_read_en, panel_read_at, panel_read : Out(1), Out, In(:func:`row_layout`)
        Read port of the panel. A vector is valid 1 cycle after the request.
    panel_write_en, panel_write_at, panel_write : Out(1), Out, Out(:func:`row_layout`)
        Write port of the panel. The core never reads and writes a vector in the same cycle.
    panel_write_watched : Out(1)
        The written vector belongs to a watched output.
    level : In(array of 4 range(5))
        Number of whole blocks in the buffer of an input stream of memory or a product.
    row_at : Out(range(B))
    rows : In(array of 4 :func:`row_layout`)
        Row of the oldest block of every stream, valid 1 cycle after ``row_at``. Elements outside
        the tensor are +0.
    release_block : Out(1)
        Release the oldest block of every used stream. ``level`` is 1 less in the next cycle.
    output_block : Out(stream of :func:`output_block_layout`)
        Announcement of an output block, before the block's rows. Only offered when ``space`` is
        high.
    space : In(1)
        Free space for B rows beyond the rows of all announced blocks.
    out_row : Out({"valid": 1, "row": row_layout})
        Rows of the announced blocks, in order, without back-pressure.
    done : Out(1)
        Pulse: everything is written.
    working, waits_inputs, waits_outputs, waits_specials : Out(1)
        Events of :class:`Issue`, for counters.
    """

    blocks: stream.Interface
    output_block: stream.Interface

    def __init__(self, shape: VectorShape):
        self.shape = shape
        row = row_layout(shape)
        super().__init__(
            {
                "start": In(1),
                "streams": In(data.ArrayLayout(stream_layout(shape), STREAMS)),
                "program_first": In(8),
                "program_length": In(range(MAX_INSTRUCTIONS + 1)),
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
                "release_block": Out(1),
                "output_block": Out(stream.Signature(output_block_layout(shape))),
                "space": In(1),
                "out_row": Out(data.StructLayout({"valid": unsigned(1), "row": row})),
                "done": Out(1),
                "working": Out(1),
                "waits_inputs": Out(1),
                "waits_outputs": Out(1),
                "waits_specials": Out(1),
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
        self._connect_status(m, issue)
        self._read(m, issue, operands, registers, results)
        rows = self._calculate(m, operands)
        self._write(m, issue, registers, rows)
        self._special(m, issue, operands, results)
        within = self.start & (issue.age != issue.latest)
        m.d.sync += Assert(~within, "a chain begins within another")
        return m

    def _fetch(self, m, prefetch, issue):
        """Connect the prefetch to blocks, memories and the issue unit."""
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

    def _connect_status(self, m, issue):
        """Connect the issue unit to streams and outputs, and the status outputs of the core."""
        wiring.connect(m, issue.output_block, wiring.flipped(self.output_block))
        in_buffers = Cat(
            self.streams[number].used & (self.streams[number].kind != Kind.PANEL)
            for number in range(INPUTS)
        )
        names = (
            "done",
            "working",
            "waits_inputs",
            "waits_outputs",
            "waits_specials",
            "release_block",
        )
        m.d.comb += [getattr(self, name).eq(getattr(issue, name)) for name in names]
        m.d.comb += [
            issue.used.eq(in_buffers),
            issue.level.eq(self.level),
            issue.space.eq(self.space),
            self.row_at.eq(issue.row),
        ]

    def _read(self, m, issue, operands, registers, results):
        """Address the sources of a row in this cycle. The data reaches the operands in the next
        cycle."""
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
        """Return a row of results."""
        results = []
        for number in range(self.shape.block):
            m.submodules[f"lane{number}"] = lane = Lane()
            m.d.comb += [
                lane.op.eq(operands.op),
                lane.keep.eq(operands.keep[number]),
                lane.a.eq(operands.a[number]),
                lane.b.eq(operands.b[number]),
                lane.c.eq(operands.c[number]),
            ]
            results.append(lane.result)
        return Cat(results)

    def _write(self, m, issue, registers, rows):
        """Write results from the lanes to register, panel and output."""
        m.submodules.places = places = ResultDestinations(self.shape)
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
        """Send the operands of a special instruction to the special lanes, and store the result."""
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
