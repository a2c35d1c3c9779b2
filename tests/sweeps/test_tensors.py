"""Random tensors of odd shapes through the converter, against fractions, bit for bit: codes, bytes,
maxima, folds, counters, flags and values, of both copies."""

import numpy as np
import pytest

from diastole_sim.golden.device import GoldenDevice
from oracle import formats as oracle
from sweeps import judge

SHAPES = [(1, 1), (3, 5), (9, 7), (1, 19), (13, 2), (8, 12)]
KINDS = [(name, kind) for name in oracle.NAMES for kind in judge.kinds_of(name)]
ROUNDINGS = ["nearest", "stochastic-a", "stochastic-b", "stochastic-c"]


def arrays(np_rng, name):
    """Ordinary data of odd shapes, wide data with specials, and any bit pattern."""
    for shape in SHAPES:
        yield judge.spread(np_rng, shape)
    low, high = (-9, 9) if name == "nvfp4" else (-20, 20)
    yield judge.with_specials(np_rng, judge.spread(np_rng, (6, 11), low=low, high=high), 0.1)
    yield judge.any_bits(np_rng, (7, 9))
    yield (judge.spread(np_rng, (5, 6)).astype(np.float64) * 2.0**-122).astype(np.float32)


@pytest.mark.parametrize("special", ["flag", "poison"])
@pytest.mark.parametrize("overflow", ["saturate", "specification"])
@pytest.mark.parametrize("name, kind", KINDS)
def test_every_combination(name, kind, overflow, special, np_rng):
    for scale in judge.rules_of(name):
        for number, array in enumerate(arrays(np_rng, name)):
            judge.check(
                array,
                judge.numerics(
                    name,
                    block=(1, 2, 4)[number % 3],
                    kind=kind,
                    size=(4, 8)[number % 2],
                    rule=ROUNDINGS[number % 4],
                    scale=scale,
                    overflow=overflow,
                    special=special,
                    random_bits=1 + number,
                ),
            )


@pytest.mark.parametrize("rule", ROUNDINGS)
@pytest.mark.parametrize("name, kind", KINDS)
def test_roundings(name, kind, rule, np_rng):
    for bits in (1, 3, 8, 16):
        chosen = judge.numerics(name, kind=kind, rule=rule, random_bits=bits)
        judge.check(judge.spread(np_rng, (11, 13)), chosen)


@pytest.mark.parametrize(
    "block, size", [(1, 1), (1, 2), (2, 2), (1, 16), (8, 8), (8, 32), (32, 64)]
)
@pytest.mark.parametrize("name, kind", KINDS)
def test_blocks_and_groups(name, kind, block, size, np_rng):
    if kind == "vector" and size == 1:
        size = 2  # a vector of one element is a square
    chosen = judge.numerics(name, kind=kind, block=block, size=size)
    judge.check(judge.spread(np_rng, (19, 37)), chosen)


WINDOWS = {  # with something lost, and without; None: whatever is the default
    "fp8_e4m3": (12, 0),
    "fp8_e5m2": (12, None),
    "bf16": (16, None),
    "mxfp8_e4m3": (8, 0),
    "mxfp8_e5m2": (12, 24),
    "mxfp6_e3m2": (12, 0),
    "mxfp6_e2m3": (8, 0),
    "e2m5": (12, 0),
    "e3m4": (12, 0),
    "e5m1": (8, None),
}
ALWAYS_FOLDED = ("fp8_e5m2", "bf16", "mxfp8_e5m2", "e5m1")
"""What no accumulator holds exactly."""


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("name, kind", [each for each in KINDS if each[0] in WINDOWS])
def test_folds(name, kind, which, np_rng):
    """Blocks far below their tensor's largest element, with and without a window: where the scale
    is the tensor's they are folded. A group's own scale is at most a binade above its elements."""
    window = WINDOWS[name][which]
    folded = kind == "tensor" and (which == 0 or name in ALWAYS_FOLDED)
    kinds = {"kind": kind, "block": 2, "size": 4, "window": window}
    rule = None if name == "bf16" else "rceil"
    chosen = judge.numerics(name, **kinds, scale=rule, fraction=0, headroom=4)
    assert chosen.folds("x") == folded
    tensors = [
        judge.check(judge.spread(np_rng, (14, 18), low=-14, high=3, zeros=0.3), chosen)
        for _ in range(40)  # under rceil one block in fifty folds
    ]
    assert any(copy.folds.any() for tensor in tensors for copy in tensor.copies) == folded


