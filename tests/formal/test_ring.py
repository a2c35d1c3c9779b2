"""The room of a ring: no slab over another one that is taken, and none refused for ever."""

import pytest
from amaranth.hdl import Assert, Assume, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from diastole_hw.schedule.ring import RingSpace, following
from formal.prove import prove, refute

ASSERTIONS = 6


class RingSpec(wiring.Component):
    """Slabs of any length, taken and given back whenever there is room for one and there is one.

    The blocks of the memory are marked one by one: those of a slab that is taken, from its place
    on, until it is given back. The places of what is given back come in a count of this side: those
    of whole slabs, from 0 on. Assumes that the length is at least 1, no more than the memory, and
    stays; that products begin while nothing is taken, and begin before anything is.
    """

    def __init__(self, dut: RingSpace):
        self.dut = dut
        blocks = dut.blocks
        super().__init__(
            {
                "slab": In(range(blocks + 1)),
                "start": In(1),
                "takes": In(1),
                "gives": In(1),
                "oldest": In(range(blocks)),  # a probe, and so is the count
                "count": In(range(blocks + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        blocks = dut.blocks
        begun = Signal()
        before = Signal.like(self.slab, name="slab_before")
        place = Signal(range(blocks))  # of the next slab
        first = Signal(range(blocks))  # of the oldest one
        used = Signal(blocks)  # by block
        start = Signal()
        take = Signal()
        give = Signal()
        m.d.sync += [before.eq(self.slab), begun.eq(begun | start)]
        m.d.comb += [
            Assume((self.slab != 0) & (self.slab <= blocks)),
            Assume(start | (self.slab == before) | ~begun),
            start.eq(self.start & (used == 0)),
            take.eq(self.takes & dut.room & begun & ~start),
            give.eq(self.gives & (used != 0)),
            dut.start.eq(start),
            dut.slab.eq(self.slab),
            dut.place.eq(place),
            dut.take.eq(take),
            dut.give.eq(give),
        ]
        wanted, given = self._slab(place), self._slab(first)
        m.d.sync += used.eq((used & ~Mux(give, given, 0)) | Mux(take, wanted, 0))
        with m.If(take):
            m.d.sync += place.eq(following(m, "next", place, self.slab, blocks))
        with m.If(give):
            m.d.sync += first.eq(self._next(m, first))
        with m.If(start):
            m.d.sync += [place.eq(0), first.eq(0)]
        m.d.comb += Assert(~take | ((used & wanted) == 0), "over a slab that is taken")
        m.d.comb += Assert(~take | (place + self.slab <= blocks), "outside the memory")
        m.d.comb += Assert((used != 0) | dut.room, "refused, though nothing is taken")
        m.d.comb += Assert(dut.empty == (used == 0), "not what is taken")
        m.d.comb += Assert(((used & wanted) != 0) | dut.room, "refused, though its place is free")
        self._induction(m, place, first, used, begun)
        return m

    def _slab(self, place):
        """The blocks of the slab at a place."""
        return (((1 << self.slab) - 1) << place)[: self.dut.blocks]

    def _next(self, m, first):
        """The place behind it, if a whole slab is there, else that at 0."""
        whole = first + 2 * self.slab <= self.dut.blocks
        return Mux(whole, first + self.slab, 0)

    def _induction(self, m, place, first, used, begun):
        """How the unit's registers stand to the marks: what induction needs. The slabs that are
        taken are those from the first to the place, so many as are counted."""
        states = []
        for slab in range(1, self.dut.blocks + 1):
            places = range(0, self.dut.blocks - slab + 1, slab)
            for number, at in enumerate(places):
                for count in range(len(places) + 1):
                    own = [places[(number + k) % len(places)] for k in range(count)]
                    marks = sum(((1 << slab) - 1) << each for each in own)
                    states.append(
                        (self.slab == slab) & (first == at) & (self.count == count)
                        & (place == places[(number + count) % len(places)]) & (used == marks)
                    )  # fmt: skip
        nothing = (used == 0) & (self.count == 0)
        fresh = nothing & (place == 0) & (first == 0)
        known = (self.oldest == first) & Cat(*states).any()
        m.d.comb += Assert(Mux(begun, known | nothing, fresh), "lost")


PROBES = {"oldest": "dut.oldest", "count": "dut.count"}


@pytest.mark.parametrize("blocks", [2, 3, 5])
def test_ring(blocks):
    prove(RingSpec(RingSpace(blocks)), assertions=ASSERTIONS, probes=PROBES)


class Variant(RingSpace):
    """The ring written anew; right, so that those below differ in one thing each."""

    def elaborate(self, platform):
        m = Module()
        oldest = Signal(range(self.blocks))
        count = Signal(range(self.blocks + 1))
        m.d.comb += [self.empty.eq(count == 0), self.room.eq(self.has_room(oldest))]
        m.d.sync += count.eq(self.counted(count))
        with m.If(self.give):
            m.d.sync += oldest.eq(self.behind(m, oldest))
        with m.If(self.start):
            m.d.sync += oldest.eq(0)
        return m

    def has_room(self, oldest):
        return self.empty | (self.place != oldest)

    def counted(self, count):
        return count + self.take - self.give

    def behind(self, m, oldest):
        return following(m, "oldest", oldest, self.slab, self.blocks)


class WrapsLate(Variant):
    """The oldest goes to what is left behind the last whole slab."""

    def behind(self, m, oldest):
        end = oldest + self.slab
        return Mux(end >= self.blocks, 0, end)


class HasRoomAPlaceTooEarly(Variant):
    """Where the place that is wanted is that of the slab which will be given back next."""

    def has_room(self, oldest):
        return self.empty | (self.place != oldest) | self.give


class RefusesAllWhenEmpty(Variant):
    """Takes a ring whose next place is the oldest to be full always."""

    def has_room(self, oldest):
        return self.place != oldest


class LosesAGift(Variant):
    """Of what is given in the cycle in which something is taken."""

    def counted(self, count):
        return Mux(self.take, count + 1, count - self.give)


def test_variant():
    prove(RingSpec(Variant(3)), assertions=ASSERTIONS, probes=PROBES)


@pytest.mark.parametrize(
    "broken", [WrapsLate, HasRoomAPlaceTooEarly, RefusesAllWhenEmpty, LosesAGift]
)
def test_broken_ring_is_refuted(broken):
    refute(RingSpec(broken(5)), assertions=ASSERTIONS, probes=PROBES)
