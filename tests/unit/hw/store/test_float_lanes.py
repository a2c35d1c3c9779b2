# amaranth: UnusedElaboratable=no
"""Lanes of floats behind a memory; every lane by itself, and where the words go."""

from collections import deque
from dataclasses import dataclass

import pytest

from diastole_hw.store.float_lanes import FloatLanes
from oracle.product import binary32_bits
from support.bench import design, run
from support.floats import decoded, encoded, nearest

CYCLES = 5  # from a word's read to its floats, that of the read included
NAN, INF = 0x7FC0_0000, 0x7F80_0000


@dataclass
class Word:
    """What the memory shows of one word, and its maxima."""

    sums: list
    stream: int
    held: list
    poison: int = 0

    def floats(self, offset):
        """(bits of each lane, whether one of them is too large)."""
        lanes, overflow = [], False
        for n, total in enumerate(self.sums):
            scale = self.stream + self.held[n * len(self.held) // len(self.sums)] - offset
            bits, too_large = binary32_bits(total, scale)
            poisoned = self.poison >> n & 1
            lanes.append(NAN if poisoned else bits)
            overflow |= too_large and not poisoned
        return lanes, overflow


class Bench:
    """Reads words in their order and checks all that leaves the unit, in every cycle."""

    def __init__(self, dut, words, offset, rng, p_read=1.0):
        self.dut, self.words, self.offset, self.rng = dut, deque(words), offset, rng
        self.p_read = p_read
        self.inside = deque()  # [cycles since the read, its word, where it goes]
        self.given = []  # (cycle, floats)
        self.overflows = 0
        self.shown = random_word(rng, dut)

    def show(self, ctx, word):
        """At the memory's outputs; beside zeros noise where the last cycle read nothing. What is
        late is that of the word before."""
        dut, rng = self.dut, self.rng
        if word is None:
            noise = random_word(rng, dut)
            word = Word([0] * dut.lanes, noise.stream, noise.held)
        scales = self.shown if dut.late else word
        self.shown = word
        ctx.set(dut.sums, word.sums)
        ctx.set(dut.stream, scales.stream)
        ctx.set(dut.held, scales.held)
        if dut.poisonable:
            ctx.set(dut.poison, word.poison)

    async def drive(self, ctx):
        dut, rng = self.dut, self.rng
        ctx.set(dut.offset, self.offset)
        cycle = 0
        while self.words or self.inside:
            read = bool(self.words) and rng.random() < self.p_read
            sink = 1 << rng.randrange(dut.sinks) if read else 0
            ctx.set(dut.sink, sink)
            _, _, o, overflow = await ctx.tick().sample(dut.o, dut.overflow)
            due = bool(self.inside) and self.inside[0][0] == CYCLES
            assert o.to == (self.inside[0][2] if due else 0), f"cycle {cycle}"
            want, too_large = None, False
            if due:
                want, too_large = self.inside[0][1].floats(self.offset)
            assert overflow == too_large, f"{self.inside[0][1] if due else None}, {cycle=}"
            self.overflows += overflow
            if due:
                assert list(o.floats) == want, f"{self.inside[0][1]}"
                self.inside.popleft()
                self.given.append((cycle, want))
            for entry in self.inside:
                entry[0] += 1
            word = self.words.popleft() if read else None
            if read:
                self.inside.append([1, word, sink])
            self.show(ctx, word)
            cycle += 1
        ctx.set(dut.sink, 0)
        for _ in range(2 * CYCLES):
            _, _, o, overflow = await ctx.tick().sample(dut.o, dut.overflow)
            assert (o.to, overflow) == (0, 0), "something after the last word"


def random_word(rng, dut):
    half = 2 ** (dut.sum_bits - 1)
    sums = [
        rng.choice((0, half - 1, -half, rng.randrange(-half, half) >> rng.randrange(dut.sum_bits)))
        for _ in range(dut.lanes)
    ]
    held = [rng.randrange(256) for _ in range(dut.bounds)]
    poison = rng.getrandbits(dut.lanes) & rng.getrandbits(dut.lanes) if dut.poisonable else 0
    return Word(sums, rng.randrange(256), held, poison)


SHAPES = [  # lanes, bits, bounds, poison, late
    (1, 40, 1, False, False),
    (2, 26, 2, True, True),
    (4, 63, 1, True, False),
    (4, 33, 4, False, True),
    (8, 24, 8, True, False),
    (8, 30, 2, True, True),
]


@pytest.mark.parametrize("p_read", [1.0, 0.4], ids=["free", "gaps"])
@pytest.mark.parametrize("sinks", [1, 3])
@pytest.mark.parametrize("lanes, sum_bits, bounds, poisonable, late", SHAPES)
@pytest.mark.sampled(4)
def test_floats_of_every_word(lanes, sum_bits, bounds, poisonable, late, sinks, p_read, rng):
    """Sums of every length at scales from far below the smallest float to far above the largest."""
    sizes = {"lanes": lanes, "sum_bits": sum_bits, "bounds": bounds, "late": late}
    dut = design(FloatLanes, **sizes, sinks=sinks, poisonable=poisonable)
    offset = rng.choice([-120, 0, 254 + sum_bits, 300, 600])
    words = [random_word(rng, dut) for _ in range(60)]
    bench = Bench(dut, words, offset, rng, p_read)
    run(dut, bench.drive)
    assert len(bench.given) == 60
    if p_read == 1.0:
        assert [cycle for cycle, _ in bench.given] == list(range(CYCLES, CYCLES + 60))


class FloatWord(Word):
    """Sums are floats of 9 bits behind the leading one."""

    def floats(self, offset):
        return Word([decoded(s, 9) for s in self.sums], *self._maxima()).floats(offset)

    def _maxima(self):
        return self.stream, self.held, self.poison


@pytest.mark.parametrize("late", [False, True], ids=["in time", "late"])
@pytest.mark.parametrize("poisonable", [False, True])
def test_floats_of_floats(poisonable, late, rng):
    """Of every size that an accumulator holds, at any scale."""
    sizes = {"lanes": 4, "sum_bits": 40, "bounds": 2, "mantissa": 9, "late": late}
    dut = design(FloatLanes, **sizes, poisonable=poisonable)
    words = []
    for _ in range(80):
        any_word = random_word(rng, dut)
        lengths = [rng.randrange(63) for _ in range(4)]
        sums = [nearest(rng.getrandbits(length), 9) * rng.choice((-1, 1)) for length in lengths]
        bits = [encoded(value, 9) for value in sums]
        words.append(FloatWord(bits, any_word.stream, any_word.held, any_word.poison))
    bench = Bench(dut, words, 254 + 30, rng, 0.7)
    run(dut, bench.drive)
    assert len(bench.given) == 80
    assert bench.overflows > 0


@pytest.mark.parametrize("lanes", [1, 2, 3, 8, 16])
def test_each_lane_alone_overflows(lanes, rng):
    """And nothing else does; a lane that is poisoned besides does not."""
    dut = design(FloatLanes, lanes=lanes, sum_bits=30, poisonable=True)
    words = []
    for lane in range(lanes):
        for sign in (1, -1):
            sums = [rng.randrange(-(2**20), 2**20) for _ in range(lanes)]
            sums[lane] = sign * 2**28
            words += [Word(sums, 50, [51]), Word(sums, 50, [51], 1 << lane)]
            words.append(Word([0] * lanes, 50, [51], 2**lanes - 1))
    bench = Bench(dut, words, 1, rng)
    run(dut, bench.drive)
    assert bench.overflows == 2 * lanes, "a word each"
    infinite = [floats.index(INF) for _, floats in bench.given if INF in floats]
    assert infinite == list(range(lanes))


@pytest.mark.parametrize("bounds", [1, 4])
def test_special_values_stand_in_their_lanes(bounds, rng):
    """Zeros, NaN, both infinities, what is flushed and what just is not, in every lane."""
    dut = design(FloatLanes, lanes=4, sum_bits=40, bounds=bounds, poisonable=True)
    values = [0, 1, -1, 3, 2**38, -(2**38), 2**39 - 1, -(2**39)]
    words = []
    for stream in (0, 3, 4, 60, 130, 200, 255):  # the unit is from 2^-130 to 2^128
        for shift in range(len(values)):
            sums = [values[(shift + 3 * n) % len(values)] for n in range(4)]
            poison = rng.choice((0, 1 << shift % 4))
            words.append(Word(sums, stream, [40, 41, 42, 43][:bounds], poison))
    bench = Bench(dut, words, 170, rng, p_read=0.5)
    run(dut, bench.drive)
    for lane in range(4):
        seen = {floats[lane] for _, floats in bench.given}
        assert {0, NAN, INF, INF | 1 << 31} <= seen


def test_the_number_of_a_part_goes_with_its_floats(rng):
    """It comes with the sums, one cycle after the read."""
    dut = design(FloatLanes, lanes=2, sum_bits=30, parts=4)
    numbers = [rng.randrange(4) for _ in range(40)]
    got = []

    async def bench(ctx):
        ctx.set(dut.sink, 1)
        for number in numbers:
            ctx.set(dut.part, number)
            ctx.set(dut.sums, [number + 1, 0])
            _, _, out = await ctx.tick().sample(dut.o)
            got.append((out.part, out.floats[0]))

    run(dut, bench)
    latency = CYCLES - 1
    floats = [binary32_bits(number + 1, 0)[0] for number in range(4)]
    assert got[latency:] == [(number, floats[number]) for number in numbers[:-latency]]
