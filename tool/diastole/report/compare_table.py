"""Compare trainings for readers: a table and a verdict."""

from collections.abc import Sequence

from diastole.compare.summary import ComparedConfig, Ruling, Spread
from diastole.layers.cell_areas import areas
from diastole.report.format_table import align

HEADING = (
    "configuration", "loss", "dev", "over float32", "error", "accuracy", "dev", "over float32",
    "error", "NAND2/MAC", "passes", "area x passes", "bits", "cycles/step",
)  # fmt: skip

TOO_WIDE = 1e6


def comparison_lines(compared: Sequence[ComparedConfig]) -> list[str]:
    """Return a line for every configuration. The line of a float32 reference stands before the
    first configuration with the reference."""
    shown: list[ComparedConfig] = []
    for each in compared:
        reference = each.reference
        if reference is not None and not any(one is reference for one in shown):
            shown.append(reference)
        shown.append(each)
    return align([HEADING, *map(_row, shown)], left=1)


def _row(each: ComparedConfig) -> list[str]:
    cost = each.cost
    price = ["-"] * 5
    if cost is not None:
        price = [
            _number(cost.area_per_mac_nand2, ".0f"),
            f"{cost.passes:.2f}",
            _number(cost.area_passes, ".0f"),
            f"{cost.bits_per_element:.2f}",
            _number(cost.cycles_per_step, ","),
        ]
    return [
        each.name,
        *_mean(each.of("loss"), ".4f", 1),
        *_over(each, "loss", "+.4f", ".4f", 1),
        *_mean(each.of("accuracy"), ".2f", 100),
        *_over(each, "accuracy", "+.2f", ".2f", 100),
        *price,
    ]


def _mean(values: Spread | None, form: str, unit: int) -> list[str]:
    if values is None:
        return ["-", "-"]
    deviation = None if values.deviation is None else unit * values.deviation
    return [_number(unit * values.mean, form), _number(deviation, form)]


def _over(each: ComparedConfig, value: str, form: str, plain: str, unit: int) -> list[str]:
    spread = each.over_float32(value)
    if spread is None:
        return ["-", "-"]
    error = None if spread.error is None else unit * spread.error
    return [_number(unit * spread.mean, form), _number(error, plain)]


def _number(value: float | None, form: str) -> str:
    """Return a number for a column, ``-`` for None. A number that would widen the column has an
    exponent."""
    if value is None:
        return "-"
    return format(value, form if abs(value) < TOO_WIDE else form.replace(".4f", ".4g"))


def comparison_legend(seeds: Sequence[int]) -> list[str]:
    """Return the meaning of the columns."""
    command = areas()["command"] or "no measurement"
    shown = ", ".join(map(str, seeds))
    return [
        f"means over the seeds {shown} of held-out loss and accuracy in %, dev: deviation of one;",
        "over float32: mean difference, seed by seed, and its standard error, from float32 of the",
        "same network, recipe and samples;",
        f"NAND2/MAC: area of a cell, by {command}; passes: of a product, by MACs;",
        "bits: stored per element in all copies, scales included; cycles/step: by the model of the",
        "machine, of all of a step where it does whole steps (vector.enable = true), else of its",
        "products and conversions; -: not measured, or no such machine yet",
    ]


def verdict_lines(verdict: Ruling | None) -> list[str]:
    """Return the verdict: the better, equal and worse configurations, and whether the plain
    configuration wins."""
    if verdict is None:
        return ["no verdict: it takes two configurations, and two seeds of each that end in a loss"]
    lines: list[str] = []
    for names, heading in (
        (verdict.better, f"of a smaller loss than {verdict.plain}, 19 times in 20"),
        (verdict.as_good, f"not to be told from {verdict.plain} with these seeds"),
        (verdict.worse, f"of a larger loss than {verdict.plain}, 19 times in 20"),
    ):
        if names:
            lines.append(f"{heading}: {', '.join(names)}")
    if verdict.wins:
        heading = "the plain configuration wins: at no more area x passes none is better than"
        return [*lines, f"{heading} {verdict.plain}, and none as good at less"]
    names = ", ".join(verdict.dominating)
    return [*lines, f"better at no more area x passes, or not to be told from it at less: {names}"]
