# amaranth: UnusedElaboratable=no
"""Products of floats against the golden model: in Amaranth's simulator some, compiled all."""

import numpy as np
import pytest

from diastole_hw.vector.float.float_mul import FloatMul
from diastole_sim.golden.vector import numbers
from support.bench import design
from support.sweep import sweep
from support.vector_operands import (
    all_pairs,
    as_floats,
    check_results,
    differing,
    generator,
    of_products,
    sample,
)
from support.verilated import compiled


def products(a, b):
    return numbers.mul(as_floats(a), as_floats(b)).view(np.uint32)


def test_some(rng):
    random = generator(rng)
    a, b = sample(random, all_pairs(of_products(random, 200)), 300)
    cases = [{"a": x, "b": y} for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    dut = design(FloatMul)
    check_results(dut, cases, products(a, b))


FEW = 600
"""So many that nobody waits for a compiler, which is the longest part of a test of more."""


@pytest.mark.parametrize("count", [FEW, sweep(20_000), sweep(1_500_000)])
def test_many(count, rng):
    """All that is special with all that is, the bounds of exponents, and any bits."""
    random = generator(rng)
    a, b = all_pairs(of_products(random, count))
    if count == FEW:
        a, b = sample(random, [a, b], FEW)
        cases = [{"a": x, "b": y} for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        dut = design(FloatMul)
        check_results(dut, cases, products(a, b))
        return
    unit = compiled(FloatMul)
    assert not differing(unit(a=a, b=b)["result"], products(a, b), a, b)


def test_rounded_before_the_bound():
    """Products beside 2^-126: 24 bits round up to it from 2^-126 (1 - 2^-25) on."""
    a = np.array([0x00FFFFFF, 0x00FFFFFF, 0x00800001, 0x80FFFFFF, 0x00800000], np.uint32)
    b = np.array([0x3F000000, 0x3F000001, 0x3F7FFFFE, 0x3F000000, 0x3F7FFFFF], np.uint32)
    # (2^24 - 1) 2^-150 is short by 2^-24 of it; the second is above; (1 + 2^-23)(1 - 2^-23) is not
    # far enough below; the fourth is the first with a sign; the last has 24 bits below it.
    want = [0x00000000, 0x00800000, 0x00800000, 0x00000000, 0x00000000]
    cases = [{"a": x, "b": y} for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    check_results(design(FloatMul), cases, np.array(want))
