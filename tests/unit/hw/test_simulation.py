# amaranth: UnusedElaboratable=no
"""Tests that are coroutines: how they begin simulations, and what reaches them."""

import pytest
from amaranth.hdl import Assert
from amaranth.lib import wiring

from support.bench import end, pulse, simulate, simulation
from support.pipelines import Built
from support.unit_bench import until


def count(m, unit):
    m.d.sync += unit.count.eq(unit.count + unit.up)
    m.d.sync += Assert(unit.count < 3, "too much")


@pytest.fixture
def dut():
    return Built({"up": wiring.In(1), "count": wiring.Out(8)}, count)


async def test_each_simulation_begins_anew(dut):
    for _ in range(2):
        ctx = await simulation(dut)
        assert ctx.get(dut.count) == 0
        await pulse(ctx, dut.up)
        await ctx.tick()
        assert ctx.get(dut.count) == 1


async def test_benches_beside_the_test(dut):
    counts = []

    async def drive(ctx):
        await pulse(ctx, dut.up)

    async def watch(ctx):
        async for _, _, count in ctx.tick().sample(dut.count):
            counts.append(count)

    ctx = await simulation(dut, drive, background=[watch])
    assert await until(ctx, dut.count) == 1
    await end()
    assert counts == [0, 1]
    ctx = await simulation(dut, background=[watch])
    await ctx.tick().repeat(2)
    assert counts == [0, 1, 0]


@pytest.mark.parametrize(
    "limit, message", [(9, "the machine did not end within 9 cycles"), (99, "too much")]
)
async def test_what_fails_elsewhere_is_raised_where_the_test_waits(limit, message, dut):
    ctx = await simulation(dut, limit=limit)
    ctx.set(dut.up, limit == 99)
    with pytest.raises(AssertionError, match=message):
        await until(ctx, dut.count == 77)


async def test_goes_on_after_an_error(dut):
    """Another simulation may begin, and what is wrong in it is seen."""
    ctx = await simulation(dut, limit=9)
    with pytest.raises(AssertionError, match="the machine did not end within 9 cycles"):
        await until(ctx, dut.count == 77)
    ctx = await simulation(dut)
    await pulse(ctx, dut.up)
    await ctx.tick()
    assert ctx.get(dut.count) == 1


@pytest.mark.parametrize("ended", [True, False])
def test_a_test_that_waits_after_its_simulation_is_no_success(ended, dut):
    async def goes_on():
        ctx = await simulation(dut, limit=9)
        if ended:
            await end()
        else:
            with pytest.raises(AssertionError):
                await until(ctx, dut.count == 77)
        await ctx.tick()
        raise NotImplementedError  # nobody gets here

    with pytest.raises(AssertionError, match="goes on in a simulation that has ended"):
        simulate(goes_on())
