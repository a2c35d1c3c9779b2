"""Master weights: every rule against exact fractions, gfloat, ml_dtypes and MPFR; draws, bytes."""

import hashlib
from fractions import Fraction

import gmpy2
import ml_dtypes
import numpy as np
import pytest
from gfloat import Domain, FormatInfo, round_ndarray
from gfloat.formats import format_info_bfloat16, format_info_binary16

from diastole_sim.golden.numpy_device import NumpyDevice
from diastole_sim.golden.random import tensor_draws
from diastole_sim.spec.numerics import Numerics
from diastole_sim.train import run_task
from diastole_sim.train.draws import initial_weights
from diastole_sim.train.master import FORMATS, Master, bias_tag, weight_tag
from diastole_sim.train.session import Session
from diastole_sim.train.tasks import Samples
from oracle.libraries import GFLOAT_RULES
from oracle.rounding import round_fraction
from oracle.threefry import draw
from support.host_perceptron import Perceptron, digits_by_host

GFLOAT = {
    "bf16": format_info_bfloat16,
    "fp16": format_info_binary16,
    "e6m9": FormatInfo(
        name="e6m9",
        k=16,
        precision=10,
        bias=31,
        is_signed=True,
        domain=Domain.Extended,
        has_nz=True,
        num_high_nans=2**9 - 1,
        has_subnormals=True,
        is_twos_complement=False,
    ),
}
SHAPES = {"bf16": (8, 7), "fp16": (5, 10), "e6m9": (6, 9)}
STOCHASTIC = ("stochastic-a", "stochastic-b", "stochastic-c")
KINDS = pytest.mark.parametrize("kind", SHAPES)


def floats_of(words):
    return np.array(words, np.uint32).view(np.float32)


@pytest.fixture
def words(kind, np_rng):
    """Binary32 words: any; around every kind of boundary of the format; and the specials."""
    exponent_bits, fraction_bits = SHAPES[kind]
    dropped = 23 - fraction_bits
    codes = np_rng.integers(0, 2**32, 3000)
    bias = 2 ** (exponent_bits - 1) - 1
    exponents = [-bias - fraction_bits - d for d in (-3, -1, 0, 1, 2, 3)] + [1 - bias, bias, 0, -1]
    fields = np.clip(np.array(exponents) + 127, 0, 254)
    near = np_rng.choice(fields, 4000) << 23 | np_rng.integers(0, 2**23, 4000)
    tails = np_rng.choice([0, 1, 2 ** (dropped - 1) - 1, 2 ** (dropped - 1), 2**dropped - 1], 3000)
    upper = np_rng.integers(0, 2 ** (23 - dropped), 3000)
    top = np_rng.random(3000) < 0.2
    upper[top] = 2 ** (23 - dropped) - 1  # what carries into the exponent, or to Inf
    ties = np_rng.choice(fields, 3000) << 23 | upper << dropped | tails
    special = [0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC12345]
    found = np.concatenate([codes, near, ties, special]).astype(np.uint32)
    return np.concatenate([found, found ^ np.uint32(1 << 31)])


def same(got, want):
    """As numbers with the signs of zeros; one NaN is as good as another."""
    with np.errstate(invalid="ignore"):  # signalling NaN
        got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    both = np.isnan(got) & np.isnan(want)
    equal = (got == want) & (np.signbit(got) == np.signbit(want)) | both
    assert equal.all(), [(a, b) for a, b in zip(got[~equal], want[~equal], strict=True)][:5]


@KINDS
def test_all_codes(kind):
    """Each is the number that it is in gfloat, and stays what it is."""
    exponent_bits, fraction_bits = SHAPES[kind]
    codes = np.arange(2**16, dtype=np.uint16)
    values = FORMATS[kind].decode(codes)
    bias = 2 ** (exponent_bits - 1) - 1
    for code in [*range(0, 2**16, 89), 1, 2**fraction_bits - 1, 2**fraction_bits]:
        field, fraction = code >> fraction_bits & 2**exponent_bits - 1, code % 2**fraction_bits
        if field == 2**exponent_bits - 1:
            assert not np.isfinite(values[code])
            continue
        whole = fraction + (2**fraction_bits if field else 0)
        want = Fraction(2) ** (max(field, 1) - bias - fraction_bits) * whole
        assert Fraction(float(values[code])) == (want if code < 2**15 else -want)
    if kind == "bf16":
        same(values, codes.view(ml_dtypes.bfloat16).astype(np.float32))
    if kind == "fp16":
        same(values, codes.view(np.float16).astype(np.float32))
    again = FORMATS[kind].encode(values)
    number = ~np.isnan(values)
    assert (again[number] == codes[number]).all()
    nan = (2**exponent_bits - 1) << fraction_bits | 1 << (fraction_bits - 1)
    assert (again[~number] == nan).all()


