# amaranth: UnusedElaboratable=no
"""One stream into several: every sink gets every value, in the same cycle."""

import pytest
from amaranth.hdl import unsigned
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from diastole_hw.stream.fork import fork
from support.bench import simulation
from support.pipelines import Built
from support.unit_bench import Unit

COUNTS = [1, 2, 3, 5]


def fork_of(count):
    """A stream into ``count``."""
    signature = stream.Signature(unsigned(8))
    members = {"i": In(signature), "o": Out(signature).array(count)}
    return Built(members, lambda m, unit: fork(m, unit.i, *unit.o))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("p_put, p_get", [(1.0, 1.0), (0.4, 1.0), (1.0, 0.6), (0.5, 0.5)])
@pytest.mark.sampled(2)
def test_every_sink_gets_every_value(count, p_put, p_get, rng):
    """A sink that is offered a value sees it go where others are not ready."""
    dut = fork_of(count)
    values = [rng.randrange(256) for _ in range(60)]
    unit = Unit(dut, rng)
    unit.give(dut.i, values, p_put)
    sinks = [unit.take(sink, values, p_get) for sink in dut.o]
    unit.run()
    assert all(sink.cycles == sinks[0].cycles for sink in sinks)


@pytest.mark.parametrize("count", COUNTS)
async def test_handshakes_are_combinational(count):
    """Valid only where all are willing: a sink that is ready alone gets nothing."""
    dut = fork_of(count)
    ctx = await simulation(dut)
    for willing in range(2**count):
        for valid in (0, 1):
            ctx.set(dut.i.valid, valid)
            ctx.set(dut.i.payload, 0xA5)
            for number in range(count):
                ctx.set(dut.o[number].ready, willing >> number & 1)
            await ctx.tick()
            everybody = willing == 2**count - 1
            assert ctx.get(dut.i.ready) == everybody
            for number in range(count):
                assert ctx.get(dut.o[number].valid) == (valid and everybody)
                assert ctx.get(dut.o[number].payload) == 0xA5


WHOLE = data.StructLayout({"a": 8, "b": 4, "c": 1})
PARTS = (WHOLE, data.StructLayout({"c": 1, "a": 8}), data.StructLayout({"b": 2}))


def test_sinks_take_the_members_that_they_have(rng):
    sinks = {f"o{n}": Out(stream.Signature(part)) for n, part in enumerate(PARTS)}
    members = {"i": In(stream.Signature(WHOLE)), **sinks}
    dut = Built(members, lambda m, unit: fork(m, unit.i, unit.o0, unit.o1, unit.o2))
    items = [
        {"a": rng.randrange(256), "b": rng.randrange(16), "c": rng.randrange(2)} for _ in range(30)
    ]
    unit = Unit(dut, rng)
    given = unit.give(dut.i, items)
    unit.take(dut.o0, items, of=given)
    unit.take(dut.o1, [{"a": item["a"], "c": item["c"]} for item in items], of=given)
    unit.take(dut.o2, [{"b": item["b"] % 4} for item in items], of=given)
    unit.run()
