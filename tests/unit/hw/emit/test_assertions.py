# amaranth: UnusedElaboratable=no
"""A rule stops the simulation that breaks it, is counted by a proof, and leaves no gate."""

import pytest
from amaranth.back import rtlil
from amaranth.hdl import Assert, ClockDomain, ClockSignal, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.emit.sharing import EmitPlatform, convert_ports
from support.bench import run, simulation

RULE = "never both"


class Unit(wiring.Component):
    """``o`` counts, one cycle late; ``ruled``: not both at once."""

    up: In(1)
    down: In(1)
    o: Out(4)

    def __init__(self, ruled: bool, domain: str = "sync"):
        self.ruled, self.domain = ruled, domain
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        if self.domain != "sync":
            m.domains += ClockDomain(self.domain)
            m.d.comb += ClockSignal(self.domain).eq(ClockSignal())
        m.d.sync += self.o.eq(self.o + self.up - self.down)
        if self.ruled:
            rule = ~(self.up & self.down)
            m.d[self.domain] += Assert(rule, RULE)
        return m


class Spec(wiring.Component):
    """The unit as a proof wraps it, or as a product contains it."""

    up: In(1)
    down: In(1)
    o: Out(4)

    def __init__(self, ruled: bool):
        self.ruled = ruled
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.unit = unit = Unit(self.ruled)
        wiring.connect(m, wiring.flipped(self), unit)
        return m


def drive(dut, pairs):
    seen = []

    async def bench(ctx):
        for up, down in pairs:
            ctx.set(dut.up, up)
            ctx.set(dut.down, down)
            await ctx.tick()
            seen.append(ctx.get(dut.o))

    run(dut, bench)
    return seen


@pytest.mark.parametrize("domain", ["sync", "other"])
def test_nothing_happens_while_it_holds(domain):
    assert drive(Unit(True, domain), [(1, 0), (1, 0), (0, 1), (0, 0)]) == [1, 2, 1, 1]


@pytest.mark.parametrize("domain", ["sync", "other"])
def test_a_broken_rule_stops_the_simulation(domain):
    with pytest.raises(AssertionError, match=RULE):
        drive(Unit(True, domain), [(1, 0), (1, 1), (0, 0)])
    assert drive(Unit(False), [(1, 0), (1, 1), (0, 0)]) == [1, 1, 1]


async def test_what_is_between_edges_does_not_count():
    dut = Unit(True)
    ctx = await simulation(dut)
    ctx.set(dut.up, 1)
    ctx.set(dut.down, 1)
    await ctx.delay(1e-9)  # the first edge is at half a period, 5 ns
    ctx.set(dut.down, 0)
    await ctx.tick()
    assert ctx.get(dut.o) == 1


def test_a_proof_counts_it():
    texts = [rtlil.convert(Spec(ruled), name="top", emit_src=False) for ruled in (False, True)]
    assert [text.count('parameter \\FLAVOR "assert"') for text in texts] == [0, 1]
    assert RULE in texts[1]


class Nested(wiring.Component):
    """``o`` follows ``i``; rules where only rules stand, in an If, a Switch and an FSM."""

    i: In(2)
    o: Out(2)

    def __init__(self, ruled: bool):
        self.ruled = ruled
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq(self.i)

        def rule():
            if self.ruled:
                m.d.sync += Assert(self.i != 3, RULE)
                m.d.comb += Assert(self.i != 2, RULE)

        with m.If(self.i[0]):
            rule()
            with m.Switch(self.i):
                with m.Case(1):
                    rule()
        with m.FSM():
            with m.State("EVEN"):
                rule()
                with m.If(self.i[1]):
                    m.d.comb += self.o[0].eq(0)
                    rule()
                    m.next = "ODD"
            with m.State("ODD"):
                rule()
        return m


@pytest.mark.parametrize("unit", [Unit, Nested])
def test_emission_drops_it(unit):
    bodies = []
    for ruled in (False, True):
        top = unit(ruled)
        bodies.append(EmitPlatform().convert(top, "top", convert_ports(top)))
    assert bodies[0] == bodies[1]
    assert "$check" in rtlil.convert(unit(True), name="top", emit_src=False)
    assert "$check" not in bodies[1]
