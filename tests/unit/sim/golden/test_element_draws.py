"""Draws of every kind against the definition restated: registers as quotients of polynomials.
Conversions with these draws are in ``test_convert.py``."""

import math
import struct

import numpy as np
import pytest

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise, quantise_stack
from diastole_sim.golden.element_draws import element_draws
from diastole_sim.golden.random import DrawKey
from oracle.draws import element_draw
from support.numerics import make_numerics

KINDS = [
    {"rounding_kind": "counter", "random_bits": 16},
    {"rounding_kind": "lfsr", "random_bits": 3, "lfsr_bits": 3},
    {"rounding_kind": "lfsr", "random_bits": 8, "lfsr_bits": 17},
    {"rounding_kind": "lfsr", "random_bits": 24, "lfsr_bits": 24},
    {"rounding_kind": "lfsr3", "random_bits": 3},
    {"rounding_kind": "data", "random_bits": 1},
    {"rounding_kind": "data", "random_bits": 12},
]
SEED, AT = 0x89ABCDEF, {"tag": 6, "step": 3}
WHERE = {"seed": SEED, **AT}
NAMES = ["-".join(map(str, kind.values())) for kind in KINDS]


def tensor(np_rng, rows=9, columns=13):
    """Signed, over some binades, with all that is special."""
    array = np_rng.standard_normal((rows, columns)) * 2.0 ** np_rng.integers(-6, 7, (rows, columns))
    array = array.astype(np.float32)
    special = [0.0, -0.0, math.nan, math.inf, -math.inf, 1e-40, 2.0**-126, 3.4e38]
    places = np_rng.choice(array.size, len(special), replace=False)
    array.ravel()[places] = np.array(special, np.float32)
    return array


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
@pytest.mark.parametrize("second", [False, True])
def test_a_draw_is_that_of_its_place(kind, second, np_rng):
    """Whatever is beside it: a tensor cut down has the draws that it had."""
    numerics = make_numerics(**kind)
    bits = np_rng.integers(0, 2**31, (2, 5, 11)).astype(np.int32)
    where = {"seed": 1, "step": 0, "second": second}
    draws = element_draws(bits, numerics, DrawKey(tags=(4, 8), **where))
    assert draws.dtype == np.int32
    for place in np.ndindex(draws.shape):
        (value,) = struct.unpack("<f", struct.pack("<I", int(bits[place])))
        number, row, column = place
        want = element_draw(
            value,
            row=row,
            column=column,
            columns=11,
            drawn=kind["rounding_kind"],
            lfsr_bits=kind.get("lfsr_bits", 24),
            bits=kind["random_bits"],
            tag=(4, 8)[number],
            **where,
        )
        assert draws[place] == want or math.isnan(value), place
    if kind["rounding_kind"] != "counter":  # whose numbers go through the rows
        fewer = element_draws(bits[1:, :3, :6], numerics, DrawKey(tags=(8,), **where))
        assert (fewer == draws[1:, :3, :6]).all()


@pytest.mark.parametrize("kind", KINDS, ids=NAMES)
def test_a_stack_is_its_matrices(kind, np_rng):
    numerics = make_numerics(groupings="1x8", roundings="stochastic-b", **kind)
    stack = np.stack([tensor(np_rng) for _ in range(3)])
    asked = [Conversion("w", tag=tag, step=9) for tag in (3, 7, 0x80000003)]
    together = quantise_stack(stack, asked, numerics, seed=5)
    for array, each, got in zip(stack, asked, together, strict=True):
        alone = quantise(array, each, numerics, seed=5)
        for copy, other in zip(got.copies, alone.copies, strict=True):
            assert (copy.codes == other.codes).all()


def test_data_that_has_few_bits_is_truncated():
    """Where it fails: elements of a few significant bits draw 0, and no rule rounds them up."""
    array = np.array([[8.0, 1.75, 1.25, 0.75, -2.75, -1.75, 0.25, 1.0]], np.float32)
    numerics = make_numerics(
        formats="bfp3", roundings="stochastic-a", rounding_kind="data", random_bits=12
    )
    values = quantise(array, Conversion("x", **AT), numerics, seed=SEED).values()
    assert values.tolist() == [[8.0, 0.0, 0.0, 0.0, -2.5, -1.5, 0.0, 1.0]]
