"""Scratchpads as rings: places of equal length, taken and given back in their order."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


def following(m, name: str, at, slab, blocks: int):
    """Where the slab behind the one at ``at`` begins, in a memory of so many ``blocks``: at 0 where
    there is no room for it. No slab is longer than the memory, which is not checked."""
    behind = Signal(range(2 * blocks + 1), name=f"{name}_behind")
    m.d.comb += behind.eq(at + slab)
    return Mux(at + (slab << 1) > blocks, 0, behind)


class RingSpace(wiring.Component):
    """Whether there is room for the next slab of a ring.

    Slabs are taken and given back in order. Those of a product have one length, and their places
    follow each other as :func:`following` says, from any on; the next product may begin while slabs
    of the one before are taken, at the place where that would go on, or at 0. ``take`` without
    ``room``, ``give`` while ``empty`` and ``start`` while slabs of the last product but one are
    taken are not allowed, and are not checked.

    Timing: ``room`` is combinational from ``place`` and ``slab``; what is taken and given back
    counts from the next cycle on.

    Parameters
    ----------
    blocks : int
        Of the memory.

    Members
    -------
    start : In(1)
        A pulse: a product begins with the slab at ``place``, which may be taken at once.
    slab : In(range(blocks + 1))
        Length of its slabs; at least 1, and stable from ``start`` on.
    place : In(range(blocks))
        Where the next slab begins.
    take, give : In(1)
    room : Out(1)
        The place is free.
    empty : Out(1)
        All are.
    """

    def __init__(self, blocks: int):
        self.blocks = blocks
        super().__init__(
            {
                "start": In(1),
                "slab": In(range(blocks + 1)),
                "place": In(range(blocks)),
                "take": In(1),
                "give": In(1),
                "room": Out(1),
                "empty": Out(1, init=1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        oldest = Signal(range(self.blocks))  # the first that is not given back
        length = Signal(range(self.blocks + 1))  # its own
        newest = Signal(range(self.blocks))  # the last that was taken
        wrapped = Signal()  # it is below the oldest
        wraps = Signal()  # the next one is below it
        clear = Signal()  # and ends below the oldest
        count = Signal(range(self.blocks + 1))
        before = Signal(range(self.blocks + 1))  # those of the product before, among them
        first = Signal(range(self.blocks))  # the place at which the product began
        left = Signal.like(before, name="left")
        m.d.comb += [
            self.empty.eq(count == 0),
            wrapped.eq(newest < oldest),
            wraps.eq(self.place <= newest),
            clear.eq(self.place + self.slab <= oldest),
            self.room.eq(self.empty | Mux(wrapped, ~wraps & clear, ~wraps | clear)),
            left.eq(Mux(self.start, count, before)),
        ]
        m.d.sync += [
            count.eq(count + self.take - self.give),
            before.eq(left - ((left != 0) & self.give)),
        ]
        with m.If(self.start):
            m.d.sync += first.eq(self.place)
        with m.If(self.take):
            m.d.sync += newest.eq(self.place)
        with m.If(self.give):
            m.d.sync += oldest.eq(following(m, "oldest", oldest, length, self.blocks))
        ends = (left == 1) & self.give  # what is left of the product before
        with m.If(ends | (self.start & (count == 0))):
            m.d.sync += [oldest.eq(Mux(self.start, self.place, first)), length.eq(self.slab)]
        return m
