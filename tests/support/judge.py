"""The golden converter and the oracle side by side."""

import math
from fractions import Fraction

import numpy as np

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from oracle import formats as oracle

SEED, AT = 7, {"tag": 9, "step": 11}
"""Of the draws."""
WHERE = {"seed": SEED, **AT}
TENSOR_SCALED = ("fp8_e4m3", "fp8_e5m2", "e2m5", "e3m4", "e5m1")
"""What can have one power of two for the whole tensor."""


def rules_of(name):
    """The scale rules of a format, as the definitions list them."""
    return {"bf16": ("fixed",), "nvfp4": ("nearest", "up", "four-over-six")}.get(
        name, ("floor", "even", "ceil", "rceil")
    )


def kinds_of(name):
    return (
        ("tensor",)
        if name == "bf16"
        else ("square", "vector") + ("tensor",) * (name in TENSOR_SCALED)
    )


SPECIFIED = ("fp8_e4m3", "fp8_e5m2", "bf16")
"""Formats with a conversion that makes Inf or NaN of what is too large."""


def numerics(name, *, block=4, kind="square", size=None, rule="nearest", **options):
    """All three classes alike; ``options``: ``scale``, ``overflow``, and keys of the numerics.
    ``specification`` reaches those formats only that have one."""
    size = block if size is None else size
    shown = {"square": f"{size}x{size}", "vector": f"1x{size}", "tensor": "tensor"}[kind]
    chosen = {"format": name, "rounding": rule, "grouping": shown}
    chosen |= {key: options.pop(key) for key in ("scale", "overflow") if key in options}
    if name not in SPECIFIED:
        chosen.pop("overflow", None)
    scalars = {"block": block, "random_bits": 8, "fraction": 8, "headroom": 9}
    return Numerics.from_dict({**scalars, **options, **dict.fromkeys(CLASS_NAMES, chosen)})


def ask_oracle(array, chosen, tensor_class="x", scale=None, **where):
    """The oracle's answer to the same question."""
    own = chosen.tensor_class(tensor_class)
    return oracle.quantise(
        array.tolist(),
        name=own.format.name,
        kind=own.grouping.kind,
        size=own.grouping.size,
        block=chosen.block,
        scale_rule=own.scale,
        rule=own.rounding,
        bits=chosen.random_bits,
        drawn=chosen.rounding_kind,
        lfsr_bits=chosen.lfsr_bits,
        overflow=own.overflow,
        special=chosen.special,
        folded=chosen.folds(tensor_class),
        scale=scale,
        **(where or WHERE),
    )


def fractions_of(values):
    """Nested lists in which NaN equals NaN; what no binary32 holds is Inf (large NVFP4 values)."""
    return [[_plain(value) for value in row] for row in values]


def _plain(value):
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if abs(value) >= 2**128:
        return "inf" if value > 0 else "-inf"
    return Fraction(value)


def check(array, chosen, tensor_class="x", scale=None, **where):
    """Convert with both; everything that the converter says must be the same."""
    at = dict(where or WHERE)
    seed = at.pop("seed")
    got = quantise(array, Conversion(tensor_class, scale=scale, **at), chosen, seed=seed)
    assert got.tensor_class == tensor_class
    same(got, ask_oracle(array, chosen, tensor_class, scale, **where), array.shape)
    return got


def same(got, want, shape):
    """A tensor of the golden model and what the oracle says of it."""
    assert got.shape == shape
    assert len(got.copies) == len(want.copies)
    for number, (mine, theirs) in enumerate(zip(got.copies, want.copies, strict=True)):
        same_copy(mine, theirs, transposed=bool(number), shape=shape)
        same_values(got.values(number), theirs, transposed=bool(number))
    assert (got.nan, got.inf) == (want.nan, want.inf)
    assert (got.saturated, got.underflowed) == (want.saturated, want.underflowed)
    amax = np.array(got.amax, np.uint32).view(np.float32)
    assert Fraction(float(amax)) == want.amax
    if want.amax:  # the scale of a tensor of zeros is of no consequence
        assert got.tensor_exponent == want.tensor_exponent


def same_copy(got, want, *, transposed, shape):
    assert got.transposed == transposed
    assert got.shape == (shape[::-1] if transposed else shape)
    for field in ("exponents", "codes", "folds", "row_max", "col_max"):
        array = getattr(got, field)
        np.testing.assert_array_equal(array, getattr(want, field), err_msg=field)
        assert array.dtype == (np.uint16 if field == "codes" else np.uint8)


def same_values(got, want, *, transposed):
    assert got.dtype == np.float32
    stored = got.T if transposed else got
    assert fractions_of(stored.tolist()) == fractions_of(want.values)
    height, width = stored.shape
    negative = np.array(want.codes)[:height, :width] >> want.chosen.bits == 1
    np.testing.assert_array_equal(
        np.signbit(stored) | np.isnan(stored), negative | np.isnan(stored)
    )


# Tensors.


def spread(np_rng, shape, *, low=-6, high=6, zeros=0.05):
    """Signed data over some binades, with zeros of both signs."""
    data = np_rng.standard_normal(shape) * 2.0 ** np_rng.integers(low, high + 1, shape)
    data[np_rng.random(shape) < zeros] *= 0.0
    return data.astype(np.float32)


def any_bits(np_rng, shape):
    """Every kind of float32: all exponents, NaN, Inf and subnormals among them."""
    return np_rng.integers(0, 2**32, shape, dtype=np.uint32).view(np.float32)


def with_specials(np_rng, array, share=0.02):
    """A copy in which some elements are NaN and Inf of both signs, subnormals and -0."""
    odd = np.array([np.nan, -np.nan, np.inf, -np.inf, 1e-40, -1e-40, -0.0], np.float32)
    return np.where(np_rng.random(array.shape) < share, np_rng.choice(odd, array.shape), array)


def every_bfloat16():
    """All 65536, as float32."""
    return (np.arange(2**16, dtype=np.uint32) << 16).view(np.float32)


def every_binary16():
    with np.errstate(invalid="ignore"):  # signalling NaNs
        return np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)


EVERY = {"bfloat16": every_bfloat16, "binary16": every_binary16}
