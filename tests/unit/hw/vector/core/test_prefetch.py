# amaranth: UnusedElaboratable=no
"""The entries of every block, whatever stalls, and in which cycles they come."""

from itertools import pairwise

import pytest

from diastole_hw.vector.core.prefetch import AHEAD, Prefetch
from support.bench import design, put, run
from support.vector_core import shape_of
from support.vector_entries import (
    compared,
    entry_of,
    holds,
    random_block,
    random_fields,
    random_stream,
    word_of,
)

CHOSEN = 3
"""Cycles from the choice of an entry to its coming."""


class Program:
    """A random program at a random place, and blocks to run it on."""

    def __init__(self, rng, shape, length, blocks, when=None):
        self.rng, self.shape = rng, shape
        self.fields = [random_fields(rng, shape.block) for _ in range(length)]
        if when is not None:
            for fields, chosen in zip(self.fields, when, strict=True):
                fields["when"] = chosen
        self.first = rng.randrange(257 - length)
        self.constants = [rng.getrandbits(32) for _ in range(256)]
        self.streams = [random_stream(rng) for _ in range(8)]
        for stream in self.streams[:4]:
            stream["kind"] = 2  # two panels in an instruction are refused
        self.blocks = [random_block(rng, shape) for _ in range(blocks)]

    def entries(self):
        """Of every block, in order; None at its end."""
        for block in self.blocks:
            for fields in self.fields:
                if holds(fields["when"], block):
                    entry = entry_of(self.shape, fields, block, self.streams)
                    yield block, entry | {"constant": self.constants[fields["k"]], "end": 0}
            yield block, None

    async def begin(self, ctx, dut):
        ctx.set(dut.first, self.first)
        ctx.set(dut.length, len(self.fields))
        ctx.set(dut.streams, self.streams)
        ctx.set(dut.start, 1)
        await ctx.tick()
        ctx.set(dut.start, 0)


class Around:
    """The memories of one program after the other; ``now``: the one that runs."""

    def __init__(self, dut, programs):
        self.dut, self.programs, self.now = dut, programs, programs[0]

    async def memories(self, ctx):
        dut = self.dut
        while True:
            _, _, asked, at, constant, k = await ctx.tick().sample(
                dut.program_en, dut.program_at, dut.constant_en, dut.constant_at
            )
            rng, now = self.now.rng, self.now
            if asked:
                assert now.first <= at < now.first + len(now.fields), at
            word = word_of(now.fields[at - now.first]) if asked else rng.getrandbits(64)
            ctx.set(dut.program_word, word)
            ctx.set(dut.constant_word, now.constants[k] if constant else rng.getrandbits(32))

    async def blocks(self, ctx, willing):
        for program in self.programs:
            while self.now is not program or not self.begun:
                await ctx.tick()
            await put(ctx, self.dut.blocks, program.blocks, willing)

    begun = False
    at_once = False  # the first block comes in the cycle of its start

    async def entries(self, ctx, willing):
        """All of them, each right; returns the cycles in which they came, of the last program."""
        dut = self.dut
        for program in self.programs:
            self.now, self.begun = program, self.at_once
            await program.begin(ctx, dut)
            self.begun = True
            cycle, came = 0, []
            for block, entry in program.entries():
                while True:
                    ready = willing()
                    ctx.set(dut.o.ready, ready)
                    _, _, valid, got, at = await ctx.tick().sample(
                        dut.o.valid, dut.o.payload, dut.block
                    )
                    cycle += 1
                    if valid and ready:
                        break
                came.append(cycle)
                ctx.set(dut.o.ready, 0)
                assert all(at[name] == value for name, value in block.items())
                assert got.end == (entry is None)
                for name, value, want in compared(got, entry or {}):
                    assert value == want, f"{name}: {value}, not {want}"
            self.begun = False
            for _ in range(8):
                await ctx.tick()
            assert not ctx.get(dut.o.valid), "extra entry"
        return came


def run_programs(programs, shape, p_block, p_take, rng, at_once=False):
    dut, came = design(Prefetch, shape), []
    around = Around(dut, programs)
    around.at_once = at_once

    async def entries(ctx):
        came.extend(await around.entries(ctx, lambda: rng.random() < p_take))

    async def blocks(ctx):
        await around.blocks(ctx, lambda: rng.random() < p_block)

    run(dut, entries, blocks, background=[around.memories])
    return came


@pytest.mark.parametrize("length", [1, 2, 7, 32])
@pytest.mark.parametrize("p_block, p_take", [(1.0, 1.0), (0.1, 1.0), (1.0, 0.1), (0.5, 0.3)])
@pytest.mark.sampled(2)
def test_entries_of_every_block(length, p_block, p_take, rng):
    shape = shape_of(4)
    programs = [Program(rng, shape, length, blocks) for blocks in (1, 5, 3)]
    run_programs(programs, shape, p_block, p_take, rng)


def test_a_first_block_that_comes_with_its_start(rng):
    """What is done in it is looked for, not that which was in the chain before."""
    shape = shape_of(4)
    programs = [Program(rng, shape, 3, 2, when=[when] * 3) for when in (1, 0)]
    programs[0].blocks[0] |= {"first": 1, "last": 0}
    programs[1].blocks[0] |= {"first": 1, "last": 0}
    run_programs(programs, shape, 1.0, 1.0, rng, at_once=True)


def test_the_cycles_of_entries(rng):
    """Three from the choice; a block's instructions that are not done take none."""
    shape = shape_of(4)
    program = Program(rng, shape, 32, 4, when=[0, *[2] * 31])  # 31 in the first block of a line
    for block in program.blocks:
        block["first"] = 0
    came = run_programs([program], shape, 1.0, 1.0, rng)
    chosen = 2  # a cycle after the block was taken, which is there in cycle 1 after the start
    assert came[0] == chosen + CHOSEN
    assert 31 < came[1] - came[0] < 3 * 32 / AHEAD
    assert [after - before for before, after in pairwise(came[1:])] == [2] * 6
