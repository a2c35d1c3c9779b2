# amaranth: UnusedElaboratable=no
"""The packer against sums of shifted elements: every width, alone and after others."""

import re

import pytest

from diastole_hw.convert.pack import Packer, PlanePacker
from support.bench import design, get, put, run
from support.sweep import alternating
from support.tiles import joined

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


@pytest.mark.parametrize(
    "lanes, element_bits, data_width, cls, p_ready",
    alternating(
        [(*sizes, cls) for sizes in SIZES for cls in range(3)],
        {"free": (1.0,), "stalled": (0.4,)},
    ),
)
def test_packer(lanes, element_bits, data_width, cls, p_ready, rng):
    dut = design(Packer, lanes=lanes, element_bits=element_bits, data_width=data_width)
    pitch, bits = max(element_bits), element_bits[cls]
    groups = []
    for _ in range(12):
        words = rng.randrange(1, 4 * data_width // (lanes * bits))
        groups.append([rng.getrandbits(bits) for _ in range(words * lanes)])

    async def drive(ctx):
        ctx.set(dut.cls, cls)
        for group in groups:
            for start in range(0, len(group), lanes):
                noisy = (x | rng.getrandbits(9) << bits for x in group[start : start + lanes])
                elements = joined([x % 2**pitch for x in noisy], pitch)
                word = {"elements": elements, "last": start + lanes == len(group)}
                await put(ctx, dut.i, [word], lambda: rng.random() < p_ready)

    async def check(ctx):
        for number, group in enumerate(groups):
            want = joined(group, bits)
            for beat in range(-(-len(group) * bits // data_width)):
                got = await get(ctx, dut.o, lambda: rng.random() < p_ready)
                where = f"group {number} beat {beat}"
                assert got.beat == want % 2**data_width, where
                assert got.last == ((beat + 1) * data_width >= len(group) * bits), where
                want >>= data_width
        for _ in range(5):
            assert not (await ctx.tick().sample(dut.o.valid))[-1], "extra output"

    run(dut, drive, check)


@pytest.mark.parametrize("groups, beats", [([8, 8], [1, 1]), ([12, 5, 8], [2, 1, 1]), ([1], [1])])
def test_timing(groups, beats):
    """A word in per cycle; a beat leaves in the cycle after the word that fills it."""
    dut = design(Packer, lanes=1, element_bits=(4,), data_width=32)
    taken, given = [], []

    async def drive(ctx):
        for size in groups:
            words = [{"elements": n % 16, "last": n == size - 1} for n in range(size)]
            await put(ctx, dut.i, words)

    async def watch(ctx):
        ctx.set(dut.o.ready, 1)
        for cycle in range(sum(groups) + len(groups) + 3):
            _, _, valid, ready, beat = await ctx.tick().sample(
                dut.i.valid, dut.i.ready, dut.o.valid
            )
            taken.extend([cycle] * (valid and ready))
            given.extend([cycle] * beat)

    run(dut, drive, watch)
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
    dut = design(Packer, lanes=3, element_bits=(5,), data_width=32)
    taken, given = [], []

    async def drive(ctx):
        await put(ctx, dut.i, [{"elements": 0x7FFF, "last": n % 3 == 2} for n in range(6)])

    async def watch(ctx):
        ctx.set(dut.o.ready, 1)
        for cycle in range(12):
            _, _, valid, ready, beat, payload = await ctx.tick().sample(
                dut.i.valid, dut.i.ready, dut.o.valid, dut.o.p.beat
            )
            taken.extend([cycle] * (valid and ready))
            given.extend([(cycle, payload)] * beat)

    run(dut, drive, watch)
    assert taken == [0, 1, 2, 3, 4, 5]
    full, rest = 2**32 - 1, 2**13 - 1
    assert given == [(3, full), (4, rest), (6, full), (7, rest)]


def test_a_group_of_a_word_after_a_flush():
    """It leaves alone, in the cycle after the end of the group before."""
    dut = design(Packer, lanes=3, element_bits=(5,), data_width=32)
    words = [{"elements": 0x7FFF, "last": n >= 2} for n in range(5)]
    given = []

    async def drive(ctx):
        await put(ctx, dut.i, words)

    async def watch(ctx):
        ctx.set(dut.o.ready, 1)
        for cycle in range(10):
            _, _, beat, payload = await ctx.tick().sample(dut.o.valid, dut.o.payload)
            given.extend([(cycle, payload.beat, payload.last)] * beat)

    run(dut, drive, watch)
    assert given == [
        (3, 2**32 - 1, 0), (4, 2**13 - 1, 1), (5, 2**15 - 1, 1), (6, 2**15 - 1, 1),
    ]  # fmt: skip


def test_ready_follows_the_output():
    """A beat that nobody takes holds the words back, and stays as it is."""
    dut = design(Packer, lanes=1, element_bits=(8,), data_width=32)

    async def main(ctx):
        await put(ctx, dut.i, [{"elements": n, "last": 0} for n in (1, 2, 3, 4)])
        ctx.set(dut.i.valid, 1)
        for _ in range(4):
            _, _, ready, valid, beat = await ctx.tick().sample(
                dut.i.ready, dut.o.valid, dut.o.p.beat
            )
            assert (ready, valid, beat) == (0, 1, 0x04030201)
        ctx.set(dut.o.ready, 1)
        assert (await ctx.tick().sample(dut.i.ready))[-1]

    run(dut, main)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"element_bits": (33,)}, "element_bits must be an integer in 1..32, not 33"),
        ({"element_bits": (4, 17), "lanes": 2}, "element_bits must be an integer in 1..16, not 17"),
        ({"element_bits": (0,)}, "element_bits must be an integer in 1..32, not 0"),
        ({"lanes": 17}, "lanes must be an integer in 1..16, not 17"),
    ],
)
def test_refused_parameters(change, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Packer(**{"lanes": 1, "element_bits": (4,), "data_width": 32} | change)


@pytest.mark.parametrize(
    "lanes, planes, data_width",
    [(1, 1, 32), (2, 2, 64), (4, 3, 32), (2, 4, 32), (16, 4, 512), (8, 2, 256), (3, 3, 32)],
)
@pytest.mark.parametrize("p_ready", [1.0, 0.4], ids=["free", "stalled"])
def test_planes_side_by_side(lanes, planes, data_width, p_ready, rng):
    """Plane i of a magnitude of m bits has its bits m - 2 i - 1 and m - 2 i - 2, below the sign:
    chunk i of k = sum of c_i 4^(planes - 1 - i)."""
    dut = design(PlanePacker, lanes=lanes, planes=planes, data_width=data_width)
    pitch = 2 * planes + 1
    groups = []
    for _ in range(8):
        words = rng.randrange(1, 3 * data_width // (3 * lanes))
        elements = [(rng.randrange(2), rng.randrange(4**planes)) for _ in range(words * lanes)]
        groups.append(elements)

    async def drive(ctx):
        for group in groups:
            for start in range(0, len(group), lanes):
                word = [k + 4**planes * sign for sign, k in group[start : start + lanes]]
                item = {"elements": joined(word, pitch), "last": start + lanes == len(group)}
                await put(ctx, dut.i, [item], lambda: rng.random() < p_ready)

    async def check(ctx):
        for number, group in enumerate(groups):
            chunks = [
                joined([k // 4 ** (planes - 1 - i) % 4 + 4 * sign for sign, k in group], 3)
                for i in range(planes)
            ]
            for beat in range(-(-len(group) * 3 // data_width)):
                got = await get(ctx, dut.o, lambda: rng.random() < p_ready)
                where = f"group {number} beat {beat}"
                want = joined([plane % 2**data_width for plane in chunks], data_width)
                assert got.beat == want, where
                assert got.last == ((beat + 1) * data_width >= len(group) * 3), where
                chunks = [plane >> data_width for plane in chunks]
        for _ in range(5):
            assert not (await ctx.tick().sample(dut.o.valid))[-1], "extra output"

    run(dut, drive, check)


@pytest.mark.parametrize("planes", [0, 5])
def test_refused_planes(planes):
    message = f"planes must be an integer in 1..4, not {planes}"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        PlanePacker(lanes=1, planes=planes, data_width=32)
