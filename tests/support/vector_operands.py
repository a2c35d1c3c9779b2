"""Operands for the arithmetic of the vector unit: bits of binary32 in arrays of numpy.

Pairs come in kinds, each with what a rounding, a bound or a cancellation gets wrong; all that is
special is crossed with all that is.
"""

from itertools import product

import numpy as np

from support.pipelines import check_pipeline

SPECIALS = [
    int(word, 16)
    for word in """
        00000000 80000000 00000001 80000001 007fffff 807fffff 00400000 80400000 00800000 80800000
        00800001 80800001 00ffffff 80ffffff 3f800000 bf800000 3f7fffff bf800001 7f7fffff ff7fffff
        7f000000 ff000000 7f800000 ff800000 7fc00000 ffc00000 7f800001 ff812345 7fffffff ffffffff
        34000000 b4000000 33800000 b3800001 40400000 c0400000 1fffffff a0000000 60000000 dfffffff
    """.split()
]
BIAS = 127


def generator(rng):
    """Of numpy, seeded by the fixture ``rng``."""
    return np.random.default_rng(rng.getrandbits(64))


def crossed(repeat=2):
    """Every tuple of specials, as arrays."""
    return [
        np.array(each, np.uint32) for each in zip(*product(SPECIALS, repeat=repeat), strict=True)
    ]


def words(random, count):
    """Any bits."""
    return random.integers(0, 2**32, count, dtype=np.uint32)


def numbers(random, exponents):
    """Any sign and fraction of unbiased exponents, an array, which are kept within -126 .. 127.
    A quarter of the fractions has few ones, another few zeros."""
    fields = np.clip(np.asarray(exponents) + BIAS, 1, 254).astype(np.uint32)
    count = fields.size
    fractions = random.integers(0, 2**23, count, dtype=np.uint32)
    few = fractions & np.uint32(0x7FFFFF) << random.integers(0, 23, count).astype(np.uint32)
    fractions = np.choose(random.integers(0, 4, count), (fractions, fractions, few, ~few))
    signs = random.integers(0, 2, count).astype(np.uint32)
    return signs << 31 | fields << 23 | fractions & 0x7FFFFF


def beside(random, values, most):
    """At most so many places of the last bit away."""
    moved = values.astype(np.int64) + random.integers(-most, most + 1, values.size)
    return moved.astype(np.uint32)


def of_sums(random, count):
    """Pairs for sums and comparisons, by kind, ``count`` of each."""
    exponents = random.integers(-126, 128, count)
    any_number = numbers(random, exponents)
    yield words(random, count), words(random, count)
    yield any_number, numbers(random, exponents + random.integers(-30, 31, count))  # ties and far
    yield any_number, numbers(random, exponents + random.integers(-2, 3, count))
    yield any_number, beside(random, any_number ^ 0x80000000, 5)  # cancellation
    yield any_number, beside(random, any_number, 1)
    for low, high in ((-126, -120), (121, 128)):  # at the bounds
        one = numbers(random, random.integers(low, high, count))
        yield one, numbers(random, random.integers(low, high, count))
        yield one, beside(random, one ^ 0x80000000, 9)
    top = numbers(random, np.full(count, 127)) | 0x7FFF00
    yield top, numbers(random, random.integers(100, 105, count))


def of_products(random, count):
    """Pairs for products, by kind, ``count`` of each."""
    exponents = random.integers(-126, 128, count)
    any_number = numbers(random, exponents)
    yield words(random, count), words(random, count)
    yield any_number, numbers(random, random.integers(-126, 128, count))
    yield any_number, numbers(random, random.integers(-3, 3, count) - exponents)
    for target in (-126, 128):  # all about the bounds, and closer than a last place to them
        yield any_number, numbers(random, target - exponents + random.integers(-2, 2, count))
        fraction = (any_number & 0x7FFFFF) + 2**23
        inverse = np.rint(2.0**47 / fraction).astype(np.int64) + random.integers(-3, 4, count)
        other = numbers(random, target - 1 - exponents) & 0xFF800000
        yield any_number, other | np.clip(inverse - 2**23, 0, 2**23 - 1).astype(np.uint32)


def all_pairs(kinds):
    """Those of all kinds and the crossed specials, as two arrays."""
    return [np.concatenate(each) for each in zip(crossed(), *kinds, strict=True)]


def sample(random, arrays, count):
    """Some places of arrays of one length, in the same order."""
    places = random.permutation(arrays[0].size)[:count]
    return [each[places] for each in arrays]


def as_floats(array):
    return array.view(np.float32)


def differing(got, want, *operands):
    """Texts of the first places where two arrays of bits differ, with the operands there."""
    shown = np.flatnonzero(got != want)[:5]
    return [
        f"{' '.join(f'{each[place]:08x}' for each in operands)}: "
        f"{got[place]:08x}, not {want[place]:08x}"
        for place in shown
    ]


def check_results(dut, cases, results):
    """A case per cycle into a unit, and an array of what each becomes."""
    wanted = ({"result": bits} for bits in results.tolist())
    check_pipeline(dut, zip(cases, wanted, strict=True), dut.latency)
