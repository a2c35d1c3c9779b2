"""Conversions of every format against ``oracle.formats``, bit for bit: codes, bytes, maxima, folds,
counters, flags and values of every copy. The oracle looks up what the golden model computes; it is
compared with other libraries in ``tests/unit/oracle/test_formats.py``.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.spec.formats import NVFP4
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.scales import amax_exponent
from oracle import formats as oracle
from support import judge
from support.conversions import AT, SEED, convert, numerics, spread
from support.sweep import sweep

ROUNDINGS = ("nearest", "stochastic-a", "stochastic-b", "stochastic-c")
WHOLE = {"block": 32, "size": 128}
"""Squares that hold all numbers of a test under one exponent."""


def neighbours(values):
    """Floats, and those of float32 beside them, without Inf."""
    with np.errstate(over="ignore"):
        values = np.array(values, np.float32)
        sides = [np.nextafter(values, np.float32(side)) for side in (-np.inf, np.inf)]
    found = np.unique(np.concatenate([values, *sides]))
    return found[np.isfinite(found)]


def edges(name):
    """Where roundings change, at a scale of 1: values, middles and what is beside them, up to the
    end of the top binade. Of bf16 some."""
    chosen = oracle.element(name)
    values = np.array([float(value) for value in chosen.values])
    half = (values[-1] - values[-2]) / 2
    middles = (values[1:] + values[:-1]) / 2
    some = slice(None, None, 97 if name == "bf16" else 1)
    ends = [values[1], values[-2], values[-1], values[-1] + half, values[-1] + 2 * half]
    found = neighbours([*values[some], *middles[some], *ends])
    return found[(found >= 0) & (found.astype(float) < 2.0 ** (chosen.largest_exponent + 1))]


def filled(numbers, *, width):
    """Rows of this width, zeros at the end."""
    rows = np.zeros(-(-len(numbers) // width) * width, np.float32)
    rows[: len(numbers)] = numbers
    return rows.reshape(-1, width)


@pytest.mark.parametrize("rule", ROUNDINGS)
@pytest.mark.parametrize("name", oracle.NAMES)
@pytest.mark.sampled(2)
def test_every_rounding(name, rule):
    """Exhaustive: elements of both signs at and around every value and every tie."""
    numbers = edges(name)
    first = numbers[-1:]  # it decides the exponent
    array = filled([*first, *numbers, *-numbers], width=127)
    kind = "tensor" if name == "bf16" else "square"
    scale = {} if name in ("bf16", "nvfp4") else {"scale": "floor"}
    judge.check(array, judge.numerics(name, kind=kind, rule=rule, **WHOLE, **scale))


@pytest.mark.parametrize("name", oracle.NAMES)
def test_every_code(name):
    """Exhaustive: stored elements as they are read, at a scale of 1."""
    chosen = oracle.element(name)
    codes = np.arange(2 << chosen.bits).reshape(-1, 2)
    own = judge.numerics(name, block=1, kind="tensor" if name == "bf16" else "square", size=1)
    tensor = quantise(np.ones(codes.shape, np.float32), Conversion("x", **AT), own, seed=SEED)
    byte = 7 << 3 if name == "nvfp4" else chosen.largest_exponent + 127
    exponents = np.full(codes.shape, byte, np.uint8)
    copy = replace(tensor.copies[0], codes=codes.astype(np.uint16), exponents=exponents)
    exponent = 0 if name == "nvfp4" else tensor.tensor_exponent
    got = replace(tensor, copies=(copy,), tensor_exponent=exponent).values()
    want = [[float(oracle.decode(chosen, code)) for code in row] for row in codes.tolist()]
    np.testing.assert_array_equal(got, want)
    signs = np.signbit(got) == (codes >> chosen.bits == 1)
    assert (signs | np.isnan(got) | ((got == 0) & (not chosen.signed_zero))).all()


def largest_magnitudes(name):
    """Numbers around which a scale rule changes its mind, of all binades' ends."""
    chosen = oracle.element(name)
    places = np.float32([1, 2 - 2.0**-chosen.precision, 2])
    places = [*places, np.float32(chosen.values[-1] / Fraction(2) ** chosen.largest_exponent)]
    lowest = -126 + (chosen.largest_exponent if chosen.scale == "e8m0" else 0)
    powers = {-126, lowest - 1, lowest, -1, 0, 1, 126, 127} - {-127}
    with np.errstate(over="ignore"):
        numbers = np.ldexp(neighbours(places)[:, None], sorted(powers)).ravel()
    return numbers[np.isfinite(numbers) & (numbers >= 2.0**-126)].astype(np.float32)


