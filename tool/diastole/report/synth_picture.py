"""Draw a mapped machine: components as bars within bars, as wide as their share."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from diastole.files import atomic
from diastole.report.synth_table import HEADINGS, share
from diastole.synth.flow import Synthesis
from diastole.synth.tree import Component

LEAST = 0.004
"""Smallest share of a bar. Narrower bars are left out."""
LETTER = 0.0058
"""Share of the width that a letter of a name takes."""
UPRIGHT = (0.009, 16)
"""Smallest share, and most letters, of a bar with an upright name."""


def write_synthesis(synthesis: Synthesis, path: Path, title: str) -> None:
    """Draw a row of bars for every level of the tree, by the target's main resource, as .png or
    .svg. Needs matplotlib."""
    import matplotlib  # slow to import; without pyplot no window opens
    from matplotlib.figure import Figure

    plots: Any = matplotlib  # the types of matplotlib are incomplete

    main = synthesis.request.target.main
    bars = list(_bars(synthesis.tree, synthesis.tree, main, 0, 0.0))
    deepest = max(depth for depth, *_ in bars)
    figure: Any = Figure(figsize=(14, 0.95 * deepest + 2), layout="constrained")
    axes = figure.subplots()
    colours = plots.colormaps["tab20"].colors
    names = sorted({part.name for _, _, _, part in bars})
    for depth, left, width, part in bars:
        colour = colours[names.index(part.name) % len(colours)]
        axes.barh(-depth, width, left=left, height=0.94, color=(*colour, 0.6), edgecolor="white")
        times = f" x{part.instances}" if part.instances > 1 else ""
        angle = _rotated(part.name + times, width)
        if angle is not None:
            axes.text(
                *(left + width / 2, -depth, part.name + times),
                ha="center",
                va="center",
                fontsize=7,
                rotation=angle,
            )
    axes.set_yticks([])
    axes.set_xlim(0, 1)
    axes.set_xlabel(f"share of {synthesis.tree.total.get(main, 0):,.0f} {HEADINGS[main]}")
    axes.set_title(title, fontsize=10, parse_math=False)
    kind = path.suffix[1:].lower()
    options: dict[str, Any] = {"metadata": {"Date": None}} if kind == "svg" else {}
    with plots.rc_context({"svg.hashsalt": title}):
        atomic.replace(path, lambda file: figure.savefig(file, dpi=120, format=kind, **options))


def _rotated(name: str, width: float) -> int | None:
    """Return the rotation of a name in a bar, in degrees; None if the name does not fit."""
    if len(name) * LETTER <= width:
        return 0
    min_width, max_letters = UPRIGHT
    return 90 if width >= min_width and len(name) <= max_letters else None


def _bars(
    whole: Component, part: Component, main: str, depth: int, left: float
) -> Iterator[tuple[int, float, float, Component]]:
    """Yield depth, left end, width and component of every bar. The component's own share is at the
    end of the bar."""
    width = share(part.total, whole.total, main)
    yield depth, left, width, part
    for each in sorted(part.parts, key=lambda inner: -inner.total.get(main, 0)):
        inner = share(each.total, whole.total, main)
        if inner >= LEAST:
            yield from _bars(whole, each, main, depth + 1, left)
        left += inner