@pytest.mark.parametrize("name", ["fp8_e4m3", "mxfp8_e4m3"])
def test_a_fold_never_makes_a_nan_of_a_number(name):
    """240 is all ones one binade below the top: folded, its code would be E4M3's NaN."""
    chosen = judge.numerics(name, block=2, size=2, scale="rceil")
    array = np.array([[240.0, 1.0], [-240.0, 0.0]], np.float32)
    copy = judge.check(array, chosen).copies[0]
    assert (copy.exponents[0, 0], copy.folds[0, 0]) == (8 + 127, 0)


def test_the_fold_of_a_block_of_a_tensor_stops_one_before_a_nan():
    chosen = judge.numerics("fp8_e4m3", block=2, kind="tensor")
    array = np.array([[448.0, 0.0, 120.0, 7.5], [1.0, -1.0, -120.0, 0.0]], np.float32)
    copy = judge.check(array, chosen).copies[0]
    assert (copy.folds.tolist(), copy.exponents.tolist()) == ([[0, 1]], [[135, 134]])


@pytest.mark.parametrize("special", ["flag", "poison"])
@pytest.mark.parametrize("name", judge.MINIFLOATS)
def test_specials_everywhere(name, special, np_rng):
    """From a few to nothing else, in groups with and without anything finite."""
    for kind in judge.kinds_of(name):
        for overflow in ("saturate", "specification"):
            chosen = judge.numerics(
                name, kind=kind, block=2, size=4, special=special, overflow=overflow
            )
            for share in (0.05, 0.3, 0.9, 1.0):
                array = judge.with_specials(np_rng, judge.spread(np_rng, (9, 10)), share)
                judge.check(array, chosen)


@pytest.mark.parametrize("exponent", [-126, -20, -3, 0, 1, 4, 9, 60, 127])
@pytest.mark.parametrize("name", judge.TENSOR_SCALED)
def test_given_scales(name, exponent, np_rng):
    for overflow in ("saturate", "specification"):
        for rule in ROUNDINGS:
            chosen = judge.numerics(
                name, kind="tensor", rule=rule, overflow=overflow, source="given"
            )
            array = judge.with_specials(np_rng, judge.spread(np_rng, (9, 10)))
            judge.check(array, chosen, scale=exponent)


@pytest.mark.parametrize("name, kind", KINDS)
def test_classes_and_draws(name, kind, np_rng):
    """Every class, and seeds, tags and steps at their ends."""
    chosen = judge.numerics(name, kind=kind, rule="stochastic-b")
    array = judge.spread(np_rng, (7, 10))
    for tensor_class in ("x", "w", "dy"):
        for word in (0, 2**31, 2**32 - 1):
            judge.check(array, chosen, tensor_class, seed=word, tag=word, step=word)


@pytest.mark.parametrize("name, kind", KINDS)
@pytest.mark.parametrize("number", [0.0, -0.0, 1e-40, np.nan, -np.inf])
def test_nothing_finite(name, kind, number):
    for special in ("flag", "poison"):
        chosen = judge.numerics(name, kind=kind, special=special)
        judge.check(np.full((5, 6), number, np.float32), chosen)


def last_exponent(array, chosen):
    """What the data of the step before would have had: from the oracle, by ``current``."""
    return judge.ask_oracle(array, chosen).tensor_exponent


