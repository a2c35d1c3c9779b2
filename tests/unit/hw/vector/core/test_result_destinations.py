# amaranth: UnusedElaboratable=no
"""Where the rows of slots go, cycle by cycle, against a list of what each slot orders."""

import pytest

from diastole_hw.vector.core.result_destinations import ResultDestinations
from support.bench import design, simulation
from support.vector_core import shape_of

WRITTEN = 7


def slots(rng, block, count):
    """Slots, each with the cycle in which its first row is read; a slot takes 8 cycles or B."""
    cycle = 0
    for _ in range(count):
        writes, gives, to_panel = (rng.getrandbits(1) for _ in range(3))
        yield (
            cycle,
            {
                "writes": writes,
                "d": rng.randrange(16),
                "writes_output": gives,
                "o": rng.randrange(4),
                "to_panel": to_panel,
                "panel_write": rng.randrange(64),
            },
        )
        cycle += max(8, block) + rng.choice([0, 0, 1, 5])


@pytest.mark.parametrize("block", [1, 2, 4, 8, 16, 32])
async def test_rows_come_seven_cycles_after_their_reads(block, rng):
    dut = design(ResultDestinations, shape_of(block))
    given = list(slots(rng, block, 12))
    wanted = {}
    for start, entry in given:
        for row in range(block):
            wanted[start + row + WRITTEN] = (row, entry)
    ctx = await simulation(dut)
    begun, latest = dict(given), None
    for cycle in range(given[-1][0] + block + 20):
        if cycle in begun:
            latest = cycle
            ctx.set(dut.slot.entry, begun[cycle])
        if latest is not None:
            ctx.set(dut.age, min(cycle - latest, block + 8))
        row, entry = wanted.get(cycle, (None, {}))
        enables = [ctx.get(port) for port in (dut.register_en, dut.panel_en, dut.stream_en)]
        assert enables == [entry.get(key, 0) for key in ("writes", "to_panel", "writes_output")], (
            cycle
        )
        if entry:
            assert ctx.get(dut.row) == row
            assert ctx.get(dut.register) == entry["d"]
            assert ctx.get(dut.vector) == (entry["panel_write"] + row) % (1 << len(dut.vector))
            assert ctx.get(dut.stream) == entry["o"]
        await ctx.tick()
