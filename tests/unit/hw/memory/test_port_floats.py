# amaranth: UnusedElaboratable=no
"""Floats behind a port against dictionaries: chunks of any length, reads of the other memory."""

from collections import deque
from dataclasses import dataclass
from itertools import product

import pytest

from diastole_hw.memory.port_floats import PortFloats
from support.bench import design, simulation
from support.floats import decoded, nearest
from support.plans import make_numerics, make_plan
from support.sweep import alternating

PSUM_BITS = 14
APART = 4  # cycles between two additions to one word
MANTISSA = 4


def floats_plan(alone, special):
    floats = {"kind": "float", "mantissa": MANTISSA, "chunk": 8 if alone else 32}
    numerics = make_numerics(block=2, special=special, fraction=4, accumulator=floats)
    return make_plan(numerics, cols=4 if alone else 1)


def random_psums(rng, plan):
    sums = [rng.randrange(1 - 2**11, 2**11) >> rng.randrange(11) for _ in range(plan.block)]
    return sums, rng.getrandbits(plan.block) & rng.getrandbits(plan.block) if plan.poison else 0


@dataclass
class Word:
    """Of each lane what the chunk at hand adds up to, and the float; whether one is poisoned. The
    float of a word that was never written is None."""

    chunk: list
    total: list
    fresh: bool = True
    begins: bool = True
    poison: int = 0
    chunk_poison: int = 0
    read_data: tuple | None = None

    def add(self, psums, *, ends):
        """Whether a rounding has lost a bit."""
        sums, poison = psums
        before = [0] * len(sums) if self.begins else self.chunk
        self.chunk = [a + b for a, b in zip(before, sums, strict=True)]
        self.chunk_poison = poison | (0 if self.begins else self.chunk_poison)
        self.begins = ends
        if not ends:
            return False
        added = [nearest(value, MANTISSA) for value in self.chunk]
        before = [0] * len(sums) if self.fresh else self.total
        exactly = [a + b for a, b in zip(before, added, strict=True)]
        self.total = [nearest(value, MANTISSA) for value in exactly]
        self.poison = self.chunk_poison | (0 if self.fresh else self.poison)
        self.read_data = list(self.total), self.poison
        return added != self.chunk or self.total != exactly


def read_data(ctx, dut):
    word = ctx.get(dut.read_data)
    return [decoded(bits, MANTISSA) for bits in word.sums], word.poison if dut.plan.poison else 0


@pytest.mark.parametrize(
    "alone, special, p_add, p_read",
    alternating(
        product((True, False), ("flag", "poison")), {"always": (1.0, 1.0), "often": (0.6, 0.5)}
    ),
)
@pytest.mark.sampled(2)
async def test_chunks_and_reads(alone, special, p_add, p_read, rng):
    """In any cycle a word of one memory may be added to, and one of the other be read; while words
    are overwritten, of the same, too; a word again as soon as it may."""
    plan = floats_plan(alone, special)
    dut = design(PortFloats, plan, psum_bits=PSUM_BITS, alone=alone)
    assert dut.written == (4 if alone else 5)
    places = (0, 1, 2, 9, plan.tile_sums // 2)
    addrs = [memory * plan.tile_sums + word for memory in range(2) for word in places]
    addrs.append(plan.sum_words - 1)
    words = {addr: Word([0, 0], [0, 0]) for addr in addrs}
    nothing = [0] * plan.block, 0
    ctx = await simulation(dut)
    recent, coming, reading = [], None, nothing
    adding = [None] * dut.reads  # memories of floats that are read to be added to, later
    losses = deque([False] * (dut.written + 1))
    for _ in range(900):
        psums = random_psums(rng, plan) if coming is None else coming
        ctx.set(dut.psums.sums, psums[0])
        if plan.poison:
            ctx.set(dut.psums.poison, psums[1])
        assert read_data(ctx, dut) == reading
        losses.popleft()
        assert ctx.get(dut.inexact) == losses[0]
        free = [addr for addr in addrs if addr not in recent[1 - APART :]]
        again = recent[-APART:][:1]
        adds = rng.random() < p_add
        addr = again[0] if again and again[0] in free and rng.random() < 0.5 else rng.choice(free)
        word, ends = words[addr], alone or rng.random() < 0.4
        if word.begins:  # a contraction may end wherever a chunk does
            word.fresh = word.read_data is None or rng.random() < 0.2
        ctx.set(dut.en, adds)
        ctx.set(dut.addr, addr)
        ctx.set(dut.fresh, word.fresh)
        if not alone:
            ctx.set(dut.begins, word.begins)
            ctx.set(dut.ends, ends)
        coming = random_psums(rng, plan) if adds else None
        losses.append(adds and word.add(coming, ends=ends))
        recent.append(addr if adds else None)
        adding.append(addr // plan.tile_sums if adds and not word.fresh else None)
        busy = {at for at in recent[-1 - dut.written :] if at is not None}
        known = [at for at in addrs if words[at].read_data and at not in busy]
        known = [at for at in known if at // plan.tile_sums != adding[-1 - dut.reads]]
        reads = bool(known) and rng.random() < p_read
        at = rng.choice(known) if reads else rng.choice(addrs)
        ctx.set(dut.read, reads)
        ctx.set(dut.read_addr, at)
        reading = words[at].read_data if reads else nothing
        await ctx.tick()
