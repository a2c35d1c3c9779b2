"""Write tables and pictures of the errors that formats cause in tensors."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from diastole.console import one_line
from diastole.files import atomic
from diastole.report.format_table import align
from diastole_sim.codes.quality import ResultQuality
from diastole_sim.codes.survey import Bits, Survey

Surveys = Mapping[str, Sequence[Survey]]
"""Surveys by tensor, with a common order of formats."""

LEGEND = (
    "SNR: signal to quantisation noise of the elements that are neither NaN, Inf nor subnormal;",
    "-: no element is left for that; saturated, underflowed: shares of all elements;",
    "spread: of the exponents within a group, in bits; rows, columns: deficits of the groups, in",
    "bits; each as 99 % and the largest",
)


def tensor_table(name: str, shape: tuple[int, int], surveys: Sequence[Survey]) -> list[str]:
    """Return a table of a tensor for readers: a line for every format under two headings."""
    heading = ["format", "groups", "SNR dB", "saturated", "underflowed", "spread", "rows"]
    rows = [
        [
            each.format,
            each.grouping,
            decibels_text(each),
            f"{each.saturated:.3%}",
            f"{each.underflowed:.3%}",
            _both(each.spread),
            _both(each.row_deficit),
            _both(each.column_deficit),
        ]
        for each in surveys
    ]
    return [f"{name} ({shape[0]} x {shape[1]})", *align([[*heading, "columns"], *rows])]


def decibels_text(each: Survey | ResultQuality) -> str:
    """Return the signal to noise as text: ``exact`` without noise, ``-`` if no element was
    counted."""
    if each.snr_db is None:
        return "exact" if each.counted else "-"
    return f"{each.snr_db:.1f}"


def _both(bits: Bits | None) -> str:
    return "-" if bits is None else f"{bits.usual} {bits.largest:>2}"


def _deficits(each: Survey) -> list[Bits]:
    return [bits for bits in (each.row_deficit, each.column_deficit) if bits is not None]


def signal_to_noise(each: Survey) -> float | None:
    """Return the signal to noise of a survey in decibels; None without noise."""
    return each.snr_db


PANELS: tuple[tuple[str, Callable[[Survey], float | None], str], ...] = (
    ("signal to noise, dB", signal_to_noise, "{:.0f}"),
    ("saturated, %", lambda each: 100 * each.saturated, "{:.2g}"),
    ("underflowed, %", lambda each: 100 * each.underflowed, "{:.2g}"),
    (
        "spread of exponents in a group (99 %), bits",
        lambda each: each.spread and each.spread.usual,
        "{:.0f}",
    ),
    (
        "deficit (99 %), bits",
        lambda each: max((bits.usual for bits in _deficits(each)), default=None),
        "{:.0f}",
    ),
    (
        "largest deficit, bits",
        lambda each: max((bits.largest for bits in _deficits(each)), default=None),
        "{:.0f}",
    ),
)


def write_picture(surveys: Surveys, path: Path, title: str) -> None:
    """Draw maps of tensors and formats, a map for every figure of merit, as .png or .svg. Needs
    matplotlib.

    A cell without a number (no noise, no group) is blank. A cell says ``-`` if no element of the
    tensor has a part in the noise.
    """
    from matplotlib.figure import Figure  # slow to import; without pyplot no window opens

    names = list(surveys)
    formats = [each.format for each in surveys[names[0]]]
    width, height = max(5.0, 1.5 + 0.36 * len(formats)), 1.5 + 0.32 * len(names)
    figure: Any = Figure(figsize=(2 * width, 3 * height), layout="constrained")
    for axes, (heading, figure_of, shown) in zip(figure.subplots(3, 2).flat, PANELS, strict=True):
        values = [[figure_of(each) for each in surveys[name]] for name in names]
        _draw_map(axes, values, shown)
        if figure_of is signal_to_noise:
            _draw_uncounted(axes, [[each.counted for each in surveys[name]] for name in names])
        axes.set_title(heading, fontsize=10)
        axes.set_xticks(range(len(formats)), formats, rotation=90, fontsize=8)
        # A name is no formula, but may contain dollars.
        axes.set_yticks(range(len(names)), map(one_line, names), fontsize=8, parse_math=False)
    figure.suptitle(one_line(title), parse_math=False)
    kind = path.suffix[1:].lower()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph .* missing")  # a box is drawn instead
        atomic.replace(path, lambda file: figure.savefig(file, dpi=120, format=kind))


def _draw_map(axes: Any, values: list[list[float | None]], template: str) -> None:
    numbers = [[float("nan") if value is None else value for value in row] for row in values]
    axes.imshow(numbers, aspect="auto", cmap="Blues")
    present = [value for row in values for value in row if value is not None]
    middle = (min(present) + max(present)) / 2 if present else 0
    for y, row in enumerate(values):
        for x, value in enumerate(row):
            if value is not None:
                colour = "white" if value > middle else "black"
                text = template.format(value)
                axes.text(x, y, text, ha="center", va="center", fontsize=7, color=colour)


def _draw_uncounted(axes: Any, counted: list[list[int]]) -> None:
    for y, row in enumerate(counted):
        for x, count in enumerate(row):
            if not count:
                axes.text(x, y, "-", ha="center", va="center", fontsize=7)
