"""Scratchpads as rings: places of equal length, taken and given back in their order."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


def following(m, name: str, at, slab, blocks: int):
    """Where the slab behind the one at ``at`` begins, in a memory of so many ``blocks``: at 0 where
    there is no room for it. No slab is longer than the memory, which is not checked."""
    behind = Signal(range(2 * blocks + 1), name=f"{name}_behind")
    m.d.comb += behind.eq(at + slab)
    return Mux(behind + slab > blocks, 0, behind)


class RingSpace(wiring.Component):
    """Whether there is room for the next slab of a ring.

    Slabs are taken and given back in the order of their places, which is that of
    :func:`following` from 0 on; all have the length of the first. ``take`` without ``room`` and
    ``give`` while ``empty`` are not allowed, and are not checked.

    Timing: ``room`` is combinational from ``place``; what is taken and given back counts from the
    next cycle on. ``start`` only while ``empty``.

    Parameters
    ----------
    blocks : int
        Of the memory.

    Members
    -------
    start : In(1)
        A pulse: the next slab is that at 0.
    slab : In(range(blocks + 1))
        Length; at least 1, and stable from ``start`` on.
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
        count = Signal(range(self.blocks + 1))
        m.d.comb += [
            self.empty.eq(count == 0),
            self.room.eq(self.empty | (self.place != oldest)),
        ]
        m.d.sync += count.eq(count + self.take - self.give)
        with m.If(self.give):
            m.d.sync += oldest.eq(following(m, "oldest", oldest, self.slab, self.blocks))
        with m.If(self.start):
            m.d.sync += oldest.eq(0)
        return m
