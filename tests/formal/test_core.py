# amaranth: UnusedElaboratable=no
"""The vector unit's waiting: whatever instructions come whenever, each sees the registers as those
before it left them, and none that comes after it."""

import pytest
from amaranth.hdl import Array, Assert, Assume, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In

from diastole_hw.vector.core import special_lanes, vector_core
from diastole_hw.vector.core.entry import entry_layout, is_register
from diastole_hw.vector.core.issue import Issue
from diastole_hw.vector.core.lane import Lane
from diastole_hw.vector.core.timing import OPERANDS_AT
from diastole_hw.vector.core.vector_core import VectorCore
from diastole_hw.vector.float.special import SpecialLane
from diastole_hw.vector.stream_layouts import VectorShape
from diastole_sim.spec.micro import MicroOp, Source
from formal.prove import prove_bounded, refute_bounded
from support.edits import edited
from support.sweep import sweep

SHAPE = VectorShape(block=2, data_width=64, specials=1, panel_vectors=4)
ASSERTIONS = 22  # all but one are the unit's own
CYCLES = 19
LATE = 26
"""Cycles in which what a special instruction left has been copied and read."""
QUICK = [
    ("PIPELINE + entry.turn_rows", "PIPELINE"),
    ("self.age >= shape.slot_cycles - 1", "self.age >= shape.slot_cycles - 3"),
]
SLOW = [
    ("wrote.eq(owner.mapped)", "wrote.eq(1)"),
    ("slot.renamed.eq(renamed)", "slot.renamed.eq(0)"),
    ("complete.eq(age >= soon - 1)", "complete.eq(age >= soon - 2)"),
    ("(mapped & permuted & ~settled)", "(mapped & permuted & ~complete)"),
    ("with m.Elif(go & writes):", "with m.Elif(go & entry.end):"),
    ("slot.entry.d.eq(owner.register)", "slot.entry.d.eq(self.i.p.d)"),
    ("slot.renamed[0].eq(1)", "slot.renamed[0].eq(0)"),
]
"""Faults in the text of the unit; those that are found late are found in sweeps."""
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
    """The core without what fetches its instructions: ``entries`` come instead. ``operands``: bit 0
    of those that the lanes have."""

    def __init__(self, shape):
        super().__init__(shape)
        self.entries = stream.Signature(entry_layout(shape)).create()
        lanes = data.ArrayLayout(1, shape.block)
        self.operands = Signal(data.ArrayLayout(lanes, 3))

    def _fetch(self, m, prefetch, issue):
        wiring.connect(m, self.entries, issue.i)

    def _calculate(self, m, operands):
        for found, letter in zip(self.operands, "abc", strict=True):
            m.d.comb += found.eq(Cat(number[0] for number in getattr(operands, letter)))
        return super()._calculate(m, operands)


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
            dut.space.eq(1),
            dut.output_block.ready.eq(1),
        ]
        self._assume(m, entry)
        taken = Signal()
        m.d.comb += taken.eq(entries.valid & entries.ready & ~entry.end)
        rows = data.ArrayLayout(data.ArrayLayout(1, lanes), lanes)
        registers = Array(Signal(rows, name=f"own_{n}") for n in range(NAMED))
        result = Signal(rows, name="own_result")
        expected = Signal(data.ArrayLayout(data.ArrayLayout(data.ArrayLayout(1, lanes), 3), lanes))
        for row in range(lanes):
            a, b, c = (self._operand(entry, registers, letter, row) for letter in "abc")
            c = [Mux(entry.fresh, 0, c[n]) for n in range(lanes)]
            m.d.comb += expected[row].eq(Cat(*a, *b, *c))
            for lane in range(lanes):
                value = Mux(entry.op == MicroOp.MOV, a[lane], a[lane] ^ b[lane] ^ c[lane])
                m.d.comb += result[row][lane].eq(Mux(entry.special, ~b[lane], value))
        with m.If(taken & entry.writes):
            m.d.sync += registers[entry.d].eq(result)
        self._compare(m, taken, entry.special, expected)
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
        alone = (
            entry.writes & ~entry.writes_output & (entry.turn_rows == 0) & (entry.turn_lanes == 0)
        )
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

    def _compare(self, m, taken, special, expected):
        """What the lanes have, row after row; of a special instruction b alone is its own."""
        kept = Signal(expected.shape(), name="expected")
        alone = Signal()
        for cycle in range(OPERANDS_AT):
            late = Signal(name=f"taken_{cycle}")
            m.d.sync += late.eq(taken)
            taken = late
            later = Signal(expected.shape(), name=f"expected_{cycle}")
            later_alone = Signal(name=f"alone_{cycle}")
            m.d.sync += [later.eq(expected), later_alone.eq(special)]
            expected, special = later, later_alone
        row = Signal(range(self.dut.shape.block + 1), init=self.dut.shape.block)
        with m.If(taken):
            m.d.sync += [row.eq(0), kept.eq(expected), alone.eq(special)]
        with m.Elif(row != self.dut.shape.block):
            m.d.sync += row.eq(row + 1)
        compared = row != self.dut.shape.block
        right = [
            (self.dut.operands[n] == kept[row[: self.dut.shape.row_bits]][n]) | (alone & (n != 1))
            for n in range(3)
        ]
        m.d.comb += Assert(
            ~compared | Cat(*right).all(), "a register is read too early or too late"
        )


@pytest.fixture(autouse=True)
def bare(monkeypatch):
    monkeypatch.setattr(vector_core, "Lane", BareLane)
    monkeypatch.setattr(special_lanes, "SpecialLane", BareSpecialLane)


def test_instructions_see_what_was_written_before_them():
    prove_bounded(CoreSpec(FedCore(SHAPE)), assertions=ASSERTIONS, cycles=CYCLES)


@pytest.mark.sweep
def test_instructions_see_what_was_copied_before_them():
    prove_bounded(CoreSpec(FedCore(SHAPE)), assertions=ASSERTIONS, cycles=LATE)


@pytest.mark.parametrize("old, new", [*QUICK, *SLOW])
def test_every_fault_has_its_place(old, new):
    assert edited(Issue, old, new) is not Issue


@pytest.mark.parametrize("old, new", [*QUICK, *(sweep(*edit) for edit in SLOW)])
def test_core_with_a_fault_in_its_waiting_is_refuted(monkeypatch, old, new):
    monkeypatch.setattr(vector_core, "Issue", edited(Issue, old, new))
    refute_bounded(CoreSpec(FedCore(SHAPE)), assertions=ASSERTIONS, cycles=LATE)
