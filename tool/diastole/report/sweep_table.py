"""Write the costs of layers on many machines: a table, the Pareto front, and a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from diastole.files import atomic
from diastole.layers.sweep import Front, SweptMachine
from diastole.report.estimate_table import significant
from diastole.report.format_table import align

AXES = {"cells_nand2": "area of all cells, k NAND2", "multipliers": "multipliers"}
FRONT = {
    "cells_nand2": "pareto: no other machine takes fewer cycles in cells of as small an area",
    "multipliers": "pareto: no other machine takes fewer cycles with as few multipliers; the area "
    "of these cells was not measured",
}
REST = (
    "the area counts the cells of the array alone, without converter, queues, vector unit "
    "and bus: diastole synth --target sg13g2 counts all but clocked memories"
)
MAX_NAMES = 14
"""Number of points in a picture that have names."""


def sweep_lines(machines: Sequence[SweptMachine], clock_mhz: float | None = None) -> list[str]:
    """Return a line for every machine, then the machines on the front of cycles against area."""
    front = Front.of(machines)
    keys = [text.split("=", 1)[0] for text in machines[0].overrides]
    timed = [] if clock_mhz is None else ["ms", "TOPS"]
    heading = [*keys, "MACs", "KiB", "k NAND2", "cycles", *timed, "used", "MB read", "written"]
    heading.append("bound")
    refused = [f"no such machine: {text}" for each in machines for text in each.refused]
    return [
        *align([heading, *(_row(each, len(heading), clock_mhz) for each in machines)]),
        "",
        "KiB: of scratchpads and sums; k NAND2: of all cells, - where none like them was measured;",
        "bound: the multipliers, if nine tenths of the cycles are theirs, or the largest other",
        *dict.fromkeys(refused),
        "",
        FRONT[front.measure],
        *align([heading, *(_row(each, len(heading), clock_mhz) for each in front.machines)]),
        *([f"{front.unknown} machines have no known area and are not compared"]
          if front.unknown else []),
        REST,
    ]  # fmt: skip


def _row(each: SweptMachine, columns: int, clock_mhz: float | None) -> list[str]:
    values = [text.split("=", 1)[1] for text in each.overrides]
    if each.size is None or each.total is None:
        return [*values, *["-"] * (columns - len(values) - 1), "no such machine"]
    area, total = each.size.cells_nand2, each.total
    pace = [] if clock_mhz is None else [total["seconds"] * 1e3, total["tops"]]
    return [
        *values,
        str(each.size.multipliers),
        f"{each.size.scratchpad_kib + each.size.sum_kib:.0f}",
        "-" if area is None else f"{area / 1000:.0f}",
        f"{total['cycles']:,}",
        *map(significant, pace),
        f"{total['utilisation']:.1%}",
        f"{total['dram_read_bytes'] / 1e6:.1f}",
        f"{total['dram_write_bytes'] / 1e6:.1f}",
        total["bound"],
    ]


def write_front(
    machines: Sequence[SweptMachine], path: Path, title: str, clock_mhz: float | None = None
) -> None:
    """Draw cycles (or milliseconds) against area, as .png or .svg. Needs matplotlib.

    Every machine is a point. A line of steps connects the machines that no machine beats, with the
    values of these machines.
    """
    from matplotlib.figure import Figure  # slow to import; without pyplot no window opens

    front = Front.of(machines)
    figure: Any = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    there = [each for each in machines if front.area(each) is not None]
    axes.scatter(
        *zip(*(_place(front, each, clock_mhz) for each in there), strict=True),
        s=60, color="lightgrey", label="other machines",
    )  # fmt: skip
    best = [_place(front, each, clock_mhz) for each in front.machines]
    xs, ys = zip(*best, strict=True)
    axes.plot(xs, ys, "o-", drawstyle="steps-post", color="tab:blue", label="no other is better")
    every = max(1, -(-len(best) // MAX_NAMES))
    for each, point in list(zip(front.machines, best, strict=True))[::every]:
        name = ", ".join(text.split(".")[-1] for text in each.overrides).replace("$", r"\$")
        axes.annotate(name, point, xytext=(5, 5), textcoords="offset points", fontsize=7)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.margins(x=0.2, y=0.12)
    plain_ticks(axes)
    axes.set_xlabel(AXES[front.measure])
    axes.set_ylabel("cycles" if clock_mhz is None else f"milliseconds at {clock_mhz:g} MHz")
    axes.set_title(title, fontsize=10, parse_math=False)
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8)
    kind = path.suffix[1:].lower()
    atomic.replace(path, lambda file: figure.savefig(file, dpi=120, format=kind))


def _place(front: Front, each: SweptMachine, clock_mhz: float | None) -> tuple[float, float]:
    total: Mapping[str, Any] = each.total or {}
    area = front.area(each) or 0
    x = area / 1000 if front.measure == "cells_nand2" else area
    return x, total["cycles"] if clock_mhz is None else total["seconds"] * 1e3


def plain_ticks(axes: Any) -> None:
    """Write the ticks of logarithmic axes as plain numbers, closer if an axis spans little."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for axis in (axes.xaxis, axes.yaxis):
        low, high = axis.get_view_interval()
        subs = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if high < 100 * low else (1.0, 2.0, 5.0)
        axis.set_major_locator(LogLocator(10, subs=(1.0,) if high > 3000 * low else subs))
        axis.set_major_formatter(FuncFormatter(_plain))
        axis.set_minor_formatter(NullFormatter())


def _plain(value: float, _: float) -> str:
    return significant(value)