def test_nearest_bfloat16_of_ml_dtypes(np_rng):
    words = np.concatenate([np_rng.integers(0, 2**32, 200_000), np.arange(0, 2**32, 2**15)])
    values = floats_of(words.astype(np.uint32))
    with np.errstate(invalid="ignore"):
        want = values.astype(ml_dtypes.bfloat16)
    number = ~np.isnan(values)
    got = FORMATS["bf16"].encode(values)
    assert (got[number] == want.view(np.uint16)[number]).all()
    assert (got[~number] == 0x7FC0).all()


def test_nearest_float16_of_numpy(np_rng):
    """Every float16, what lies halfway to the next, a binary32 beside each, and any words."""
    codes = np.arange(2**15, dtype=np.uint16).view(np.float16).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        halves = (codes + np.append(codes[1:], np.inf)) / 2
        halves[0x7BFF] = 65520  # between the largest one and 2^16: Inf
        exact = np.concatenate([codes, halves]).astype(np.float32)
        near = [np.nextafter(exact, np.float32(end)) for end in (0, np.inf)]
        words = floats_of(np_rng.integers(0, 2**32, 200_000).astype(np.uint32))
        values = np.concatenate([exact, *near, words])
        values = np.concatenate([values, -values])
        want = values.astype(np.float16)
    number = ~np.isnan(values)
    got = FORMATS["fp16"].encode(values)
    assert (got[number] == want.view(np.uint16)[number]).all()
    assert (got[~number] == 0x7E00).all()


@pytest.mark.parametrize(
    "value, codes",
    [
        (65519.996, {0x7BFF, 0x7C00}),  # above the largest one: 65504 or Inf
        (65504.0, {0x7BFF}),
        (65536.0, {0x7C00}),
        (3e38, {0x7C00}),
        (2.0**-25, {0x0000, 0x0001}),  # half of the smallest one
        (2.0**-24, {0x0001}),
        (2.0**-14 - 2.0**-25, {0x03FF, 0x0400}),  # the largest subnormal or the smallest normal one
        (-(2.0**-25), {0x8000, 0x8001}),
        (-65520.0, {0xFBFF, 0xFC00}),
    ],
)
@pytest.mark.parametrize("rule", STOCHASTIC)
def test_ends_of_fp16(value, codes, rule):
    values = np.full(2**16, value, np.float32)
    found = FORMATS["fp16"].encode(values, rule, np.arange(2**16), 16)
    assert set(found.tolist()) == codes


@KINDS
def test_nearest_of_mpfr(kind, words):
    exponent_bits, fraction_bits = SHAPES[kind]
    bias = 2 ** (exponent_bits - 1) - 1
    context = gmpy2.context(
        precision=fraction_bits + 1,
        emax=bias + 1,
        emin=2 - bias - fraction_bits,  # of the smallest subnormal, 0.1 in binary
        subnormalize=True,
    )
    values = floats_of(words)
    with gmpy2.context(context):
        want = [float(gmpy2.mpfr(float(value))) for value in values]
    same(Master(kind=kind, rounding="nearest").round(values, seed=0, tag=0, step=0), want)


@KINDS
@pytest.mark.parametrize("bits", [1, 3, 8, 14, 16])
@pytest.mark.parametrize("rule", STOCHASTIC)
@pytest.mark.sampled(3)
def test_stochastic_with_given_bits_of_gfloat(kind, rule, bits, words, np_rng):
    values = floats_of(words)
    draws = np_rng.integers(0, 2**bits, values.size)
    got = FORMATS[kind].decode(FORMATS[kind].encode(values, rule, draws, bits))
    with np.errstate(invalid="ignore"):
        wide = values.astype(np.float64)
        random = {"srbits": draws, "srnumbits": bits}
        want = round_ndarray(GFLOAT[kind], wide, GFLOAT_RULES[rule], False, **random)
    same(got, want)


