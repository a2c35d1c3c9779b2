# amaranth: UnusedElaboratable=no
"""The vector unit's instructions: none that has all it needs from outside waits for ever, and a
chain is done in time after its last."""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from diastole_hw.vector.core.entry import entry_layout
from diastole_hw.vector.core.issue import BLOCKS, Issue
from diastole_hw.vector.core.row_order import RowOrder
from diastole_hw.vector.core.timing import special_cycles, whole_cycles
from diastole_hw.vector.stream_layouts import PIPELINE, VectorShape
from diastole_sim.spec.micro import INPUTS
from formal.prove import prove, refute
from support.edits import edited
from support.sweep import sweep

ASSERTIONS = 11  # six are the unit's own
QUICK = [
    ("with m.Elif(self.age != self.latest)", "with m.Elif(self.age != self.latest - 1)"),
    ("releases.eq(~free), ending", "releases.eq(1), ending"),
    ("self._inputs(m, free & releases)", "self._inputs(m, Const(0))"),
    ("self.i.p.end & inputs & ~releases", "self.i.p.end & inputs"),
    ("self.i.p.end & inputs & ~releases", "self.i.p.end & ~releases"),
    ("~self.i.p.writes_output | gave | self.space", "Const(1)"),
    ("(self.i.p.streams & ~inputs) == 0", "Const(1)"),
    ("self.release_block.eq(free & (releases | ended))", "self.release_block.eq(releases | ended)"),
]
SLOW = [
    ("(self.age == self.latest) & rests", "(self.age == self.latest + 1) & rests"),
    ("(entry.special & ~complete)", "entry.special"),
    ("(mapped & (named.any() | writes) & ~complete)", "(mapped & (named.any() | writes))"),
    ("(mapped & permuted & ~settled)", "(mapped & permuted)"),
    ("level > leaves", "level > 1"),
]
"""Faults in the text of the unit; those that are found late are found in sweeps."""
SHAPES = [(1, 1), (2, 1), (4, 1), (16, 4)]
PROBES = {
    "gave": "dut.gave",
    "special_age": "dut.special_age",
    "ending": "dut.ending",
    "releases": "dut.releases",
}


