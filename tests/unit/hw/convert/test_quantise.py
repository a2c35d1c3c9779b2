# amaranth: UnusedElaboratable=no
"""One lane: every rounding rule and format against the golden rules, and the specials."""

import struct
from itertools import product

import pytest

from diastole.convert.quantise import LaneQuantiser
from diastole_sim.rounding import RULES, round_magnitude
from support.bench import run

LATENCY = 2


def model(bits, rule, value, exponent, random, random_bits):
    """Element, saturated, nan, inf; from the definition."""
    sign, field, fraction = value >> 31, value >> 23 & 0xFF, value & 0x7FFFFF
    nan, inf = field == 255 and fraction != 0, field == 255 and fraction == 0
    top = 2**bits - 1
    if exponent == 0 or nan or field == 0:
        return 0, 0, int(nan), int(inf)
    if inf:
        return sign << bits | top, 0, 0, 1
    shift = 24 - bits + exponent - field
    magnitude = int(round_magnitude(rule, fraction | 1 << 23, shift, random, random_bits))
    saturated = int(magnitude > top)
    magnitude = min(magnitude, top)
    return (sign << bits if magnitude else 0) | magnitude, saturated, 0, 0


def check(mantissa_bits, rounding, random_bits, cases):
    """Cases (cls, value, exponent, random), one per cycle; cls changes only with its run."""
    dut = LaneQuantiser(mantissa_bits=mantissa_bits, rounding=rounding, random_bits=random_bits)
    outputs = (dut.element, dut.saturated, dut.nan, dut.inf)

    async def main(ctx):
        for cls in range(3):
            mine = [case[1:] for case in cases if case[0] == cls]
            ctx.set(dut.cls, cls)
            for n in range(len(mine) + LATENCY):
                if n < len(mine):
                    value, exponent, random = mine[n]
                    ctx.set(dut.value, value)
                    ctx.set(dut.exponent, exponent)
                    ctx.set(dut.random, random)
                got = (await ctx.tick().sample(*outputs))[2:]
                if n >= LATENCY:
                    old = mine[n - LATENCY]
                    want = model(mantissa_bits[cls], rounding[cls], *old, random_bits)
                    value, exponent, random = old
                    what = (
                        f"m={mantissa_bits[cls]} {rounding[cls]} {value=:#x} {exponent=} {random=}"
                    )
                    assert got == want, what

    run(dut, main)


def float_bits(field, significand, sign=0):
    return sign << 31 | field << 23 | significand & 0x7FFFFF


@pytest.mark.parametrize("rule", RULES)
def test_small_exhaustive(rule):
    """2 and 3 magnitude bits, 2 random bits: every kept part, fraction, remainder and draw."""
    cases = []
    for cls, bits in enumerate((2, 3, 4)):
        shown = bits + 3  # significand bits down to one below the fraction that rules look at
        for distance, top in product(range(bits + 5), range(2 ** (shown - 1), 2**shown)):
            for rest, draw in product((0, 1), range(4)):
                if cls == 2 and (rest ^ draw ^ distance) & 1:
                    continue  # half of the largest
                significand = top << (24 - shown) | rest
                cases.append((cls, float_bits(120, significand, draw & 1), 120 + distance, draw))
    check((2, 3, 4), (rule,) * 3, 2, cases)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("random_bits", [1, 8, 16])
@pytest.mark.parametrize("mantissa_bits", [(2, 5, 8), (4, 6, 7)])
def test_random(rule, random_bits, mantissa_bits, rng):
    cases = []
    for cls, _ in product(range(3), range(250)):
        distance = rng.choice([0, 0, 1, 2, rng.randrange(12), rng.randrange(200)])
        exponent = rng.randrange(max(1, distance), 255)
        significand = rng.getrandbits(23) & -1 << rng.choice([0, 12, 15, 18, 20])
        value = float_bits(max(1, exponent - distance), significand, rng.getrandbits(1))
        draw = rng.choice([0, 2**random_bits - 1, rng.getrandbits(random_bits)])
        cases.append((cls, value, exponent, draw))
    check(mantissa_bits, (rule,) * 3, random_bits, cases)


def test_classes_have_their_own_rules(rng):
    cases = [
        (cls, float_bits(100, rng.getrandbits(23), rng.getrandbits(1)), 100, rng.getrandbits(8))
        for cls in range(3)
        for _ in range(200)
    ]
    check((3, 7, 5), ("stochastic-c", "nearest", "stochastic-a"), 8, cases)


def test_specials():
    odd = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40, -1e-40, 2.0**-126)
    values = [struct.unpack("<I", struct.pack("<f", x))[0] for x in odd]
    values += [0x7F800001, 0xFFFFFFFF, 0x7F7FFFFF, 0xFF7FFFFF, 0x00FFFFFF]
    cases = []
    for cls, value, draw in product(range(3), values, (0, 255)):
        field = value >> 23 & 0xFF
        exponents = {max(1, field), 254} if field != 255 else {0, 1, 254}
        cases += [(cls, value, exponent, draw) for exponent in exponents]
        cases += [(cls, value, 0, draw)] if field in (0, 255) else []
    check((2, 4, 8), ("nearest", "stochastic-a", "stochastic-b"), 8, cases)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"mantissa_bits": (4, 9, 4)}, "mantissa_bits must be an integer in 2..8, not 9"),
        ({"random_bits": 0}, "random_bits must be an integer in 1..16, not 0"),
        (
            {"rounding": ("nearest", "nearest", "up")},
            "rounding must be one of nearest, stochastic-a, stochastic-b, stochastic-c, not 'up'",
        ),
        (
            {"mantissa_bits": (4, 4)},
            "mantissa_bits and rounding must have one entry per class, x, w, dy",
        ),
    ],
)
def test_errors(change, message):
    good = {"mantissa_bits": (4, 4, 4), "rounding": ("nearest",) * 3, "random_bits": 8}
    with pytest.raises(ValueError) as caught:
        LaneQuantiser(**good | change)
    assert str(caught.value) == message