@pytest.mark.parametrize("rule", ["nearest", "stochastic-a"])
@pytest.mark.parametrize("name", [*judge.TENSOR_SCALED, "nvfp4"])
def test_delayed_scales(name, rule, np_rng):
    """Each tag and class for itself; the first time, and after zeros, the data decide."""
    kind = "vector" if name == "nvfp4" else "tensor"
    chosen = judge.numerics(name, kind=kind, rule=rule, source="delayed")
    device = GoldenDevice(chosen, seed=7)
    known = {}
    for step in range(12):
        tag, tensor_class = int(np_rng.integers(2)), str(np_rng.choice(["x", "dy"]))
        array = np.ldexp(judge.spread(np_rng, (5, 6)), int(np_rng.integers(-8, 8)))
        array = array * np.float32(step not in (3, 4, 8))
        got = device.convert(array, tensor_class, tag=tag, step=step)
        scale = known.get((tensor_class, tag))
        want = judge.ask_oracle(array, chosen, tensor_class, scale, seed=7, tag=tag, step=step)
        judge.same(got, want, array.shape)
        known[tensor_class, tag] = last_exponent(array, chosen) if array.any() else None


@pytest.mark.parametrize("name", [*judge.TENSOR_SCALED, "nvfp4"])
def test_a_scale_that_nobody_gives_is_one(name, np_rng):
    kind = "vector" if name == "nvfp4" else "tensor"
    chosen = judge.numerics(name, kind=kind, source="given")
    array = judge.spread(np_rng, (7, 9))
    got = GoldenDevice(chosen, seed=7).convert(array, "w", tag=9, step=11)
    one = 0 if name == "nvfp4" else oracle.element(name).largest_exponent
    judge.same(got, judge.ask_oracle(array, chosen, "w", one), array.shape)


FOLDED = ("fp8_e4m3", "fp8_e5m2", "bf16", "mxfp8_e4m3", "mxfp8_e5m2", "e3m4", "e5m1")
"""With a scale for the tensor, alone and by default: those whose exact products have more than 18
bits."""


@pytest.mark.parametrize("name", oracle.NAMES)
def test_which_formats_are_folded(name):
    for kind in judge.kinds_of(name):
        chosen = judge.numerics(name, kind=kind)
        folded = kind == "tensor" and name in FOLDED
        assert [chosen.folds(each) for each in ("x", "w", "dy")] == [folded] * 3


@pytest.mark.parametrize("name", ["bfp4", "fp8_e5m2", "mxfp4_e2m1"])
def test_copies_have_the_names_of_their_axes(name, np_rng):
    array = judge.spread(np_rng, (6, 9))
    for tensor_class, suffixes in (("x", "km"), ("w", "nk"), ("dy", "nm")):
        vectors = judge.check(array, judge.numerics(name, kind="vector"), tensor_class)
        named = vectors.copy_values()
        assert list(named) == list(suffixes)
        for number, values in enumerate(named.values()):
            np.testing.assert_array_equal(values, vectors.values(number))
        squares = judge.check(array, judge.numerics(name), tensor_class)
        assert list(squares.copy_values()) == [""]
        np.testing.assert_array_equal(squares.copy_values()[""], squares.values())


@pytest.mark.parametrize("number", range(300))
def test_anything(number, np_rng):
    """All choices at random, and what they may bring out together."""

    def one_of(*choices):
        return choices[np_rng.integers(len(choices))]

    name, kind = KINDS[number % len(KINDS)]
    block = one_of(1, 2, 4, 8)
    size = max(block, one_of(2, 4, 8, 16))
    window = None if name in ("nvfp4", "bf16", "e5m1") else one_of(None, 16, 20)
    chosen = judge.numerics(
        name,
        block=block,
        kind=kind,
        size=size,
        rule=one_of(*ROUNDINGS),
        scale=one_of(*judge.rules_of(name)),
        overflow=one_of("saturate", "specification"),
        special=one_of("flag", "poison"),
        random_bits=int(np_rng.integers(1, 17)),
        window=window,
    )
    shape = tuple(np_rng.integers(1, 24, 2).tolist())
    width = int(np_rng.integers(0, 40))
    array = judge.spread(np_rng, shape, low=-width, high=width, zeros=one_of(0, 0.1, 0.8))
    array = judge.with_specials(np_rng, array, one_of(0, 0, 0.02, 0.4))
    scale = None
    if chosen.x.has_tensor_scale and np_rng.random() < 0.4:
        scale = int(np_rng.integers(-30, 40))
    judge.check(array, chosen, one_of("x", "w", "dy"), scale)
