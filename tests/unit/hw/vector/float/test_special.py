# amaranth: UnusedElaboratable=no
"""Special functions against the golden model: in Amaranth's simulator some, compiled all."""

import numpy as np
import pytest

from diastole_hw.vector.float.function_rows import TABLES
from diastole_hw.vector.float.special import SpecialLane
from diastole_hw.vector.stream_layouts import PIPELINE
from diastole_sim.spec.micro import SPECIALS as SPECIAL_OPS
from oracle import vector_functions as oracle
from support.bench import design
from support.special_functions import FUNCTIONS
from support.sweep import sweep
from support.vector_operands import (
    SPECIALS,
    as_floats,
    beside,
    check_results,
    differing,
    generator,
    numbers,
    sample,
    words,
)
from support.verilated import compiled

BIAS = 127


def powers():
    """Of two, of both signs."""
    fields = np.arange(1, 255, dtype=np.uint32)
    return np.concatenate([fields << 23, fields << 23 | 0x80000000])


def boundaries():
    """Where a segment begins, in two binades, of tables of the fraction and of the logarithm; of
    ``exp``, up to an exponent of 6: n / 64 times the logarithm of 2."""
    steps = np.arange(256, dtype=np.uint32) << 15
    fractions = [fields << 23 | steps for fields in (np.uint32(BIAS), np.uint32(BIAS + 1))]
    places = np.arange(-64 * 184, 64 * 184) / 64 * np.log(2)
    return np.concatenate([*fractions, places.astype(np.float32).view(np.uint32)])


def operands(random, count):
    """What is special, every boundary of a segment and its neighbours, where ``exp`` is of any use,
    near 1, and any bits."""
    edges = np.concatenate([powers(), boundaries()])
    return np.concatenate(
        [
            np.array(SPECIALS, np.uint32),
            edges,
            edges + np.uint32(1),
            edges - np.uint32(1),
            beside(random, np.repeat(edges, 3), 9),
            words(random, count),
            numbers(random, random.integers(-8, 8, count)),
            numbers(random, random.integers(5, 7, count)),  # exp near its bounds
            numbers(random, random.integers(-2, 1, count)),
        ]
    )


def result(op, a):
    return FUNCTIONS[op.name.lower()](as_floats(a)).view(np.uint32)


def test_some(rng):
    """Another function in each cycle, the specials of each among them."""
    random = generator(rng)
    [more] = sample(random, [operands(random, 500)], 300)
    a = np.concatenate([np.tile(np.array(SPECIALS, np.uint32), 6), more])
    ops = np.concatenate([np.repeat(np.arange(6), len(SPECIALS)), random.integers(0, 6, more.size)])
    a, ops = sample(random, [a, ops], a.size)
    want = np.choose(ops, [result(op, a) for op in SPECIAL_OPS])
    cases = [
        {"op": int(op) + SPECIAL_OPS[0], "a": x}
        for op, x in zip(ops.tolist(), a.tolist(), strict=True)
    ]
    dut = design(SpecialLane)
    check_results(dut, cases, want)


@pytest.mark.parametrize("count", [sweep(10_000), sweep(2_500_000)])
@pytest.mark.parametrize("op", SPECIAL_OPS, ids=lambda op: op.name.lower())
def test_many(op, count, rng):
    a = operands(generator(rng), count)
    got = compiled(SpecialLane)(op=np.full(a.size, op), a=a)["result"]
    assert not differing(got, result(op, a), a)


NEAR_ONE = np.r_[0 : 2**17, 2**23 - 2**17 : 2**23]
"""Fractions of numbers beside powers of two, where the values of LGG pass through 1."""


@pytest.mark.parametrize(
    "fields, fractions",
    [
        ((BIAS,), NEAR_ONE),
        ((BIAS, BIAS + 1), np.arange(0, 2**23, 29)),
        sweep((1, BIAS - 1, BIAS, BIAS + 1, BIAS + 126), np.arange(2**23)),
    ],
    ids=["near one", "some", "all"],
)
@pytest.mark.parametrize("op", SPECIAL_OPS[1:], ids=lambda op: op.name.lower())
def test_whole_binades(op, fields, fractions):
    """All segments of the tables whose places need no exponent to be found."""
    unit = compiled(SpecialLane)
    for field in fields:
        a = fractions.astype(np.uint32) | np.uint32(field << 23)
        assert not differing(unit(op=np.full(a.size, op), a=a)["result"], result(op, a), a)


def test_the_only_product_that_drops_nothing():
    """Of -64: its ones' complement is a unit too small, which changes nothing in the result."""
    a = np.array([0xC2800000], np.uint32)
    op = SPECIAL_OPS[0]
    assert compiled(SpecialLane)(op=np.array([op]), a=a)["result"] == result(op, a)


def test_the_oracle_agrees(rng):
    """Integers of Python, with tables of its own."""
    a = np.array(SPECIALS + [rng.getrandbits(32) for _ in range(500)], np.uint32)
    unit = compiled(SpecialLane)
    for op in SPECIAL_OPS:
        function = getattr(oracle, op.name.lower())
        want = np.array([function(x) for x in a.tolist()], np.uint32)
        assert not differing(unit(op=np.full(a.size, op), a=a)["result"], want, a), op


def test_a_table_for_every_function_that_has_one():
    names = [op.name for op in SPECIAL_OPS]
    assert [table.name for table in TABLES] == [n for n in names if n not in ("LGE", "LGM")]


def test_it_is_as_quick_as_a_lane_must_be():
    """With a cycle for operands, and one for registers."""
    assert SpecialLane.latency == 5 <= PIPELINE - 2
