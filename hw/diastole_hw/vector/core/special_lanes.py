"""Special lanes: send a block of operands through a few lanes, and collect a block of results."""

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_hw.memory.ram import Ram
from diastole_hw.vector.core.timing import groups
from diastole_hw.vector.float.special import SpecialLane
from diastole_hw.vector.stream_layouts import WORD, VectorShape, row_layout
from diastole_sim.spec.micro import OP_BITS


class SpecialLanes(wiring.Component):
    """Run a special operation on a block: row after row, each row in groups of ``specials`` lanes.

    Timing: row r of the block is accepted in cycle r after ``begins``, 0 to B - 1. With S = B
    special lanes the lanes receive row r in the same cycle. With fewer special lanes the lanes
    receive group g of row r 2 cycles after cycle r B / S + g. A row is written in the cycle in
    which the lanes output the last group of the row. The next block may begin B B / S cycles after
    this block.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    begins, op : In(1), In(5)
        Pulse, and a MicroOp from ``exp`` on.
    row : In(:func:`row_layout`)
    write_en, write_at, write : Out(1), Out(range(max(2, B))), Out(:func:`row_layout`)
    """

    def __init__(self, shape: VectorShape):
        self.shape = shape
        super().__init__(
            {
                "begins": In(1),
                "op": In(OP_BITS),
                "row": In(row_layout(shape)),
                "write_en": Out(1),
                "write_at": Out(range(max(2, shape.block))),
                "write": Out(row_layout(shape)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        wide = groups(self.shape) == 1
        begins, op, values = (self._direct if wide else self._waiting)(m)
        results = []
        for number in range(self.shape.specials):
            m.submodules[f"lane{number}"] = lane = SpecialLane()
            m.d.comb += [lane.op.eq(op), lane.a.eq(values[number])]
            results.append(lane.result)
        for cycle in range(SpecialLane.latency):
            late = Signal(name=f"begins_{cycle}")
            m.d.sync += late.eq(begins)
            begins = late
        self._write(m, begins, results)
        return m

    def _direct(self, m):
        """Return begin pulse, operation and operands of the lanes, with a lane per element: no row
        waits."""
        stored_op = data_register(OP_BITS)
        with m.If(self.begins):
            m.d.sync += stored_op.eq(self.op)
        return self.begins, Mux(self.begins, self.op, stored_op), list(self.row)

    def _waiting(self, m):
        """Write rows to a memory, and return begin pulse, operation and operands of the lanes, a
        group per cycle."""
        lanes, shape = self.shape.specials, self.shape
        m.submodules.rows = ram = Ram(width=shape.vector_bits, depth=shape.block)
        row, coming = self._count(m, self.begins, shape.block, "coming")
        starts, stored_op = Signal(), data_register(OP_BITS)
        step, going = self._count(m, starts, shape.block * groups(shape), "going")
        group, begins = Signal(range(groups(shape))), Signal()
        m.d.sync += [starts.eq(self.begins), group.eq(step), begins.eq(starts)]
        with m.If(self.begins):
            m.d.sync += stored_op.eq(self.op)
        op = data_register(OP_BITS)
        m.d.sync += op.eq(stored_op)
        m.d.comb += [
            ram.write_en.eq(coming),
            ram.write_addr.eq(row),
            ram.write_data.eq(self.row),
            ram.read_en.eq(going & (step[: len(group)] == 0)),
            ram.read_addr.eq(step[len(group) :]),
        ]
        chosen = Signal(WORD * lanes)
        m.d.comb += chosen.eq(ram.read_data.word_select(group, len(chosen)))
        return begins, op, [chosen.word_select(lane, WORD) for lane in range(lanes)]

    def _count(self, m, begins, cycles, name):
        """Return a counter, 0 to ``cycles`` - 1 from the cycle of ``begins`` on, and whether the
        counter runs."""
        number = Signal(range(cycles), name=f"{name}_number")
        next_one = Signal(range(cycles + 1), name=f"{name}_next", init=cycles)
        going = Signal(name=name)
        m.d.comb += [
            number.eq(Mux(begins, 0, next_one)),
            going.eq(begins | (next_one != cycles)),
        ]
        with m.If(going):
            m.d.sync += next_one.eq(number + 1)
        early = begins & (next_one != cycles)
        m.d.sync += Assert(~early, "a block begins within another")
        return number, going

    def _write(self, m, begins, results):
        """Keep the groups of a row, and write the row with the last group."""
        shape = self.shape
        last = groups(shape) - 1
        step, going = self._count(m, begins, shape.block * groups(shape), "output")
        previous = data_register(WORD * shape.specials * last)
        now = Cat(results)
        row = Cat(previous, now)
        with m.If(going):
            m.d.sync += previous.eq(row[WORD * shape.specials :])
        bits = last.bit_length()
        m.d.comb += [
            self.write_en.eq(going & step[:bits].all()),
            self.write_at.eq(step[bits:]),
            Value.cast(self.write).eq(row),
        ]