@KINDS
@pytest.mark.parametrize("rule", ["nearest", *STOCHASTIC])
def test_the_definition_in_fractions(kind, rule, np_rng):
    """A whole update: draws of the tag, the top bits of 16, ulps of the binade, Inf above."""
    exponent_bits, fraction_bits = SHAPES[kind]
    bias = 2 ** (exponent_bits - 1) - 1
    bits = None if rule == "nearest" else 5
    master = Master(kind=kind, rounding=rule, bits=bits)
    exponents = np_rng.integers(-bias - fraction_bits - 3, bias + 2, (7, 11))
    with np.errstate(over="ignore"):
        values = np.ldexp(np_rng.uniform(-2, 2, (7, 11)), exponents).astype(np.float32)
    values[np.isinf(values)] = 0
    got = master.round(values, seed=9, tag=weight_tag(2), step=31)
    for index, (value, found) in enumerate(zip(values.flat, got.flat, strict=True)):
        exact = abs(Fraction(float(value)))
        binade = max(exponent_of(exact), 1 - bias)
        unit = Fraction(2) ** (binade - fraction_bits)
        drawn = draw(seed=9, tag=1 << 30 | 9, step=31, index=index, bits=5)
        rounded = unit * round_fraction(rule, exact / unit, drawn, 5)
        want = float("inf") if rounded >= Fraction(2) ** (bias + 1) else float(rounded)
        assert abs(found) == want, (value, found, want)
        assert np.signbit(found) == np.signbit(value)


def exponent_of(value):
    """floor(log2) of a fraction; of zero the least."""
    if not value:
        return -10_000
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent - (Fraction(2) ** exponent > value)


@KINDS
def test_the_mean_is_what_was_rounded(kind, np_rng):
    """Over all 16 bits of a draw, the expectation of each element is the element."""
    values = np_rng.choice([-1, 1], 12) * np_rng.uniform(0.5, 1, 12)
    subnormal = {"e6m9": -31, "fp16": -15}.get(kind, -31)  # 16 bits are dropped there too
    values[:3] *= 2.0**subnormal
    for value in values.astype(np.float32):
        codes = FORMATS[kind].encode(np.full(2**16, value), "stochastic-a", np.arange(2**16), 16)
        found, counts = np.unique(FORMATS[kind].decode(codes), return_counts=True)
        assert len(found) == 2
        total = sum(
            Fraction(float(each)) * int(count) for each, count in zip(found, counts, strict=True)
        )
        assert total / 2**16 == Fraction(float(value))


def test_few_bits_are_biased_as_their_rule_says():
    """1 + 3/8 of an ulp of bfloat16 with 2 bits: A rounds up in 1 of 4, B and C in 2 of 4."""
    value = np.full(4, 1 + 3 / 8 * 2**-7, np.float32)
    ups = {
        rule: int((FORMATS["bf16"].encode(value, rule, np.arange(4), 2) == 0x3F81).sum())
        for rule in STOCHASTIC
    }
    assert ups == {"stochastic-a": 1, "stochastic-b": 2, "stochastic-c": 2}


def test_draws_differ_by_step_element_tag_and_seed():
    halves = np.full((8, 8), 1 + 2**-8, np.float32)
    given = {"seed": 1, "tag": weight_tag(0), "step": 0}
    master = Master(kind="bf16")
    first = master.round(halves, **given)
    assert 10 < (first > 1).sum() < 54
    for other in ({"seed": 2}, {"tag": weight_tag(1)}, {"tag": bias_tag(0)}, {"step": 1}):
        assert not np.array_equal(first, master.round(halves, **(given | other)))
    assert np.array_equal(first, master.round(halves, **given))
    assert np.array_equal(first.ravel(), master.round(halves.ravel(), **given))


