# amaranth: UnusedElaboratable=no
"""Sums behind a port against a dictionary: additions, and reads of the other memory meanwhile."""

from itertools import product

import pytest

from diastole_hw.memory.port_sums import PortSums
from support.bench import design, pulse, simulation
from support.plans import make_numerics, make_plan
from support.sweep import alternating

PSUM_BITS = 12
APART = 3  # cycles between two additions to one word; 4 with registers behind memories


def random_psums(rng, plan):
    sums = [rng.randrange(-(2 ** (PSUM_BITS - 1)), 2 ** (PSUM_BITS - 1)) for _ in range(plan.block)]
    return {"sums": sums} | ({"poison": rng.getrandbits(plan.block)} if plan.poison else {})


def grown(before, psums):
    """A word after an addition; ``before`` is None if it is overwritten."""
    if before is None:
        return psums
    sums = [a + b for a, b in zip(before["sums"], psums["sums"], strict=True)]
    poison = {"poison": before["poison"] | psums["poison"]} if "poison" in psums else {}
    return {"sums": sums} | poison


def read_data(ctx, dut):
    word = ctx.get(dut.read_data)
    return {"sums": list(word.sums)} | ({"poison": word.poison} if dut.plan.poison else {})


@pytest.mark.parametrize(
    "special, registers, p_add, p_read",
    alternating(
        product(("flag", "poison"), (0, 1)),
        {"always": (1.0, 1.0), "often": (0.6, 0.5), "seldom": (0.3, 1.0)},
    ),
)
async def test_additions_and_reads(registers, special, p_add, p_read, rng):
    """In any cycle a word of one memory may be added to, and one of the other be read; while words
    are overwritten, of the same, too."""
    plan = make_plan(make_numerics(block=2, special=special), output_register=bool(registers))
    dut = design(PortSums, plan, psum_bits=PSUM_BITS)
    apart = APART + registers
    addrs = [memory * plan.tile_sums + word for memory in range(2) for word in (0, 1, 2, 9)]
    addrs.append(plan.sum_words - 1)
    ctx = await simulation(dut)
    sums, recent, coming = {}, [], [None] * (1 + registers)
    nothing = {"sums": [0] * plan.block} | ({"poison": 0} if plan.poison else {})
    reading = nothing
    for _ in range(600):
        ctx.set(dut.psums, coming.pop(0) or random_psums(rng, plan))
        assert read_data(ctx, dut) == reading
        # An addition, of a word that none was made to of late.
        free = [addr for addr in addrs if addr not in recent[1 - apart :]]
        adds = rng.random() < p_add
        addr, fresh = rng.choice(free), rng.random() < 0.1
        fresh |= addr not in sums
        ctx.set(dut.en, adds)
        ctx.set(dut.addr, addr)
        ctx.set(dut.fresh, fresh)
        coming.append(random_psums(rng, plan) if adds else None)
        if adds:
            sums[addr] = grown(None if fresh else sums[addr], coming[-1])
        recent.append(addr if adds else None)
        # A read of a word that is written, and not at work.
        busy = addr // plan.tile_sums if adds and not fresh else None
        known = [at for at in sums if at // plan.tile_sums != busy and at not in recent[-apart:]]
        reads = bool(known) and rng.random() < p_read
        at = rng.choice(known) if reads else rng.choice(addrs)
        ctx.set(dut.read, reads)
        ctx.set(dut.read_addr, at)
        reading = sums[at] if reads else nothing
        await ctx.tick()


@pytest.mark.parametrize("registers", [0, 1])
async def test_what_is_shown_goes(registers):
    """In the cycle after, while other words are at work."""
    plan = make_plan(make_numerics(block=2), output_register=bool(registers))
    dut = design(PortSums, plan, psum_bits=PSUM_BITS)
    ctx = await simulation(dut)
    for fresh in (1, 0):
        ctx.set(dut.en, 1)
        ctx.set(dut.fresh, fresh)
        await ctx.tick()
        ctx.set(dut.en, 0)
        ctx.set(dut.psums.sums, [5, -7])
        await ctx.tick().repeat(2 + registers)
    await pulse(ctx, dut.read)
    ctx.set(dut.en, 1)
    for word in range(8):
        ctx.set(dut.addr, plan.tile_sums * (word % 2) + word)
        ctx.set(dut.read_addr, plan.tile_sums * (word // 2 % 2))
        assert list(ctx.get(dut.read_data.sums)) == ([10, -14] if word == 0 else [0, 0])
        await ctx.tick()
