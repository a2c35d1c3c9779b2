# amaranth: UnusedElaboratable=no
"""Sums, comparisons and moves of floats against the golden model: in Amaranth's simulator some,
compiled all."""

import numpy as np
import pytest

from diastole_hw.vector.float.float_add import AddOp, FloatAdd
from diastole_sim.golden.vector import numbers
from support.bench import design
from support.sweep import sweep
from support.vector_operands import (
    all_pairs,
    as_floats,
    check_results,
    differing,
    generator,
    of_sums,
    sample,
)
from support.verilated import compiled

MODELS = {
    AddOp.ADD: numbers.add,
    AddOp.MAX: numbers.maximum,
    AddOp.MIN: numbers.minimum,
    AddOp.GT: numbers.gt,
    AddOp.EQ: numbers.eq,
    AddOp.FIRST: lambda a, c: a,
    AddOp.SECOND: lambda a, c: c,
}


def wanted(ops, a, c):
    results = {
        op: model(as_floats(a), as_floats(c)).view(np.uint32) for op, model in MODELS.items()
    }
    return np.choose(ops, [results[op] for op in AddOp])


def test_some(rng):
    """Another operation in each cycle."""
    random = generator(rng)
    a, c = sample(random, all_pairs(of_sums(random, 200)), 700)
    ops = random.integers(0, len(AddOp), a.size)
    columns = (each.tolist() for each in (a, c, ops))
    cases = [{"a": x, "c": y, "op": op} for x, y, op in zip(*columns, strict=True)]
    dut = design(FloatAdd)
    check_results(dut, cases, wanted(ops, a, c))


FEW = 300
"""So many that nobody waits for a compiler, which is the longest part of a test of more."""


@pytest.mark.parametrize("count", [FEW, sweep(10_000), sweep(1_200_000)])
@pytest.mark.parametrize("op", AddOp, ids=lambda op: op.name.lower())
def test_many(op, count, rng):
    """All that is special with all that is, cancellation, ties, the bounds, and any bits."""
    random = generator(rng)
    a, c = all_pairs(of_sums(random, count))
    want = MODELS[op](as_floats(a), as_floats(c)).view(np.uint32)
    if count == FEW:
        a, c, want = sample(random, [a, c, want], FEW)
        cases = [{"a": x, "c": y, "op": op} for x, y in zip(a.tolist(), c.tolist(), strict=True)]
        dut = design(FloatAdd)
        check_results(dut, cases, want)
        return
    ops = np.full(a.size, op)
    unit = compiled(FloatAdd)
    got = unit(a=a, c=c, op=ops)["result"]
    assert not differing(got, want, a, c)