def test_tags_are_those_of_no_operand():
    assert (weight_tag(0), bias_tag(0), weight_tag(7)) == (0x40000001, 0x40000003, 0x4000001D)
    draws = tensor_draws((1, 64), seed=0, tag=weight_tag(3), step=5, bits=16)
    assert not np.array_equal(draws, tensor_draws((1, 64), seed=0, tag=13, step=5, bits=16))


@KINDS
def test_a_step_is_the_floats_step_rounded_once(kind, np_rng):
    """Velocities stay float32: they are those of the same step without a master format, from the
    same values."""
    batch = Samples(
        inputs=np_rng.normal(size=(9, 7)).astype(np.float32), labels=np_rng.integers(0, 3, 9)
    )
    numerics = Numerics.from_dict(
        {name: {"format": "bfp4", "rounding": "nearest"} for name in ("x", "w", "dy")}
        | {"block": 8, "random_bits": 8, "fraction": 18, "headroom": 9}
    )
    master = Master(kind=kind, rounding="stochastic-c", bits=7)
    rounded = Perceptron((7, 5, 3), seed=3, master=master)
    plain = Perceptron((7, 5, 3), seed=3)
    start = [
        master.start(initial_weights(*sizes, seed=3, layer=layer))
        for layer, sizes in enumerate([(7, 5), (5, 3)])
    ]
    for step in range(3):
        for each in ("weights", "biases"):  # from the rounded ones on
            getattr(plain, each)[:] = getattr(rounded, each)
        if step == 0:
            for parameter, want in zip(rounded.weights, start, strict=True):
                assert np.array_equal(parameter.value, want)
        given = {"step": step, "rate": np.float32(0.1), "momentum": 0.8}
        for network in (plain, rounded):
            network.train_step(Session(NumpyDevice(numerics)), batch, **given)
        for each, tag in (("weights", 1), ("biases", 3)):
            pairs = zip(getattr(plain, each), getattr(rounded, each), strict=True)
            for layer, (wide, narrow) in enumerate(pairs):
                tags = 1 << 30 | 4 * layer + tag
                want = master.round(wide.value, seed=3, tag=tags, step=step)
                assert np.array_equal(narrow.value, want)
                assert not np.array_equal(narrow.value, wide.value)
                assert np.array_equal(narrow.velocity, wide.velocity)


@KINDS
def test_the_hash_is_of_the_codes(kind):
    network = Perceptron((4, 3, 2), seed=1, master=Master(kind=kind))
    digest = hashlib.sha256()
    for weight, bias in zip(network.weights, network.biases, strict=True):
        for value in (weight.value, bias.value):
            if kind == "bf16":
                codes = value.astype(ml_dtypes.bfloat16).view(np.uint16)
            elif kind == "fp16":
                codes = value.astype(np.float16).view(np.uint16)
            else:  # normal numbers or zeros: the field counts from another bias
                codes = (value.view(np.uint32) >> 14).astype(np.int64)
                sign = codes >> 17 << 15
                codes = np.where(value == 0, 0, (codes & 0x1FFFF) - (96 << 9) | sign)
            digest.update(codes.astype("<u2").tobytes())
    assert network.sha256() == digest.hexdigest()


def test_training_says_its_master_and_the_float_run_has_none():
    numerics = Numerics.from_dict(
        {name: {"format": "bfp4", "rounding": "nearest"} for name in ("x", "w", "dy")}
        | {"block": 8, "random_bits": 8, "fraction": 18, "headroom": 14}
    )

    def train(**given):
        return run_task(
            digits_by_host(), NumpyDevice(numerics), backend="golden", steps=2, **given
        ).to_json()

    plain, narrow = train(), train(master=Master(kind="e6m9", bits=9))
    assert (plain["master"], plain["master_rounding"], plain["master_bits"]) == (
        "float32",
        None,
        None,
    )
    said = narrow["master"], narrow["master_rounding"], narrow["master_bits"]
    assert said == ("e6m9", "stochastic-b", 9)
    assert narrow["float_accuracy"] == plain["float_accuracy"]
    assert narrow["weights_sha256"] != plain["weights_sha256"]
    assert narrow["weights_sha256"] == train(master=Master(kind="e6m9", bits=9))["weights_sha256"]
    other = train(master=Master(kind="e6m9", bits=9), seed=1)
    assert other["weights_sha256"] != narrow["weights_sha256"]
