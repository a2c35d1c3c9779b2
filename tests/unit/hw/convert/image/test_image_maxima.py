# amaranth: UnusedElaboratable=no
"""The memory of maxima: every order of the same few places."""

from diastole_hw.convert.image.image_maxima import MaxMemory
from support.bench import design, simulation


async def test_grows(rng):
    dut = design(MaxMemory, depth=3)
    model = [0] * 3
    seen = set()
    ctx = await simulation(dut)
    for _ in range(1500):
        add, addr, entry = rng.random() < 0.8, rng.randrange(3), rng.randrange(256)
        first = addr not in seen or rng.random() < 0.1
        ctx.set(dut.add, add)
        ctx.set(dut.addr, addr)
        ctx.set(dut.entry, entry)
        ctx.set(dut.first, first)
        if add:
            seen.add(addr)
            model[addr] = entry if first else max(model[addr], entry)
        await ctx.tick()
        if rng.random() < 0.05 and len(seen) == 3:
            ctx.set(dut.add, 0)
            await ctx.tick().repeat(2)
            for place, want in enumerate(model):
                ctx.set(dut.addr, place)
                ctx.set(dut.read_en, 1)
                await ctx.tick()
                ctx.set(dut.read_en, 0)
                assert ctx.get(dut.read_data) == want, f"{place=}"
