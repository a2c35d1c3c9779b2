# amaranth: UnusedElaboratable=no
"""One lane: every format and rounding rule against tables of values, and the specials."""

from fractions import Fraction
from itertools import product

import pytest

from diastole_hw.convert.lanes.quantise import LaneQuantiser
from diastole_sim.spec.rounding import RULES
from oracle.formats import deficit, element, round_to_code
from support.bench import design
from support.classes import make_numerics
from support.pipelines import check_pipeline
from support.sweep import sweep

NAN_BYTES = (0x7F, 0xFF)
RESULTS = ("element", "top", "saturated", "underflowed", "nan", "inf")


def folded(chosen, code, by):
    """The code of the same value where the scale is lower by 2^by."""
    return chosen.values.index(chosen.values[code] * 2**by) if code <= chosen.top else code


def model(numerics, cls, value, exponent, fold, random, scale):
    """Element, top, saturated, underflowed, nan, inf; from the definition."""
    name = ("x", "w", "dy")[cls]
    tensor_class = numerics.tensor_class(name)
    chosen = element(tensor_class.format.name)
    sign, field, fraction = value >> 31, value >> 23 & 0xFF, value & 0x7FFFFF
    nan, inf = field == 255 and fraction != 0, field == 255 and fraction == 0
    flags = (int(nan), int(inf))
    poison = numerics.special == "poison"
    two_level = chosen.scale == "e4m3"
    if poison and chosen.nan is None and exponent == NAN_BYTES[not two_level]:
        return 0, 0, 0, 0, *flags
    saturated = underflowed = 0
    code = 0
    if nan or inf:
        if poison and chosen.nan is not None:
            code = chosen.nan if nan else chosen.beyond
        elif inf and exponent:
            code = chosen.top
        sign = 0 if nan and not poison else sign
    elif field:
        if exponent:
            unit = Fraction(2) ** (exponent - 127 - chosen.largest_exponent)
            if two_level:
                e4m3 = element("fp8_e4m3").values
                unit = e4m3[exponent] * Fraction(2) ** (scale - 138)
            magnitude = Fraction(fraction | 1 << 23) * Fraction(2) ** (field - 150) / unit
            rule = tensor_class.rounding
            code = round_to_code(chosen, magnitude, rule, random, numerics.random_bits)
            saturated = int(code > chosen.top)
            if saturated:
                code = chosen.top
                if tensor_class.overflow == "specification" and poison:
                    code = chosen.beyond
        underflowed = int(code == 0)
    top = 0
    if numerics.folds(name):
        depth = tensor_class.format.depth
        if 0 < code <= chosen.top:
            by = deficit(chosen, code)
            too_large = chosen.values[code] * 2**by not in chosen.values
            top = depth + 1 - by + too_large
            code = folded(chosen, code, depth + 1 - max(fold, top))
        elif saturated:  # Inf or NaN: the block's exponent stays
            top = depth + 1
    if not chosen.signed_zero:
        sign = sign and code != 0
    return sign << chosen.bits | code, top, saturated, underflowed, *flags


def check(numerics, cases):
    """Cases (cls, value, exponent, fold, random, scale), one per cycle, behind each its number
    blanked; classes and scales change with pauses only. A fold below the element's own ``top`` is
    raised to it."""
    dut = design(LaneQuantiser, numerics=numerics)
    for cls, scale in sorted({(case[0], case[5]) for case in cases}):
        mine = [case[1:5] for case in cases if (case[0], case[5]) == (cls, scale)]
        pipelined = []
        for (value, exponent, fold, random), blank in product(mine, (0, 1)):
            want = model(numerics, cls, 0 if blank else value, exponent, fold, random, scale)
            given = {"value": value, "blank": blank, "exponent": exponent, "random": random}
            given["fold"] = max(fold, want[1])
            pipelined.append((given, dict(zip(RESULTS, want, strict=True))))
        check_pipeline(dut, pipelined, dut.latency, hold={"cls": cls, "scale": scale})


def float_bits(field, significand, sign=0):
    return sign << 31 | field << 23 | significand & 0x7FFFFF


