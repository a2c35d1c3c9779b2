"""The runs of a comparison, and what becomes of them: configurations by seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diastole.compare.costs import cost_of
from diastole.compare.jobs import FLOAT32, Job, Record, samples_sha256
from diastole.compare.plan import Named
from diastole.compare.summary import Compared
from diastole.config.keys import Config
from diastole_sim.train.network import LayerShape
from diastole_sim.train.tasks import Task


@dataclass(frozen=True, kw_only=True)
class Settled:
    """A configuration that can be run. ``options``: of the training."""

    named: Named
    config: Config
    options: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Runs:
    """All jobs of a comparison: of float32 and of each configuration, for each seed. ``data``: of
    the samples, as :func:`diastole.compare.jobs.samples_sha256` has it."""

    task: Task
    data: str
    steps: int
    seeds: tuple[int, ...]
    settled: tuple[Settled, ...]

    @classmethod
    def of(cls, task: Task, settled: Sequence[Settled], seeds: Sequence[int], steps: int) -> "Runs":
        """Of a task."""
        data = samples_sha256(task.load())
        return cls(task=task, data=data, steps=steps, seeds=tuple(seeds), settled=tuple(settled))

    def job(self, settled: Settled | None, seed: int) -> Job:
        """One of them; None is float32."""
        common: dict[str, Any] = {
            "task": self.task,
            "data": self.data,
            "steps": self.steps,
            "seed": seed,
        }
        if settled is None:
            return Job(name=FLOAT32, numerics=None, **common)
        return Job(
            name=settled.named.name,
            numerics=settled.config.numerics,
            options=settled.options,
            **common,
        )

    @property
    def jobs(self) -> dict[str, Job]:
        """By key, seed by seed; those of the same bits once, by the name of the first."""
        found: dict[str, Job] = {}
        for seed in self.seeds:
            for settled in (None, *self.settled):
                job = self.job(settled, seed)
                found.setdefault(job.key, job)
        return found

    def summarise(self, done: Mapping[str, Record]) -> tuple[Compared, list[Compared]]:
        """float32 and every configuration, with the runs that ended, by key."""
        shapes = step_shapes(self.task)
        reference = Compared(name=FLOAT32, settings={}, runs=self._runs(None, done))
        compared = [_summary(each, self._runs(each, done), shapes) for each in self.settled]
        return reference, compared

    def _runs(self, settled: Settled | None, done: Mapping[str, Record]) -> dict[int, Record]:
        keys = {seed: self.job(settled, seed).key for seed in self.seeds}
        return {seed: done[key] for seed, key in keys.items() if key in done}


def step_shapes(task: Task) -> list[LayerShape]:
    """Linear layers of a step."""
    training, _ = task.split(task.load(), seed=0)
    batch = training.take(np.arange(task.batch))
    return task.network(training, seed=0).shapes(batch)


def _summary(
    settled: Settled, runs: Mapping[int, Record], shapes: Sequence[LayerShape]
) -> Compared:
    """Of one configuration, with what it costs: means of its runs where they choose widths."""
    cost = None
    if runs:
        passes = [run["mean_passes"] or 1.0 for run in runs.values()]
        every = [run["widths"] for run in runs.values()]
        widths = {name: sum(each[name] for each in every) / len(every) for name in every[0]}
        mean_passes = sum(passes) / len(passes)
        cost = cost_of(settled.config, shapes, passes=mean_passes, widths=widths)
    named = settled.named
    return Compared(name=named.name, settings=named.settings, runs=runs, cost=cost)
