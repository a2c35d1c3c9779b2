"""Make the runs of a comparison, configurations by seeds, and summarise the records."""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from diastole.compare.costs import cost_of
from diastole.compare.jobs import FLOAT32, Job, Record, samples_sha256
from diastole.compare.study import PRESET, Named
from diastole.compare.summary import ComparedConfig
from diastole.config.keys import Config
from diastole.layers.modelled_step import STEP
from diastole_sim.program.program import TrainingProgram
from diastole_sim.train.network import LayerShape
from diastole_sim.train.tasks import Task
from diastole_sim.trainer.options import RecipeOptions


@dataclass(frozen=True, kw_only=True)
class RunnableConfig:
    """A configuration that can be run, with the ``options`` of the training."""

    named: Named
    config: Config
    options: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Runs:
    """All jobs of a comparison: a job of every configuration and a job of its float32, for every
    seed.

    - ``tasks``: task by seed. Tasks differ if samples are standardised, since the seed decides
      which samples are held out.
    - ``data``: hash of the samples by seed, by :func:`diastole.compare.jobs.samples_sha256`.
    """

    tasks: Mapping[int, Task]
    data: Mapping[int, str]
    steps: int
    runnable: tuple[RunnableConfig, ...]

    @classmethod
    def of(
        cls, tasks: Mapping[int, Task], runnable: Sequence[RunnableConfig], steps: int
    ) -> "Runs":
        """Return the runs of a task, given for every seed."""
        hashes = {id(task): samples_sha256(task.load()) for task in tasks.values()}
        data = {seed: hashes[id(task)] for seed, task in tasks.items()}
        return cls(tasks=tasks, data=data, steps=steps, runnable=tuple(runnable))

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(self.tasks)

    def job(self, runnable: RunnableConfig, seed: int) -> Job:
        """Return the job of a configuration."""
        return Job(
            name=runnable.named.name,
            numerics=runnable.config.numerics,
            options=runnable.options,
            **self._common(seed),
        )

    def float_job(self, runnable: RunnableConfig, seed: int) -> Job:
        """Return the job of the configuration's network, recipe and samples in float32."""
        program = runnable.options.get("program")
        options = {} if program is None else {"recipe": program.in_float32}
        name = self._float_names[_float_key(runnable)]
        return Job(name=name, numerics=None, options=options, **self._common(seed))

    @property
    def jobs(self) -> dict[str, Job]:
        """Jobs by key, seed by seed. A float32 job stands before the first configuration that needs
        the job. Jobs with equal bits occur once, by the name of the first."""
        jobs: dict[str, Job] = {}
        for seed in self.seeds:
            for runnable in self.runnable:
                for job in (self.float_job(runnable, seed), self.job(runnable, seed)):
                    jobs.setdefault(job.key, job)
        return jobs

    def summarise(self, done: Mapping[str, Record]) -> list[ComparedConfig]:
        """Return every configuration, with the ended runs by key and the runs of its float32.
        Configurations with an equal float32 share one object."""
        references = {
            key: ComparedConfig(name=name, settings={}, runs=self._float_runs(key, done))
            for key, name in self._float_names.items()
        }
        return [self._summary(each, references[_float_key(each)], done) for each in self.runnable]

    def _common(self, seed: int) -> dict[str, Any]:
        task, data = self.tasks[seed], self.data[seed]
        return {"task": task, "data": data, "steps": self.steps, "seed": seed}

    @property
    def _float_names(self) -> dict[str, str]:
        """Names of float32 references by the key that decides the bits: ``float32`` alone, or with
        the options that distinguish the reference."""
        first: dict[str, RunnableConfig] = {}
        for runnable in self.runnable:
            first.setdefault(_float_key(runnable), runnable)
        if len(first) == 1:
            return dict.fromkeys(first, FLOAT32)
        names: dict[str, str] = {}
        for key, runnable in first.items():
            options = [
                f"{name}={value}"
                for name, value in runnable.named.settings.items()
                if name.replace("-", "_") in RECIPE
            ]
            name = " ".join([FLOAT32, *options])
            names[key] = name if name not in names.values() else f"{name} of {runnable.named.name}"
        return names

    def _float_runs(self, key: str, done: Mapping[str, Record]) -> dict[int, Record]:
        runnable = next(each for each in self.runnable if _float_key(each) == key)
        return _ended({seed: self.float_job(runnable, seed) for seed in self.seeds}, done)

    def _summary(
        self, runnable: RunnableConfig, reference: ComparedConfig, done: Mapping[str, Record]
    ) -> ComparedConfig:
        """Return the summary of a configuration, with its cost. The cost has means of the runs
        where runs choose widths."""
        runs = _ended({seed: self.job(runnable, seed) for seed in self.seeds}, done)
        named, cost = runnable.named, None
        if runs:
            passes = [run["mean_passes"] or 1.0 for run in runs.values()]
            every = [run["widths"] for run in runs.values()]
            widths = {name: sum(each[name] for each in every) / len(every) for name in every[0]}
            cost = cost_of(
                runnable.config,
                step_shapes(self._first_task, runnable.options),
                passes=sum(passes) / len(passes),
                widths=widths,
                program=self._program(runnable),
            )
        return ComparedConfig(
            name=named.name, settings=named.settings, runs=runs, reference=reference, cost=cost
        )

    def _program(self, runnable: RunnableConfig) -> TrainingProgram | None:
        """Return a program of a few steps for a machine that does whole steps, None for a
        host."""
        options = runnable.options.get("program")
        if options is None or not runnable.config.vector.enable:
            return None
        numerics, seed = runnable.config.numerics, self.seeds[0]
        return options.program(self._first_task, numerics, steps=STEP + 1, seed=seed).program

    @property
    def _first_task(self) -> Task:
        return self.tasks[self.seeds[0]]


RECIPE = (*(each.name for each in dataclasses.fields(RecipeOptions)), PRESET, "vector.enable")
"""Settings that decide the training in float32."""


def _float_key(runnable: RunnableConfig) -> str:
    program = runnable.options.get("program")
    return "" if program is None else repr(program.in_float32)


def _ended(jobs: Mapping[int, Job], done: Mapping[str, Record]) -> dict[int, Record]:
    """Return the records of ended jobs, by seed."""
    keys = {seed: job.key for seed, job in jobs.items()}
    return {seed: done[key] for seed, key in keys.items() if key in done}


def step_shapes(task: Task, options: Mapping[str, Any]) -> list[LayerShape]:
    """Return the linear layers of a step of a training with these options."""
    program = options.get("program")
    if program is not None:
        recipe = program.recipe(task, steps=1, seed=0).recipe
        return [
            LayerShape(
                m=recipe.batch,
                k=recipe.columns(node.operands[0]),
                n=recipe.columns(node.name),
                input_gradient=node.operands[0] in recipe.graph.differentiated,
            )
            for node in recipe.linears * recipe.microbatches
        ]
    training, _ = task.split(task.load(), seed=0)
    batch = training.take(np.arange(task.batch))
    assert task.network is not None, "a host trains the task"
    return task.network(training, seed=0).shapes(batch)
