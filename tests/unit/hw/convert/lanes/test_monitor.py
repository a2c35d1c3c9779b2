# amaranth: UnusedElaboratable=no
"""The precision monitor's sums, against plain integers."""

import pytest

from diastole_hw.convert.lanes.monitor import Monitor
from support.bench import simulation


@pytest.mark.parametrize("lanes", [1, 2, 5, 16])
@pytest.mark.parametrize("bits", [6, 32])
async def test_sums(lanes, bits, rng):
    """Two cycles after each word; they stay at all ones, and begin at 0 after a clear."""
    dut = Monitor(lanes=lanes, bits=bits)
    most = 2**bits - 1
    ctx = await simulation(dut)
    sums = [0, 0]
    behind = [[0, 0]]  # what was taken in the cycle before
    for cycle in range(300):
        words = [[rng.randrange(4) for _ in range(lanes)] for _ in range(2)]
        en, clear = rng.random() < 0.7, rng.random() < 0.01
        for port, word in zip((dut.differs, dut.narrow), words, strict=True):
            for n, value in enumerate(word):
                ctx.set(port[n], value)
        ctx.set(dut.en, en)
        ctx.set(dut.clear, clear)
        *_, num, den = await ctx.tick().sample(dut.num, dut.den)
        assert [num, den] == sums, f"cycle {cycle}"
        came = behind.pop()
        sums = [min(most, total + word) for total, word in zip(sums, came, strict=True)]
        behind.append([en * sum(word) for word in words])
        if clear:
            sums, behind = [0, 0], [[0, 0]]
    assert bits > 6 or lanes < 5 or most in sums or clear
