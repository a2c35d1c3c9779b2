# amaranth: UnusedElaboratable=no
"""Check that the lanes whose area is measured compute the right numbers."""

import pytest

from bench.lanes import IntegerLane, RoundingLanes
from oracle.lfsr import state_after
from oracle.rounding import round_fraction
from support.bench import design, run


@pytest.mark.parametrize("rule", ["stochastic-a", "stochastic-b"])
@pytest.mark.parametrize("lanes, pairs", [(2, True), (4, True), (2, False)])
@pytest.mark.parametrize("loads", [False, True])
def test_they_round(rule, lanes, pairs, loads, rng):
    """Register and inverse, or a register for each; a word that is not taken moves nothing."""
    dut = design(RoundingLanes, lanes=lanes, rule=rule, pairs=pairs, loads=loads)
    bits = 3 if pairs else 24
    states, exchanged = [1] if pairs else [1, 2], 0

    def draw_of(column, lane):
        if not pairs:
            return state_after(24, states[lane], column // lanes)
        place = column + lane
        state = state_after(3, states[0], place // 2)
        return (state, 7 - state)[(place + place // 2 + exchanged) % 2]

    async def main(ctx):
        nonlocal states, exchanged
        if loads:
            states = [rng.randrange(1, 2**bits) for _ in states]
            exchanged = rng.randrange(2)
            packed = sum(state << bits * n for n, state in enumerate(states))
            ctx.set(dut.start, packed | exchanged << 3 if pairs else packed)
            ctx.set(dut.load, 1)
            await ctx.tick()
            ctx.set(dut.load, 0)
        column = 0
        for _ in range(60):
            residues = [rng.getrandbits(bits + 1) for _ in range(lanes)]
            ctx.set(dut.residues, sum(r << n * (bits + 1) for n, r in enumerate(residues)))
            up = ctx.get(dut.up)
            for lane, residue in enumerate(residues):
                part = residue / 2 ** (bits + 1)
                expected = round_fraction(rule, part, draw_of(column, lane), bits)
                assert up >> lane & 1 == expected, (column, lane)
            take = rng.randrange(2)
            ctx.set(dut.take, take)
            await ctx.tick()
            column += lanes * take

    run(dut, main)


def test_an_integer_lane_adds():
    dut = design(IntegerLane, psum_bits=4, sum_bits=6)

    async def main(ctx):
        for psum, before in ((-8, 3), (7, -32), (7, 24)):
            ctx.set(dut.psum, psum)
            ctx.set(dut.before, before)
            await ctx.tick()
            assert ctx.get(dut.added) == psum + before

    run(dut, main)
