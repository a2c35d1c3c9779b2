"""Manage scratchpads as rings: places of equal length are allocated and freed in order."""

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


def following(m, name: str, at, slab, blocks: int):
    """Return the start of the slab behind the slab at ``at``, in a memory of ``blocks`` blocks: 0
    if the next slab does not fit behind. No slab is longer than the memory, which is not
    checked."""
    behind = Signal(range(2 * blocks + 1), name=f"{name}_behind")
    m.d.comb += behind.eq(at + slab)
    return Mux(at + (slab << 1) > blocks, 0, behind)


class RingSpace(wiring.Component):
    """Tell whether there is free space for the next slab of a ring. (A slab is the place of a
    chunk's operand in a scratchpad.)

    Slabs are allocated and freed in order (``take``, ``give``). All slabs of a product have equal
    length, and their places follow each other as :func:`following` says, from any first place. The
    next product may begin while slabs of the preceding product are allocated: at the place where
    the ring would go on, or at 0. Not allowed, and not checked: ``take`` without ``space``,
    ``give`` while ``empty``, and ``start`` while slabs of the product before the preceding product
    are allocated.

    Timing: ``space`` is combinational from ``place`` and ``slab``; ``take`` and ``give`` count from
    the next cycle on.

    Parameters
    ----------
    blocks : int
        Length of the memory in blocks.

    Members
    -------
    start : In(1)
        Pulse: a product begins with the slab at ``place``, which may be allocated at once.
    slab : In(range(blocks + 1))
        Length of the product's slabs; at least 1, and stable from ``start`` on.
    place : In(range(blocks))
        Start of the next slab.
    take, give : In(1)
    space : Out(1)
        The place of the next slab is free.
    empty : Out(1)
        All places are free.
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
                "space": Out(1),
                "empty": Out(1, init=1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        oldest = Signal(range(self.blocks))  # the oldest allocated slab
        length = Signal(range(self.blocks + 1))  # length of the oldest slab
        newest = Signal(range(self.blocks))  # the newest allocated slab
        wrapped = Signal()  # ``newest`` is below ``oldest``
        wraps = Signal()  # the next slab begins below ``newest``
        clear = Signal()  # the next slab ends below ``oldest``
        count = Signal(range(self.blocks + 1))
        before = Signal(range(self.blocks + 1))  # slabs of the preceding product among ``count``
        first = Signal(range(self.blocks))  # the place at which the product began
        left = Signal.like(before, name="left")
        m.d.comb += [
            self.empty.eq(count == 0),
            wrapped.eq(newest < oldest),
            wraps.eq(self.place <= newest),
            clear.eq(self.place + self.slab <= oldest),
            self.space.eq(self.empty | Mux(wrapped, ~wraps & clear, ~wraps | clear)),
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
        ends = (left == 1) & self.give  # the last slab of the preceding product
        with m.If(ends | (self.start & (count == 0))):
            m.d.sync += [oldest.eq(Mux(self.start, self.place, first)), length.eq(self.slab)]
        return m
