# amaranth: UnusedElaboratable=no
"""One stream into several: every sink gets every value, in the same cycle."""

import pytest
from amaranth.hdl import Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.stream.fork import fork
from support.bench import design, get, put, run

COUNTS = [1, 2, 3, 5]


class Fork(wiring.Component):
    """A stream into ``count``."""

    def __init__(self, count):
        self.count = count
        signature = stream.Signature(unsigned(8))
        super().__init__({"i": In(signature), "o": Out(signature).array(count)})

    def elaborate(self, platform):
        m = Module()
        keep = Signal()
        m.d.sync += keep.eq(~keep)  # the bench has a clock
        fork(m, self.i, *self.o)
        return m


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("p_put, p_get", [(1.0, 1.0), (0.4, 1.0), (1.0, 0.6), (0.5, 0.5)])
@pytest.mark.sampled(2)
def test_every_sink_gets_every_value(count, p_put, p_get, rng):
    dut = design(Fork, count)
    values = [rng.randrange(256) for _ in range(60)]
    arrived = [[] for _ in range(count)]
    cycle = [0]

    async def clock(ctx):
        while True:
            await ctx.tick()
            cycle[0] += 1

    async def drive(ctx):
        await put(ctx, dut.i, values, lambda: rng.random() < p_put)

    def sink(number):
        async def check(ctx):
            for value in values:
                got = await get(ctx, dut.o[number], lambda: rng.random() < p_get)
                assert got == value, f"sink {number}"
                arrived[number].append(cycle[0])
            assert not ctx.get(dut.o[number].valid), "extra output"

        return check

    run(dut, drive, *map(sink, range(count)), background=[clock])
    assert all(cycles == arrived[0] for cycles in arrived)
    assert len(arrived[0]) == len(values)


@pytest.mark.parametrize("count", COUNTS)
def test_handshakes_are_combinational(count):
    """Valid only where all are willing: a sink that is ready alone gets nothing."""
    dut = design(Fork, count)

    async def main(ctx):
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

    run(dut, main)


WHOLE = data.StructLayout({"a": 8, "b": 4, "c": 1})
PARTS = (WHOLE, data.StructLayout({"c": 1, "a": 8}), data.StructLayout({"b": 2}))


class MemberFork(wiring.Component):
    """A structure into sinks that want some of its members, or their lowest bits."""

    def __init__(self):
        sinks = {f"o{n}": Out(stream.Signature(part)) for n, part in enumerate(PARTS)}
        super().__init__({"i": In(stream.Signature(WHOLE)), **sinks})

    def elaborate(self, platform):
        m = Module()
        keep = Signal()
        m.d.sync += keep.eq(~keep)
        fork(m, self.i, self.o0, self.o1, self.o2)
        return m


def test_sinks_take_the_members_that_they_have(rng):
    dut = design(MemberFork)

    async def main(ctx):
        for _ in range(30):
            item = {"a": rng.randrange(256), "b": rng.randrange(16), "c": rng.randrange(2)}
            ctx.set(dut.i.payload, item)
            await ctx.tick()
            first, second, third = (ctx.get(sink.payload) for sink in (dut.o0, dut.o1, dut.o2))
            assert (first.a, first.b, first.c) == (item["a"], item["b"], item["c"])
            assert (second.a, second.c) == (item["a"], item["c"])
            assert third.b == item["b"] % 4

    run(dut, main)
