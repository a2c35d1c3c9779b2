"""Addresses of gathered rows: against base + number * pitch, whenever numbers come."""

import pytest

from diastole_hw.vector.streams.gathered import LISTS, GatheredRows
from support.bench import design, run, simulation
from support.vector_streams import vector_shape


class Bench:
    """Lists of numbers, of which those of two at most are under way; each is read a few times."""

    def __init__(self, side, rng, *, stalls, biggest=2**24):
        self.dut, self.rng = design(GatheredRows, vector_shape(side, 128)), rng
        self.share = 0.6 if stalls else 0
        self.base, self.pitch = rng.getrandbits(40), rng.getrandbits(32)
        self.lists = [
            [rng.choice((0, 1, 16, biggest - 1, rng.randrange(biggest))) for _ in range(length)]
            for length in (side, 1, *(rng.randint(1, side) for _ in range(12)), side)
        ]
        self.gone = 0
        self.whole = False  # the oldest list has been read once

    async def wait(self, ctx):
        while self.rng.random() < self.share:
            await ctx.tick()

    async def give(self, ctx):
        dut = self.dut
        ctx.set(dut.base, self.base)
        ctx.set(dut.pitch, self.pitch)
        for number, rows in enumerate(self.lists):
            while number - self.gone >= LISTS or (number > self.gone and not self.whole):
                await ctx.tick()
            for row, index in enumerate(rows):
                await self.wait(ctx)
                ctx.set(dut.number_en, 1)
                ctx.set(dut.number, index)
                ctx.set(dut.last, row == len(rows) - 1)
                await ctx.tick()
                ctx.set(dut.number_en, 0)
                ctx.set(dut.last, self.rng.randrange(2))

    async def read(self, ctx):
        dut = self.dut
        for rows in self.lists:
            for _ in range(3):
                for row, index in enumerate(rows):
                    await self.wait(ctx)
                    ctx.set(dut.at, row)
                    while not ctx.get(dut.available):
                        await ctx.tick()
                    ctx.set(dut.read_en, 1)
                    await ctx.tick()
                    ctx.set(dut.read_en, 0)
                    ctx.set(dut.at, self.rng.randrange(self.dut.shape.block))
                    await self.wait(ctx)
                    assert ctx.get(dut.address) == (self.base + index * self.pitch) % 2**40
                self.whole = True
            ctx.set(dut.discard, 1)
            await ctx.tick()
            ctx.set(dut.discard, 0)
            self.gone, self.whole = self.gone + 1, False

    def run(self):
        run(self.dut, self.give, self.read)


@pytest.mark.parametrize("stalls", [False, True], ids=["flowing", "stalls"])
@pytest.mark.parametrize("side", [1, 2, 8, 16])
@pytest.mark.sampled(2)
def test_addresses(side, stalls, rng):
    Bench(side, rng, stalls=stalls).run()


@pytest.mark.parametrize("index, cycles", [(0, 4), (15, 5), (16, 6), (2**24 - 1, 10)])
async def test_a_number_takes_a_cycle_for_every_four_bits(index, cycles):
    dut = design(GatheredRows, vector_shape(8, 128))
    found = []
    ctx = await simulation(dut)
    ctx.set(dut.number, index)
    ctx.set(dut.number_en, 1)
    for cycle in range(20):
        if ctx.get(dut.available):
            found.append(cycle)
        await ctx.tick()
        ctx.set(dut.number_en, 0)
    assert found[0] == cycles
