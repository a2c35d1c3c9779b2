"""A unit without stalls in Amaranth's simulator: a value per cycle, results later."""

from support.bench import run


def check_pipeline(dut, latency, cases, wanted):
    """``cases``: inputs by name, one per cycle; ``wanted``: the result of each, and of nothing
    before it."""

    async def bench(ctx):
        for cycle in range(len(cases) + latency):
            for name, value in cases[min(cycle, len(cases) - 1)].items():
                ctx.set(getattr(dut, name), value)
            if cycle >= latency:
                got, want = ctx.get(dut.result), wanted[cycle - latency]
                shown = {name: f"{value:08x}" for name, value in cases[cycle - latency].items()}
                assert got == want, f"{shown}: {got:08x}, not {want:08x}"
            await ctx.tick()

    run(dut, bench, limit=100_000)
