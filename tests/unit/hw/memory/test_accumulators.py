# amaranth: UnusedElaboratable=no
"""Accumulators against dictionaries of sums, with some tiles at work while others drain."""

import pytest

from diastole_hw.memory.accumulators import Accumulators
from support.bench import design, simulation
from support.floats import decoded, nearest
from support.plans import make_numerics, make_plan

PSUM_BITS = 20
APART = 3  # cycles between two additions to one word; 4 with registers behind memories


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
    """A run of random slots in the halves of memories that a tile takes: what they are, and what
    they leave there.

    A word is its sums, and the mask of those that are poisoned: 0 where nothing can be.
    """

    def __init__(self, rng, dut, halves, count):
        self.sums = {}  # (port, address): B sums
        self.slots = []  # None, or (address, fresh, last, partial sums of each port)
        recent, apart = [], APART + dut.plan.output_register
        half = dut.plan.tile_sums // 2
        pool = [rng.choice(halves) * half + rng.randrange(half) for _ in range(5)]
        for number in range(count):
            addr = rng.choice(pool)
            last = number == count - 1
            if not last and (addr in recent[1 - apart :] or rng.random() < 0.2):
                self._bubble(recent)
                continue
            while addr in recent[1 - apart :]:
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


def look_up(rng, dut, sums, port, addr):
    """A look-up that asks for a word and for some of those beside it: the first port, the address
    there and in ports that wrap, and by number what is asked for."""
    before = port % dut.drained if dut.banks % dut.drained == 0 else rng.randrange(dut.drained)
    first = (port - before) % dut.banks
    addrs = [rng.choice([at for _, at in sums]) for _ in range(2)]
    addrs[port < first] = addr
    ports = [(first + k) % dut.banks for k in range(dut.drained)]
    places = {k: (number, addrs[number < first]) for k, number in enumerate(ports)}
    beside = {at for at in places.values() if at in sums and rng.random() < 0.7}
    asked = {k: at for k, at in places.items() if at in beside | {(port, addr)}}
    return first, addrs, asked


def set_look_up(ctx, drain, en, port, addrs):
    ctx.set(drain.en, en)
    ctx.set(drain.port, port)
    ctx.set(drain.addr, addrs[0])
    if hasattr(drain, "wrapped_addr"):
        ctx.set(drain.wrapped_addr, addrs[1])


async def drain(ctx, dut, sums, rng):
    """Read every word that was written; it is shown for a cycle."""
    nothing = [0] * dut.plan.block, 0
    for port, addr in rng.sample(sorted(sums), len(sums)):
        while ctx.get(dut.drain.used_by_sums) >> addr // dut.plan.tile_sums & 1:
            await ctx.tick()
        first, addrs, asked = look_up(rng, dut, sums, port, addr)
        set_look_up(ctx, dut.drain, sum(1 << k for k in asked), first, addrs)
        await ctx.tick()
        for again in range(rng.choice([1, 1, 3])):
            noise = [rng.randrange(dut.plan.sum_words) for _ in range(2)]
            set_look_up(ctx, dut.drain, 0, rng.randrange(dut.banks), noise)
            for k, word in enumerate(dut.drain.data):
                poison = ctx.get(word.poison) if dut.plan.poison else 0
                got = list(ctx.get(word.sums)), poison
                here = k in asked and not again
                assert got == (sums[asked[k]] if here else nothing), f"word {k} of {asked}"
            await ctx.tick()


