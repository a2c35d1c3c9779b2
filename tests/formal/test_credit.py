"""The tokens between load, execute and store: never more in flight than there is room for."""

import pytest
from amaranth.hdl import Assert, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from diastole_hw.stream.credit import Credit
from formal.prove import prove, refute

ASSERTIONS = 6


class TokenSpec(wiring.Component):
    """``most`` halves of a buffer, filled in turn by one side and emptied in turn by the other.

    The filler starts on a half whenever it likes and the tokens say that one is free; the emptier
    starts on a half that is full whenever it likes. They are never at work on the same half, and
    nobody waits for ever: there is always a token to take, or a half to empty.
    """

    fill: In(1)
    filled: In(1)
    emptied: In(1)

    def __init__(self, dut: Credit):
        self.dut = dut
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        most = dut.most
        filling = Signal()
        full = Signal(range(most + 1))  # halves
        head = Signal(range(most))  # the half that is filled next, or now
        tail = Signal(range(most))  # the half that is emptied next
        begin = Signal()
        end = Signal()
        give = Signal()
        m.d.comb += [
            begin.eq(self.fill & ~filling & ~dut.full),
            end.eq(self.filled & filling),
            give.eq(self.emptied & (full != 0)),
            dut.take.eq(begin),
            dut.give.eq(give),
        ]
        m.d.sync += filling.eq((filling | begin) & ~end)
        m.d.sync += full.eq(full + end - give)
        with m.If(end):
            m.d.sync += head.eq(self._next(head))
        with m.If(give):
            m.d.sync += tail.eq(self._next(tail))

        taken = full + filling
        apart = Signal(range(most + 1))  # halves from tail to head, 0 for none or all
        m.d.comb += apart.eq((head + most - tail) % most)
        m.d.comb += Assert(dut.count == taken, "a token lost or made")
        m.d.comb += Assert(taken <= most, "more in flight than there is room for")
        m.d.comb += Assert(apart == full % most, "the sides are not in step")
        collision = filling & (full != 0) & (head == tail)
        m.d.comb += Assert(~collision, "both at work on the same half")
        return m

    def _next(self, half):
        return (half + 1) % self.dut.most


@pytest.mark.parametrize("most", [1, 2, 3, 4])
def test_tokens(most):
    prove(TokenSpec(Credit(most=most)), assertions=ASSERTIONS)


class Leaks(Credit):
    """Loses the gift when something is taken in the same cycle."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        with m.If(self.take & ~self.full):
            m.d.sync += self.count.eq(self.count + 1)
        return m


class Forges(Credit):
    """Loses what is taken when something is given in the same cycle."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        with m.If(self.give & ~self.empty):
            m.d.sync += self.count.eq(self.count - 1)
        return m


class Lends(Credit):
    """Gives one token more than there are."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        m.d.comb += self.full.eq(self.count > self.most)
        return m


@pytest.mark.parametrize("broken", [Leaks, Forges, Lends])
def test_broken_tokens_are_refuted(broken):
    refute(TokenSpec(broken(most=2)), assertions=ASSERTIONS)
