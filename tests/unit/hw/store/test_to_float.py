# amaranth: UnusedElaboratable=no
"""ToFloat against MPFR and against numpy's own conversion; every rule of a result at its edge."""

import numpy as np
import pytest
from amaranth.hdl import Const, signed

from diastole_hw.store.to_float import ToFloat, top_exponent
from oracle.product import binary32_bits
from support.bench import design, run
from support.sweep import sweep
from support.texts import exactly

SCALES = (-320, 260)  # what bounds, F and mantissas of any configuration lead to


def at(ctx, dut, number, flow):
    """Set what belongs to the sum that came before."""
    scale = flow[max(number - dut.top_after, 0)][1]
    ctx.set(dut.top, ctx.get(top_exponent(dut.sum_bits, Const(scale, signed(12)))))


def convert(sum_bits, cases):
    """Feed ``cases`` of (sum, scale) and return (result, overflow) of each."""
    dut = design(ToFloat, sum_bits=sum_bits)
    got = []

    async def bench(ctx):
        flow = [*cases, *[(0, 0)] * dut.latency]
        for number, (total, _) in enumerate(flow):
            ctx.set(dut.sum, total)
            at(ctx, dut, number, flow)
            if number >= dut.latency:
                got.append((ctx.get(dut.result), ctx.get(dut.overflow)))
            await ctx.tick()

    run(dut, bench)
    return got


def test_poison_is_nan_and_no_overflow(rng):
    """Between values that are not poisoned, of which some are too large."""
    dut = design(ToFloat, sum_bits=40, poisonable=True)
    cases = [
        (rng.randrange(-(2**39), 2**39), rng.randint(60, 110), rng.randrange(2)) for _ in range(200)
    ]
    cases += [(0, 0, 1), (0, 0, 0), (1, 300, 1), (1, 300, 0), (-1, -400, 1)]
    got = []

    async def bench(ctx):
        flow = [*cases, *[(0, 0, 0)] * dut.latency]
        for number, (total, _, poison) in enumerate(flow):
            if number >= dut.latency:
                got.append((ctx.get(dut.result), ctx.get(dut.overflow)))
            ctx.set(dut.sum, total)
            at(ctx, dut, number, flow)
            ctx.set(dut.poison, poison)
            await ctx.tick()

    run(dut, bench)
    want = [
        (0x7FC00000, False) if poison else binary32_bits(t, scale) for t, scale, poison in cases
    ]
    assert got == want
    assert (0x7F800000, True) in want


def check(sum_bits, cases):
    got = convert(sum_bits, cases)
    assert len(got) == len(cases)
    for (total, scale), found in zip(cases, got, strict=True):
        want = binary32_bits(total, scale)
        assert found == want, f"{total:#x} * 2^{scale}: {found[0]:08x}, not {want[0]:08x}"


def ties(sum_bits):
    """Sums at, just below and just above the middle of two floats, even and odd, both signs."""
    for length in range(26, sum_bits):
        unit = 1 << (length - 24)
        for kept in (1 << 23, (1 << 23) + 1, (1 << 24) - 2, (1 << 24) - 1):
            for near in (-1, 0, 1):
                total = kept * unit + unit // 2 + near
                if total < 1 << (sum_bits - 1):
                    yield from (total, -total)


@pytest.mark.parametrize("sum_bits", [2, 5, 24, 25, 26, 27, 44, 63])
@pytest.mark.sampled(2)
def test_matches_mpfr(sum_bits, rng):
    least, most = -(1 << (sum_bits - 1)), (1 << (sum_bits - 1)) - 1
    totals = [0, 1, -1, most, least, least + 1]
    for _ in range(300):
        total = rng.getrandbits(rng.randrange(1, sum_bits))
        totals.append(rng.choice((total, -total)))
    cases = [(total, rng.randint(*SCALES)) for total in totals]
    check(sum_bits, cases)


@pytest.mark.parametrize("sum_bits", [44, 63])
def test_ties_go_to_even(sum_bits):
    cases = [(total, -40) for total in ties(sum_bits)]
    assert len(cases) > 300
    check(sum_bits, cases)


@pytest.mark.parametrize("sum_bits", [26, sweep(63)])
def test_overflow_and_flush_at_the_last_bit(sum_bits):
    """Leading bits at the exponents of the smallest and the largest float, and one beyond each."""
    cases = []
    for length in range(1, sum_bits):
        top = (1 << length) - 1
        significands = {top, top - 1, 1 << (length - 1), top - (top >> 24), top - (top >> 25)}
        for total in significands | {max(top - (top >> 25) - 1, 0), max(top - (top >> 24) + 1, 0)}:
            for exponent in (-128, -127, -126, 126, 127, 128):
                total = min(total, (1 << (sum_bits - 1)) - 1)
                cases += [(sign * total, exponent - (length - 1)) for sign in (1, -1)]
    check(sum_bits, cases)


def test_flush_is_after_rounding_to_24_bits():
    """Just below 2^-126 rounds up to it and stays; numpy rounds at gradual precision instead."""
    below = (1 << 25) - 1  # 2^-126 * (1 - 2^-25), a tie that goes up to even
    cases = [(below, -151), (below - 1, -151), ((1 << 26) - 3, -152)]
    assert [bits for bits, _ in convert(40, cases)] == [0x00800000, 0, 0]


def test_known_values():
    cases = [(0, 300), (1, 0), (-3, -1), (1, 128), (-1, 128), (1, -126), (-1, -127)]
    want = [0, 0x3F800000, 0xBFC00000, 0x7F800000, 0xFF800000, 0x00800000, 0]
    got = convert(40, cases)
    assert [bits for bits, _ in got] == want
    assert [flag for _, flag in got] == [0, 0, 0, 1, 1, 0, 0]


def test_agrees_with_numpy_where_no_rule_of_ours_differs(rng):
    totals = [rng.randrange(-(1 << 62), 1 << 62) for _ in range(300)]
    got = convert(63, [(total, 0) for total in totals])
    want = np.array(totals, dtype=np.int64).astype(np.float32).view(np.uint32)
    assert [bits for bits, _ in got] == want.tolist()


@pytest.mark.parametrize(
    "change, message",
    [
        ({"sum_bits": 1}, "sum_bits must be an integer in 2..63, not 1"),
        ({"sum_bits": 64}, "sum_bits must be an integer in 2..63, not 64"),
    ],
)
def test_bad_parameters(change, message):
    with pytest.raises(ValueError, match=exactly(message)):
        ToFloat(**change)