@pytest.mark.parametrize("banks, drained", [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2), (5, 4), (4, 2)])
@pytest.mark.parametrize("latency", [2, 3, 7])
@pytest.mark.parametrize("special, registers", [("flag", False), ("poison", False), ("flag", True)])
@pytest.mark.sampled(16)
async def test_sums_while_other_tiles_drain(banks, drained, latency, special, registers, rng):
    plan = make_plan(make_numerics(block=2, special=special), output_register=registers)
    sizes = {"banks": banks, "drained": drained, "latency": latency + registers}
    dut = design(Accumulators, plan, psum_bits=PSUM_BITS, **sizes)
    tiles = [(0, 1), (2, 3), (0,), (2,), (1,), (3,), (0,), (2, 3)]
    runs = [Slots(rng, dut, halves, 60) for halves in tiles]
    finished = []

    async def work(ctx):
        for one in runs:
            await drive(ctx, dut, one.slots, rng)
            finished.append(one)
            # The tile in the same half, or in the same memory if either takes a whole one.
            before = [number for number, tile in enumerate(tiles[: len(finished)])
                      if {*tile} & {*tiles[len(finished) % len(tiles)]}]  # fmt: skip
            while len(drained) <= max(before, default=-1):
                await ctx.tick()

    drained = []
    ctx = await simulation(dut, work)
    for number, one in enumerate(runs, 1):
        while len(finished) < min(number + 1, len(runs)):  # so the next but one is at work
            await ctx.tick()
        await drain(ctx, dut, one.sums, rng)
        drained.append(one)


@pytest.mark.parametrize("registers", [0, 1])
@pytest.mark.parametrize("banks", [1, 2])
async def test_one_addition_every_few_cycles_to_one_word(banks, registers):
    plan = make_plan(make_numerics(block=2), output_register=bool(registers))
    apart = APART + registers
    dut = design(Accumulators, plan, banks=banks, psum_bits=PSUM_BITS, latency=2 + registers)
    ctx = await simulation(dut)
    for cycle in range(10 * apart + 1):
        ctx.set(dut.sum_en, cycle % apart == 0)
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
        assert list(ctx.get(dut.drain.data[0].sums)) == [11, -11]


@pytest.mark.parametrize("slices", [1, 2])
@pytest.mark.parametrize("banks", [1, 3])
async def test_floats(slices, banks, rng):
    """Two words, 4 cycles apart, of chunks of so many partial sums; ``done`` comes as the last is
    written."""
    floats = {"kind": "float", "mantissa": 9, "chunk": 8}
    plan = make_plan(make_numerics(block=2, fraction=4, accumulator=floats))
    dut = design(Accumulators, plan, banks=banks, psum_bits=12, latency=2, slices=slices)
    count = 12 * slices
    last = 2 * count - 1
    parts = [[rng.randrange(1 - 2**7, 2**7) for _ in range(banks)] for _ in range(2 * count)]
    totals = [[0] * banks, [0] * banks]
    for word in (0, 1):
        for port in range(banks):
            of_word = [each[port] for each in parts[word::2]]
            chunks = [of_word[k : k + slices] for k in range(0, count, slices)]
            for chunk in chunks:
                totals[word][port] = nearest(totals[word][port] + nearest(sum(chunk), 9), 9)
    written = dut.latency + banks + (3 if slices > 1 else 2)
    ctx = await simulation(dut)
    done = []
    for cycle in range(4 * count + written + 2):
        at, here = divmod(cycle, 2)
        ctx.set(dut.sum_en, not here and at < 2 * count)
        ctx.set(dut.sum_addr, at % 2)
        ctx.set(dut.fresh, at // 2 < slices)
        ctx.set(dut.sum_done, not here and at == last)
        if slices > 1:
            ctx.set(dut.begins, at // 2 % slices == 0)
            ctx.set(dut.ends, at // 2 % slices == slices - 1)
        for port in range(banks):
            came, odd = divmod(cycle - dut.latency - port, 2)
            part = parts[came][port] if not odd and 0 <= came < 2 * count else 0
            ctx.set(dut.psums[port].sums, [part, -part])
        if ctx.get(dut.done):
            done.append(cycle)
        await ctx.tick()
    assert done == [2 * last + written]
    for word in (0, 1):
        for port in range(banks):
            set_look_up(ctx, dut.drain, 1, port, [word, 0])
            await ctx.tick()
            got = [decoded(bits, 9) for bits in ctx.get(dut.drain.data[0].sums)]
            assert got == [totals[word][port], -totals[word][port]]
