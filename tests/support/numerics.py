"""Numbers of small machines, by what matters to a test."""

from diastole_sim.spec.numerics import CLASS_NAMES, Numerics


def make_numerics(
    block=4,
    formats="bfp4",
    groupings=None,
    scales=None,
    roundings=("nearest", "nearest", "stochastic-b"),
    overflows=None,
    fraction=18,
    headroom=14,
    random_bits=8,
    **others,
) -> Numerics:
    """``formats`` and what follows them: one text for all classes, or one for each of x, w, dy;
    None is the format's default. ``specification`` reaches those formats only that have one.
    ``others``: window, special, source."""
    per_class = {
        "format": formats,
        "grouping": groupings,
        "scale": scales,
        "rounding": roundings,
        "overflow": overflows,
    }
    classes = {name: {} for name in CLASS_NAMES}
    for key, given in per_class.items():
        texts = (given,) * 3 if given is None or isinstance(given, str) else given
        for name, text in zip(CLASS_NAMES, texts, strict=True):
            if text is not None:
                classes[name][key] = text
    for chosen in classes.values():
        if chosen["format"] not in ("fp8_e4m3", "fp8_e5m2", "bf16"):
            chosen.pop("overflow", None)
    sizes = {"block": block, "random_bits": random_bits, "fraction": fraction, "headroom": headroom}
    return Numerics.from_dict(sizes | others | classes)