class IssueSpec(wiring.Component):
    """Entries of any kind in any cycles, in any blocks; what comes in is there, or is not, as it
    likes, but a block that is there stays until it is given back.

    Assumes of a program that its instructions read streams that are used, and need one order of
    their rows at most; that nothing comes after the walk's end until ``done``; and that an
    instruction that waits stays as it is.
    """

    def __init__(self, dut: Issue):
        self.dut, shape = dut, dut.shape
        self.most_of_special = special_cycles(shape) + whole_cycles(shape)
        super().__init__(
            {
                "offered": In(1),
                "entry": In(entry_layout(shape)),
                "last": In(1),
                "comes": In(INPUTS),
                "used": In(INPUTS),
                "space": In(1),
                "special_age": In(range(self.most_of_special)),
                "ending": In(1),
                "releases": In(1),
                "gave": In(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        entry = self.entry
        shape = dut.shape
        finished = Signal()  # the walk's end was taken, and is not done
        used = Signal(INPUTS)
        started = Signal()
        m.d.sync += [started.eq(1), used.eq(self.used)]
        m.d.comb += [
            Assume(~started | (used == self.used)),
            Assume((entry.streams & ~self.used) == 0),
            Assume(~(finished & self.offered)),
            dut.i.valid.eq(self.offered),
            dut.i.payload.eq(entry),
            dut.block.end.eq(self.last),
            dut.used.eq(self.used),
            dut.space.eq(self.space),
            dut.output_block.ready.eq(self.space),
        ]
        kept = Signal(entry.shape(), name="own_kept")
        m.d.sync += kept.eq(entry)
        if shape.block > PIPELINE:
            m.d.comb += [
                Assume(~entry.order.all()),
                Assume(~self.gave | (self.offered & (entry.as_value() == kept.as_value()))),
            ]
        self.paired = kept.writes_output & ~kept.end & (kept.order == RowOrder.PAIRED)
        levels = self._levels(m)
        takes = Signal()
        m.d.comb += takes.eq(dut.i.valid & dut.i.ready)
        with m.If(takes & entry.end & self.last):
            m.d.sync += finished.eq(1)
        with m.Elif(dut.done):
            m.d.sync += finished.eq(0)
        self._wait(m, levels, takes, finished)
        self._induction(m, levels, finished, started)
        return m

    def _levels(self, m):
        """Blocks that are here, of each stream."""
        levels = []
        for number in range(INPUTS):
            level = Signal(range(BLOCKS + 1), name=f"own_level_{number}")
            leaves = self.dut.release_block & self.used[number]
            m.d.comb += self.dut.level[number].eq(level)
            more = self.comes[number] & (level != BLOCKS)
            m.d.sync += level.eq(Mux(leaves & (level == 0), 0, level + more - leaves))
            levels.append(level)
        return levels

    def _wait(self, m, levels, takes, finished):
        dut, entry = self.dut, self.entry
        plenty = Cat(level > self.releases for level in levels) | ~self.used
        fed = plenty.all() & (self.space | ~entry.writes_output | entry.end)
        most = max(self.most_of_special, dut.latest + dut.shape.block)
        waited = Signal(range(most + 2), name="own_waited")
        begins = takes | dut.output_block.valid  # or the first slot of two
        m.d.sync += waited.eq(Mux(self.offered & fed & ~begins, waited + 1, 0))
        rested = Signal(range(most + 2), name="own_rested")
        m.d.sync += rested.eq(Mux(finished & ~dut.done, rested + 1, 0))
        self.most, self.waited, self.rested = most, waited, rested
        m.d.comb += [
            Assert(waited <= most, "an instruction waits for ever"),
            Assert(rested <= most, "a chain is never done"),
        ]

    def _induction(self, m, levels, finished, started):
        """What was waited for, the unit is as old as that."""
        dut = self.dut
        special_most = self.most_of_special - 1
        true = [
            dut.age <= dut.latest,
            self.special_age <= special_most,
            self.ending == finished,
            (self.waited <= dut.age) | (dut.age == dut.latest),
            (self.waited <= self.special_age) | (self.special_age == special_most),
            (self.rested <= dut.age) | (dut.age == dut.latest),
            (self.rested <= self.special_age) | (self.special_age == special_most),
            (self.rested == 0) | finished,
            ~self.releases | (dut.age < dut.shape.slot_cycles),
            ~self.gave | (self.paired & started),
            started | ((dut.age == dut.latest) & ~self.releases & ~finished),
            (dut.age == dut.latest) | ((dut.slot.entry.streams & ~self.used) == 0),
            *(level <= BLOCKS for level in levels),
        ]
        empty = Cat(level == 0 for level in levels)
        reads = dut.age < dut.shape.slot_cycles
        true.append(~(reads & (dut.slot.entry.streams & empty).any()))
        m.d.comb += Assert(Cat(*true).all(), "lost")
        ended, due = Signal(), Signal(range(4), name="own_due")
        m.d.comb += ended.eq(dut.i.valid & dut.i.ready & self.entry.end)
        m.d.sync += due.eq(due + ended - dut.release_block)
        m.d.comb += Assert(due == self.releases, "not a block given back for every end")
        held = Cat((level != 0) | ~self.used[n] for n, level in enumerate(levels)).all()
        m.d.comb += Assert(~self.releases | held, "a block to give back is not there")


def issue(block, specials, unit=Issue):
    return IssueSpec(
        unit(VectorShape(block=block, data_width=64, specials=specials, panel_vectors=16))
    )


@pytest.mark.parametrize("block, specials", SHAPES)
def test_no_instruction_waits_for_ever(block, specials):
    prove(issue(block, specials), assertions=ASSERTIONS, probes=PROBES)


@pytest.mark.parametrize("old, new", [*QUICK, *SLOW])
def test_every_fault_has_its_place(old, new):
    assert edited(Issue, old, new, Const=Const) is not Issue


@pytest.mark.parametrize("old, new", [*QUICK, *(sweep(*edit) for edit in SLOW)])
@pytest.mark.sampled(2)
def test_issue_with_a_fault_in_its_text_is_refuted(old, new):
    broken = edited(Issue, old, new, Const=Const)
    refute(issue(2, 1, broken), assertions=ASSERTIONS, depth=40, probes=PROBES)
