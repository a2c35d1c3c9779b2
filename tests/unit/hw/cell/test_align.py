# amaranth: UnusedElaboratable=no
"""AlignAdd against fractions, over every block sum and shift of small widths."""

import pytest

from diastole_hw.cell.align import AlignAdd, low_bits
from oracle.cell import aligned
from support.bench import simulation
from support.pipelines import check_pipeline


def wrapped(value, bits):
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def check(dut, cases):
    pipelined = []
    for block_sum, shift, psum in cases:
        want = wrapped(psum + aligned(block_sum, shift, dut.fraction), dut.psum_bits)
        given = {"block_sum": block_sum, "shift": shift, "psum": psum}
        pipelined.append((given, {"total": want}))
    check_pipeline(dut, pipelined, 0)


@pytest.mark.parametrize("fraction", [0, 1, 2, 4])
def test_every_sum_and_shift(fraction, rng):
    dut = AlignAdd(sum_bits=5, fraction=fraction, psum_bits=6 + fraction)
    top = 1 << (5 + fraction)
    psums = [0, -1, 1, top - 1, -top]
    cases = [
        (block_sum, shift, psum)
        for block_sum in range(-16, 16)
        for shift in range(1 << len(dut.shift))
        for psum in [*psums, rng.randrange(-top, top)]
    ]
    check(dut, cases)


@pytest.mark.parametrize(
    "sum_bits, fraction, psum_bits", [(3, 0, 3), (12, 18, 31), (22, 32, 60), (57, 6, 63)]
)
def test_wide(sum_bits, fraction, psum_bits, rng):
    dut = AlignAdd(sum_bits=sum_bits, fraction=fraction, psum_bits=psum_bits)
    half, top = 1 << (sum_bits - 1), 1 << (psum_bits - 1)
    cases = [
        (block_sum, shift, rng.randrange(-top, top))
        for shift in range(1 << len(dut.shift))
        for block_sum in (-half, half - 1, 1, -1, rng.randrange(-half, half))
    ]
    check(dut, cases)


@pytest.mark.parametrize(
    "sum_bits, fraction, psum_bits", [(3, 0, 3), (5, 2, 7), (12, 18, 31), (22, 32, 63), (57, 6, 63)]
)
async def test_in_halves(sum_bits, fraction, psum_bits, rng):
    """The lower halves a cycle after the block sum, the upper ones a cycle after those."""
    dut = AlignAdd(sum_bits=sum_bits, fraction=fraction, psum_bits=psum_bits, halves=True)
    half, top, low = 1 << (sum_bits - 1), 1 << (psum_bits - 1), low_bits(psum_bits)
    cases = [
        (rng.choice((-half, half - 1, 1, -1, rng.randrange(-half, half))), shift, psum)
        for shift in [*range(1 << len(dut.shift))] * 3
        for psum in (rng.randrange(-top, top), -1)
    ]

    def part(number, high):
        return cases[number][2] >> low << low if high else cases[number][2] & ((1 << low) - 1)

    ctx = await simulation(dut)
    for cycle in range(len(cases)):
        ctx.set(dut.block_sum, cases[cycle][0])
        ctx.set(dut.shift, cases[cycle][1])
        if cycle > 1:
            ctx.set(dut.psum, part(cycle - 1, False) | part(cycle - 2, True))
            wanted = [
                wrapped(psum + aligned(block_sum, shift, fraction), psum_bits)
                for block_sum, shift, psum in cases[cycle - 2 : cycle]
            ]
            got = ctx.get(dut.total)
            assert (got ^ wanted[1]) & ((1 << low) - 1) == 0, f"{cycle=} {got} {wanted}"
            assert got >> low == wanted[0] >> low, f"{cycle=} {got} {wanted}"
        elif cycle:
            ctx.set(dut.psum, part(0, False))
        await ctx.tick()
