"""Write the costs of layers on a machine for readers: a table, and advice on shorter times."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from diastole.config.keys import Config
from diastole.layers.bounds import CONVERTER, LATENCY, MEANINGS, MULTIPLIERS, SHAPE, percents
from diastole.layers.layer_costs import LayerCost
from diastole.report.format_table import align

OF_BUS = (CONVERTER, "reading", "loading", "writing")
"""Bounds that a wider bus may move."""
HEADING = ("layer", "product", "M", "K", "N", "times", "cycles")
MOVED = ("MB read", "written")
PACE = ("ms", "GB/s", "TOPS")
ADDS_UP = "used: share of the cycles in which the multipliers work; all shares add up to 100 %"
PASSES = "passes: pairs of planes that are multiplied, of"


def lines_of(
    costs: Sequence[LayerCost],
    total: Mapping[str, Any],
    widths: Mapping[str, int | None] | None = None,
    clock_mhz: float | None = None,
) -> list[str]:
    """Return a line for every product of a layer, and a line for the total.

    ``widths``: bits of magnitude by class, None for a class without a choice of widths. If any
    class has a choice, the lines give the passes. With a clock, the lines give milliseconds, and
    rates per second.
    """
    chosen = {name: bits for name, bits in (widths or {}).items() if bits is not None}
    records = [cost.record(clock_mhz) for cost in costs]
    starts = [
        [cost.name, cost.what, *(str(cost.sizes.get(axis, "")) for axis in "mkn")] for cost in costs
    ]
    rows = [
        [*start, str(record["repeats"]), *_costs(record, clock_mhz, passes=bool(chosen))]
        for start, record in zip(starts, records, strict=True)
    ]
    sums = ["all", *[""] * 5, *_costs(total, clock_mhz, passes=bool(chosen))]
    heading = [*HEADING, *(PACE if clock_mhz is not None else ()), "used", *MOVED]
    heading += [*(["passes"] if chosen else []), "bound", "other cycles, %"]
    table = align([heading, *rows, sums], ends=1)
    return [*table, "", *_legend(total["shares"], chosen)]


def _costs(record: Mapping[str, Any], clock_mhz: float | None, *, passes: bool) -> list[str]:
    """Return the columns from the cycles on, for the record of a layer or of the total."""
    parts = percents(record["shares"])
    used = f"{parts[MULTIPLIERS]:.1f}%" if MULTIPLIERS in parts else ""
    others = {name: part for name, part in parts.items() if name != MULTIPLIERS and part}
    by_size = sorted(others, key=lambda name: -others[name])
    pace = [] if clock_mhz is None else [record["seconds"] * 1e3, record["gb_per_s"]]
    return [
        f"{record['cycles']:,}",
        *(significant(value) for value in pace),
        *([] if clock_mhz is None else [significant(record["tops"]) if record["macs"] else ""]),
        used,
        f"{record['dram_read_bytes'] / 1e6:.3f}",
        f"{record['dram_write_bytes'] / 1e6:.3f}",
        *([_passes(record["passes"])] if passes else []),
        record["bound"],
        ", ".join(f"{name} {others[name]:.1f}" for name in by_size),
    ]


def significant(value: float) -> str:
    """Return a number with three significant digits, without an exponent."""
    return f"{value:,.0f}" if value >= 1000 else f"{float(f'{value:.3g}'):.12g}"


def _passes(passes: float | None) -> str:
    return "" if passes is None else f"{passes:.3g}"


def _legend(shares: Mapping[str, float], widths: Mapping[str, int | None]) -> list[str]:
    """Return the meaning of the columns, and of the names in the columns."""
    lines = [ADDS_UP]
    lines += [f"{name}: {MEANINGS[name]}" for name in shares if name != MULTIPLIERS]
    if widths:
        texts = ", ".join(f"{name} in {bits} bits" for name, bits in widths.items())
        lines.append(f"{PASSES} {texts}")
    return lines


def pace_line(config: Config, total: Mapping[str, Any], clock_mhz: float) -> str:
    """Return the time and the rates of all layers at a clock, beside the limits of the machine."""
    peak = 2 * config.macs * clock_mhz / 1e6
    bus = config.bus.ports * config.bus.data_width / 8 * clock_mhz / 1e3
    return (
        f"at {clock_mhz:g} MHz: {significant(total['seconds'])} s; {significant(total['tops'])} of "
        f"{significant(peak)} TOPS; {significant(total['gb_per_s'])} GB/s, of {significant(bus)} "
        f"read and {significant(bus)} written at the same time"
    )


def cure(config: Config, bound: str) -> str:
    """Return a change that the machine lacks, to shorten the waits of a bound. For the bus, the
    advice assumes that the bus cannot be wider."""
    one_port = config.bus.ports == 1
    if bound in ("reading", "writing"):
        more = (
            "two ports (bus.ports) move twice" if one_port else "elements of fewer bits move less"
        )
        return f"the bus is as wide as it can be, {more}"
    if bound == "loading":
        rarely = "longer rows of X and W need it less often"
        return f"two ports (bus.ports) load at once, {rarely}" if one_port else rarely
    if bound == "swap":
        longer = "products with more rows that stream hide it"
        fewer = "an array of fewer rows (array.rows), or "
        return fewer * (config.array.rows > 1) + longer
    if bound == SHAPE:
        if config.array.rows * config.array.cols > 1:
            return "an array of fewer rows or columns (array.rows, array.cols) fits it better"
        return "smaller blocks (array.block) fit it better"
    hidden = "a larger batch, or products in flight (Device.multiply_together), hide it"
    cures = {
        LATENCY: "larger products, or a memory that answers sooner, wait less",
        "draining": "a longer contraction hides it",
        CONVERTER: "conversions beside products (Device.convert(..., overlap=True)) hide behind "
        "the products",
        "start": hidden,
        "end": hidden,
    }
    return cures[bound]


def advice(
    config: Config, total: Mapping[str, Any], wider: Callable[[], Mapping[str, Any] | None]
) -> str:
    """Return advice on making a mostly idle machine busier; an empty text if the multipliers are
    the bound.

    ``wider``: computes the total of the machine with a bus of twice the width, None if the bus
    cannot be wider.
    """
    bound: str = total["bound"]
    if bound == MULTIPLIERS:
        return ""
    problem = f"{total['shares'][bound]:.0%} of the cycles go to {bound}"
    if bound in OF_BUS and (better := wider()) is not None:
        width = 2 * config.bus.data_width
        used, cycles = better["utilisation"], better["cycles"]
        gain = f"{used:.1%} used in all" if used else f"{cycles:,} cycles"
        return f"{problem}; with bus.data_width = {width}: {gain}"
    return f"{problem}; {cure(config, bound)}"
