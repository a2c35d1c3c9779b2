# amaranth: UnusedElaboratable=no
"""Counters against sums in Python."""

from collections import deque

import pytest

from diastole_hw.command import counters
from diastole_hw.command.counters import Counters
from diastole_sim.spec.registers import BY_NAME
from support.bench import design, run, simulation

SINGLE_BITS = ("running", "converting", "multiplying", "converted")
ELEMENTS = 5
OFFSETS = {
    "saturated": 0x54,
    "underflowed": 0x58,
    "cycles": 0x60,
    "convert_cycles": 0x68,
    "read_beats": 0x70,
    "write_beats": 0x78,
    "cycles_total": 0xA0,
}
WAITS = ("vector", "store", "load", "update", "chain", "convert", "command")
"""Of which the first that holds is counted; the last always does."""
OF_SLOTS = {f"wait_{cause}": 0xC8 + 8 * number for number, cause in enumerate(WAITS)}
OF_SLOTS["busy_slots"] = 0x100
OFFSETS |= OF_SLOTS
LATE = 3
"""Cycles from an event to a word that has it; to the second word of a counter one more."""


def amounts(events):
    """What one cycle adds to each counter."""
    running = events["multiplying"]
    counted = {
        "cycles_total": events["running"],
        "cycles": running,
        "convert_cycles": events["converting"],
        "read_beats": running and events["read"],
        "write_beats": running and events["written"],
        "saturated": events["saturated"],
        "underflowed": events["underflowed"],
    } | dict.fromkeys(OF_SLOTS, 0)
    holds = events["waits"] | {"command": 1}
    first = next(f"wait_{cause}" for cause in WAITS if holds[cause])
    counted["busy_slots" if events["busy_slot"] else first] = events["running"]
    return counted


def random_events(rng, most):
    """``most``: all that there is at most, in every cycle."""
    events = {name: most or rng.randrange(2) for name in SINGLE_BITS}
    events |= {name: 3 if most else rng.randrange(4) for name in ("read", "written")}
    for name in ("saturated", "underflowed"):
        events[name] = ELEMENTS if most else rng.choice([0, 0, rng.randrange(ELEMENTS + 1)])
    events["busy_slot"] = rng.random() < 0.2
    events["waits"] = {cause: rng.random() < 0.25 for cause in WAITS[:-1]}
    return events | {"amax": rng.randrange(2**31)}


class Model:
    """All sums, and how they were in the cycles before."""

    def __init__(self, bits):
        self.bits = bits
        self.clear()

    def clear(self):
        self.totals = dict.fromkeys(self.bits, 0)
        self.before = deque([self.totals] * (LATE + 2), LATE + 2)

    def add(self, events):
        sums = {name: self.totals[name] + more for name, more in amounts(events).items()}
        self.totals = {name: total % 2 ** self.bits[name] for name, total in sums.items()}
        self.before.append(self.totals)

    def word(self, name, number, word_bits):
        return self.before[1 - number][name] >> number * word_bits & (1 << word_bits) - 1


def widths(offsets, word_bits):
    return {name: BY_NAME[name].bits // 32 * word_bits for name in offsets}


def check(dut, offsets, rng, *, word_bits, cycles, p_clear=0.0, p_most=0.0):
    """Asked for words at any time; each is that of the moment in which it comes, within a round of
    the memory, or within a round and all words after a clear."""
    bits = widths(offsets, word_bits)
    words = [(name, n) for name in offsets for n in range(bits[name] // word_bits)]
    seen, memory_words = set(), 1 << (len(words) - 1).bit_length()

    async def bench(ctx):
        model, asked, turn = Model(bits), None, []
        latest = cleared = memory_words + len(words)  # the power-up is as a clear
        for cycle in range(cycles):
            if asked is None and rng.random() < 0.5:
                turn = turn or rng.sample(words, len(words))
                asked = turn.pop()
                latest = max(cycle + memory_words - 1, cleared)
                ctx.set(dut.at, offsets[asked[0]] // 4 + asked[1])
            events = random_events(rng, rng.random() < p_most)
            clear = rng.random() < p_clear
            ctx.set(dut.requested, asked is not None)
            ctx.set(dut.events, events)
            ctx.set(dut.clear, clear)
            _, _, word_valid, word = await ctx.tick().sample(dut.word_valid, dut.word)
            model.add(events)
            assert not word_valid or asked
            if word_valid:
                assert word == model.word(*asked, word_bits), asked
                seen.add((*asked, word))
                asked = None
            if clear:
                model.clear()
                latest = cleared = cycle + memory_words + len(words)
            assert asked is None or cycle < latest, asked

    run(dut, bench, limit=cycles + 100)
    return seen


@pytest.mark.parametrize("p_most", [0.0, 1.0], ids=["some events", "all events"])
@pytest.mark.sampled(2)
def test_counts_until_cleared(p_most, rng):
    dut = design(Counters, elements=ELEMENTS)
    keys = {"word_bits": 32, "cycles": 3000, "p_clear": 0.005, "p_most": p_most}
    seen = check(dut, OFFSETS, rng, **keys)
    assert {name for name, n, word in seen if n == 0 and word} == set(OFFSETS)


def test_carries_into_the_word_behind(rng, monkeypatch):
    """With short words, so that they overflow."""
    monkeypatch.setattr(counters, "WORD_BITS", 8)
    dut = Counters(elements=ELEMENTS)
    seen = check(dut, OFFSETS, rng, word_bits=8, cycles=2000, p_most=0.5)
    assert {name for name, n, word in seen if n == 1 and word > 1} == {
        "cycles", "convert_cycles", "read_beats", "write_beats", "cycles_total"
    }  # fmt: skip


@pytest.mark.parametrize("planes", [False, True], ids=["plain", "planes"])
async def test_what_was_converted_last(planes, rng):
    """Of the tensor converted last, until it is cleared; what the monitor counted with planes."""
    dut = design(Counters, elements=ELEMENTS, planes=planes)
    monitored = ("improvement_num", "improvement_den")
    names = ("amax", *monitored) if planes else ("amax",)
    assert [len(getattr(dut, name)) for name in names] == [BY_NAME[name].bits for name in names]
    assert all(hasattr(dut, name) == planes for name in monitored)
    ctx = await simulation(dut)
    last = dict.fromkeys(names, 0)
    for _ in range(150):
        events = random_events(rng, 0)
        events |= {name: rng.getrandbits(32) for name in names[1:]}
        clear = rng.random() < 0.05
        ctx.set(dut.events, events)
        ctx.set(dut.clear, clear)
        await ctx.tick()
        if events["converted"]:
            last = {name: events[name] for name in names}
        if clear:
            last = dict.fromkeys(names, 0)
        assert {name: ctx.get(getattr(dut, name)) for name in names} == last
