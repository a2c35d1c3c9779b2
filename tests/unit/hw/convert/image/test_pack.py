# amaranth: UnusedElaboratable=no
"""The packer against sums of shifted elements: every width, alone and after others."""

import pytest

from diastole_hw.convert.image.pack import Packer, PlanePacker
from support.bench import design
from support.sweep import alternating
from support.tiles import joined
from support.unit_bench import Unit

SIZES = [
    (1, (5, 9, 3), 32),
    (2, (5, 8, 3), 64),
    (16, (5, 9, 4), 512),
    (8, (9, 3, 4), 512),
    # Whole words fill a beat.
    (1, (4, 4, 4), 32),
    (4, (4, 8, 2), 128),
    (2, (8, 16, 8), 32),
]


def beats_of(groups, bits, data_width):
    """The beats of groups of elements, which begin with one each."""
    for group in groups:
        packed, size = joined(group, bits), len(group) * bits
        for at in range(0, size, data_width):
            yield {"beat": packed >> at & 2**data_width - 1, "last": at + data_width >= size}


@pytest.mark.parametrize(
    "lanes, element_bits, data_width, cls, pace",
    alternating(
        [(*sizes, cls) for sizes in SIZES for cls in range(3)],
        {"free": (1.0,), "stalled": (0.4,)},
    ),
)
def test_packer(lanes, element_bits, data_width, cls, pace, rng):
    """Above an element of a narrow class stands anything."""
    dut = design(Packer, lanes=lanes, element_bits=element_bits, data_width=data_width)
    pitch, bits = max(element_bits), element_bits[cls]
    groups, words = [], []
    for _ in range(12):
        count = rng.randrange(1, 4 * data_width // (lanes * bits))
        groups.append([rng.getrandbits(bits) for _ in range(count * lanes)])
        noisy = [(x | rng.getrandbits(9) << bits) % 2**pitch for x in groups[-1]]
        words += words_of(noisy, pitch, lanes)
    unit = Unit(dut, rng, pace=pace)
    unit.hold(cls=cls)
    unit.give(dut.i, words)
    unit.take(dut.o, beats_of(groups, bits, data_width))
    unit.run()


def words_of(group, bits, lanes):
    """The words of a group of elements."""
    for start in range(0, len(group), lanes):
        word = joined(group[start : start + lanes], bits)
        yield {"elements": word, "last": start + lanes == len(group)}


def cycles_of(words, **sizes):
    """The cycles in which words go in and beats leave, where nothing waits, and the beats."""
    dut = design(Packer, data_width=32, **sizes)
    unit = Unit(dut)
    taken, given = unit.give(dut.i, words), unit.collect(dut.o)
    unit.run()
    return taken.cycles, given.cycles, given.items


@pytest.mark.parametrize("groups, beats", [([8, 8], [1, 1]), ([12, 5, 8], [2, 1, 1]), ([1], [1])])
def test_timing(groups, beats):
    """A word in per cycle; a beat leaves in the cycle after the word that fills it."""
    words = [{"elements": n % 16, "last": n == size - 1} for size in groups for n in range(size)]
    taken, given, _ = cycles_of(words, lanes=1, element_bits=(4,))
    fills = []
    for number, size in enumerate(groups):
        start = sum(groups[:number])
        ends = [min(8 * (n + 1), size) for n in range(beats[number])]
        fills += [start + end - 1 for end in ends]
    assert taken == list(range(sum(groups)))
    assert given == [cycle + 1 for cycle in fills]


def test_timing_of_a_flush():
    """Words of 3 elements of 5 bits: the third begins another beat, which leaves a cycle later,
    while words go on coming."""
    words = [{"elements": 0x7FFF, "last": n % 3 == 2} for n in range(6)]
    taken, given, beats = cycles_of(words, lanes=3, element_bits=(5,))
    assert taken == [0, 1, 2, 3, 4, 5]
    assert given == [3, 4, 6, 7]
    assert [each["beat"] for each in beats] == [2**32 - 1, 2**13 - 1] * 2


def test_a_group_of_a_word_after_a_flush():
    """It leaves alone, in the cycle after the end of the group before."""
    words = [{"elements": 0x7FFF, "last": n >= 2} for n in range(5)]
    _, given, beats = cycles_of(words, lanes=3, element_bits=(5,))
    assert given == [3, 4, 5, 6]
    sizes = (32, 0), (13, 1), (15, 1), (15, 1)
    assert beats == [{"beat": 2**bits - 1, "last": last} for bits, last in sizes]


def test_ready_follows_the_output():
    """A beat that nobody takes holds the words back."""
    dut = design(Packer, lanes=1, element_bits=(8,), data_width=32)
    unit = Unit(dut)
    words = [{"elements": n, "last": 0} for n in (1, 2, 3, 4)] * 2
    taken = unit.give(dut.i, words)
    beats = unit.take(dut.o, [{"beat": 0x04030201}] * 2, pace=lambda: unit.cycle > 7)
    unit.run()
    assert (taken.cycles[3:5], beats.cycles[0]) == ([3, 8], 8)


@pytest.mark.parametrize(
    "lanes, planes, data_width",
    [(1, 1, 32), (2, 2, 64), (4, 3, 32), (2, 4, 32), (16, 4, 512), (8, 2, 256), (3, 3, 32)],
)
@pytest.mark.parametrize("pace", [1.0, 0.4], ids=["free", "stalled"])
def test_planes_side_by_side(lanes, planes, data_width, pace, rng):
    """Plane i of a magnitude of m bits has its bits m - 2 i - 1 and m - 2 i - 2, below the sign:
    chunk i of k = sum of c_i 4^(planes - 1 - i)."""
    dut = design(PlanePacker, lanes=lanes, planes=planes, data_width=data_width)
    words, beats = [], []
    for _ in range(8):
        count = lanes * rng.randrange(1, 3 * data_width // (3 * lanes))
        group = [(rng.randrange(2), rng.randrange(4**planes)) for _ in range(count)]
        words += words_of([k + 4**planes * sign for sign, k in group], 2 * planes + 1, lanes)
        chunks = [
            [k // 4 ** (planes - 1 - i) % 4 + 4 * sign for sign, k in group] for i in range(planes)
        ]
        of_planes = (beats_of([chunk], 3, data_width) for chunk in chunks)
        for of_beat in zip(*of_planes, strict=True):
            beat = joined([each["beat"] for each in of_beat], data_width)
            beats.append({"beat": beat, "last": of_beat[0]["last"]})
    unit = Unit(dut, rng, pace=pace)
    unit.give(dut.i, words)
    unit.take(dut.o, beats)
    unit.run()
