"""Summarise runs of several seeds: means, deviations, and differences from float32 paired by
seed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from diastole.compare.costs import PRICES, Cost
from diastole.compare.jobs import Record
from diastole.compare.study import WITH_FILES

STUDENT = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
"""Number of standard errors by which a mean of 2, 3, ... numbers is off by chance, once in 20
times: Student's t for 1, 2, ... degrees of freedom. For more numbers, the last value is close
enough."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """``mean`` of the seeds, ``deviation`` of a seed, and ``error`` of the mean. Deviation and
    error are None for a single seed."""

    mean: float
    deviation: float | None
    error: float | None
    count: int

    @property
    def sign(self) -> int | None:
        """-1 or 1 if the mean is not zero with 95 % certainty, 0 if the mean may be zero, None for
        a single seed."""
        if self.error is None:
            return None
        margin = STUDENT[min(self.count - 2, len(STUDENT) - 1)] * self.error
        return (self.mean > margin) - (self.mean < -margin)

    def record(self) -> dict[str, float | None]:
        """Return the record for ``--json``."""
        return dict(vars(self))


def spread(values: Sequence[float | None]) -> Spread | None:
    """Return the spread of the values of all seeds. None without a value, or if a value is no
    number."""
    numbers = [value for value in values if value is not None]
    if not numbers or len(numbers) < len(values):
        return None
    deviation = stdev(numbers) if len(numbers) > 1 else None
    error = None if deviation is None else deviation / len(numbers) ** 0.5
    return Spread(mean=mean(numbers), deviation=deviation, error=error, count=len(numbers))


@dataclass(frozen=True, kw_only=True)
class ComparedConfig:
    """A configuration with its runs by seed.

    - ``settings``: settings as requested.
    - ``reference``: the network, recipe and samples in float32, None for float32 itself.
    - ``cost``: None for float32, and if no run ended.
    """

    name: str
    settings: Mapping[str, str]
    runs: Mapping[int, Record]
    reference: "ComparedConfig | None" = None
    cost: Cost | None = None

    def of(self, value: str) -> Spread | None:
        """Return the spread of ``loss`` or ``accuracy``."""
        return spread([run[value] for run in self.runs.values()])

    def over(self, other: "ComparedConfig", value: str) -> Spread | None:
        """Return the spread of the value minus the value of another configuration, for seeds of
        both."""
        pairs = [
            (run[value], other.runs[seed][value])
            for seed, run in self.runs.items()
            if seed in other.runs
        ]
        return spread([None if a is None or b is None else a - b for a, b in pairs])

    def over_float32(self, value: str) -> Spread | None:
        """Return the spread of the value minus the value of float32. None for float32 itself."""
        return None if self.reference is None else self.over(self.reference, value)

    def record(self) -> dict[str, Any]:
        """Return the record for ``--json``."""
        record: dict[str, Any] = {"name": self.name, "set": dict(self.settings)}
        for value in ("loss", "accuracy"):
            own, over = self.of(value), self.over_float32(value)
            record[value] = own and own.record()
            record[f"{value}_over_float32"] = over and over.record()
        record |= dict.fromkeys(PRICES) if self.cost is None else self.cost.record()
        names = ("loss", "accuracy", "mean_passes", "weights_sha256", "seconds")
        record["runs"] = [
            {"seed": seed, "key": run["key"], **{name: run[name] for name in names}}
            for seed, run in sorted(self.runs.items())
        ]
        record["files"] = self._files()
        if self.reference is not None:
            record["float32"] = self.reference.record()
        return record

    def _files(self) -> dict[str, Any]:
        """Return the user's files of the runs: by option the file, the name in the file, and the
        hash."""
        options: dict[str, Any] = {}
        for run in self.runs.values():
            whole = run.get("options", {})
            options = whole.get("program") or whole.get("recipe") or {}
        return {name: options[name] for name in WITH_FILES if isinstance(options.get(name), dict)}


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """Verdict on whether a configuration beats the plain configuration, in means of seeds.

    - ``better``: configurations with a surely smaller loss.
    - ``worse``: configurations with a surely larger loss.
    - ``as_good``: configurations with neither.
    - ``dominating``: configurations that are better and not dearer, or as good and cheaper.

    The price is area times passes times the multiplications of a step. If an area is not known, the
    price is the bits of the tensors.
    """

    plain: str
    better: tuple[str, ...]
    as_good: tuple[str, ...]
    worse: tuple[str, ...]
    dominating: tuple[str, ...]

    @property
    def wins(self) -> bool:
        """True if nothing dominates the plain configuration."""
        return not self.dominating

    def record(self) -> dict[str, Any]:
        """Return the record for ``--json``."""
        names = ("better", "as_good", "worse", "dominating")
        listed: dict[str, Any] = {name: list(getattr(self, name)) for name in names}
        return {"plain": self.plain, "plain_wins": self.wins} | listed


def verdict_on(plain: ComparedConfig, others: Sequence[ComparedConfig]) -> Ruling | None:
    """Return the verdict. None if no other configuration has a loss to compare with, or if the loss
    has no error."""
    groups: dict[str, list[str]] = {"better": [], "as_good": [], "worse": [], "dominating": []}
    for other in others:
        over = other.over(plain, "loss")
        sign = None if over is None else over.sign
        if sign is None or plain.cost is None or other.cost is None:
            continue
        cheaper, dearer = _price(other.cost, plain.cost)
        if sign < 0:
            groups["better"].append(other.name)
            if not dearer:
                groups["dominating"].append(other.name)
        elif sign > 0:
            groups["worse"].append(other.name)
        else:
            groups["as_good"].append(other.name)
            if cheaper:
                groups["dominating"].append(other.name)
    if not any(groups.values()):
        return None
    return Ruling(plain=plain.name, **{name: tuple(each) for name, each in groups.items()})


def _price(one: Cost, other: Cost) -> tuple[bool, bool]:
    """Return whether the first is cheaper, and whether the first is dearer."""
    a, b = one.area_time, other.area_time
    if a is None or b is None:
        a, b = one.bits, other.bits
    return a < b, a > b
