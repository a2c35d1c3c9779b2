# amaranth: UnusedElaboratable=no
"""The converter by the rule four-over-six against the golden model: whole images, bit for bit."""

import numpy as np
import pytest

from support.converter_bench import convert, make, some_jobs
from support.sweep import sweep

NVFP4 = ("nvfp4",) * 3
RULE = ("four-over-six",) * 3
SQUARES = ("4x4", "16x16", "8x8")
VECTORS = ("1x16", "1x8", "1x32")
STOCHASTIC = ("stochastic-a", "stochastic-b", "stochastic-c")


def smooth(shape, rng):
    """Numbers of one binade or two, so that either scale may fit a group better."""
    draws = np.random.default_rng(rng.getrandbits(32))
    return draws.uniform(-3, 3, shape).astype(np.float32)


def jobs_of(shapes, rng, scale=None, streamed=()):
    """Each shape of every class: with specials, and smooth."""
    jobs = [(*job[:4], scale, *streamed) for job in some_jobs(shapes, rng)]
    for number, shape in enumerate(shapes):
        where = rng.getrandbits(32), rng.getrandbits(32)
        jobs.append((smooth(shape, rng), number % 3, *where, scale, *streamed))
    return jobs


@pytest.mark.parametrize(
    "block, data_width, grouping, keys, shapes",
    [
        (4, 64, None, {}, [(3, 5), (9, 34), (33, 7)]),
        (4, 64, SQUARES, {"special": "poison"}, [(3, 5), (18, 37), (1, 1)]),
        sweep(4, 64, VECTORS, {"special": "poison"}, [(3, 5), (37, 35), (9, 18)]),
        sweep(2, 512, SQUARES, {}, [(3, 5), (18, 37), (1, 40)]),  # words of many blocks
        sweep(1, 64, None, {}, [(3, 5), (18, 17), (1, 1)]),
        sweep(8, 32, ("1x128", "128x128", "8x8"), {}, [(5, 9), (131, 20), (9, 140)]),
        sweep(4, 64, VECTORS, {"rounding": STOCHASTIC}, [(3, 5), (37, 35), (9, 18)]),
        sweep(4, 64, SQUARES, {"rounding": STOCHASTIC}, [(3, 5), (18, 37), (9, 18)]),
        sweep(4, 128, None, {"rounding": STOCHASTIC, "rounding_kind": "lfsr"}, [(9, 34), (33, 7)]),
        sweep(4, 128, None, {"rounding": STOCHASTIC, "rounding_kind": "data"}, [(9, 34), (33, 7)]),
    ],
)
def test_images(block, data_width, grouping, keys, shapes, rng):
    keys = {"scale": RULE, "headroom": 1} | keys
    dut = make(block, data_width, NVFP4, **({"grouping": grouping} if grouping else {}), **keys)
    assert dut.sizes.tries_scales == (True,) * 3
    convert(dut, jobs_of(shapes, rng), rng, rng.choice([1.0, 0.5]))


@pytest.mark.parametrize(
    "rules, grouping",
    [
        (("four-over-six", "nearest", "up"), ("1x16", "8x8", "4x4")),
        sweep(("nearest", "four-over-six", "up"), ("1x16", "8x8", "1x4")),
        sweep(("up", "nearest", "four-over-six"), ("4x4", "1x16", "8x8")),
    ],
)
def test_classes_without_the_rule(rules, grouping, rng):
    """Beside one that has it: their tiles are passed once, and have no choice."""
    dut = make(4, 64, NVFP4, scale=rules, grouping=grouping, headroom=1)
    assert dut.sizes.tries_scales == tuple(rule == "four-over-six" for rule in rules)
    jobs = jobs_of([(3, 5), (9, 34), (5, 20)], rng)
    rng.shuffle(jobs)
    convert(dut, jobs, rng)


@pytest.mark.parametrize("grouping", [None, sweep(SQUARES), sweep(VECTORS)])
def test_fed(grouping, rng):
    """A chain gives the tensor by blocks, with a scale that is known, and sometimes too small."""
    keys = {"grouping": grouping} if grouping else {}
    dut = make(4, 64, NVFP4, scale=RULE, headroom=1, streamed=True, **keys)
    jobs = [job for scale in (-9, -12) for job in jobs_of([(3, 5), (9, 29)], rng, scale, (True,))]
    convert(dut, jobs + jobs_of([(9, 34)], rng), rng, 1.0, 1.0, rng.choice([1.0, 0.6]))
