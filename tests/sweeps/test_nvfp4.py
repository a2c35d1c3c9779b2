"""NVFP4: the scale of the tensor, those of the groups, and elements rounded from exact quotients.

Judges: fractions (``oracle.formats``), and MPFR, which rounds a quotient once to 4 bits or to 2.
"""

from fractions import Fraction

import gmpy2
import numpy as np
import pytest

from diastole_sim.device.conversion import Conversion
from diastole_sim.spec.scales import amax_exponent
from oracle import formats as oracle
from sweeps import judge

RULES = ("nearest", "up")
ROUNDINGS = ("nearest", "stochastic-a", "stochastic-b", "stochastic-c")
E4M3 = {
    rule: gmpy2.context(precision=4, emin=-8, emax=100, subnormalize=True, round=direction)
    for rule, direction in (("nearest", gmpy2.RoundToNearest), ("up", gmpy2.RoundUp))
}
E2M1 = gmpy2.context(precision=2, emin=0, emax=5000, subnormalize=True)


def rounded(context, quotient, largest):
    """A fraction rounded once by MPFR, limited to the largest value of the format."""
    with context:
        value = gmpy2.mpfr(gmpy2.mpq(quotient.numerator, quotient.denominator))
    return min(Fraction(*value.as_integer_ratio()), Fraction(largest))


def by_mpfr(array, size, rule, exponent):
    """Vector groups, nearest: the scales of the groups, and the magnitudes of the elements."""
    unit, scales, magnitudes = Fraction(2) ** exponent, [], []
    for row in array.tolist():
        scales.append([])
        magnitudes.append([])
        for start in range(0, len(row), size):
            group = [abs(Fraction(number)) for number in row[start : start + size]]
            scale = rounded(E4M3[rule], max(group) / (6 * unit), 448)
            scales[-1].append(scale)
            magnitudes[-1] += [
                rounded(E2M1, number / (scale * unit), 6) * scale * unit if scale else 0
                for number in group
            ]
    return scales, magnitudes


def numerics(rule="nearest", kind="vector", rounding="nearest", **options):
    return judge.numerics("nvfp4", kind=kind, size=16, rule=rounding, scale=rule, **options)


def grid(np_rng, shape):
    """Quotients at and around ties: multiples of 2^-9 of a few binades."""
    values = np_rng.integers(-(2**11), 2**11, shape) * 2.0 ** np_rng.integers(-9, 3, shape)
    return values.astype(np.float32)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("width", [0, 2, 6, 12])
def test_against_mpfr(rule, width, np_rng):
    shape = (24, 40)
    for array in (judge.spread(np_rng, shape, low=-width, high=width), grid(np_rng, shape)):
        tensor = judge.quantise(array, Conversion("x", **judge.AT), numerics(rule), seed=judge.SEED)
        scales, magnitudes = by_mpfr(array, 16, rule, tensor.tensor_exponent)
        table = oracle.element("fp8_e4m3").values
        stored = tensor.copies[0].exponents[:24, :3].tolist()
        assert [[table[byte] for byte in row] for row in stored] == scales
        got = np.abs(tensor.values()).tolist()
        assert [[Fraction(value) for value in row] for row in got] == magnitudes


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("code", range(1, 0x7F))
def test_every_scale_and_its_middles(rule, code):
    """A first row that makes T = 0, and groups whose quotients are every E4M3 value, the middle
    above it, and a little beside both."""
    scales = oracle.element("fp8_e4m3").values
    low = float(scales[code])
    high = float(scales[min(code + 1, 0x7E)])
    middle = (low + high) / 2
    points = [low, middle, *np.nextafter(np.float32([low, low, middle, middle]), [0, 999] * 2)]
    array = np.zeros((1 + len(points), 16), np.float32)
    array[0, 0] = 2688
    for row, point in enumerate(points, 1):
        largest = np.float32(6 * point)
        array[row] = np.linspace(-largest, largest, 16, dtype=np.float32)
        array[row, 0] = largest
    for rounding in ("nearest", "stochastic-b"):
        for kind in ("vector", "square"):
            tensor = judge.check(array, numerics(rule, kind, rounding))
            assert tensor.tensor_exponent == 0 or max(points) * 6 > 2688


@pytest.mark.parametrize("exponent", range(-150, 122, 16))
def test_smallest_exponent_of_the_tensor(exponent):
    """T goes up just above 2688 * 2^T, by the whole tensor or by its largest alone."""
    limit = np.ldexp(np.float32(2688), max(exponent, -137))
    values = (limit, np.nextafter(limit, np.float32(0)), np.nextafter(limit, np.float32(np.inf)))
    for value, above in zip(values, (0, 0, 1), strict=True):
        want = max(exponent, -137) + above
        tensor = judge.check(np.array([[value, -value / 3]], np.float32), numerics())
        assert tensor.tensor_exponent == want
        assert amax_exponent(int(value.view(np.uint32)), numerics().x) == want


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("kind", ["vector", "square"])
def test_against_fractions(kind, rounding, rule, np_rng):
    for bits in (1, 3, 8, 16):
        chosen = numerics(rule, kind, rounding, random_bits=bits)
        for array in (
            judge.spread(np_rng, (17, 35)),
            judge.spread(np_rng, (9, 20), low=-15, high=15),
            grid(np_rng, (18, 33)),
            judge.any_bits(np_rng, (8, 18)),
        ):
            judge.check(array, chosen)


@pytest.mark.parametrize("exponent", [-137, -20, -8, -1, 0, 1, 5, 30, 117])
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_given_exponent(rounding, exponent, np_rng):
    """Scales that are too large for E4M3 or vanish: elements beyond 6, and groups of zeros."""
    chosen = numerics("nearest", "vector", rounding, source="given")
    judge.check(judge.spread(np_rng, (9, 40), low=-9, high=12), chosen, scale=exponent)


@pytest.mark.parametrize("rule, code, underflowed", [("nearest", 0, 32), ("up", 1, 31)])
def test_a_scale_that_rounds_to_zero(rule, code, underflowed):
    """2^-10 of T's unit is a tie between no scale and the smallest; the other copy, whose groups
    run down the columns, loses all 16 of the small elements in either case."""
    array = np.full((17, 16), 2688, np.float32)
    array[1] = 6 * 2.0**-10
    array[1, 1:] /= 64
    tensor = judge.check(array, numerics(rule))
    assert tensor.copies[0].exponents[1, 0] == code
    assert tensor.underflowed == underflowed


def test_elements_beyond_a_scale_that_was_rounded_down():
    """Up to 6 * 17/16 of the scale: saturated at 6, counted."""
    array = np.full((1, 16), 6 * 1.0625, np.float32)
    array[0, 1] = 6 * 1.0625 * 0.99
    first = np.zeros((1, 16), np.float32)
    first[0, 0] = 2688
    tensor = judge.check(np.vstack([first, array]), numerics())
    assert tensor.copies[0].exponents[1, 0] == 7 << 3
    assert (tensor.values(0)[1] == 6).all()
    assert tensor.saturated == 0  # 6.375 is nearer to 6 than to 8
    tensor = judge.check(
        np.vstack([first, array]), numerics(rounding="stochastic-b", random_bits=2)
    )
    assert tensor.saturated > 0


def test_a_value_that_no_binary32_holds():
    """A scale rounded up may carry the largest element past it; the stored codes are as ever."""
    array = np.array([[3.4e38, -3.4e38, 1e38]], np.float32)
    tensor = judge.check(array, numerics())
    assert tensor.values()[0, :2].tolist() == [np.inf, -np.inf]
    assert not tensor.inf
    assert tensor.saturated == 0