SCALED = [(name, rule) for name in oracle.NAMES for rule in judge.rules_of(name)]


@pytest.mark.parametrize("name, rule", SCALED)
def test_every_scale(name, rule):
    """Exhaustive: each number that decides, alone in its group, and alone in its tensor."""
    numbers = largest_magnitudes(name)
    if name == "nvfp4":  # a first row that makes T = 0, and groups of every E4M3 number and middle
        scales = np.array([float(value) for value in oracle.element("fp8_e4m3").values])
        points = neighbours([*scales[1:], *(scales[1:] + scales[:-1]) / 2]) * np.float32(6)
        points = np.append(np.float32(2688), points[points < 2688])
        array = np.stack([points, -points / 4], axis=1)
        judge.check(array, judge.numerics(name, kind="vector", size=16, scale=rule))
    elif name != "bf16":
        judge.check(filled(numbers, width=8), judge.numerics(name, block=1, size=1, scale=rule))
    own = judge.numerics(name, kind=judge.kinds_of(name)[-1], scale=rule)
    for number in numbers if own.x.has_tensor_scale else ():
        tensor = judge.check(np.array([[number, -number / 3]]), own)
        assert amax_exponent(int(number.view(np.uint32)), own.x) == tensor.tensor_exponent


def test_the_ends_of_the_tensor_exponents_of_nvfp4():
    ends = [convert([[end]], "nvfp4").tensor_exponent for end in (2.0**-126, 2.0**127 * 1.5)]
    assert tuple(ends) == NVFP4.tensor_exponents


DRAWN = ("counter", "lfsr", "lfsr3", "data")


def conversion(rng, name):
    """A tensor of any shape, its class, and a way to convert it."""

    def one_of(*choices):
        return choices[rng.integers(len(choices))]

    block, drawn = one_of(1, 2, 4, 8, 16), one_of(*DRAWN)
    chosen = judge.numerics(
        name,
        block=block,
        kind=one_of(*judge.kinds_of(name)),
        size=max(block, one_of(2, 4, 8, 16, 32)),
        rule=one_of(*ROUNDINGS),
        scale=one_of(*judge.rules_of(name)),
        overflow=one_of("saturate", "specification"),
        special=one_of("flag", "poison"),
        random_bits=3 if drawn == "lfsr3" else int(rng.integers(1, 13)),
        rounding_kind=drawn,
        lfsr_bits=int(rng.integers(12, 25)),
        window=None if name in ("nvfp4", "bf16", "e5m1") else one_of(None, 16, 20),
    )
    scale = None
    if chosen.x.has_tensor_scale and one_of(True, False):
        scale = int(rng.integers(-30, 40))
    return tensor(rng, name), chosen, one_of("x", "w", "dy"), scale


def tensor(rng, name):
    """Numbers that are spread, at ties, tiny, huge or any bits; some are zeros, some no numbers."""
    shape = tuple(rng.integers(1, 24, 2).tolist())
    width = int(rng.integers(0, 40))
    array = judge.spread(rng, shape, low=-width, high=width, zeros=rng.choice([0, 0.1, 0.8]))
    kind = rng.choice(["spread", "spread", "spread", "ties", "bits", "tiny", "huge", "nothing"])
    if kind == "ties":
        array = rng.choice(edges(name), shape) * rng.choice(np.float32([-1, 1]), shape)
    elif kind == "bits":
        array = judge.any_bits(rng, shape)
    elif kind == "tiny":
        array = (array.astype(np.float64) * 2.0**-122).astype(np.float32)
    elif kind == "huge":
        array = np.clip(array.astype(np.float64) * 2.0**120, -3.4e38, 3.4e38).astype(np.float32)
    elif kind == "nothing":
        array = np.full(shape, rng.choice([0.0, -0.0, 1e-40, np.nan, -np.inf]), np.float32)
    return judge.with_specials(rng, array, rng.choice([0, 0, 0.02, 0.4]))


