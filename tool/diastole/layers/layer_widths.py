"""Widths of the tensors of layers, for machines that choose a width at every conversion."""

from collections.abc import Mapping

from diastole.errors import BadInput
from diastole_sim.spec.numerics import CLASS_NAMES, Numerics
from diastole_sim.spec.require import quoted_excerpt, whole_number
from diastole_sim.spec.sizes.uses import WIDEST, Widths

ALL = "all"
"""Key instead of a class: all classes with a choice of widths."""


def parse_widths(text: str) -> dict[str, int]:
    """Return the bits of "4" or of "x=4,dy=2", by class or :data:`ALL`. BadInput with a line for
    every other text."""
    widths: dict[str, int] = {}
    problems: list[str] = []
    for part in text.split(","):
        key, equals, value = (word.strip() for word in part.rpartition("="))
        name = key.lower() if equals else ALL
        if equals and name not in CLASS_NAMES:
            problems.append(
                f'--widths accepts only {", ".join(CLASS_NAMES)} before "=", not "{key}"'
            )
        elif name in widths or ALL in widths or (name == ALL and widths):
            problems.append(
                f"--widths must give each of {', '.join(CLASS_NAMES)} a single width, not {text}"
            )
        elif (bits := whole_number(value)) is None:
            problems.append(
                f"--widths must be bits, as in 4 or x=4,w=2,dy=4, not {quoted_excerpt(value)}"
            )
        else:
            widths[name] = bits
    if problems:
        raise BadInput(*problems)
    return widths


def widths_of(numerics: Numerics, requested: Mapping[str, int]) -> Widths:
    """Return the ``requested`` widths, from :func:`parse_widths`, for classes with a choice. Other
    classes and empty requests have the widest width. BadInput for a class without a choice, and for
    a width that is no choice."""
    if not requested:
        return WIDEST
    formats = {name: numerics.tensor_class(name).format for name in CLASS_NAMES}
    choose = [name for name, format in formats.items() if format.planes]
    if not choose:
        raise BadInput(
            "--widths needs a class with the format fast, and this machine has none: "
            + ", ".join(f"format.{name} is {format.name}" for name, format in formats.items())
        )
    problems: list[str] = []
    for name, width in requested.items():
        if name != ALL and name not in choose:
            problems.append(
                f"--widths: format.{name} is {formats[name].name}, which has a single "
                f"width; give only {', '.join(choose)}"
            )
        elif width not in numerics.widths:
            choices = ", ".join(map(str, numerics.widths))
            problems.append(
                f"every width of --widths must be one of {choices} (fast.widths), not {width}"
            )
    if problems:
        raise BadInput(*dict.fromkeys(problems))
    x, w, dy = (requested.get(n, requested.get(ALL)) if n in choose else None for n in CLASS_NAMES)
    return x, w, dy


def filled(numerics: Numerics, widths: Widths) -> dict[str, int | None]:
    """Return the widths by class, with the number of the widest. None for a format with one
    width."""
    return {
        name: (width or numerics.widths[-1]) if numerics.tensor_class(name).format.planes else None
        for name, width in zip(CLASS_NAMES, widths, strict=True)
    }
