"""Benches for Amaranth's simulator: a clock, a watchdog, and streams that may stall."""

from amaranth.sim import Simulator

LIMIT_CYCLES = 20_000


def run(dut, *benches, limit: int = LIMIT_CYCLES, background=()):
    """Simulate until every bench of ``benches`` has ended; fail after ``limit`` cycles."""
    sim = Simulator(dut)
    sim.add_clock(1e-8)
    for bench in benches:
        sim.add_testbench(bench)

    async def watchdog(ctx):
        await ctx.delay(limit * 1e-8)
        raise AssertionError(f"no end after {limit} cycles")

    for bench in (watchdog, *background):
        sim.add_testbench(bench, background=True)
    sim.run()


def always() -> bool:
    return True


async def put(ctx, stream, items, willing=always):
    """Send ``items``; before each offer ``willing()`` says whether to wait a cycle."""
    for item in items:
        while not willing():
            await ctx.tick()
        ctx.set(stream.payload, item)
        ctx.set(stream.valid, 1)
        while True:
            _, _, ready = await ctx.tick().sample(stream.ready)
            if ready:
                break
        ctx.set(stream.valid, 0)


async def get(ctx, stream, willing=always):
    """Receive one value; ready in the cycles in which ``willing()`` says so."""
    while True:
        ctx.set(stream.ready, willing())
        _, _, valid, ready, payload = await ctx.tick().sample(
            stream.valid, stream.ready, stream.payload
        )
        ctx.set(stream.ready, 0)
        if valid and ready:
            return payload
