"""Draw the roofline of a machine, with the products of layers below the roofline."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import atan2, degrees, hypot
from pathlib import Path
from typing import Any

from diastole.files import atomic
from diastole.layers.layer_costs import LayerCost
from diastole.report.estimate_table import significant
from diastole.report.sweep_table import plain_ticks

MAX_LABELS, SLOWEST, MAX_NAMES = 12, 4, 3
"""Limits of the labels in a picture: number of labels, number of slowest products that are labelled
first, and names in a label. The remaining labels go to the products with the most cycles."""
ABOVE = 0.4
"""Height above the roof for labels, as a fraction of the height below the roof."""
NEAR = 8
"""Distance in points of the printed page between products that share a label."""
LETTER, LINE = 4.0, 9.0
"""Width of a letter and height of a label, in points."""
COLOURS = ("tab:blue", "tab:orange", "tab:green", "tab:red")


@dataclass(frozen=True, kw_only=True)
class _Limits:
    """Limits of the bus (in a single direction) and of the multipliers, in units of the picture."""

    bus: float
    peak: float
    moved: str
    done: str
    slope: float = 1.0  # ``done`` per ``moved`` at an operation per byte

    @property
    def ridge(self) -> float:
        """Operations per byte above which the multipliers are the limit, if equal amounts are read
        and written."""
        return self.peak / (2 * self.bus * self.slope)

    @classmethod
    def of(cls, cost: LayerCost, clock_mhz: float | None) -> "_Limits":
        estimate = cost.estimate
        multipliers = cost.product.multipliers if cost.product is not None else 0
        bus, peak = estimate.beat_bytes * cost.ports, 2 * multipliers
        if clock_mhz is None:
            return cls(bus=bus, peak=peak, moved="B/cycle", done="operations per cycle")
        return cls(bus=bus * clock_mhz / 1e3, peak=peak * clock_mhz / 1e6, moved="GB/s",
                   done="TOPS", slope=1e-3)  # fmt: skip


@dataclass
class _Label:
    """Label of products of a phase that lie side by side. ``phase``: name of the phase in the
    table."""

    phase: str
    place: tuple[float, float]
    on_page: tuple[float, float]
    below_roof: float  # distance in points on the page
    names: list[str] = field(default_factory=list[str])

    @property
    def text(self) -> str:
        names = list(dict.fromkeys(self.names))
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        return ", ".join(names[:MAX_NAMES]) + more


def write_roofline(
    costs: Sequence[LayerCost], path: Path, title: str, clock_mhz: float | None = None
) -> None:
    """Draw products as points under the limits of bus and multipliers, as .png or .svg. Needs
    matplotlib.

    The axes are operations per byte of memory and operations per cycle, or operations per second at
    a clock. A multiplication and an addition are two operations. ``costs`` must contain a product.
    """
    from matplotlib.figure import Figure  # slow to import; without pyplot no window opens

    shown = [cost for cost in costs if cost.product is not None]
    limits = _Limits.of(shown[0], clock_mhz)
    places = [_place(cost, limits) for cost in shown]
    figure: Any = Figure(figsize=(8, 5.5), layout="constrained")
    axes = figure.subplots()
    axes.set_xscale("log")
    axes.set_yscale("log")
    xs, ys = [limits.ridge, *(x for x, _ in places)], [limits.peak / 8, *(y for _, y in places)]
    bottom = min(ys) / 2
    axes.set_xlim(min(xs) / 3, max(xs) * 4)
    axes.set_ylim(bottom, limits.peak * (limits.peak / bottom) ** ABOVE)
    phases = list(dict.fromkeys(cost.what for cost in shown))
    colours = dict(zip(phases, COLOURS, strict=False))
    for phase in phases:
        here = [at for at, cost in zip(places, shown, strict=True) if cost.what == phase]
        axes.scatter(*zip(*here, strict=True), s=22, label=phase, alpha=0.7, color=colours[phase])
    plain_ticks(axes)
    axes.set_xlabel("operations per byte read or written")
    axes.set_ylabel(limits.done)
    axes.set_title(title, fontsize=10, parse_math=False)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="lower right")
    figure.draw_without_rendering()  # computes the positions on the page
    _roof(axes, limits)
    for label, offset, angle in _spread(_labels(axes, shown, places, limits.peak), limits.peak):
        axes.annotate(
            label.text, label.place, xytext=offset, textcoords="offset points", fontsize=7,
            color=colours[label.phase], parse_math=False, rotation=angle, rotation_mode="anchor",
            arrowprops={"arrowstyle": "-", "linewidth": 0.4, "color": "grey"},
        )  # fmt: skip
    kind = path.suffix[1:].lower()
    atomic.replace(path, lambda file: figure.savefig(file, dpi=120, format=kind))


def _place(cost: LayerCost, limits: _Limits) -> tuple[float, float]:
    """Return operations per byte, and operations per time in the unit of the picture."""
    product = cost.product
    assert product is not None
    operations = 2 * product.multiplications
    rate = operations / product.cycles / (2 * product.multipliers) * limits.peak
    return operations / (product.read_bytes + product.write_bytes), rate


def _roof(axes: Any, limits: _Limits) -> None:
    """Draw the limit of the bus and the limit of the multipliers, with figures. A solid line shows
    the bus with equal reads and writes at the same time, a dashed line shows the bus in a single
    direction."""
    (left, right), (bottom, _) = axes.get_xlim(), axes.get_ylim()
    bus, peak = limits.bus, limits.peak
    slope = limits.slope
    for rate, style, words in ((2 * bus, "-", "read and write"), (bus, "--", "read or write")):
        ridge = peak / (rate * slope)
        axes.plot([left, ridge, right], [left * rate * slope, peak, peak], color="black",
                  linewidth=1, linestyle=style)  # fmt: skip
        start = max(left, bottom / (rate * slope))
        at = start * (ridge / start) ** 0.15
        points = axes.transData.transform([(x, x * rate * slope) for x in (at, ridge)])
        (x0, y0), (x1, y1) = points
        axes.annotate(
            f"{words}: {significant(rate)} {limits.moved}", (at, at * rate * slope),
            xytext=(0, 2), textcoords="offset points", fontsize=8,
            rotation=degrees(atan2(y1 - y0, x1 - x0)), rotation_mode="anchor",
        )  # fmt: skip
    axes.axhline(peak, color="black", linewidth=0.5, linestyle=":")
    text = f"all multipliers: {significant(peak)} {limits.done}"
    axes.annotate(text, (left, peak), xytext=(4, 4), textcoords="offset points", fontsize=8)


def _labels(
    axes: Any, costs: Sequence[LayerCost], places: Sequence[tuple[float, float]], peak: float
) -> list[_Label]:
    """Return labels for the slowest products and for the products with the most cycles, from left
    to right."""
    labels: list[_Label] = []
    scale = 72 / axes.figure.dpi
    roof = float(axes.transData.transform((1, peak))[1]) * scale
    numbers = range(len(costs))
    slowest = sorted(numbers, key=lambda each: places[each][1])[:SLOWEST]
    longest = sorted(numbers, key=lambda each: -costs[each].cycles)
    for number in dict.fromkeys([*slowest, *longest]):
        x, y = (float(value) * scale for value in axes.transData.transform(places[number]))
        cost = costs[number]
        near = [
            label
            for label in labels
            if label.phase == cost.what and hypot(x - label.on_page[0], y - label.on_page[1]) < NEAR
        ]
        if not near and len(labels) == MAX_LABELS:
            continue
        if not near:
            near = [_Label(cost.what, places[number], (x, y), roof - y)]
            labels += near
        near[0].names.append(cost.name)
    return sorted(labels, key=lambda label: label.on_page)


def _spread(
    labels: Sequence[_Label], peak: float
) -> Iterator[tuple[_Label, tuple[float, float], int]]:
    """Yield a free place for every label, as an offset in points and an angle. Labels of products
    near the roof are placed above the roof, remaining labels below the point."""
    free = 0.0  # next place above the roof
    occupied: list[tuple[float, float, float]] = []  # left, right, and height on the page
    for label in labels:
        x, y = label.on_page
        if label.place[1] > peak / 2:
            free = max(x + 4, free)
            yield label, (free - x, label.below_roof + 18), 50
            free += 1.6 * LINE
            continue
        left, right, below = x + 6, x + 6 + LETTER * len(label.text), LINE
        while any(
            left < other_right and other_left < right and abs(y - below - at) < LINE
            for other_left, other_right, at in occupied
        ):
            below += LINE
        occupied.append((left, right, y - below))
        yield label, (6, -below), 0
