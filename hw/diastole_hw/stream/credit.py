"""Count tokens that synchronise load, execute and store."""

from amaranth.hdl import Assert, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_sim.spec.require import require_int


class Credit(wiring.Component):
    """Count tokens that are taken and not yet given back: 0 to ``most``.

    ``take`` while ``full`` is allowed only together with ``give``. ``give`` while ``empty`` is
    allowed only together with ``take``.

    Timing: ``count``, ``full`` and ``empty`` change 1 cycle later, and depend on no input of the
    current cycle.

    Parameters
    ----------
    most : int
        Largest count (1 to 255).

    Members
    -------
    take : In(1)
    give : In(1)
        Together with ``take``, ``count`` does not change.
    count : Out(range(most + 1))
    full : Out(1)
        ``count`` is ``most``.
    empty : Out(1)
        ``count`` is 0, as initially.

    ValueError if ``most`` is out of range.
    """

    def __init__(self, *, most: int):
        require_int("most", most, 1, 255)
        self.most = most
        super().__init__(
            {
                "take": In(1),
                "give": In(1),
                "count": Out(range(most + 1)),
                "full": Out(1),
                "empty": Out(1, init=1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.full.eq(self.count == self.most), self.empty.eq(self.count == 0)]
        m.d.sync += Assert(~self.take | self.give | ~self.full, "more taken than there is")
        m.d.sync += Assert(~self.give | self.take | ~self.empty, "given back, but not taken")
        with m.If(self.take & ~self.give):
            m.d.sync += self.count.eq(self.count + 1)
        with m.Elif(self.give & ~self.take):
            m.d.sync += self.count.eq(self.count - 1)
        return m