def near(precision, extra):
    """Significands around every border that a rule may look at."""
    shown = precision + extra
    for top, rest in product(range(2 ** (shown - 1), 2**shown), (0, 1)):
        yield top << (24 - shown) | rest


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "names",
    [
        ("bfp2", "bfp3", "bfp1"),
        ("mxfp4_e2m1", "mxfp6_e2m3", "mxint8"),
        ("mxfp6_e3m2", "mxfp4_e2m1", "bfp4"),
    ],
)
@pytest.mark.sampled(4)
def test_small_exhaustive(rule, names):
    """2 random bits: every kept part, fraction, remainder and draw, at every depth."""
    numerics = make_numerics(*names, rounding=(rule,) * 3, random_bits=2)
    cases = []
    for cls, name in enumerate(("x", "w", "dy")):
        kind = numerics.tensor_class(name).format
        distances = range(kind.depth + kind.precision + 5)
        for distance, significand in product(distances, near(min(kind.precision, 3), 3)):
            for draw in range(4):
                if (distance ^ draw ^ cls) & 1:
                    continue
                value = float_bits(120, significand, draw >> 1)
                cases.append((cls, value, 120 + distance, 0, draw, 0))
    check(numerics, cases)


WIDE = ("fp8_e4m3", "fp8_e5m2", "bf16")
GENERIC = ("e5m1", "e2m5", "e3m4")


def random_cases(numerics, rng, count, folds=False):
    cases = []
    for cls, _ in product(range(3), range(count)):
        kind = numerics.tensor_class(("x", "w", "dy")[cls]).format
        distance = rng.choice([0, 0, 1, 2, kind.depth, rng.randrange(kind.depth + 12)])
        exponent = min(254, rng.randrange(1, 255) + rng.randrange(3))
        if numerics.tensor_class(("x", "w", "dy")[cls]).has_tensor_scale:
            distance -= rng.choice([0, 0, 0, 1, 5])
        if kind.scale == "one":
            exponent = 254
        significand = rng.getrandbits(23) & -1 << rng.choice([0, 12, 15, 18, 20, 21])
        field = min(254, max(1, exponent - distance))
        if kind.scale != "power":
            field = min(field, exponent)
        value = float_bits(field, significand, rng.getrandbits(1))
        bits = numerics.random_bits
        draw = rng.choice([0, 2**bits - 1, rng.getrandbits(bits)])
        fold = rng.randrange(1, kind.depth + 2) if folds else 0
        cases.append((cls, value, exponent, fold, draw, 0))
    return cases


@pytest.mark.parametrize(
    "special, overflow",
    [
        ("flag", "saturate"),
        ("poison", "specification"),
        sweep("flag", "specification"),
        sweep("poison", "saturate"),
    ],
)
@pytest.mark.parametrize("window", [sweep(0), 24])
@pytest.mark.parametrize("names", [WIDE, GENERIC, ("fp8_e4m3", "fp8_e4m3", "bfp8")])
@pytest.mark.sampled(3)
def test_wide_formats(names, window, special, overflow, rng):
    """With and without folding, numbers above the top binade where there is a tensor scale."""
    if window == 0 and names != GENERIC:
        window = 16 if names != WIDE else 20
    numerics = make_numerics(
        *names,
        rounding=("nearest", "stochastic-c", "stochastic-b"),
        window=window,
        special=special,
        overflow=(overflow,) * 3,
    )
    check(numerics, random_cases(numerics, rng, 150, folds=True))


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("random_bits", [1, 8, 16])
@pytest.mark.parametrize("names", [("bfp2", "bfp5", "bfp8"), ("bfp4", "mxfp8_e5m2", "bfp7")])
@pytest.mark.sampled(2)
def test_random(rule, random_bits, names, rng):
    numerics = make_numerics(*names, rounding=(rule,) * 3, random_bits=random_bits, fraction=4)
    check(numerics, random_cases(numerics, rng, 250))


