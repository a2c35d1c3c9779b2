"""The room of a ring: no slab over another one that is taken, and none refused for ever."""

from itertools import pairwise

import pytest
from amaranth.hdl import Array, Assert, Assume, Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In

from diastole_hw.schedule.ring import RingSpace
from formal.prove import prove, refute
from support.edits import edited
from support.sweep import sweep

ASSERTIONS = 6
EDITS = [
    ("wrapped.eq(newest < oldest)", "wrapped.eq(0)"),
    ("self.place + self.slab <= oldest", "self.place <= oldest"),
    ("wraps.eq(self.place <= newest)", "wraps.eq(self.place < newest)"),
    ("left == 1", "left == 2"),
    ("Mux(self.start, count, before)", "before"),
    ("Mux(self.start, self.place, first)", "first"),
]
"""Faults in the text of the unit."""


SLAB = data.StructLayout({"place": 8, "length": 8, "older": 1})


class RingSpec(wiring.Component):
    """Slabs of product after product, taken and given back whenever there is room for one and there
    is one. A product's slabs have one length, any; it begins at 0 or where the one before it has
    ended, while slabs of that one are taken, but none of the one before that.

    This side keeps a list of the slabs that are taken, the oldest first.
    """

    def __init__(self, dut: RingSpace):
        self.dut = dut
        blocks = dut.blocks
        super().__init__(
            {
                "next_slab": In(range(blocks + 1)),
                "starts": In(1),
                "at_zero": In(1),
                "takes": In(1),
                "writes_output": In(1),
                # Probes.
                "oldest": In(range(blocks)),
                "newest": In(range(blocks)),
                "length": In(range(blocks + 1)),
                "count": In(range(blocks + 1)),
                "before": In(range(blocks + 1)),
                "first": In(range(blocks)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        blocks = dut.blocks
        taken = Array(Signal(SLAB, name=f"taken_{n}") for n in range(blocks))
        count = Signal(range(blocks + 1), name="slabs")
        slab = Signal(range(blocks + 1), name="own_slab")  # of the product at hand
        place = Signal(range(blocks), name="own_place")  # of its next slab
        begun = Signal()
        start = Signal()
        take = Signal()
        give = Signal()
        length = Mux(start, self.next_slab, slab)
        here = Signal(range(blocks))
        fits = place + self.next_slab <= blocks
        older = [(number < count) & each.older for number, each in enumerate(taken)]
        m.d.comb += [
            Assume((self.next_slab != 0) & (self.next_slab <= blocks)),
            start.eq(self.starts & ~Cat(older).any()),
            here.eq(Mux(start, Mux(self.at_zero | ~fits, 0, place), place)),
            take.eq(self.takes & dut.space & (begun | start)),
            give.eq(self.writes_output & (count != 0)),
            dut.start.eq(start),
            dut.slab.eq(length),
            dut.place.eq(here),
            dut.take.eq(take),
            dut.give.eq(give),
        ]
        m.d.sync += [begun.eq(begun | start), slab.eq(length), place.eq(here)]
        following_ = Mux(here + 2 * length > blocks, 0, here + length)
        with m.If(take):
            m.d.sync += place.eq(following_)
        with m.If(start):
            m.d.sync += [each.older.eq(1) for each in taken]
        with m.If(give):
            m.d.sync += [each.eq(behind) for each, behind in pairwise(taken)]
            with m.If(start):
                m.d.sync += [each.older.eq(1) for each in taken]
        with m.If(take):
            fresh = taken[count - give]
            m.d.sync += [fresh.place.eq(here), fresh.length.eq(length), fresh.older.eq(0)]
        m.d.sync += count.eq(count + take - give)

        used = 0
        for number, each in enumerate(taken):
            used |= Mux(number < count, self._marks(each.place, each.length), 0)
        meets = (used & self._marks(here, length)) != 0
        m.d.comb += Assert(~take | ~meets, "over a slab that is taken")
        m.d.comb += Assert(
            ~(begun | start) | meets | dut.space, "refused, though its place is free"
        )
        m.d.comb += Assert(~take | (here + length <= blocks), "outside the memory")
        m.d.comb += Assert(dut.empty == (count == 0), "not what is taken")
        m.d.comb += Assert((count == 0) | dut.space | take | meets, "refused for ever")
        self._induction(m, taken, count, slab, place, begun)
        return m

    def _marks(self, place, length):
        """The blocks of a slab."""
        return (((1 << length) - 1) << place)[: self.dut.blocks]

    def _induction(self, m, taken, count, slab, place, begun):
        """How the unit's registers stand to the list, and what every list is like: slabs apart from
        each other, those of a product as they follow, and below the oldest at most once."""
        blocks = self.dut.blocks
        true = [self.count == count, count <= blocks]
        olders = Signal(range(blocks + 1))
        m.d.comb += olders.eq(sum((n < count) & each.older for n, each in enumerate(taken)))
        true.append(self.before == olders)
        newest = taken[count - 1]
        descents = 0
        for number, each in enumerate(taken):
            there = number < count
            true.append(~there | ((each.length != 0) & (each.place + each.length <= blocks)))
            true.append(~there | each.older | (each.length == slab))
            true.append(~there | (each.older == (number < olders)))
            if number:
                last = taken[number - 1]
                same = there & (each.older == last.older)
                behind = Mux(last.place + 2 * last.length > blocks, 0, last.place + last.length)
                true.append(~same | ((each.place == behind) & (each.length == last.length)))
                falls = there & (each.place < last.place)
                descents = descents + falls
                true.append(~there | falls | (each.place >= last.place + last.length))
        true.append(descents <= 1)
        true.append((descents == 0) | (newest.place + newest.length <= taken[0].place))
        true.append(
            (count == 0)
            | (
                (self.oldest == taken[0].place)
                & (self.length == taken[0].length)
                & (self.newest == newest.place)
            )
        )
        own = count - olders  # slabs of the product at hand
        follows = Mux(newest.place + 2 * slab > blocks, 0, newest.place + slab)
        apart = (place == 0) | (newest.place + newest.length == place)
        true += [
            (own == 0) | (place == follows),
            (own != 0) | (olders == 0) | (apart & (self.first == place)),
            (own == 0) | (olders == 0) | (self.first == taken[olders].place),
            (own != 0) | (olders != 0) | ~begun | (self.oldest == place),
            (own != 0) | (olders != 0) | ~begun | (self.length == slab),
            place + slab <= blocks,
            begun | ((count == 0) & (slab == 0) & (place == 0)),
            ~begun | (slab != 0),
        ]  # fmt: skip
        m.d.comb += Assert(Cat(*true).all(), "lost")


PROBES = {name: f"dut.{name}" for name in ("oldest", "newest", "length", "count", "first")}
PROBES |= {"before": "dut.before"}


@pytest.mark.parametrize("blocks", [2, 3, sweep(4)])
def test_ring(blocks):
    prove(RingSpec(RingSpace(blocks)), assertions=ASSERTIONS, probes=PROBES)


class Variant(RingSpace):
    """The ring, with something overridden."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        self.edit(m)
        return m


class HasRoomWhereSomethingIsGiven(Variant):
    """In the cycle of the gift."""

    def edit(self, m):
        with m.If(self.give):
            m.d.comb += self.space.eq(1)


class RefusesAllWhenFull(Variant):
    """Until it is empty again."""

    def edit(self, m):
        with m.If(~self.empty & (self.place == 0)):
            m.d.comb += self.space.eq(0)


class ForgetsAGift(Variant):
    """Is never empty again."""

    def edit(self, m):
        m.d.comb += self.empty.eq(0)


@pytest.mark.parametrize(
    "broken", [HasRoomWhereSomethingIsGiven, sweep(RefusesAllWhenFull), ForgetsAGift]
)
def test_broken_ring_is_refuted(broken):
    refute(RingSpec(broken(4)), assertions=ASSERTIONS, probes=PROBES)


@pytest.mark.parametrize("blocks", [3])
@pytest.mark.parametrize("old, new", EDITS)
@pytest.mark.sampled(2)
def test_ring_with_a_fault_in_its_text_is_refuted(old, new, blocks):
    refute(RingSpec(edited(RingSpace, old, new)(blocks)), assertions=ASSERTIONS, probes=PROBES)
