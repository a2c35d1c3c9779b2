"""Draw a comparison: loss against area times passes, and loss against stored bits."""

from collections.abc import Callable, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from diastole.compare.costs import Cost
from diastole.compare.summary import ComparedConfig
from diastole.files import atomic

Place = Callable[[Cost], float | None]

AXES: tuple[tuple[str, Place], ...] = (
    ("area x passes, NAND2 per MAC", lambda cost: cost.area_passes),
    ("stored bits per element, all copies", lambda cost: cost.bits_per_element),
)
STYLES = ("--", ":", "-.", "-")
"""Line styles of the float32 references."""


def write_comparison(compared: Sequence[ComparedConfig], path: Path, title: str) -> None:
    """Draw the mean held-out loss of every configuration, as .png or .svg. Needs matplotlib.

    Bars are standard errors of the difference from float32 with the same recipe. The bars exclude
    the variation common to the seeds. The float32 reference is a line. Configurations without a
    loss or a price have no point.
    """
    from matplotlib.figure import Figure  # slow to import; without pyplot no window opens

    references = {id(each.reference): each.reference for each in compared}
    figure: Any = Figure(figsize=(12, 5), layout="constrained")
    for axes, (label, place) in zip(figure.subplots(1, 2), AXES, strict=True):
        for each in compared:
            loss = each.of("loss")
            x = None if each.cost is None else place(each.cost)
            if loss is None or x is None:
                continue
            over = each.over_float32("loss")
            error = 0 if over is None else over.error or 0
            axes.errorbar([x], [loss.mean], yerr=[error], fmt="o", capsize=3)
            name = each.name.replace("$", r"\$")
            axes.annotate(
                name, (x, loss.mean), xytext=(5, 4), textcoords="offset points", fontsize=8
            )
        for reference, style in zip(references.values(), cycle(STYLES), strict=False):
            spread = None if reference is None else reference.of("loss")
            if spread is not None and reference is not None:
                name = reference.name.replace("$", r"\$")
                axes.axhline(spread.mean, color="black", linestyle=style, linewidth=1, label=name)
                axes.legend(fontsize=8)
        axes.set_xlabel(label)
        axes.set_ylabel("held-out loss, mean of the seeds")
        axes.margins(0.12)
        axes.grid(alpha=0.3)
    figure.suptitle(title, fontsize=10, parse_math=False)
    kind = path.suffix[1:].lower()
    atomic.replace(path, lambda file: figure.savefig(file, dpi=120, format=kind))