@pytest.mark.parametrize(
    "special, random_bits",
    [("flag", 2), ("poison", 16), sweep("poison", 2), sweep("flag", 16)],
)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.sampled(2)
def test_nvfp4(rule, random_bits, special, rng):
    """Every scale code, with numbers around its elements' values and borders."""
    rounding = ("nearest", rule, rule)
    numerics = make_numerics(
        *("nvfp4",) * 3, rounding=rounding, random_bits=random_bits, special=special
    )
    e4m3, e2m1 = element("fp8_e4m3").values, element("mxfp4_e2m1").values
    borders = [Fraction(n, 4) for n in range(1, 33)] + list(e2m1[1:])
    cases = []
    for code, cls in product(range(0x80), (0, 1, 2)):
        scale = rng.choice([1, 100, 138, 255])
        for border in rng.sample(borders, 6):
            wanted = border * (e4m3[code] if 0 < code < 0x7F else 1) * Fraction(2) ** (scale - 138)
            field = 127
            while wanted >= 2:
                wanted, field = wanted / 2, field + 1
            while wanted < 1:
                wanted, field = wanted * 2, field - 1
            significand = int(wanted * 2**23) + rng.choice([-1, 0, 0, 1])
            if not 0 < field < 255 or significand < 2**23:
                continue
            draw = rng.choice([0, 2**random_bits - 1, rng.getrandbits(random_bits)])
            value = float_bits(field, significand, rng.getrandbits(1))
            if code != 0x7F or special == "poison":
                cases.append((cls, value, code, 0, draw, scale))
    check(numerics, cases)


@pytest.mark.parametrize("overflow", ["saturate", "specification"])
@pytest.mark.parametrize("special", ["flag", "poison"])
@pytest.mark.parametrize(
    "names",
    [("bfp2", "bfp4", "bfp8"), WIDE, ("mxfp8_e4m3", "mxfp4_e2m1", "mxfp8_e5m2"), GENERIC],
)
def test_specials(names, special, overflow):
    numerics = make_numerics(*names, window=None, special=special, overflow=(overflow,) * 3)
    values = [0, 0x80000000, 1, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFF800001]
    values += [0x7F7FFFFF, 0xFF7FFFFF, 0x00FFFFFF, 0x00800000]
    cases = []
    for cls, value in product(range(3), values):
        field = value >> 23 & 0xFF
        exponents = {max(1, field), 254} if field != 255 else {0, 1, 254}
        exponents |= {0, 255}
        if special == "flag" or element(names[cls]).nan is not None:
            exponents.discard(255)
        elif field == 255:
            exponents = {255}  # the group is not a number then
        cases += [(cls, value, exponent, 0, 5, 0) for exponent in exponents]
    check(numerics, cases)


# A width that is chosen with each conversion.


def magnitude_of(value, exponent, bits):
    """|value| in units of the last of ``bits`` bits at the group's exponent, exactly."""
    field, fraction = value >> 23 & 0xFF, value & 0x7FFFFF
    if field in (0, 255) or not exponent:
        return Fraction(0)
    return Fraction(fraction | 1 << 23) * Fraction(2) ** (field - 150 - exponent + 127 + bits - 1)


def nearest_even_magnitude(value, exponent, bits, poison):
    """As the monitor has it: NaN is 0, Inf the largest, unless the group is no number."""
    if poison and exponent == 255:
        return 0
    if value & 0x7FFFFFFF == 0x7F800000:
        return 2**bits - 1 if exponent else 0
    return min(round(magnitude_of(value, exponent, bits)), 2**bits - 1)


def planar_numerics(formats, widths, rule, random_bits=2, special="flag"):
    rounding = (rule,) * 3
    keys = {"random_bits": random_bits, "special": special, "widths": widths}
    return make_numerics(*formats, rounding=rounding, **keys)


