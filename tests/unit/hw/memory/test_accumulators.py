"""Accumulators against dictionaries of sums, with one half at work while the other drains."""

import pytest

from diastole_hw.memory.accumulators import Accumulators
from support.bench import design, run
from support.plans import make_numerics, make_plan

PSUM_BITS = 20
APART = 3  # cycles between two additions to one word


def signed_word(rng, block):
    return [rng.randrange(-(2 ** (PSUM_BITS - 1)), 2 ** (PSUM_BITS - 1)) for _ in range(block)]


def random_part(rng, plan):
    """Partial sums of one port, few of them poisoned."""
    poison = rng.getrandbits(plan.block) & rng.getrandbits(plan.block) if plan.poison else 0
    return signed_word(rng, plan.block), poison


def set_part(ctx, psums, part):
    sums, poison = part
    ctx.set(psums.sums, sums)
    if hasattr(psums, "poison"):
        ctx.set(psums.poison, poison)


class Slots:
    """A run of random slots in one half: what they are, and what they leave in it.

    A word is its sums, and the mask of those that are poisoned: 0 where nothing can be.
    """

    def __init__(self, rng, dut, half, count):
        self.sums = {}  # (port, address): B sums
        self.slots = []  # None, or (address, fresh, last, partial sums of each port)
        base, recent = half * dut.words, []
        pool = [base + rng.randrange(dut.words) for _ in range(5)]
        for number in range(count):
            addr = rng.choice(pool)
            last = number == count - 1
            if not last and (addr in recent[1 - APART :] or rng.random() < 0.2):
                self._bubble(recent)
                continue
            while addr in recent[1 - APART :]:
                self._bubble(recent)
            fresh = (0, addr) not in self.sums or rng.random() < 0.2
            parts = [random_part(rng, dut.plan) for _ in range(dut.banks)]
            self.slots.append((addr, fresh, last, parts))
            recent.append(addr)
            for port, (part, poison) in enumerate(parts):
                before = ([0] * len(part), 0) if fresh else self.sums[port, addr]
                sums = [a + b for a, b in zip(before[0], part, strict=True)]
                self.sums[port, addr] = sums, before[1] | poison

    def _bubble(self, recent):
        self.slots.append(None)
        recent.append(None)


async def drive(ctx, dut, slots, rng):
    """Give the slots, and the partial sums when the array would; note when ``done`` comes."""
    due = {}  # (cycle, port): partial sums
    for cycle in range(len(slots) + dut.latency + dut.banks + 1):
        slot = slots[cycle] if cycle < len(slots) else None
        ctx.set(dut.sum_en, slot is not None)
        if slot is not None:
            addr, fresh, last, parts = slot
            ctx.set(dut.sum_addr, addr)
            ctx.set(dut.fresh, fresh)
            ctx.set(dut.sum_done, last)
            for port, part in enumerate(parts):
                due[cycle + dut.latency + port, port] = part
        else:
            ctx.set(dut.sum_done, 0)
        for port in range(dut.banks):
            set_part(ctx, dut.psums[port], due.get((cycle, port)) or random_part(rng, dut.plan))
        done = ctx.get(dut.done)
        ends = cycle - dut.latency - dut.banks
        assert done == (0 <= ends < len(slots) and slots[ends] is not None and slots[ends][2])
        await ctx.tick()


async def drain(ctx, dut, sums, rng):
    """Read every word that was written; what is shown stays until the next read."""
    for (port, addr), want in rng.sample(sorted(sums.items()), len(sums)):
        ctx.set(dut.drain.en, 1)
        ctx.set(dut.drain.port, port)
        ctx.set(dut.drain.addr, addr)
        await ctx.tick()
        ctx.set(dut.drain.en, 0)
        for _ in range(rng.choice([1, 1, 3])):
            ctx.set(dut.drain.port, rng.randrange(dut.banks))
            ctx.set(dut.drain.addr, rng.randrange(2 * dut.words))
            data = dut.drain.data
            poison = ctx.get(data.poison) if dut.plan.poison else 0
            assert (list(ctx.get(data.sums)), poison) == want, f"port {port}, word {addr}"
            await ctx.tick()


@pytest.mark.parametrize("banks", [1, 2, 3])
@pytest.mark.parametrize("latency", [1, 2, 7])
@pytest.mark.parametrize("special", ["flag", "poison"])
def test_sums_while_the_other_half_drains(banks, latency, special, rng):
    plan = make_plan(make_numerics(block=2, special=special))
    dut = design(Accumulators, plan, banks=banks, psum_bits=PSUM_BITS, latency=latency)
    runs = [Slots(rng, dut, number % 2, 60) for number in range(4)]
    finished = []

    async def work(ctx):
        for one in runs:
            await drive(ctx, dut, one.slots, rng)
            finished.append(one)
            while len(finished) - len(drained) > 1:  # the half that is next is still draining
                await ctx.tick()

    async def check(ctx):
        for one in runs:
            while one not in finished:
                await ctx.tick()
            await drain(ctx, dut, one.sums, rng)
            drained.append(one)

    drained = []
    run(dut, work, check)


@pytest.mark.parametrize("banks", [1, 2])
def test_one_addition_every_three_cycles_to_one_word(banks):
    plan = make_plan(make_numerics(block=2))
    dut = design(Accumulators, plan, banks=banks, psum_bits=PSUM_BITS, latency=2)

    async def bench(ctx):
        for cycle in range(31):
            ctx.set(dut.sum_en, cycle % APART == 0)
            ctx.set(dut.fresh, cycle == 0)
            for port in range(banks):
                ctx.set(dut.psums[port].sums, [1, -1])
            await ctx.tick()
        ctx.set(dut.sum_en, 0)
        for _ in range(dut.latency + banks + 1):
            await ctx.tick()
        for port in range(banks):
            ctx.set(dut.drain.en, 1)
            ctx.set(dut.drain.port, port)
            await ctx.tick()
            assert list(ctx.get(dut.drain.data.sums)) == [11, -11]

    run(dut, bench)
