# amaranth: UnusedElaboratable=no
"""The vector unit's waiting: whatever instructions come whenever, each sees the registers as those
before it left them, and none that comes after it."""

import inspect

import pytest
from amaranth.hdl import Array, Assert, Assume, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.vector import core, special_lanes
from diastole_hw.vector.core import VectorCore
from diastole_hw.vector.entry import entry_layout, is_register
from diastole_hw.vector.issue import Issue
from diastole_hw.vector.lane import Lane
from diastole_hw.vector.shape import WORD, VectorShape, row_layout
from diastole_hw.vector.special import SpecialLane
from diastole_sim.spec.micro import REGISTERS, MicroOp, Source
from formal.prove import prove_bounded, refute_bounded
from support.sweep import sweep

SHAPE = VectorShape(block=2, data_width=64, specials=1, panel_vectors=4)
ASSERTIONS = 22  # all but one are the unit's own
CYCLES = 23
NAMED = 2  # registers that instructions name


class BareLane(wiring.Component):
    """A lane as quick as the unit's, whose result has bit 0 of a with those of b and c added."""

    def __init__(self):
        super().__init__(Lane().signature)

    def elaborate(self, platform):
        m = Module()
        value = Mux(self.op == MicroOp.MOV, self.a[0], self.a[0] ^ self.b[0] ^ self.c[0])
        _delay(m, value, self.result, Lane.latency)
        return m


class BareSpecialLane(wiring.Component):
    """A special lane as quick as the unit's, which flips bit 0."""

    latency = SpecialLane.latency

    def __init__(self):
        super().__init__(SpecialLane().signature)

    def elaborate(self, platform):
        m = Module()
        _delay(m, ~self.a[0], self.result, self.latency)
        return m


def _delay(m, value, result, cycles):
    for cycle in range(cycles):
        late = Signal(name=f"late_{cycle}")
        m.d.sync += late.eq(value)
        value = late
    m.d.comb += result.eq(value)


class FedCore(VectorCore):
    """The core without what fetches its instructions: ``entries`` come instead."""

    def __init__(self, shape):
        super().__init__(shape)
        self.entries = stream.Signature(entry_layout(shape)).create()

    def _fetch(self, m, prefetch, issue):
        wiring.connect(m, self.entries, issue.i)


class CoreSpec(wiring.Component):
    """Entries of any instructions in any cycles, of which bit 0 of every number is calculated here
    at once, when an instruction is taken; what it gives to an output must be that.

    Operands are registers, a constant that may be anything, and +0. Nothing is outside the tensor.
    """

    def __init__(self, dut: FedCore):
        self.dut = dut
        super().__init__({"offered": In(1), "entry": In(entry_layout(dut.shape))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        entry, entries = self.entry, dut.entries
        lanes = dut.shape.block
        m.d.comb += [
            entries.valid.eq(self.offered),
            entries.payload.eq(entry),
            dut.room.eq(1),
            dut.given.ready.eq(1),
        ]
        self._assume(m, entry)
        taken = Signal()
        m.d.comb += taken.eq(entries.valid & entries.ready & ~entry.end)
        rows = data.ArrayLayout(data.ArrayLayout(1, lanes), lanes)
        registers = Array(Signal(rows, name=f"own_{n}") for n in range(NAMED))
        result = Signal(rows, name="own_result")
        for row in range(lanes):
            a, b, c = (self._operand(entry, registers, letter, row) for letter in "abc")
            c = [Mux(entry.fresh, 0, c[n]) for n in range(lanes)]
            for lane in range(lanes):
                value = Mux(entry.op == MicroOp.MOV, a[lane], a[lane] ^ b[lane] ^ c[lane])
                m.d.comb += result[row][lane].eq(Mux(entry.special, ~b[lane], value))
        with m.If(taken & entry.writes):
            m.d.sync += registers[entry.d].eq(result)
        self._compare(m, taken & entry.gives, result)
        return m

    def _assume(self, m, entry):
        registers = {}
        for letter in "abc":
            operand = entry[letter]
            registers[letter] = is_register(operand)
            known = (operand.source == Source.CONSTANT) | (operand.source == Source.ZERO)
            m.d.comb += Assume((operand.source < NAMED) | known)
        m.d.comb += [
            Assume(entry.d < NAMED),
            Assume(entry.special == (entry.op >= MicroOp.EXP)),
            Assume((entry.streams == 0) & ~entry.from_panel & ~entry.to_panel & ~entry.keep),
            Assume(entry.turn_lanes == 0),
            Assume(registers["c"] | (entry.turn_rows == 0)),
        ]
        alone = entry.writes & ~entry.gives & (entry.turn_rows == 0) & (entry.turn_lanes == 0)
        alone &= (entry.a.source == Source.ZERO) & (entry.c.source == Source.ZERO)
        m.d.comb += Assume(~entry.special | alone)

    def _operand(self, entry, registers, letter, row):
        """A row of an operand's bits."""
        operand = entry[letter]
        lanes = range(self.dut.shape.block)
        kept = Array(registers)[operand.source[:1]]
        turn = letter == "c"
        found = []
        for lane in lanes:
            at = row ^ (entry.turn_rows[0] if turn else 0)
            constant = (operand.source == Source.CONSTANT) & entry.constant[0]
            found.append(Mux(is_register(operand), kept[at][lane], constant))
        return found

    def _compare(self, m, gives, result):
        """Rows as they come out, of the two instructions whose rows can be on their way."""
        dut, lanes = self.dut, self.dut.shape.block
        kept = Array(Signal(result.shape(), name=f"given_{n}") for n in range(2))
        write, read, row = Signal(), Signal(), Signal(range(lanes))
        with m.If(gives):
            m.d.sync += [kept[write].eq(result), write.eq(~write)]
        right = Cat(number[0] for number in dut.out_row.row) == kept[read][row].as_value()
        with m.If(dut.out_row.valid):
            m.d.sync += row.eq(row + 1)
            with m.If(row == lanes - 1):
                m.d.sync += read.eq(~read)
        m.d.comb += Assert(~dut.out_row.valid | right, "a register is read too early or too late")


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    monkeypatch.setattr(core, "Lane", BareLane)
    monkeypatch.setattr(special_lanes, "SpecialLane", BareSpecialLane)


def test_instructions_see_what_was_written_before_them():
    prove_bounded(CoreSpec(FedCore(SHAPE)), assertions=ASSERTIONS, cycles=CYCLES)
