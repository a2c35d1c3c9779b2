"""Classes of tensors, in a few words."""

from diastole_sim.spec.numerics import Numerics
from support import numerics

PLURALS = {"grouping": "groupings", "scale": "scales", "overflow": "overflows"}


def make_numerics(*names, rounding=("nearest",) * 3, **keys) -> Numerics:
    """Classes x, w and dy of these formats; ``rounding``, ``grouping``, ``scale`` and ``overflow``
    are tuples of one entry per class, the others what :class:`Numerics` has."""
    keys = {PLURALS.get(key, key): value for key, value in keys.items()}
    small = {"block": 2, "fraction": 0, "headroom": 1, "random_bits": 4}
    return numerics.make_numerics(formats=names, roundings=rounding, **small | keys)
