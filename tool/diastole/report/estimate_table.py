"""What layers cost on a machine, for people: a table, words on what would help, a picture."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from diastole.config.keys import Config
from diastole.files import atomic
from diastole.layers.costs import CONVERTER, LayerCost
from diastole.layers.sweep import SweptMachine
from diastole.report.format_table import align

LEGEND = (
    "bound: what is busy for nine tenths of the time; shape: the multipliers are, but the layer",
    "does not fill them; start and end: nothing is, the work is short for memory and array",
)
BUS = "the bus is as wide as it can be, two ports (bus.ports) read twice"
CURES = {
    "reading": BUS,
    "writing": BUS,
    CONVERTER: "conversions beside products (Device.convert(..., beside=True)) hide in them",
    "shape": "an array of fewer rows or columns (array.rows, array.cols) fits it better",
    "start and end": "a larger batch, or products in flight (Device.multiply_together), hide them",
}
HEADING = ("layer", "product", "M", "K", "N", "times", "cycles", "used", "MB read", "written")
PASSES = "passes: pairs of planes that are multiplied, of"


def lines_of(
    costs: Sequence[LayerCost],
    total: Mapping[str, Any],
    widths: Mapping[str, int | None] | None = None,
) -> list[str]:
    """A line for every product of a layer, and one for all. ``widths``: bits of magnitude by class,
    None where its format has one; where any has a choice, passes are told too."""
    chosen = {name: bits for name, bits in (widths or {}).items() if bits is not None}
    rows = [
        [
            cost.name,
            cost.what,
            *(str(cost.sizes.get(axis, "")) for axis in "mkn"),
            str(cost.repeats),
            f"{cost.cycles:,}",
            f"{cost.utilisation:.1%}" if cost.macs else "",
            f"{cost.repeats * cost.found.read_bytes / 1e6:.3f}",
            f"{cost.repeats * cost.found.write_bytes / 1e6:.3f}",
            *([_passes(cost.passes)] if chosen else []),
            cost.bound,
        ]
        for cost in costs
    ]
    sums = [
        "all", "", "", "", "", "", f"{total['cycles']:,}", f"{total['utilisation']:.1%}",
        f"{total['dram_read_bytes'] / 1e6:.3f}", f"{total['dram_write_bytes'] / 1e6:.3f}",
        *([_passes(total["passes"])] if chosen else []), "",
    ]  # fmt: skip
    heading = [*HEADING, *(["passes"] if chosen else []), "bound"]
    legend = [*LEGEND]
    if chosen:
        said = ", ".join(f"{name} in {bits} bits" for name, bits in chosen.items())
        legend.append(f"{PASSES} {said}")
    return [*align([heading, *rows, sums]), "", *legend]


def _passes(passes: float | None) -> str:
    return "" if passes is None else f"{passes:.3g}"


def sweep_lines(machines: Sequence[SweptMachine]) -> list[str]:
    """A line for every machine, and which one is the quickest."""
    keys = [text.split("=", 1)[0] for text in machines[0].overrides]
    heading = [*keys, "MACs", "KiB", "k NAND2", "cycles", "used", "MB read", "written", "bound"]
    rows: list[list[str]] = []
    for each in machines:
        values = [text.split("=", 1)[1] for text in each.overrides]
        if each.size is None or each.total is None:
            rows.append([*values, *["-"] * (len(heading) - len(keys) - 1), "no such machine"])
            continue
        area, total = each.size.cells_nand2, each.total
        bound: Mapping[str, float] = total["bound"]
        rows.append(
            [
                *values,
                str(each.size.multipliers),
                f"{each.size.scratchpad_kib + each.size.sum_kib:.0f}",
                "-" if area is None else f"{area / 1000:.0f}",
                f"{total['cycles']:,}",
                f"{total['utilisation']:.1%}",
                f"{total['dram_read_bytes'] / 1e6:.1f}",
                f"{total['dram_write_bytes'] / 1e6:.1f}",
                max(bound, key=lambda name: bound[name]),
            ]
        )
    there = [(each.total["cycles"], each.overrides) for each in machines if each.total is not None]
    refused = [f"no such machine: {text}" for each in machines for text in each.refused]
    return [
        *align([heading, *rows]),
        "",
        "KiB: of scratchpads and sums; k NAND2: of all cells, - where none like them was measured;",
        "bound: what bounds most of the time",
        *dict.fromkeys(refused),
        f"the fewest cycles: {' '.join(f'--set {text}' for text in min(there)[1])}",
    ]


def advice(
    config: Config, total: Mapping[str, Any], wider: Callable[[], Mapping[str, Any] | None]
) -> str:
    """What would make a machine that is mostly idle busier; ``wider`` computes its total with a bus
    of twice the width, None where there is none. Nothing where the multipliers are at work."""
    shares: Mapping[str, float] = total["bound"]
    worst = max(shares, key=lambda bound: shares[bound])
    said = f"{shares[worst]:.0%} of the time is bound by {worst}"
    if worst == "multipliers":
        return ""
    if worst in (CONVERTER, "reading", "writing") and (better := wider()) is not None:
        width = 2 * config.bus.data_width
        return f"{said}; with bus.data_width = {width}: {better['utilisation']:.1%} used in all"
    return f"{said}; {CURES[worst]}"


def write_roofline(costs: Sequence[LayerCost], path: Path, title: str) -> None:
    """Products, of which there must be one, as points: multiplications per byte of memory against
    those per cycle, under what bus and multipliers allow; .png or .svg. Needs matplotlib."""
    from matplotlib.figure import Figure  # slow to import; without pyplot there is no window

    points = [(cost.phase, cost.ports, cost.product) for cost in costs if cost.product is not None]
    _, ports, some = points[0]
    bytes_per_cycle, peak = some.beat_bytes * ports, some.multipliers
    work = [each.multiplications / (each.read_bytes + each.write_bytes) for _, _, each in points]
    figure: Any = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    edges = [min(*work, peak / bytes_per_cycle) / 2, max(*work, peak / bytes_per_cycle) * 2]
    roof = [edges[0], peak / bytes_per_cycle / 2, edges[1]]  # it reads while it writes
    axes.plot(roof, [min(peak, 2 * x * bytes_per_cycle) for x in roof], color="black", linewidth=1)
    for phase in dict.fromkeys(phase for phase, _, _ in points):
        here = [(x, of) for x, (own, _, of) in zip(work, points, strict=True) if own == phase]
        rates = [of.multiplications / of.cycles for _, of in here]
        axes.scatter([x for x, _ in here], rates, s=18, label=phase, alpha=0.7)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xlabel("multiplications per byte read or written")
    axes.set_ylabel("multiplications per cycle")
    axes.set_title(title, fontsize=10, parse_math=False)
    axes.legend(fontsize=8)
    kind = path.suffix[1:].lower()
    atomic.replace(path, lambda file: figure.savefig(file, dpi=120, format=kind))