@pytest.mark.parametrize("examples", [30, sweep(1500)])
@pytest.mark.parametrize("name", oracle.NAMES)
def test_anything(name, examples):
    """All choices at random, and what they may bring out together."""

    @settings(max_examples=examples)
    @given(st.integers(0, 2**32 - 1))
    def equal(seed):
        rng = np.random.default_rng(seed)
        where = {key: int(rng.choice([0, 7, 2**31, 2**32 - 1])) for key in judge.WHERE}
        judge.check(*conversion(rng, name), **where)

    equal()


@pytest.mark.parametrize("source", [sweep(source) for source in judge.EVERY])
@pytest.mark.parametrize("name", oracle.NAMES)
def test_every_number_of_16_bits(name, source):
    """In squares, whose largest decides, and under the tensor's scale where there is one."""
    array = judge.EVERY[source]().reshape(256, 256)
    for kind in {"square", "tensor"} & set(judge.kinds_of(name)):
        for special in ("flag", "poison"):
            chosen = judge.numerics(name, kind=kind, overflow="specification", special=special)
            judge.check(array, chosen)


# What the oracle does not see.


@pytest.mark.parametrize("name", oracle.NAMES)
def test_layout_and_writability(name, np_rng):
    """Any strides give the same; the result is not tied to the data, and cannot be written."""
    array = spread(np_rng, (12, 10))
    chosen = numerics(name, rule="stochastic-b")
    want = quantise(array, Conversion("x", **AT), chosen, seed=SEED)
    for same in (np.asfortranarray(array), np.repeat(array, 2, axis=1)[:, ::2]):
        got = quantise(same, Conversion("x", **AT), chosen, seed=SEED)
        for mine, theirs in zip(got.copies, want.copies, strict=True):
            np.testing.assert_array_equal(mine.codes, theirs.codes)
    for copy in want.copies:
        for field in (copy.codes, copy.exponents, copy.row_max, copy.col_max, copy.folds):
            with pytest.raises(ValueError, match="read-only"):
                field[...] = 0


def test_classes_have_their_own_format_and_rounding(np_rng):
    array = spread(np_rng, (9, 9))
    own = {"x": ("bfp4", "nearest"), "w": ("mxfp8_e4m3", "stochastic-a"), "dy": ("bf16", "nearest")}
    mixed = Numerics.from_dict(
        {
            **numerics("bfp1").to_dict(),
            **{key: {"format": name, "rounding": rule} for key, (name, rule) in own.items()},
        }
    )
    for key, (name, rule) in own.items():
        got = quantise(array, Conversion(key, **AT), mixed, seed=SEED)
        want = convert(array, name, rule=rule)
        assert (got.tensor_class, got.storage) == (key, mixed.tensor_class(key))
        np.testing.assert_array_equal(got.values(), want.values())


def test_copies_by_axis(np_rng):
    array = spread(np_rng, (6, 9))
    axes = {"x": ["k", "m"], "w": ["n", "k"], "dy": ["n", "m"]}
    for tensor_class, names in axes.items():
        vectors = convert(array, "mxfp4_e2m1", tensor_class=tensor_class)
        assert list(vectors.copy_values()) == names
        for number, values in enumerate(vectors.copy_values().values()):
            np.testing.assert_array_equal(values, vectors.values(number))
        squares = convert(array, "bfp4", tensor_class=tensor_class)
        assert list(squares.copy_values()) == [""]
        np.testing.assert_array_equal(squares.copy_values()[""], squares.values())
