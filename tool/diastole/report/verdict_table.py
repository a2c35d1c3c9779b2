"""Compare formats: the quality of the products, and the cost."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from diastole.layers.cell_areas import areas, cell_area
from diastole.report.format_table import align
from diastole.report.survey_table import decibels_text
from diastole.trials.mixtures import Settings
from diastole.trials.trial import Trial
from diastole_sim.codes.quality import ResultQuality, Worst
from diastole_sim.spec.numerics import CLASS_NAMES

PRODUCTS_LEGEND = (
    "dB: signal to noise beside the float64 product of the same float32 tensors; row, column: of",
    "the worst row and column; -: NaN or Inf reach every element in float64. Rows of dW and",
    "columns of dX are channels of X, and so on",
)


NO_FIGURE = (
    "no format is recommended: formats of 10 dB and of 49 dB train alike (docs/formats.md);",
    "  next: diastole compare --task digits --over format=bfp4,mxfp8_e4m3 trains in them;",
    "  --least-db DB says which formats have a figure of yours",
)
"""Last lines of a table without a verdict."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Trials of mixtures with a ranking.

    ``trials``: trials in the order of the request. ``ranked``: trials by stored bits in all copies,
    then by area. ``least_db``: signal to noise in dB that the worst row and column of every product
    must reach. None without a figure from the user: no mixture is then recommended, because noise
    does not tell what a training needs.
    """

    least_db: float | None
    trials: tuple[Trial, ...]
    ranked: tuple[Trial, ...]

    @property
    def enough(self) -> list[Trial]:
        """Trials that reach ``least_db``, the smallest first; empty without a figure."""
        if self.least_db is None:
            return []
        return [trial for trial in self.ranked if trial.reaches(self.least_db)]

    @property
    def smallest_cell(self) -> Trial | None:
        """Trial of least cell area among the trials that reach ``least_db``, as far as areas are
        known."""
        measured = [(area, trial) for trial in self.enough if (area := _area(trial)) is not None]
        return min(measured, key=lambda each: each[0])[1] if measured else None

    @property
    def nearest(self) -> Trial | None:
        """Trial that comes nearest to ``least_db`` if no trial reaches the figure; None without a
        figure."""
        if self.least_db is None or self.enough:
            return None
        return max(self.ranked, key=_least)


def verdict_of(trials: Sequence[Trial], least_db: float | None) -> Verdict:
    """Return the verdict with the trials ranked. Of equal bits, trials with an unknown cell area
    come last."""

    def size(trial: Trial) -> tuple[float, float]:
        area = _area(trial)
        return trial.bits_both, float("inf") if area is None else area

    return Verdict(least_db=least_db, trials=tuple(trials), ranked=tuple(sorted(trials, key=size)))


def _area(trial: Trial) -> float | None:
    return cell_area(trial.mixture.numerics)


def _least(trial: Trial) -> float:
    return float("inf") if trial.worst is None else trial.worst.place.snr_db


# Texts for readers.


def products_table(trials: Sequence[Trial]) -> list[str]:
    """Return a table with a line for every mixture: every product, its worst row and worst
    column."""
    names = list(trials[0].products)
    heading = [word for name in names for word in (f"{name} dB", "row", "column")]
    rows = [
        [trial.mixture.name, *(each for name in names for each in _three(trial.products[name]))]
        for trial in trials
    ]
    return align([["format", *heading], *rows], left=1)


def _three(quality: ResultQuality) -> list[str]:
    return [decibels_text(quality), *(_worst(quality.counted, each) for each in _places(quality))]


def _places(quality: ResultQuality) -> tuple[Worst | None, Worst | None]:
    return quality.row, quality.column


def _worst(counted: int, place: Worst | None) -> str:
    if place is None:
        return "exact" if counted else "-"
    return f"{place.snr_db:.1f}"


def _worst_of_all(trial: Trial) -> str:
    """Return the signal to noise of the worst row or column of all products, or ``exact``. Return
    ``-`` if a product has no element to judge and no product has an error."""
    counted = min(each.counted for each in trial.products.values())
    return _worst(counted, trial.worst and trial.worst.place)


def ranking_table(verdict: Verdict) -> list[str]:
    """Return a table with a line for every mixture, the smallest mixture first."""
    heading = ["format", "bits", "both", "NAND2/MAC", "worst dB", "where"]
    least_db = verdict.least_db
    rows = [
        [
            trial.mixture.name,
            f"{trial.bits:.5g}",
            f"{trial.bits_both:.5g}",
            "-" if (area := _area(trial)) is None else f"{area:.0f}",
            _worst_of_all(trial),
            _where(trial),
            *([] if least_db is None else ["yes" if trial.reaches(least_db) else "no"]),
        ]
        for trial in verdict.ranked
    ]
    limit = [] if least_db is None else [f"{least_db:g} dB"]
    return align([[*heading, *limit], *rows], left=1)


def ranking_legend() -> list[str]:
    """Return the meaning of the columns of :func:`ranking_table`."""
    command = areas()["command"] or "no measurement"
    return [
        "bits: stored bits of an element and its share of the scales, mean of the tensors; both:",
        "in both copies, if groups are 1xN; ordered by these, then by area",
        f"NAND2/MAC: area of a cell, by {command}; - where none of such formats, groups and",
        "blocks was measured",
    ]


def conclusion(verdict: Verdict, settings: Settings) -> list[str]:
    """Return lines on the smallest mixture that reaches the figure, or on the nearest mixture, and
    a next command. Without a figure, return advice on finding out the worth of a format."""
    if verdict.least_db is None:
        return list(NO_FIGURE)
    limit = f"{verdict.least_db:g} dB in the worst row and column of every product"
    best = verdict.nearest
    if best is not None:
        least = f"{_worst_of_all(best)} dB in {_where(best)}"
        lines = [f"no mixture has {limit};", f"  nearest: {best.mixture.name}, {least}"]
    else:
        best, cell = verdict.enough[0], verdict.smallest_cell
        lines = [f"{limit}:", f"  fewest bits: {_cost(best)}"]
        if cell is not None and cell is not best:
            lines.append(f"  smallest cell: {_cost(cell)}")
    keys = settings.overrides(best.mixture.formats)
    options = " ".join(f"--set {shlex.quote(key)}" for key in keys)
    return [*lines, f"  next: diastole init my.toml; diastole check my.toml {options}"]


def _cost(trial: Trial) -> str:
    area = _area(trial)
    cell = "its cell was not measured" if area is None else f"{area:.0f} NAND2 per MAC"
    return f"{trial.mixture.name}, {trial.bits_both:.5g} stored bits per element, {cell}"


def _where(trial: Trial) -> str:
    lost = trial.worst
    return "-" if lost is None else f"{lost.axis} {lost.place.index} of {lost.product}"


# Records for scripts.


def records(verdict: Verdict) -> list[dict[str, Any]]:
    """Return the mixtures in the order of the request, as plain values."""
    return [_record(trial, verdict.least_db) for trial in verdict.trials]


def _record(trial: Trial, least_db: float | None) -> dict[str, Any]:
    numerics, lost = trial.mixture.numerics, trial.worst
    classes = {name: numerics.tensor_class(name) for name in CLASS_NAMES}
    return {
        "name": trial.mixture.name,
        "formats": {name: storage.format.name for name, storage in classes.items()},
        "groups": {name: str(storage.grouping) for name, storage in classes.items()},
        "rounding": {name: storage.rounding for name, storage in classes.items()},
        "scale": {name: storage.scale for name, storage in classes.items()},
        "products": {name: _quality(each) for name, each in trial.products.items()},
        "bits": trial.bits,
        "bits_both": trial.bits_both,
        "area_per_mac_nand2": _area(trial),
        "worst": lost and {"product": lost.product, "axis": lost.axis, **asdict(lost.place)},
        "reaches": None if least_db is None else trial.reaches(least_db),
    }


def _quality(quality: ResultQuality) -> dict[str, Any]:
    return {
        "counted": quality.counted,
        "snr_db": quality.snr_db,
        "worst_row": _place(quality.row),
        "worst_column": _place(quality.column),
        "exact": quality.exact,
        "overflow": quality.overflow,
    }


def _place(worst: Worst | None) -> dict[str, Any] | None:
    return None if worst is None else asdict(worst)


def verdict_record(verdict: Verdict) -> dict[str, Any]:
    """Return the statements of :func:`conclusion` by the names of mixtures."""

    def name(trial: Trial | None) -> str | None:
        return None if trial is None else trial.mixture.name

    return {
        "least_db": verdict.least_db,
        "ranking": [trial.mixture.name for trial in verdict.ranked],
        "smallest": name(verdict.enough[0]) if verdict.enough else None,
        "smallest_cell": name(verdict.smallest_cell),
        "nearest": name(verdict.nearest),
    }
