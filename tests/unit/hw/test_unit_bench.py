# amaranth: UnusedElaboratable=no
"""The bench of units: what it lets pass, and the message of each fault that it must notice."""

import re

import pytest
from amaranth.hdl import Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out, flipped

from support.pipelines import Built, check_pipeline
from support.texts import exactly
from support.unit_bench import Unit, output_streams, until

PAIR = data.StructLayout({"low": unsigned(4), "high": unsigned(4)})
MEMBERS = {
    "i": In(stream.Signature(PAIR)),
    "o": Out(stream.Signature(PAIR)),
    "fault": In(3),
    "start": In(1),
    "going": Out(1),
}
GOOD, WRONG, TWICE, WITHDRAWN, CHANGING, STUCK = range(6)
"""Values of ``fault``."""


def exchange(m, unit):
    """Give the two halves of a pair exchanged, a cycle later; or do something wrong."""
    i, o, fault = unit.i, unit.o, unit.fault
    m.d.comb += i.ready.eq((o.ready | ~o.valid) & (fault != STUCK))
    with m.If(i.ready):
        m.d.sync += [
            o.valid.eq(i.valid),
            o.p.low.eq(i.p.high + (fault == WRONG)),
            o.p.high.eq(i.p.low),
        ]
        with m.If((fault == TWICE) & o.valid & ~i.valid):
            m.d.sync += o.valid.eq(1)
    with m.Elif(fault == WITHDRAWN):
        m.d.sync += o.valid.eq(0)
    with m.Elif(fault == CHANGING):
        m.d.sync += o.p.low.eq(o.p.low + 1)
    with m.If(unit.start):
        m.d.sync += unit.going.eq(1)


PAIRS = [{"low": n, "high": 2 * n % 16} for n in range(6)]
EXCHANGED = [{"low": pair["high"], "high": pair["low"]} for pair in PAIRS]


def bench(rng, fault=GOOD, pace=1.0):
    unit = Unit(Built(MEMBERS, exchange), rng, pace=pace)
    unit.hold(fault=fault)
    return unit, unit.give(unit.dut.i, PAIRS), unit.take(unit.dut.o, EXCHANGED)


@pytest.mark.parametrize("pace", [1.0, 0.5])
def test_values_and_cycles(pace, rng):
    unit, given, taken = bench(rng, pace=pace)
    valid = unit.record(unit.dut.o.valid)
    unit.run()
    assert (given.items, taken.items) == (PAIRS, EXCHANGED)
    assert set(taken.cycles) <= set(valid.cycles)
    if pace == 1.0:
        assert (given.cycles, taken.cycles) == ([*range(6)], [*range(1, 7)])


@pytest.mark.parametrize(
    "fault, pace, message",
    [
        (WRONG, 1, "Built, cycle 1: o[0]: low: 1, not 0; last came i[1] {low: 1, high: 2}"),
        (TWICE, 1, "Built, cycle 7: o[6]: extra output {low: 0xa, high: 5}"),
        (WITHDRAWN, 0, "Built, cycle 2: o[0] is withdrawn before it is taken"),
        (CHANGING, 0, "Built, cycle 2: o[0] changes before it is taken"),
        (STUCK, 1, "the machine did not end within 50 cycles\ni 0 of 6, o 0 of 6"),
    ],
)
def test_faults_are_noticed(fault, pace, message, rng):
    unit, _, taken = bench(rng, fault)
    taken.pace = lambda: pace
    with pytest.raises(AssertionError, match=rf"\A{re.escape(message)}"):
        unit.run(limit=50)


def test_an_output_that_no_test_names_offers_nothing(rng):
    unit = Unit(Built(MEMBERS, exchange), rng)
    unit.give(unit.dut.i, PAIRS)
    with pytest.raises(AssertionError, match="cycle 1: o__valid, which no test takes"):
        unit.run()


def test_outputs_of_every_interface_are_found():
    """Of one that is turned around the streams that would go in."""
    inner = wiring.Signature({"i": In(stream.Signature(1)), "o": Out(stream.Signature(1))})
    unit = Built({"a": Out(inner), "b": In(inner).array(2), "o": Out(stream.Signature(1))}, None)
    found = [valid.name for valid in output_streams(unit.signature, unit)]
    assert found == ["a__o__valid", "b__0__i__valid", "b__1__i__valid", "o__valid"]


def test_what_is_collected_may_take_its_time(rng):
    unit = Unit(Built(MEMBERS, exchange), rng)
    unit.give(unit.dut.i, PAIRS)
    collected = unit.collect(unit.dut.o, lambda: unit.cycle % 40 == 39)
    unit.run()
    assert collected.items == EXCHANGED


def test_a_list_is_compared_with_the_parts_of_an_integer():
    members = {"i": In(stream.Signature(8)), "o": Out(stream.Signature(8))}
    unit = Unit(Built(members, lambda m, unit: wiring.connect(m, flipped(unit.i), flipped(unit.o))))
    unit.give(unit.dut.i, [0x21, 0x43])
    unit.take(unit.dut.o, [[1, 2], [3, None]])
    unit.run()


async def test_values_that_are_dropped_are_not_offered(rng):
    unit, given, taken = bench(rng, STUCK)
    ctx = await unit.simulation()
    await ctx.tick()
    given.drop()
    taken.drop()
    await unit.end()
    assert not given.items


async def test_scripts_add_values_as_they_go(rng):
    unit, given, taken = bench(rng, pace=0.5)
    going = unit.record(unit.dut.going)
    ctx = await unit.simulation()
    await unit.settled(ctx, silence=3)
    given.add(PAIRS)
    taken.add(EXCHANGED)
    await unit.settled(ctx)
    await unit.pulse(ctx, "start", fault=GOOD)
    assert await until(ctx, unit.dut.going) == 0
    await unit.end()
    assert len(taken.items) == 12
    assert going.values[-1] == 1


def test_a_value_that_does_not_fit_is_refused(rng):
    unit = Unit(Built(MEMBERS, exchange), rng)
    unit.give(unit.dut.i, [{"low": 16, "high": 0}])
    with pytest.raises(AssertionError, match=r"i\.low is given 0x10, and has 4 bits"):
        unit.run()


def late_sum(m, unit):
    """``b`` comes a cycle after ``a``."""
    before = Signal(4)
    m.d.sync += [before.eq(unit.a), unit.zero.eq(unit.total == 0)]
    m.d.comb += unit.total.eq(before + unit.b)


SUM = {"a": In(4), "b": In(signed(4)), "total": Out(signed(6)), "zero": Out(1)}


def test_pipeline():
    """With an input and an output at times of their own."""
    dut = Built(SUM, late_sum)
    cases = [({"a": a, "b": -3}, {"total": a - 3, "zero": a == 3}) for a in range(16)]
    check_pipeline(dut, cases, 2, delays={"b": 1, "total": 1})
    wrong = [*cases[:5], (cases[5][0], {"zero": 1})]
    message = "Built, case 5 {a: 5, b: -3}: zero: 0, not 1"
    with pytest.raises(AssertionError, match=exactly(message)):
        check_pipeline(dut, wrong, 2, delays={"b": 1, "total": 1})
