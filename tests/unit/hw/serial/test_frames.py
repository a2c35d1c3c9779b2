# amaranth: UnusedElaboratable=no
"""Frames in gates, against the contract's own, of good and of damaged octets."""

import pytest

from diastole_hw.serial.frames import Framer, Unframer
from diastole_sim.spec.serial import ESCAPE, FLAG, FLIP, FrameReader, on_line
from support.bench import design, simulation
from support.board_model import Damage
from support.unit_bench import Unit


def some_words(rng, count):
    special = [FLAG, ESCAPE, ESCAPE ^ FLIP, FLAG ^ FLIP]
    octets = (rng.choice([*special, rng.randrange(256)]) for _ in range(4 * count))
    return bytes(octets)


def words_of(octets):
    return [int.from_bytes(octets[k : k + 4], "little") for k in range(0, len(octets), 4)]


async def give_octets(ctx, dut, line, gap):
    for octet in line:
        ctx.set(dut.octet, octet)
        ctx.set(dut.came, 1)
        await ctx.tick()
        if wait := gap():
            ctx.set(dut.came, 0)
            await ctx.tick().repeat(wait)
    ctx.set(dut.came, 0)
    await ctx.tick().repeat(3)


async def collect_frames(ctx, dut, found):
    """Octets of each frame that ended and was good, without its FCS."""
    words = []
    signals = (dut.word, dut.put, dut.ends, dut.good)
    async for _, _, word, came, ends, good in ctx.tick().sample(*signals):
        if came:
            words.append(word)
        if ends:
            if good:
                found.append(b"".join(each.to_bytes(4, "little") for each in words[:-1]))
            words = []


@pytest.mark.parametrize("gaps", [0, 3], ids=["every cycle", "gaps"])
@pytest.mark.parametrize("rate", [0.0, 0.01, 0.05])
async def test_what_is_found_is_what_the_contract_finds(gaps, rate, rng):
    dut = design(Unframer)
    frames = [some_words(rng, rng.randrange(1, 9)) for _ in range(60)]
    damage = Damage(rng, rate)
    line = damage(b"\x11\x22" + b"".join(map(on_line, frames))) + bytes([FLAG])
    expected = [frame for frame in FrameReader().feed(line) if len(frame) % 4 == 0]
    assert bool(rate) or expected == frames
    found = []

    async def watch(ctx):
        await collect_frames(ctx, dut, found)

    ctx = await simulation(dut, background=[watch])
    await give_octets(ctx, dut, line, lambda: rng.randrange(gaps + 1))
    assert [frame for frame in found if frame] == expected


async def test_octets_that_are_no_words_and_escapes_of_nothing():
    dut = design(Unframer)
    odd = on_line(b"12345")  # with its FCS, but no words
    twice = on_line(b"a\x7ecd").replace(bytes([ESCAPE]), bytes([ESCAPE, ESCAPE]))
    line = odd + bytes([1, 2, 3, ESCAPE, FLAG]) + twice + on_line(b"abcd")
    found = []

    async def watch(ctx):
        await collect_frames(ctx, dut, found)

    ctx = await simulation(dut, background=[watch])
    await give_octets(ctx, dut, line, lambda: 0)
    assert found == [b"abcd"]


@pytest.mark.parametrize("p", [1.0, 0.4], ids=["free", "stalled"])
def test_what_is_sent_is_what_the_contract_sends(p, rng):
    dut = design(Framer)
    frames = [some_words(rng, rng.randrange(1, 12)) for _ in range(40)]
    line = b"".join(map(on_line, frames))
    assert bytes([ESCAPE]) in line
    unit = Unit(dut, rng, pace=p)
    words = (
        {"word": word, "last": n == len(frame) // 4 - 1}
        for frame in frames
        for n, word in enumerate(words_of(frame))
    )
    unit.give(dut.i, words)
    unit.take(dut.o, line)
    unit.run()
