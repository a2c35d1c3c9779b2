"""The exponents of tensors, read from the first beats of their images."""

import pytest

from diastole_hw.load.headers import Headers
from diastole_hw.plan.modes import Mode
from support.bench import design, pulse, simulation
from support.bus import ServiceMemory
from support.plans import make_numerics, make_plan

READ = {Mode.FORWARD: "xw", Mode.DX: "wd", Mode.DW: "xd", Mode.FUSED: "xwd"}
NAMES = {"x": "x", "w": "w", "d": "dy"}


@pytest.mark.parametrize("data_width", [32, 128])
@pytest.mark.parametrize("mode", list(Mode), ids=lambda mode: mode.name)
async def test_reads_the_tensors_of_the_mode(mode, data_width, rng):
    plan = make_plan(make_numerics(formats="nvfp4"), data_width=data_width)
    dut = design(Headers, plan)
    memory = ServiceMemory(4096, plan.beat_bytes, lambda: rng.random() < 0.4)
    memory.bytes[:] = b"\xa5" * len(memory.bytes)

    async def reads(ctx):
        await memory.read(ctx, dut.read.requests, dut.read.beats)

    ctx = await simulation(dut, background=(reads,))
    ctx.set(dut.mode, mode)
    for _ in range(8):
        want = [0, 0, 0]
        at = rng.sample(range(len(memory.bytes) // plan.beat_bytes), 3)
        for number, (letter, name) in enumerate(NAMES.items()):
            address = at[number] * plan.beat_bytes
            exponent = rng.randint(-140, 120)
            memory.bytes[address : address + 2] = exponent.to_bytes(2, "little", signed=True)
            ctx.set(dut.operands[name], address)
            want[number] = exponent if letter in READ[mode] else 0
        before = len(memory.reads)
        await pulse(ctx, dut.start)
        assert ctx.get(dut.busy)
        while ctx.get(dut.busy):
            await ctx.tick()
        assert [ctx.get(dut.exponents[number]) for number in range(3)] == want
        assert len(memory.reads) - before == len(READ[mode])
        assert all(beats == 1 for _, beats in memory.reads)


@pytest.mark.parametrize("latency", [1, 2, 5])
@pytest.mark.parametrize("mode", list(Mode), ids=lambda mode: mode.name)
async def test_cycles(mode, latency, rng):
    """A cycle for a class that is not read, from request to beat for one that is."""
    dut = design(Headers, make_plan(make_numerics(formats="nvfp4"), data_width=64))
    busy, asked = [], []
    wanted = [letter in READ[mode] for letter in "xwd"]
    length = sum(1 + latency * each for each in wanted)
    ctx = await simulation(dut)
    ctx.set(dut.mode, mode)
    ctx.set(dut.read.requests.ready, 1)
    ctx.set(dut.start, 1)
    for cycle in range(6 * latency + 8):
        ctx.set(dut.read.beats.valid, bool(asked) and cycle == asked[-1] + latency)
        _, _, is_busy, request, ready = await ctx.tick().sample(
            dut.busy, dut.read.requests.valid, dut.read.beats.ready
        )
        busy.append(is_busy)
        if request:
            asked.append(cycle)
        assert ready or not ctx.get(dut.read.beats.valid)
        ends = sum(busy) >= length - 1  # in the next cycle, after which a start counts again
        ctx.set(dut.start, not ends and rng.random() < 0.5)
    assert busy == [0] + [1] * length + [0] * (len(busy) - length - 1)
    starts = [1 + sum(1 + latency * each for each in wanted[:k]) for k in range(3)]
    assert asked == [start for start, each in zip(starts, wanted, strict=True) if each]
