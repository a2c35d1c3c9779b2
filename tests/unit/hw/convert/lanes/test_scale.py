# amaranth: UnusedElaboratable=no
"""The exponents of groups and of tensors: every rule, against comparisons of exact fractions."""

from fractions import Fraction

import pytest

from diastole_hw.convert.lanes.scale import LaneScale, tensor_scale
from oracle.formats import element, top_binade
from support.bench import design
from support.classes import make_numerics
from support.pipelines import Function, check_pipeline

BFP = ("bfp1", "bfp4", "bfp8")
MX = ("mxfp8_e4m3", "mxfp6_e2m3", "mxfp8_e5m2")
SCALES = element("fp8_e4m3").values
TWO_SCALES = "four-over-six"


def magnitude(bits):
    return Fraction((bits & 0x7FFFFF) | 1 << 23) * Fraction(2) ** ((bits >> 23) - 150)


def stored(name, rule, bits, scale, poison, becomes=6):
    """The byte of a group whose largest magnitude is that of ``bits``; in NVFP4 it ``becomes`` as
    much."""
    chosen = element(name)
    if bits == 0x7F800000 and not poison and chosen.scale in ("power", "one"):
        return scale if chosen.scale == "power" else 254
    if bits >> 23 == 255:
        return {True: 0x7F if name == "nvfp4" else 255}.get(poison and chosen.nan is None, 0)
    if bits >> 23 == 0:
        return 0
    if name == "nvfp4":
        wanted = magnitude(bits) / (becomes * Fraction(2) ** (scale - 138))
        if wanted >= SCALES[-1]:
            return len(SCALES) - 1
        above = next(n for n, value in enumerate(SCALES) if value >= wanted)
        if rule == "up" or above == 0:
            return above
        middle = (SCALES[above] + SCALES[above - 1]) / 2
        return above - (wanted < middle or (wanted == middle and above % 2 == 1))
    if chosen.scale in ("power", "one"):
        return scale if chosen.scale == "power" else 254
    e = min(127, top_binade(chosen, rule, magnitude(bits)))
    lowest = -126 + (chosen.largest_exponent if chosen.scale == "e8m0" else 0)
    return e + 127 if e >= lowest else 0


def cases_of(rng, count):
    """Magnitudes, many of them at a border of few bits."""
    for _ in range(count):
        field = rng.choice([0, 1, 2, 3, 9, 127, 253, 254, 255, rng.randrange(256)])
        fraction = rng.getrandbits(23) & -1 << rng.choice([0, 14, 16, 18, 19, 20, 21, 23])
        yield field << 23 | max(0, min(2**23 - 1, fraction + rng.choice([-1, 0, 0, 1])))


def check(numerics, cases):
    """Cases (cls, bits, scale)."""
    dut = design(LaneScale, numerics=numerics)
    rules = [numerics.tensor_class(name).scale for name in ("x", "w", "dy")]
    assert hasattr(dut, "four") == (TWO_SCALES in rules)
    pipelined = []
    for cls, bits, scale in cases:
        chosen = numerics.tensor_class(("x", "w", "dy")[cls])
        group = chosen.format.name, chosen.scale, bits, scale, numerics.special == "poison"
        want = {"stored": stored(*group)}
        if TWO_SCALES in rules:
            want["four"] = stored(*group, becomes=4 if chosen.scale == TWO_SCALES else 6)
        given = {"cls": cls, "value": bits | bits % 2 << 31, "scale": scale}
        pipelined.append((given, want))
    check_pipeline(dut, pipelined, 1)


@pytest.mark.parametrize("special", ["flag", "poison"])
@pytest.mark.parametrize("names", [BFP, MX, ("mxint8", "mxfp4_e2m1", "mxfp6_e3m2")])
@pytest.mark.parametrize("rule", ["floor", "even", "ceil", "rceil"])
@pytest.mark.sampled(3)
def test_exponents(rule, names, special, rng):
    numerics = make_numerics(*names, scale=(rule,) * 3, special=special)
    check(numerics, [(n % 3, bits, 0) for n, bits in enumerate(cases_of(rng, 900))])


