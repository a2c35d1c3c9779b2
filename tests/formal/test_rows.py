# amaranth: UnusedElaboratable=no
"""Blocks of any side: whatever instructions come whenever, none reads a row of a register or a
vector of the panel before the instructions before it have written that row, or after it has
written the row itself.

The proof of the whole core (test_core.py) has blocks of two rows. There no row is read 8 cycles
after another, so that proof cannot see an instruction that overtakes itself. This one has blocks as
they are generated; it counts how often one row of a register, and one vector, were written.
"""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from diastole_hw.vector.core import row_order
from diastole_hw.vector.core.entry import entry_layout, is_register
from diastole_hw.vector.core.issue import Issue
from diastole_hw.vector.core.result_destinations import ResultDestinations
from diastole_hw.vector.core.row_order import row_at, row_order_of
from diastole_hw.vector.core.timing import WRITTEN_AT
from diastole_hw.vector.stream_layouts import VectorShape
from formal.prove import prove, refute
from support.edits import edited
from support.sweep import sweep

ASSERTIONS = 17  # 7 are the units' own; one more where rows can be paired
BLOCKS = 4
"""Of the panel."""
COUNT = 3
"""Bits of a count of writes: two at most are due."""
PROBES = {"position": "places.position", "kept": "places.stored", "gave": "issue.gave"}


class Writes:
    """How often one row of one memory was to be written, and was: ``ordered`` by all instructions
    that were taken, ``due`` by those before the slot, ``done`` in the cycles before this one."""

    def __init__(self, m, name):
        self.m, self.name = m, name
        self.ordered = Signal(COUNT, name=f"own_{name}_ordered")
        self.due = Signal(COUNT, name=f"own_{name}_due")
        self.done = Signal(COUNT, name=f"own_{name}_done")

    def count(self, *, orders, begins, writes):
        """``orders``: an instruction that will write the row is taken. ``begins``: a slot does."""
        self.writes = writes
        self.m.d.sync += [
            self.ordered.eq(self.ordered + orders),
            self.done.eq(self.done + writes),
        ]
        with self.m.If(begins):
            self.m.d.sync += self.due.eq(self.ordered)

    def never_reads_wrong(self, reads):
        right = (self.done == self.due) & ~self.writes
        self.m.d.comb += Assert(~reads | right, f"{self.name}: read too early or too late")

    def adds_up(self, *, of_slot, left_of_slot, left_before):
        """Writes of the slot, and those that are left to do of it and of the slot before."""
        self.m.d.comb += [
            Assert((self.due + of_slot)[:COUNT] == self.ordered, f"{self.name}: lost"),
            Assert(
                (self.done + left_of_slot + left_before)[:COUNT] == self.ordered,
                f"{self.name}: written twice, or never",
            ),
        ]