def check_planes(numerics, cases):
    """Cases (cls, bits of a magnitude, value, exponent, random): elements, flags, the monitor."""
    dut = design(LaneQuantiser, numerics=numerics, monitored=True)
    results = ("element", "saturated", "underflowed", "nan", "inf", "differs", "narrow")
    poison = numerics.special == "poison"
    most = max(w for w in numerics.widths)

    def expected(cls, bits, value, exponent, random):
        same = make_numerics(
            *(f"bfp{bits}",) * 3,
            rounding=(numerics.tensor_class(("x", "w", "dy")[cls]).rounding,) * 3,
            random_bits=numerics.random_bits,
            special=numerics.special,
        )
        element_, _, *flags = model(same, cls, value, exponent, 0, random, 0)
        sign, k = divmod(element_, 2**bits)
        k4, k2 = (nearest_even_magnitude(value, exponent, n, poison) for n in (4, 2))
        return sign << most | k << most - bits, *flags, abs(k4 - 4 * k2), k2

    for cls, bits in sorted({case[:2] for case in cases}):
        pipelined = [
            (
                dict(zip(("value", "exponent", "random"), case[2:], strict=True)),
                dict(zip(results, expected(*case), strict=True)),
            )
            for case in cases
            if case[:2] == (cls, bits)
        ]
        check_pipeline(dut, pipelined, dut.latency, hold={"cls": cls, "planes": bits // 2 - 1})


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("widths", [(2, 4), (2, 4, 6, 8), (4, 6)])
@pytest.mark.sampled(4)
def test_widths_exhaustive(rule, widths, rng):
    """2 random bits: around every border of the narrow ones, and near those of the wide ones;
    beside a class of two bits, which has one plane."""
    numerics = planar_numerics(("fast", "bfp2", "fast"), widths, rule)
    cases = []
    for cls, bits in [(0, width) for width in widths] + [(1, 2), (2, widths[0])]:
        shown = min(bits, 4)
        for distance, significand in product((*range(bits + 5), 40), near(shown, 3)):
            more = rng.getrandbits(bits - shown) << 20 - bits if bits > shown else 0
            draw = rng.randrange(4)
            if rng.random() < (0.25 if bits > 2 else 1):
                value = float_bits(120, significand | more, rng.randrange(2))
                cases.append((cls, bits, value, 120 + distance, draw))
    check_planes(numerics, cases)


@pytest.mark.parametrize("random_bits", [8, 16])
@pytest.mark.parametrize("rule", RULES)
def test_widths_random(rule, random_bits, rng):
    """Draws of many bits, whatever is below them; what is lost of a narrow one is not."""
    widths = (2, 4, 6, 8)
    numerics = planar_numerics(("fast",) * 3, widths, rule, random_bits)
    cases = []
    for bits in widths:
        for _ in range(150):
            exponent = rng.randrange(1, 254)
            low = rng.choice([0, 1, 1 << 24 - bits - 9, rng.getrandbits(23)])
            kept = rng.getrandbits(bits + 2) << 22 - bits
            draw = rng.choice([0, 2**random_bits - 1, rng.getrandbits(random_bits)])
            field = max(1, exponent - rng.choice([0, 0, 1, 2, bits, bits + 9, -1]))
            value = float_bits(field, kept | low, rng.getrandbits(1))
            cases.append((rng.randrange(3), bits, value, exponent, draw))
    check_planes(numerics, cases)


@pytest.mark.parametrize("special", ["flag", "poison"])
def test_specials_of_widths(special):
    """NaN, Inf, zeros and subnormals, in groups of zeros and in those that are no number too."""
    numerics = planar_numerics(("fast", "bfp2", "fast"), (2, 4), "nearest", special=special)
    values = [0, 0x80000000, 1, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFF800001]
    values += [0x7F7FFFFF, 0xFF7FFFFF, 0x00FFFFFF, 0x00800000]
    cases = []
    for (cls, bits), value in product([(0, 2), (0, 4), (1, 2), (2, 4)], values):
        field = value >> 23 & 0xFF
        exponents = {max(1, field), 254, 0} if field != 255 else {0, 1, 254}
        if special == "poison":
            exponents = {255} if field == 255 else exponents | {255}
        cases += [(cls, bits, value, exponent, 3) for exponent in exponents]
    check_planes(numerics, cases)


def test_monitor_by_hand():
    """Worked out: in eighths of the top binade, k4 and k2 of 4 and of 2 bits."""
    numerics = planar_numerics(("fast",) * 3, (2, 4), "stochastic-a")
    dut = design(LaneQuantiser, numerics=numerics, monitored=True)
    eighths = {
        # 1.875 is 15 and 3.75: 4, which is 3; 1.75 is 14 and 3.5: to even 4, which is 3.
        15: (3, 3), 14: (2, 3), 13: (1, 3), 12: (0, 3), 11: (1, 3), 10: (2, 2), 9: (1, 2),
        8: (0, 2), 7: (1, 2), 6: (2, 2), 5: (1, 1), 4: (0, 1), 3: (1, 1), 2: (2, 0), 1: (1, 0),
        0: (0, 0),
    }  # fmt: skip
    cases = []
    for count, (differs, narrow) in eighths.items():
        scale = count.bit_length() - 1
        value = float_bits(127 - 3 + scale, count << 23 - scale) if count else 0
        cases.append(({"value": value}, {"differs": differs, "narrow": narrow}))
    check_pipeline(dut, cases, dut.latency, hold={"exponent": 127, "planes": 0, "random": 3})