@pytest.mark.parametrize("special", ["flag", "poison"])
@pytest.mark.parametrize("rules", [("nearest",), ("up",), (TWO_SCALES,), (TWO_SCALES, "up")])
@pytest.mark.sampled(3)
def test_scale_codes(rules, special, rng):
    """Where a class has two scales to choose from, it is x; the others have one."""
    rules = (rules[0], *(rules[-1],) * 2)
    numerics = make_numerics(*("nvfp4",) * 3, scale=rules, special=special)
    cases = []
    for bits in cases_of(rng, 2500):
        scale = min(255, max(1, (bits >> 23) + rng.randrange(-3, 22)))
        cases.append((rng.randrange(3) if len(set(rules)) > 1 else 0, bits, scale))
    becomes = 2 if TWO_SCALES in rules else 3
    for middle in range(1, 2 * len(SCALES)):  # every border, and its neighbours
        border = (SCALES[middle // 2] + SCALES[min((middle + 1) // 2, len(SCALES) - 1)]) * becomes
        field = 127
        while border >= 2:
            border, field = border / 2, field + 1
        while border < 1:
            border, field = border * 2, field - 1
        exact = int(border * 2**23) & 0x7FFFFF
        cases += [(0, field << 23 | exact + step, 138) for step in (-1, 0, 1) if exact + step >= 0]
    check(numerics, cases)


@pytest.mark.parametrize("special", ["flag", "poison"])
@pytest.mark.parametrize("names", [("fp8_e4m3", "fp8_e5m2", "e3m4"), ("bf16", "e5m2", "e2m1")])
def test_tensor_scales(names, special, rng):
    """Of tensors the scale that there is, of Inf too where it becomes an element."""
    rules = ("fixed" if names[0] == "bf16" else "rceil", "floor", "ceil")
    numerics = make_numerics(*names, scale=rules, special=special, headroom=1, window=16)
    cases = [(n % 3, bits, n % 254 + 1) for n, bits in enumerate(cases_of(rng, 300))]
    infinite = [(cls, 0x7F800000 + nan, 9) for cls in range(3) for nan in (0, 1, 1 << 22)]
    check(numerics, cases + infinite)


@pytest.mark.parametrize("name", ["fp8_e4m3", "e3m4"])
def test_groups_of_their_own(name, rng):
    """The same formats in squares: an Inf says nothing of its group."""
    dut = design(LaneScale, numerics=make_numerics(*(name,) * 3, grouping=("4x4",) * 3))
    for cls in range(3):
        hold = {"cls": cls, "scale": rng.randrange(1, 255)}
        cases = [({"value": bits}, {"stored": 0}) for bits in (0x7F800000, 0xFF800000)]
        check_pipeline(dut, cases, 1, hold=hold)


def scales_of_tensors(numerics, margin=0):
    """Every class's scale of a tensor."""
    names = ("x", "w", "dy")

    def scales(m, amax):
        classes = (numerics.tensor_class(name) for name in names)
        return [tensor_scale(m, cls, each, amax, margin) for cls, each in enumerate(classes)]

    return Function({"amax": 31}, dict.fromkeys(names, 8), scales)


def largest_of_tensor(bits, rule, name):
    if name == "nvfp4":
        exponent, reach = -140, 1536 if rule == TWO_SCALES else 2688
        while magnitude(bits) > reach * Fraction(2) ** exponent:
            exponent += 1
        return min(exponent + 138, 255)
    return min(127, top_binade(element(name), rule, magnitude(bits))) + 127


@pytest.mark.parametrize(
    "names, rules",
    [
        (("fp8_e4m3", "fp8_e5m2", "e3m4"), ("rceil", "floor", "ceil")),
        (("e2m5", "fp8_e4m3", "fp8_e5m2"), ("even", "even", "rceil")),
        (("nvfp4",) * 3, ("nearest", TWO_SCALES, "up")),
    ],
)
@pytest.mark.parametrize("margin", [0, 1, 15])
def test_of_tensor(names, rules, margin, rng):
    """Of zeros a scale of 1."""
    classes, largest = ("x", "w", "dy"), 255 if names[0] == "nvfp4" else 254
    ones = [138 if n == "nvfp4" else 127 + element(n).largest_exponent for n in names]
    cases = [({"amax": 0}, dict(zip(classes, ones, strict=True)))]
    for bits in cases_of(rng, 300):
        if 0 < bits >> 23 < 255:
            found = (largest_of_tensor(bits, *each) for each in zip(rules, names, strict=True))
            scales = [min(each + margin, largest) for each in found]
            cases.append(({"amax": bits}, dict(zip(classes, scales, strict=True))))
    check_pipeline(scales_of_tensors(make_numerics(*names, scale=rules), margin), cases, 0)
