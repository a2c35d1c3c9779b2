# amaranth: UnusedElaboratable=no
"""Lanes of floats behind a memory; every lane by itself, and where the words go."""

from dataclasses import dataclass

import pytest

from diastole_hw.store.float_lanes import FloatLanes
from oracle.product import binary32_bits
from support.bench import design
from support.floats import decoded, encoded, nearest
from support.pipelines import check_pipeline

CYCLES = 5  # from a word's read to its floats, that of the read included
NAN, INF = 0x7FC0_0000, 0x7F80_0000


@dataclass
class Word:
    """What the memory shows of one word, and its maxima."""

    sums: list
    stream: int
    stationary: list
    poison: int = 0

    def floats(self, offset):
        """(bits of each lane, whether one of them is too large)."""
        lanes, overflow = [], False
        for n, total in enumerate(self.sums):
            scale = (
                self.stream + self.stationary[n * len(self.stationary) // len(self.sums)] - offset
            )
            bits, too_large = binary32_bits(total, scale)
            poisoned = self.poison >> n & 1
            lanes.append(NAN if poisoned else bits)
            overflow |= too_large and not poisoned
        return lanes, overflow


def check(dut, words, offset, rng, p_read=1.0):
    """Words in their order, and nothing in other cycles; returns the floats of each, and how many
    words have one that is too large."""
    cases, found, overflows = [], [], 0
    for word in words:
        while rng.random() >= p_read:
            cases.append(gap(rng, dut))
        sink = 1 << rng.randrange(dut.sinks)
        floats, overflow = word.floats(offset)
        results = {"o": {"to": sink, "floats": floats}, "overflow": overflow}
        cases.append((given(dut, word) | {"sink": sink}, results))
        found.append(floats)
        overflows += overflow
    cases += [gap(rng, dut) for _ in range(2 * CYCLES)]
    delays = {"sums": 1, "poison": 1} | dict.fromkeys(
        ("stream", "stationary"), 1 + dut.exponent_delay
    )
    check_pipeline(dut, cases, CYCLES, hold={"offset": offset}, delays=delays)
    return found, overflows


def given(dut, word):
    """What the memory shows, in the cycle after the read or later."""
    shown = {"sums": word.sums, "stream": word.stream, "stationary": word.stationary}
    return shown | ({"poison": word.poison} if dut.poisonable else {})


def gap(rng, dut):
    """A cycle without a read: zeros, beside noise."""
    noise = random_word(rng, dut)
    nothing = Word([0] * dut.lanes, noise.stream, noise.stationary)
    return given(dut, nothing) | {"sink": 0}, {"o": {"to": 0}, "overflow": 0}


def random_word(rng, dut):
    half = 2 ** (dut.sum_bits - 1)
    sums = [
        rng.choice((0, half - 1, -half, rng.randrange(-half, half) >> rng.randrange(dut.sum_bits)))
        for _ in range(dut.lanes)
    ]
    stationary = [rng.randrange(256) for _ in range(dut.bounds)]
    poison = rng.getrandbits(dut.lanes) & rng.getrandbits(dut.lanes) if dut.poisonable else 0
    return Word(sums, rng.randrange(256), stationary, poison)


SHAPES = [  # lanes, bits, bounds, poison, exponent_delay
    (1, 40, 1, False, False),
    (2, 26, 2, True, True),
    (4, 63, 1, True, False),
    (4, 33, 4, False, True),
    (8, 24, 8, True, False),
    (8, 30, 2, True, True),
]


@pytest.mark.parametrize("p_read", [1.0, 0.4], ids=["free", "gaps"])
@pytest.mark.parametrize("sinks", [1, 3])
@pytest.mark.parametrize("lanes, sum_bits, bounds, poisonable, exponent_delay", SHAPES)
@pytest.mark.sampled(4)
def test_floats_of_every_word(
    lanes, sum_bits, bounds, poisonable, exponent_delay, sinks, p_read, rng
):
    """Sums of every length at scales from far below the smallest float to far above the largest."""
    sizes = {
        "lanes": lanes,
        "sum_bits": sum_bits,
        "bounds": bounds,
        "exponent_delay": exponent_delay,
    }
    dut = design(FloatLanes, **sizes, sinks=sinks, poisonable=poisonable)
    offset = rng.choice([-120, 0, 254 + sum_bits, 300, 600])
    words = [random_word(rng, dut) for _ in range(60)]
    check(dut, words, offset, rng, p_read)


class FloatWord(Word):
    """Sums are floats of 9 bits behind the leading one."""

    def floats(self, offset):
        return Word([decoded(s, 9) for s in self.sums], *self._maxima()).floats(offset)

    def _maxima(self):
        return self.stream, self.stationary, self.poison


@pytest.mark.parametrize("exponent_delay", [False, True], ids=["in time", "late"])
@pytest.mark.parametrize("poisonable", [False, True])
def test_floats_of_floats(poisonable, exponent_delay, rng):
    """Of every size that an accumulator holds, at any scale."""
    sizes = {
        "lanes": 4,
        "sum_bits": 40,
        "bounds": 2,
        "mantissa": 9,
        "exponent_delay": exponent_delay,
    }
    dut = design(FloatLanes, **sizes, poisonable=poisonable)
    words = []
    for _ in range(80):
        any_word = random_word(rng, dut)
        lengths = [rng.randrange(63) for _ in range(4)]
        sums = [nearest(rng.getrandbits(length), 9) * rng.choice((-1, 1)) for length in lengths]
        bits = [encoded(value, 9) for value in sums]
        words.append(FloatWord(bits, any_word.stream, any_word.stationary, any_word.poison))
    assert check(dut, words, 254 + 30, rng, 0.7)[1] > 0


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
    found, overflows = check(dut, words, 1, rng)
    assert overflows == 2 * lanes, "a word each"
    infinite = [floats.index(INF) for floats in found if INF in floats]
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
    found, _ = check(dut, words, 170, rng, p_read=0.5)
    for lane in range(4):
        seen = {floats[lane] for floats in found}
        assert {0, NAN, INF, INF | 1 << 31} <= seen


def test_the_number_of_a_part_goes_with_its_floats(rng):
    """It comes with the sums, one cycle after the read."""
    dut = design(FloatLanes, lanes=2, sum_bits=30, parts=4)
    cases = []
    for number in (rng.randrange(4) for _ in range(40)):
        bits, _ = binary32_bits(number + 1, 0)
        shown = {"sink": 1, "part": number, "sums": [number + 1, 0]}
        cases.append((shown, {"o": {"part": number, "floats": [bits, None]}}))
    check_pipeline(dut, cases, CYCLES, delays={"part": 1, "sums": 1})
