"""Save a trained network with the state of the training, and continue from a saved state."""

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from diastole.config.file import to_toml
from diastole.config.keys import Config
from diastole.errors import BadInput
from diastole.files import atomic
from diastole.files.network_file import NetworkFile
from diastole.learning.task import OwnTask
from diastole_sim.golden.loss_scale import LossScale
from diastole_sim.graph.graph import Graph
from diastole_sim.program.run import Floats, ProgramRun
from diastole_sim.train.history import History
from diastole_sim.trainer.job import Learnt
from diastole_sim.trainer.options import ProgramOptions

TRAINING = "training"
"""Key of the record with everything that decides the bits of a training."""
HASHED = {
    "configuration": "another configuration of the machine: give the same FILE and --set",
    "data": "other data: give the same --data, --target and --standardize",
    "groups": "other groups of parameters: give the same --group",
    "init": "other initial parameters: give the same --init",
}
"""Parts of a training that a message does not show, with the mistake in words."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """File of a training, a :class:`diastole_sim.trainer.job.Keeper`.

    - ``path``: file of network and state, None for no file.
    - ``weights``: file of the parameters alone, None for no file.
    - ``resume``: True if the training continues from the file.
    """

    path: Path | None
    weights: Path | None
    config: Config
    task: OwnTask
    options: ProgramOptions
    seed: int
    resume: bool

    def check(self) -> None:
        """Raise BadInput if the file cannot be written, or, with ``resume``, if the file is of
        another training."""
        if self.resume:
            self._read()

    def begin(self, run: ProgramRun) -> Learnt:
        if not self.resume:
            return Learnt()
        found = self._read()
        progress = found.record["progress"]
        loss = LossScale(**progress["loss_scale"])
        run.restore(found.state, progress["steps"], loss)
        for name in ("training", "evaluating", "reported"):
            getattr(run, name).update(progress[name])
        history = History(held_out=[_triple(each) for each in progress["held_out"]])
        return Learnt(history=history, evaluations=progress["evaluations"])

    def keep(self, run: ProgramRun, learnt: Learnt) -> None:
        graph, parameters = self._graph, torch_parameters(self._graph, run.parameters())
        if self.weights is not None:
            atomic.replace(
                self.weights, lambda file: np.savez(file, allow_pickle=False, **parameters)
            )
        if self.path is None:
            return
        progress = {
            "steps": run.done,
            "evaluations": learnt.evaluations,
            "held_out": [_plain(each) for each in learnt.history.held_out],
            "training": dict(run.training),
            "evaluating": dict(run.evaluating),
            "reported": dict(run.reported),
            "loss_scale": {name: int(value) for name, value in vars(run.machine.loss).items()},
        }
        file = NetworkFile(
            record={
                "configuration": to_toml(self.config),
                "graph": graph.record(),
                "data": self.task.record(),
                TRAINING: self._training(),
                "progress": progress,
            },
            parameters=parameters,
            state=run.state(),
        )
        file.write(self.path)

    @property
    def _graph(self) -> Graph:
        assert self.task.task.graph is not None
        return self.task.task.graph

    def _training(self) -> dict[str, Any]:
        """Return everything that decides the bits of the training, besides the graph. Options come
        first, since an option may change the order of the data."""
        options = {
            name: _jsonable(value)
            for name, value in vars(self.options).items()
            if name not in ("limits", "hidden", "activation")
        }
        return {
            "seed": self.seed,
            **options,
            "configuration": self.config.config_sha256,
            "data": self.task.data_sha256,
            "init": _hash_of(self.task.task.first),
            "steps": self.task.task.steps,
        }

    def _read(self) -> NetworkFile:
        """Return the file, BadInput if the file is of another training."""
        assert self.path is not None, "--resume needs --save"
        found = NetworkFile.read(self.path)
        try:
            stored, graph = found.record[TRAINING], found.record["graph"]
        except LookupError:
            raise BadInput(f"{self.path}: has no state of a training; give another file") from None
        for name, value in self._training().items():
            if stored.get(name) != value:
                other = _difference(name, stored.get(name), value)
                raise BadInput(f"{self.path}: is the state of a training {other}")
        if graph != self._graph.record():
            raise BadInput(f"{self.path}: is the state of another network; give another file")
        return found


def _difference(name: str, stored: Any, value: Any) -> str:
    """Return in words how the stored training differs from the requested training."""
    if name in HASHED:
        return f"with {HASHED[name]}"
    if name == "steps":
        return f"of {stored} steps, not {value}: give the same --epochs, --batch and --data"
    option = f"--{name.replace('_', '-')}"
    if stored is None:
        return f"without {option}: leave {option} out"
    if value is None:
        return f"with {option} {stored}: give the option"
    return f"with {option} {stored}, not {value}"


def _hash_of(parameters: Mapping[str, Floats] | None) -> str | None:
    """Return the hash of initial parameters, None for those that the graph draws."""
    if parameters is None:
        return None
    digest = hashlib.sha256()
    for name in sorted(parameters):
        digest.update(name.encode() + parameters[name].tobytes())
    return digest.hexdigest()


def torch_parameters(graph: Graph, parameters: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the parameters of a run with the shapes of the graph: a weight has outputs first."""
    return {
        name: np.ascontiguousarray(parameters[name].T.reshape(each.shape))
        for name, each in graph.parameters.items()
    }


def _plain(entry: tuple[int, float, float]) -> list[float | None]:
    return [None if value != value else value for value in entry]


def _triple(entry: list[Any]) -> tuple[int, float, float]:
    steps, loss, accuracy = (float("nan") if value is None else value for value in entry)
    return int(steps), loss, accuracy


def _jsonable(value: Any) -> Any:
    """Return an option in the form that JSON reads back."""
    if hasattr(value, "sha256"):  # a user's optimiser
        return [value.name, value.sha256]
    if hasattr(value, "__dataclass_fields__"):
        return {name: _jsonable(each) for name, each in asdict(value).items()}
    if isinstance(value, tuple):
        return [_jsonable(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return value
