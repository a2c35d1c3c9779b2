"""Compute the results of a trained network for new samples."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole.backend import make_machine, program_limits
from diastole.config.file import from_document
from diastole.config.keys import Config
from diastole.errors import BadInput
from diastole.execution import Execution
from diastole.files.network_file import NetworkFile
from diastole.learning.standard import Standard
from diastole_sim.graph.build import read_graph
from diastole_sim.graph.graph import Graph
from diastole_sim.lowering.evaluation import evaluation_program
from diastole_sim.lowering.recipe import TrainingRecipe
from diastole_sim.lowering.samples import StoredSamples
from diastole_sim.program.recipe import Sgd
from diastole_sim.program.run import Floats, ProgramRun
from diastole_sim.train.precision import Precision

MOST_ROWS = 4096
"""Most samples of one evaluation."""


@dataclass(frozen=True, kw_only=True)
class TrainedNetwork:
    """Network in a file.

    - ``classes``: name of every label, None for numbers.
    - ``features``, ``outputs``: names of the columns.
    - ``inputs``, ``targets``: how columns were standardised.
    - ``seed``, ``steps``: random bits of an evaluation.
    """

    path: Path
    file: NetworkFile
    config: Config
    graph: Graph
    recipe: TrainingRecipe
    features: tuple[str, ...]
    outputs: tuple[str, ...]
    classes: tuple[str, ...] | None
    inputs: Standard | None
    targets: Standard | None
    seed: int
    steps: int

    @classmethod
    def read(cls, path: Path) -> "TrainedNetwork":
        """Return the network of a file. BadInput if the file is no trained network."""
        file = NetworkFile.read(path)
        try:
            return cls._of(path, file)
        except (LookupError, TypeError, ValueError) as error:
            raise BadInput(f"{path}: is not a trained network: {error}") from None

    @classmethod
    def _of(cls, path: Path, file: NetworkFile) -> "TrainedNetwork":
        record, data = file.record, file.record["data"]
        training: Mapping[str, Any] = record["training"]
        graph = read_graph(record["graph"])
        kind = training.get("precision")
        rule: dict[str, Any] = dict(kind or {})
        if rule:
            rule["classes"] = tuple(rule["classes"])
        precision = Precision(**rule) if rule else None
        recipe = TrainingRecipe(
            graph=graph,
            optimiser=Sgd(rate=lambda step: 0.0),
            batches=np.zeros((1, graph.batch), np.int64),
            precision=precision,
        )
        return cls(
            path=path,
            file=file,
            config=from_document(tomllib.loads(record["configuration"]), source=str(path)),
            graph=graph,
            recipe=recipe,
            features=tuple(data["features"]),
            outputs=tuple(data["outputs"]),
            classes=None if data["classes"] is None else tuple(data["classes"]),
            inputs=Standard.read(data["inputs"]),
            targets=Standard.read(data["targets"]),
            seed=int(training["seed"]),
            steps=int(record["progress"]["steps"]),
        )

    def results(self, inputs: NDArray[np.float32], execution: Execution) -> Floats:
        """Return the network's result for every sample, by the machine of the file's
        configuration: logits, or numbers before they are put back in the units of the data."""
        columns = int(np.prod(inputs.shape[1:]))
        if columns != len(self.features):
            raise BadInput(
                f"{self.path}: the network reads {len(self.features)} numbers of a sample, but the "
                f"samples have {columns}"
            )
        values = inputs if self.inputs is None else self.inputs.apply(inputs)
        rows = values.reshape(len(values), -1)
        parts = [
            self._part(rows[first : first + MOST_ROWS], execution)
            for first in range(0, len(rows), MOST_ROWS)
        ]
        return np.concatenate(parts)

    def _part(self, rows: Floats, execution: Execution) -> Floats:
        limits = program_limits(self.config)
        program = evaluation_program(
            self.recipe,
            self.file.parameters,
            StoredSamples(inputs=rows, targets=np.zeros(len(rows), np.int64)),
            numerics=self.config.numerics,
            limits=limits,
            state=self.file.state,
        )
        seeded = replace(execution, seed=self.seed)
        with make_machine(seeded, self.config, program) as machine:
            run = ProgramRun(program=program, machine=machine)
            machine.step = machine.step_end = self.steps
            return run.evaluate()
