# amaranth: UnusedElaboratable=no
"""ToFloat against MPFR and against numpy's own conversion; every rule of a result at its edge."""

import numpy as np
import pytest
from amaranth.hdl import signed
from amaranth.lib.wiring import In, Out

from diastole_hw.store.to_float import ToFloat, top_exponent
from oracle.product import binary32_bits
from support.pipelines import Built, check_pipeline
from support.sweep import sweep

NAN = 0x7FC00000
SCALES = (-320, 260)  # what bounds, F and mantissas of any configuration lead to


def scaled(sum_bits, poisonable):
    """The unit, which is told a scale."""
    dut = ToFloat(sum_bits=sum_bits, poisonable=poisonable)
    members = {"sum": In(signed(sum_bits)), "scale": In(signed(12)), "poison": In(1)}
    members |= {"result": Out(32), "overflow": Out(1)}

    def build(m, unit):
        m.submodules.dut = dut
        m.d.comb += [dut.sum.eq(unit.sum), dut.top.eq(top_exponent(sum_bits, unit.scale))]
        m.d.comb += [unit.result.eq(dut.result), unit.overflow.eq(dut.overflow)]
        if poisonable:
            m.d.comb += dut.poison.eq(unit.poison)

    return Built(members, build), dut.latency, {"scale": dut.top_after}


def check(sum_bits, cases, wants=None):
    """Cases of (sum, scale), or (sum, scale, whether the sum is poisoned), and their results."""
    unit, latency, delays = scaled(sum_bits, poisonable=len(cases[0]) == 3)
    wants = wants or [
        (NAN, False) if any(poison) else binary32_bits(total, scale)
        for total, scale, *poison in cases
    ]
    given = (dict(zip(("sum", "scale", "poison"), case, strict=False)) for case in cases)
    results = (dict(zip(("result", "overflow"), want, strict=False)) for want in wants)
    check_pipeline(unit, zip(given, results, strict=True), latency, delays=delays)


def test_poison_is_nan_and_no_overflow(rng):
    """Between values that are not poisoned, of which some are too large."""
    cases = [
        (rng.randrange(-(2**39), 2**39), rng.randint(60, 110), rng.randrange(2)) for _ in range(200)
    ]
    cases += [(0, 0, 1), (0, 0, 0), (1, 300, 1), (1, 300, 0), (-1, -400, 1)]
    assert binary32_bits(1, 300) == (0x7F800000, True)
    check(40, cases)


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
    check(40, cases, [(0x00800000,), (0,), (0,)])


def test_known_values():
    cases = [(0, 300), (1, 0), (-3, -1), (1, 128), (-1, 128), (1, -126), (-1, -127)]
    want = [0, 0x3F800000, 0xBFC00000, 0x7F800000, 0xFF800000, 0x00800000, 0]
    check(40, cases, [*zip(want, [0, 0, 0, 1, 1, 0, 0], strict=True)])


def test_agrees_with_numpy_where_no_rule_of_ours_differs(rng):
    totals = [rng.randrange(-(1 << 62), 1 << 62) for _ in range(300)]
    want = np.array(totals, dtype=np.int64).astype(np.float32).view(np.uint32)
    check(63, [(total, 0) for total in totals], [(bits,) for bits in want.tolist()])