class RowsSpec(wiring.Component):
    """Instructions of any kind in any cycles, none of which waits for a stream.

    Assumes of a program what its rules say, that no instruction is special, and that one that waits
    stays as it is. Rows of register 0 are counted; ``row`` and ``vector`` stay what they are.
    """

    def __init__(self, shape: VectorShape, unit=Issue, order=row_order_of):
        self.shape, self.unit, self.order = shape, unit, order
        kept = ResultDestinations(shape).stored_layout
        super().__init__(
            {
                "offered": In(1),
                "entry": In(entry_layout(shape)),
                "vector": In(shape.panel_bits),
                "row": In(shape.row_bits),
                "position": In(range(shape.block + 1)),
                "kept": In(kept),
                "gave": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.issue = issue = self.unit(self.shape)
        m.submodules.places = places = ResultDestinations(self.shape)
        self.slot, self.age, self.oldest = issue.slot.entry, issue.age, issue.latest
        entry = self._entry(m)
        taken, begins = Signal(), Signal()
        m.d.comb += [
            issue.i.valid.eq(self.offered),
            issue.i.payload.eq(entry),
            issue.space.eq(1),
            issue.output_block.ready.eq(1),
            places.slot.eq(issue.slot),
            places.age.eq(issue.age),
            taken.eq(issue.i.valid & issue.i.ready),
            begins.eq(taken | issue.output_block.valid),
        ]
        self._steady(m, entry, taken)
        self._places(m, issue)
        self._registers(m, issue, places, taken, begins)
        self._panel(m, issue, places, taken, begins)
        self._output(m, issue, places)
        return m

    def _entry(self, m):
        """What is offered, in the order of rows that the unit chooses for it."""
        free, shape = self.entry, self.shape
        entry = Signal(free.shape(), name="offered_entry")
        m.d.comb += [
            entry.eq(free),
            entry.end.eq(0),
            entry.special.eq(0),
            entry.streams.eq(0),
            entry.order.eq(self.order(m, shape, free)),
        ]
        m.d.comb += [Assume(rule) for rule in self._rules(free)]
        return entry

    def _rules(self, entry):
        """Those of a program that matter here."""
        own = entry.writes & is_register(entry.c) & (entry.c.source[:4] == entry.d)
        far, turn = (entry.turn_rows >= 8) & own, entry.turn_rows
        last = self.shape.panel_vectors - self.shape.block
        return [
            (turn & (turn - 1)[: len(turn)]) == 0,
            (turn >> self.shape.row_bits) == 0,
            is_register(entry.c) | (turn == 0),
            ~(entry.writes_output & entry.to_panel),
            ~(far & entry.from_panel & (entry.writes_output | entry.to_panel)),
            (entry.panel_read <= last) & (entry.panel_write <= last),
        ]

    def _steady(self, m, entry, taken):
        row, vector = Signal.like(self.row, name="own_row"), Signal.like(self.vector, name="own_v")
        started, waits = Signal(name="own_started"), Signal(name="own_waits")
        held = Signal(entry.shape(), name="own_held")
        m.d.sync += [started.eq(1), row.eq(self.row), vector.eq(self.vector)]
        m.d.sync += [waits.eq(self.offered & ~taken), held.eq(entry)]
        same = self.offered & (entry.as_value() == held.as_value())
        m.d.comb += [
            Assume(~started | ((row == self.row) & (vector == self.vector))),
            Assume(~waits | same),
            Assert(started | ~waits, "waits before it began"),
        ]
        if self.shape.block > 8:
            paired = held.writes_output & ~held.to_panel & (held.order == row_order.RowOrder.PAIRED)
            m.d.comb += Assert(~self.gave | (waits & paired), "two slots of another instruction")
        order = self.order(m, self.shape, self.slot)
        sound = Cat(*self._rules(self.slot)).all() & (self.slot.order == order)
        sound &= ~(self.slot.writes_output & self.slot.order.any())
        m.d.comb += Assert(sound | (self.age == self.oldest), "a slot of no program")

    def _places(self, m, issue):
        """Results of the slot before leave the lanes until age 7, and how far they are is known."""
        age, position, kept, slot = issue.age, self.position, self.kept, self.slot
        block, shortest = self.shape.block, self.shape.slot_cycles
        self.before = age < WRITTEN_AT
        turned = slot.turn_rows.any() & is_register(slot.c) & kept.writes
        turned &= slot.c.source[:4] == kept.d
        apart = slot.from_panel & kept.to_panel
        apart &= (slot.panel_read ^ kept.panel_write)[: self.shape.row_bits].any()
        disordered = slot.order.any() | kept.order.any()

        def at_least(number):
            return (position >= number) | (position == block)

        same = Cat(slot[name] == kept[name] for name in kept.shape().members).all()
        own = (position == Mux(age < WRITTEN_AT + block, age - WRITTEN_AT, block)) & (
            same | (position == block)
        )
        earlier = at_least(age + shortest - WRITTEN_AT)
        earlier &= ~turned | at_least(age + 1 + slot.turn_rows)
        earlier &= ~(apart | disordered) | (position == block)
        known = (age <= issue.latest) & Mux(self.before, earlier, own)
        m.d.comb += Assert(known, "results are elsewhere")

    def _left(self, issue, entry, row):
        """Whether the slot has still to write a row; whether the slot before has."""
        of_slot = issue.age <= row_at(self.shape, self.slot, row) + WRITTEN_AT
        of_kept = self.position <= row_at(self.shape, self.kept, entry)
        return of_slot, self.before & of_kept

    def _registers(self, m, issue, places, taken, begins):
        slot, kept, entry = self.slot, self.kept, self.entry
        writes = Writes(m, "register")
        writes.count(
            orders=taken & entry.writes & (entry.d == 0),
            begins=begins,
            writes=places.register_en & (places.register == 0) & (places.row == self.row),
        )
        of_slot, of_kept = slot.writes & (slot.d == 0), kept.writes & (kept.d == 0)
        left, before = self._left(issue, self.row, self.row)
        writes.adds_up(of_slot=of_slot, left_of_slot=of_slot & left, left_before=of_kept & before)
        turned = (issue.row ^ slot.turn_rows)[: self.shape.row_bits]
        reads = [
            is_register(slot[letter])
            & (slot[letter].source[:4] == 0)
            & ((turned if letter == "c" else issue.row) == self.row)
            for letter in "abc"
        ]
        writes.never_reads_wrong(issue.active & Cat(reads).any())

    def _panel(self, m, issue, places, taken, begins):
        slot, kept, entry, bits = self.slot, self.kept, self.entry, self.shape.panel_bits
        writes = Writes(m, "panel")

        def place(first):
            return (self.vector - first)[:bits]

        def inside(first):
            return place(first) < self.shape.block

        writes.count(
            orders=taken & entry.to_panel & inside(entry.panel_write),
            begins=begins,
            writes=places.panel_en & (places.vector == self.vector),
        )
        of_slot = slot.to_panel & inside(slot.panel_write)
        of_kept = kept.to_panel & inside(kept.panel_write)
        left, before = self._left(issue, place(kept.panel_write), place(slot.panel_write))
        writes.adds_up(of_slot=of_slot, left_of_slot=of_slot & left, left_before=of_kept & before)
        read = (slot.panel_read + issue.row)[:bits]
        writes.never_reads_wrong(issue.active & slot.from_panel & (read == self.vector))

    def _output(self, m, issue, places):
        ascends = places.row == self.position[: self.shape.row_bits]
        m.d.comb += [
            Assert(~places.stream_en | ascends, "rows of an output do not ascend"),
        ]


def shape(block, panel_blocks=BLOCKS):
    return VectorShape(
        block=block, data_width=64, specials=block, panel_vectors=panel_blocks * block
    )


@pytest.mark.parametrize("block", [2, 4, 8, 16, 32])
def test_no_row_is_read_too_early_or_too_late(block):
    prove(RowsSpec(shape(block)), assertions=ASSERTIONS + (block > 8), probes=PROBES)


def ascending(m, shape, entry):
    """The order that every instruction once had."""
    return row_order.RowOrder.ASCENDING


@pytest.mark.parametrize("block", [8, 16, sweep(32)])
def test_rows_that_always_ascend_are_refuted(block):
    spec = RowsSpec(shape(block), order=ascending)
    refute(spec, assertions=ASSERTIONS + (block > 8), probes=PROBES, depth=40)


QUICK = [
    (8, "next_age < PIPELINE + entry.turn_rows", "next_age < PIPELINE + entry.turn_rows - 1"),
    (16, "wrote.eq(self.i.p.writes & ~writes_first)", "wrote.eq(self.i.p.writes)"),
    (16, "slot.entry.order.eq(RowOrder.ASCENDING)", "slot.entry.order.eq(RowOrder.PAIRED)"),
]
SLOW = [
    (16, "disordered.eq(entry.order.any() | before.order.any())", "disordered.eq(entry.order[0])"),
    (16, "disordered.eq(entry.order.any() | before.order.any())", "disordered.eq(before.order[0])"),
    (16, "PIPELINE + self.shape.block - 1)", "PIPELINE + self.shape.block - 2)"),
    (
        16,
        "slot.entry.writes_output.eq(self.i.p.writes_output & ~gave)",
        "slot.entry.writes_output.eq(self.i.p.writes_output)",
    ),
    (16, "self.age >= shape.slot_cycles - 1", "self.age >= shape.slot_cycles - 2"),
]
"""Blocks, and faults in the text of the unit; those that are found late are found in sweeps."""


@pytest.mark.parametrize("block, old, new", [*QUICK, *SLOW])
def test_every_fault_has_its_place(block, old, new):
    assert edited(Issue, old, new) is not Issue


@pytest.mark.parametrize("block, old, new", [*QUICK, *(sweep(*edit) for edit in SLOW)])
def test_issue_with_a_fault_in_its_text_is_refuted(block, old, new):
    spec = RowsSpec(shape(block), edited(Issue, old, new))
    refute(spec, assertions=ASSERTIONS + (block > 8), probes=PROBES, depth=50)
