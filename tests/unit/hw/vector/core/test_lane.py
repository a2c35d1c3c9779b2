# amaranth: UnusedElaboratable=no
"""A lane against the golden model: in Amaranth's simulator some, compiled all."""

import numpy as np
import pytest

from diastole_hw.vector.core.lane import ADD_OPS, Lane
from diastole_hw.vector.stream_layouts import PIPELINE
from diastole_sim.golden.vector import numbers
from diastole_sim.spec.micro import MicroOp
from support.bench import design
from support.sweep import sweep
from support.vector_operands import (
    all_pairs,
    as_floats,
    beside,
    check_results,
    crossed,
    differing,
    generator,
    of_products,
    of_sums,
    sample,
)
from support.verilated import compiled

MODELS = {
    MicroOp.MAD: numbers.mad,
    MicroOp.MUL: lambda a, b, c: numbers.mul(a, b),
    MicroOp.ADD: lambda a, b, c: numbers.add(a, c),
    MicroOp.MAX: lambda a, b, c: numbers.maximum(a, c),
    MicroOp.MIN: lambda a, b, c: numbers.minimum(a, c),
    MicroOp.GT: lambda a, b, c: numbers.gt(a, c),
    MicroOp.EQ: lambda a, b, c: numbers.eq(a, c),
    MicroOp.SEL: lambda a, b, c: numbers.sel(b, a, c),
    MicroOp.MOV: lambda a, b, c: a,
}


def operands(random, count):
    """Arrays a, b, c: pairs of products with what nearly cancels them and with anything; pairs of
    sums with any third; and triples of specials."""
    a, b = all_pairs(of_products(random, count))
    product = numbers.mul(as_floats(a), as_floats(b)).view(np.uint32)
    near = beside(random, product ^ 0x80000000, 40)
    c = np.where(random.integers(0, 2, a.size) == 0, near, random.permutation(a))
    first, third = all_pairs(of_sums(random, count))
    sums = first, random.permutation(first), third
    triples = sample(random, crossed(3), 5 * count)
    parts = zip((a, b, c), sums, triples, strict=True)
    return [np.concatenate(each) for each in parts]


def results(op, a, b, c):
    return MODELS[op](*map(as_floats, (a, b, c))).view(np.uint32)


def test_some(rng):
    """Another operation in each cycle, some of them kept off."""
    random = generator(rng)
    a, b, c = sample(random, operands(random, 100), 400)
    ops = random.integers(MicroOp.MAD, MicroOp.MOV + 1, a.size)
    keep = random.integers(0, 4, a.size) == 0
    each = [results(op, a, b, c) for op in ADD_OPS]
    want = np.where(keep, c, np.choose(ops - MicroOp.MAD, each))
    names = ("op", "keep", "a", "b", "c")
    columns = zip(*(array.tolist() for array in (ops, keep, a, b, c)), strict=True)
    cases = [dict(zip(names, map(int, case), strict=True)) for case in columns]
    dut = design(Lane)
    check_results(dut, cases, want)


@pytest.mark.parametrize("count", [sweep(8_000), sweep(700_000)])
@pytest.mark.parametrize("op", MODELS, ids=lambda op: op.name.lower())
def test_many(op, count, rng):
    a, b, c = operands(generator(rng), count)
    unit = compiled(Lane)
    given = {"op": np.full(a.size, op), "a": a, "b": b, "c": c}
    got = unit(**given, keep=np.zeros(a.size))["result"]
    assert not differing(got, results(op, a, b, c), a, b, c)
    assert not differing(unit(**given, keep=np.ones(a.size))["result"], c, a, b, c)


def test_every_operation_of_the_lanes():
    assert list(ADD_OPS) == [op for op in MicroOp if MicroOp.NOP < op < MicroOp.EXP] == list(MODELS)


def test_there_is_time_for_operands_and_registers():
    """A row is read, its operands chosen, and written, a cycle each."""
    assert Lane.latency == 5 <= PIPELINE - 2
