# amaranth: UnusedElaboratable=no
"""The hash unit: published answers, the golden model, timing."""

import pytest

from diastole_hw.random.threefry import Threefry
from oracle.threefry import threefry2x32
from support.bench import design
from support.unit_bench import Unit

ONES = 0xFFFFFFFF
CYCLES = (1, 2, 4, 5)
# Random123's kat_vectors, threefry2x32 20: counter, key, result.
KNOWN = [
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((ONES, ONES), (ONES, ONES), (0x1CB996FC, 0xBB002BE7)),
    ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
]


def hashed(cycles, counters, key=(0, 0), high=0, rng=None, pace=1.0):
    """The hashes of counters, and the cycles in which counters are taken and hashes given."""
    unit = Unit(design(Threefry, cycles=cycles), rng, pace=pace)
    dut = unit.dut
    unit.hold(key_low=key[0], key_high=key[1], high=high)
    taken, found = unit.give(dut.i), []

    async def start(ctx):  # the key is there a cycle before
        await ctx.tick()
        taken.add(counters)

    def note(cycle, done, value):
        found.extend([(cycle, value)] * done)

    unit.each_cycle(note, dut.done, dut.hash)
    unit.run(start, silence=40)
    return [value for _, value in found], taken.cycles, [cycle for cycle, _ in found]


@pytest.mark.parametrize("counter, key, result", KNOWN)
@pytest.mark.parametrize("cycles", CYCLES)
def test_known_answers(cycles, counter, key, result):
    found, *_ = hashed(cycles, [counter[0]], key, counter[1])
    assert found == [result[0] | result[1] << 32]


@pytest.mark.parametrize("cycles", CYCLES)
@pytest.mark.parametrize("pace", [1.0, 0.3], ids=["free", "pauses"])
@pytest.mark.sampled(2)
def test_matches_model(cycles, pace, rng):
    key, high = (rng.getrandbits(32), rng.getrandbits(32)), rng.getrandbits(32)
    counters = [rng.getrandbits(32) for _ in range(60)]
    found, *_ = hashed(cycles, counters, key, high, rng, pace)
    wanted = [threefry2x32(key, (counter, high)) for counter in counters]
    assert found == [first | second << 32 for first, second in wanted], f"{key=} {high=}"


@pytest.mark.parametrize(
    "cycles, latency, together", [(1, 12, 50), (2, 12, 5), (4, 14, 3), (5, 15, 3)]
)
def test_timing(cycles, latency, together):
    """As many together as a ring has stages, then a pause."""
    _, taken, given = hashed(cycles, range(50))
    assert design(Threefry, cycles=cycles).latency == latency
    assert taken == [2 + n // together * cycles * together + n % together for n in range(50)]
    assert given == [cycle + latency for cycle in taken]
