# amaranth: UnusedElaboratable=no
"""Magnitudes of steps before, in a scale slot: against a list of all conversions."""

from dataclasses import dataclass, field

import pytest

from diastole_hw.command.scale_slots import ScaleSlots
from diastole_sim.spec.sizes.vector_shape import VectorShape
from support.bench import design, pulse, simulation

SLOTS = (0, 3, 254)


def shape_of(history):
    return VectorShape(block=4, data_width=64, specials=1, panel_vectors=64, slot_words=2 + history)


@dataclass
class Table:
    """The table's memory: a word comes a cycle late, and one that is being written is unknown."""

    dut: ScaleSlots
    words: dict = field(default_factory=dict)

    async def play(self, ctx):
        names = ("read_en", "read_at", "put_en", "put_at", "put")
        signals = [getattr(self.dut, name) for name in names]
        async for _, _, read, at, put, put_at, word in ctx.tick().sample(*signals):
            assert not (read and put and at == put_at)
            ctx.set(self.dut.word, self.words.get(at, 0) if read else 0x5A5A5A5A)
            if put:
                self.words[put_at] = word


@pytest.mark.parametrize("history", [1, 2, 3, 9])
async def test_the_largest_of_the_steps_before(history, rng):
    dut = design(ScaleSlots, shape_of(history))
    table = Table(dut)
    seen = {slot: [] for slot in SLOTS}
    ctx = await simulation(dut, background=[table.play], limit=20_000)
    step = 0
    for _ in range(150):
        step += rng.choice([0, 0, 1, 1, 2, 2**31])
        step %= 2**32
        slot, amax = rng.choice(SLOTS), rng.getrandbits(31) >> rng.choice([0, 0, 8, 31])
        others = []  # the steps before, the latest first, each once while it lasts
        for at, magnitude in reversed(seen[slot]):
            if at != step or others:
                if not others or others[-1][0] != at:
                    others.append((at, []))
                others[-1][1].append(magnitude)
        before = [magnitude for _, group in others[:history] for magnitude in group]
        ctx.set(dut.slot, slot)
        ctx.set(dut.step, step)
        await pulse(ctx, dut.start)
        cycles = 1
        while not ctx.get(dut.done):
            await ctx.tick()
            cycles += 1
        assert cycles == 1 + 2 + history
        await ctx.tick().repeat(1 + rng.randrange(3))
        assert ctx.get(dut.largest) == max(before, default=0)
        ctx.set(dut.amax, amax)
        await pulse(ctx, dut.note)
        seen[slot].append((step, amax))
        await ctx.tick().repeat(1 + rng.randrange(3))
    assert {at // (2 + history) for at in table.words} == set(SLOTS)


async def test_the_sign_of_a_loaded_word_does_not_count():
    dut = design(ScaleSlots, shape_of(2))
    table = Table(dut, {12: 0x8000_0005, 13: 7, 14: 0x8000_0003, 15: 0x8000_0001})

    async def convert(ctx, step, amax):
        ctx.set(dut.slot, 3)
        ctx.set(dut.step, step)
        await pulse(ctx, dut.start)
        await ctx.tick().until(dut.done)
        found = ctx.get(dut.largest)
        ctx.set(dut.amax, amax)
        await pulse(ctx, dut.note)
        await ctx.tick()
        return found

    ctx = await simulation(dut, background=[table.play])
    assert await convert(ctx, 7, 4) == 3
    assert table.words[12] == 5
    assert await convert(ctx, 8, 2) == 5
    assert table.words == {12: 2, 13: 8, 14: 5, 15: 0x8000_0003}
