"""Conversions of small arrays, and what their elements must be, by exact fractions."""

import math
from fractions import Fraction

import numpy as np

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.golden.partition import Partition
from diastole_sim.spec.formats import FORMAT_NAMES, parse_format
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from oracle.rounding import round_fraction
from oracle.threefry import draw

SEED, AT = 7, {"tag": 9, "step": 11}
"""Of the draws."""
NAMES = (*FORMAT_NAMES, "e3m2", "e2m5", "e5m1")
MINIFLOATS = tuple(name for name in NAMES if parse_format(name).depth)
SCALE_RULES = ("floor", "even", "ceil", "rceil")
TINY = np.float32(2.0**-126)


def numerics(name, *, rule="nearest", block=4, bits=8, **changes):
    """All classes alike; ``changes``: of the class where it has such a key, else of the whole."""
    own = {"format": name, "rounding": rule}
    own |= {key: changes.pop(key) for key in ("grouping", "scale", "overflow") if key in changes}
    scalars = {"block": block, "random_bits": bits, "fraction": 8, "headroom": 4}
    return Numerics.from_dict({**scalars, **changes, **dict.fromkeys(CLASS_NAMES, own)})


def convert(values, name="bfp4", scale_given=None, tensor_class="x", **kinds):
    array = np.array(values, np.float32, ndmin=2)
    return quantise(
        array, Conversion(tensor_class, scale=scale_given, **AT), numerics(name, **kinds), seed=SEED
    )


def spread(np_rng, shape, *, low=-6, high=6):
    """Signed data over some binades, with zeros."""
    data = np_rng.standard_normal(shape) * 2.0 ** np_rng.integers(low, high, shape)
    data[np_rng.random(shape) < 0.05] = 0.0
    return data.astype(np.float32)


def exponent_of(value):
    """floor(log2) of a positive fraction, by comparison."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent - (value < Fraction(2) ** exponent)


def top_binade(tensor, copy, row, column):
    """e of an element's group before folding, from the stored byte, and its scale's factor."""
    stored = tensor.copies[copy]
    cells = Partition.cells(tensor.chosen.grouping, tensor.block)
    cell = row // cells.rows, column // cells.columns
    byte, folded = int(stored.exponents[cell]), int(stored.folds[cell])
    if byte == 0:
        return None, Fraction(1)
    if tensor.chosen.format.scale != "e4m3":
        return byte - 127 + folded, Fraction(1)
    field, low = divmod(byte, 8)
    scale = Fraction(low + 8 * (field > 0), 8) * Fraction(2) ** (max(field, 1) - 7)
    return 2 + tensor.tensor_exponent, scale


def rounded(tensor, value, e, factor, random, bits):
    """An element by the definition of a float with subnormals and a largest value."""
    kind, magnitude = tensor.chosen.format, abs(Fraction(value)) / factor
    if e is None or magnitude * factor < Fraction(2) ** -126:
        return Fraction(0)
    last = max(exponent_of(magnitude), e - kind.depth)
    ulp = Fraction(2) ** (min(last, e) - kind.precision + 1)
    largest = kind.max_significand * Fraction(2) ** (e - kind.precision + 1)
    kept = round_fraction(tensor.chosen.rounding, magnitude / ulp, random, bits) * ulp
    return math.copysign(1, value).__int__() * min(kept, largest) * factor


def check_elements(tensor, array, bits=8):
    """Every element of every copy, given the stored exponents."""
    rows, columns = array.shape
    for copy in range(len(tensor.copies)):
        values = tensor.values(copy)
        assert values.dtype == np.float32
        assert values.shape == array.shape
        for i in range(rows):
            for j in range(columns):
                place = (j, i) if copy else (i, j)
                random = draw(
                    seed=SEED,
                    **AT,
                    index=i * columns + j,
                    bits=bits,
                    second=copy == 1,
                )
                e, factor = top_binade(tensor, copy, *place)
                want = rounded(tensor, float(array[i, j]), e, factor, random, bits)
                assert Fraction(float(values[i, j])) == want, (copy, i, j, array[i, j])


def groupings(name):
    """Text of every kind of grouping, for blocks of 4."""
    sizes = {"square": ("4x4", "8x8"), "vector": ("1x4", "1x8"), "tensor": ("tensor",)}
    return [text for kind in parse_format(name).groupings for text in sizes[kind]]
