# amaranth: UnusedElaboratable=no
"""Lanes that see steps of a register ahead, against quotients of polynomials over GF(2)."""

import pytest

from diastole_hw.random.lane_states import LaneStates
from oracle.lfsr import state_after
from support.bench import simulation
from support.pipelines import check_pipeline

LANES = (1, 2, 4, 8, 16)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("n, bits", [(3, 3), (4, 1), (8, 8), (12, 5), (13, 13), (24, 24)])
@pytest.mark.sampled(3)
def test_lanes_see_steps_ahead(lanes, n, bits, rng):
    dut = LaneStates(lanes=lanes, random_bits=bits, state_bits=n, pairs=False)
    cases = []
    for state in (1, 2**n - 1, *(rng.randrange(1, 2**n) for _ in range(20))):
        draws = (state_after(n, state, lane) % 2**bits << lane * bits for lane in range(lanes))
        want = {"draws": sum(draws), "after": {"register": state_after(n, state, lanes)}}
        cases.append(({"state": {"register": state}}, want))
    check_pipeline(dut, cases, 0)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("exchanged", [0, 1])
async def test_pairs_take_a_state_and_its_inverse(lanes, exchanged):
    """Every state, through two periods: columns 0 on, of which word by word ``lanes`` are seen."""
    dut = LaneStates(lanes=lanes, random_bits=3, state_bits=3, pairs=True)
    ctx = await simulation(dut)
    for start in range(1, 8):
        ctx.set(dut.state, {"register": start, "exchanged": exchanged})
        for word in range(32 // lanes):
            ctx.set(dut.odd, word % 2)
            draws = ctx.get(dut.draws)
            for lane in range(lanes):
                column = word * lanes + lane
                state = state_after(3, start, column // 2)
                want = (state, 7 - state)[(column + column // 2 + exchanged) % 2]
                assert draws >> 3 * lane & 7 == want, (start, column)
            ctx.set(dut.state, ctx.get(dut.after))
