"""Classes of tensors, in a few words."""

from diastole_sim.numerics import CLASS_NAMES, Numerics


def make_numerics(*names, rounding=("nearest",) * 3, random_bits=4, **keys) -> Numerics:
    """Classes x, w and dy of these formats; ``rounding``, ``grouping``, ``scale`` and ``overflow``
    are tuples of one entry per class, the others what :class:`Numerics` has."""
    keys = {"block": 2, "fraction": 0, "headroom": 1, "random_bits": random_bits} | keys
    per_class = {key: keys.pop(key) for key in ("grouping", "scale", "overflow") if key in keys}
    for n, cls in enumerate(CLASS_NAMES):
        keys[cls] = {"format": names[n], "rounding": rounding[n]}
        keys[cls] |= {key: values[n] for key, values in per_class.items()}
    return Numerics.from_dict(keys)
