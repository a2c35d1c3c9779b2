"""The tokens by which load, execute and store wait for each other."""

from amaranth.hdl import Assert, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_sim.spec.require import require_int


class Credit(wiring.Component):
    """Count what is taken and not yet given back: 0 to ``most``.

    ``take`` when ``full`` and ``give`` when ``empty`` are not allowed unless the other happens too.

    Timing: ``count``, ``full`` and ``empty`` follow one cycle later, and depend on no input of
    their own cycle.

    Parameters
    ----------
    most : int
        The largest count (1 to 255).

    Members
    -------
    take : In(1)
    give : In(1)
        With ``take`` in one cycle, nothing changes.
    count : Out(range(most + 1))
    full : Out(1)
        ``count`` is ``most``.
    empty : Out(1)
        ``count`` is 0; it is at first.

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
