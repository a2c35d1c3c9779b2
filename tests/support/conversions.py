"""Conversions of small arrays."""

import numpy as np

from diastole_sim.device.conversion import Conversion
from diastole_sim.golden.convert import quantise
from diastole_sim.spec.formats import FORMAT_NAMES, parse_format
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics

SEED, AT = 7, {"tag": 9, "step": 11}
"""Of the draws."""
NAMES = (*FORMAT_NAMES, "e3m2", "e2m5", "e5m1")
MINIFLOATS = tuple(name for name in NAMES if parse_format(name).depth)


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
