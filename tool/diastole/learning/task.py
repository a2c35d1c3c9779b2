"""Make a task of a user's network and data."""

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from diastole.errors import BadInput
from diastole.files.archive import Archive, Unreadable
from diastole.files.bundled_data import BUNDLED, bundled_table
from diastole.files.data_tables import DataTable, read_table
from diastole.files.network_file import NetworkFile
from diastole.files.sealed_file import ENDING
from diastole.learning.standard import Standard
from diastole.nn.symbol import Symbol
from diastole.nn.tracing import is_labelled, trace
from diastole_sim.graph.graph import Graph, GraphError
from diastole_sim.program.chains.losses import ElementLoss
from diastole_sim.program.own_code import OwnCode, OwnCodeError
from diastole_sim.train.samples import Samples
from diastole_sim.train.tasks import Task, split

RATE, MOMENTUM = 0.01, 0.9
"""Defaults of the optimisers sgd and nesterov."""
STANDARDIZE = ("inputs", "all")
MOST_BATCH = 64


@dataclass(frozen=True, kw_only=True)
class OwnTraining:
    """Network, data and length of a training.

    - ``network``: reference to a network in a file of the user.
    - ``data``: file, folder, or name of a data set.
    - ``loss``: one of :data:`diastole.nn.tracing.LOSSES`, or a loss of the user.
    - ``target``: columns of the targets, None for the last column.
    - ``standardize``: "inputs", "all" for inputs and targets, or None.
    - ``epochs``, ``batch``: length of the training and samples of a step; ``batch`` is None for
      64 samples, or fewer if there are fewer.
    - ``first``: file with initial parameters.
    """

    network: OwnCode
    data: str
    loss: str | ElementLoss
    target: tuple[str, ...] | None = None
    standardize: str | None = None
    epochs: int = 10
    batch: int | None = None
    first: Path | None = None


@dataclass(frozen=True, kw_only=True)
class OwnTask:
    """Task of a user's network, with everything that a prediction needs later.

    - ``task``: task for a program, with graph and samples.
    - ``table``: names of columns and classes. ``inputs``, ``outputs``: how columns were
      standardised.
    - ``data_sha256``: hash of all samples, and of the names of columns and classes.
    """

    task: Task
    table: DataTable
    inputs: Standard | None
    outputs: Standard | None
    data_sha256: str

    def record(self) -> dict[str, Any]:
        """Return what a prediction needs, as plain values."""
        table = self.table
        return {
            "features": list(table.features),
            "outputs": list(table.outputs),
            "classes": None if table.classes is None else list(table.classes),
            "inputs": None if self.inputs is None else self.inputs.record(),
            "targets": None if self.outputs is None else self.outputs.record(),
            "sample": list(table.inputs.shape[1:]),
            "sha256": self.data_sha256,
        }


def own_task(training: OwnTraining, *, seed: int) -> OwnTask:
    """Return the task. BadInput for mistakes of the network, the data, or both together."""
    labels = is_labelled(training.loss)
    table = _table(training, labels=labels)
    standard = _standards(training, table, seed)
    samples = Samples(
        inputs=_applied(standard[0], table.inputs).reshape(len(table.inputs), -1),
        labels=_targets(table) if labels else _applied(standard[1], _targets(table)),
    )
    learnt, _ = split(samples, seed=seed)
    count = len(learnt.labels)
    batch = min(MOST_BATCH, count) if training.batch is None else training.batch
    if batch > count:
        raise BadInput(
            f"--batch must be at most {count}, the number of training samples, not {batch}"
        )
    graph, own_first = own_graph(training, table, batch=batch)
    first = own_first if training.first is None else first_parameters(training.first, graph)
    task = graph_task(
        str(training.network), graph, samples, per_epoch=count // batch, epochs=training.epochs
    )
    task = replace(task, first=first)
    return OwnTask(
        task=task,
        table=table,
        inputs=standard[0],
        outputs=standard[1],
        data_sha256=_digest([*table.features, *table.outputs, *(table.classes or ())], samples),
    )


def task_with_graph(task: Task, graph: Graph) -> OwnTask:
    """Return a task of Diastole with the graph that learns the task, and with the names of columns
    and classes that a prediction needs."""
    samples = task.load()
    features = tuple(f"x{number}" for number in range(samples.inputs.shape[1]))
    classes = tuple(map(str, range(int(samples.labels.max()) + 1)))
    table = DataTable(
        inputs=samples.inputs,
        targets=samples.labels,
        features=features,
        outputs=("label",),
        classes=classes,
    )
    return OwnTask(
        task=replace(task, graph=graph),
        table=table,
        inputs=None,
        outputs=None,
        data_sha256=_digest([*features, *classes], samples),
    )


def _digest(names: Sequence[str], samples: Samples) -> str:
    """Return the hash of all samples, and of the names of columns and classes."""
    digest = hashlib.sha256("\0".join(names).encode())
    digest.update(samples.inputs.tobytes())
    digest.update(np.ascontiguousarray(samples.labels).tobytes())
    return digest.hexdigest()


def graph_task(name: str, graph: Graph, samples: Samples, *, per_epoch: int, epochs: int) -> Task:
    """Return the task of a graph. ``per_epoch``: steps of an epoch."""
    return Task(
        name=name,
        about="a network of your own",
        load=partial(_same, samples),
        split=split,
        batch=graph.batch,
        rate=RATE,
        momentum=MOMENTUM,
        steps=epochs * per_epoch,
        evaluate_every=per_epoch,
        classifies=True,
        graph=graph,
    )


def blank_task(
    network: OwnCode, sample: tuple[int, ...], *, loss: str | ElementLoss, batch: int
) -> Task:
    """Return a task of one step of a user's network, with samples of a shape and without data: all
    numbers are 0. BadInput as for :func:`own_graph`."""
    graph, _ = traced_graph(network, sample, loss=loss, batch=batch)
    count = 2 * batch  # most of them are training samples
    columns = int(np.prod(graph.shape(_result(graph))[1:]))
    labels = is_labelled(loss)
    samples = Samples(
        inputs=np.zeros((count, int(np.prod(sample))), np.float32),
        labels=np.zeros(count, np.int64) if labels else np.zeros((count, columns), np.float32),
    )
    return graph_task(str(network), graph, samples, per_epoch=1, epochs=1)


def own_graph(
    training: OwnTraining, table: DataTable, *, batch: int
) -> tuple[Graph, Mapping[str, NDArray[np.float32]] | None]:
    """Return the graph of a user's network for samples, and the initial parameters if the network
    has numbers, as a module of PyTorch has. BadInput for a mistake in the file, for
    shapes that do not fit, and for a result that does not fit the targets."""
    code, sample = training.network, table.inputs.shape[1:]
    graph, first = traced_graph(code, sample, loss=training.loss, batch=batch)
    columns = int(np.prod(graph.shape(_result(graph))[1:]))
    found = f"{code}: the network has {_several(columns, 'result')} for a sample"
    if table.classes is not None and len(table.classes) > columns:
        raise BadInput(
            f"{found}, but {training.data} has {len(table.classes)} classes: give the last layer "
            f"at least {len(table.classes)} outputs, or for numbers to learn --loss mse"
        )
    if table.classes is None and columns != len(table.outputs):
        count = len(table.outputs)
        raise BadInput(
            f"{found}, but {training.data} has {_several(count, 'column')} to learn, "
            f"{', '.join(table.outputs)}: give the last layer {_several(count, 'output')}"
        )
    return graph, first


def _several(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def traced_graph(
    code: OwnCode, sample: tuple[int, ...], *, loss: str | ElementLoss, batch: int
) -> tuple[Graph, Mapping[str, NDArray[np.float32]] | None]:
    """Return the graph of a user's network for samples of a shape, and the initial parameters if
    the network has numbers. BadInput for a mistake in the file, and for shapes that do not fit."""
    try:
        network: Any = code.load()
        if not callable(network):  # as every module is
            raise BadInput(
                f"{code}: must be a network, a Module of diastole.nn or a function of a symbol, "
                f"not {type(network).__name__}"
            )
        first = None
        with code.running(f"{code}: "):
            if _is_of_torch(network):
                from diastole.torch.exported import exported_graph

                graph, first = exported_graph(network, sample, batch=batch, loss=loss)
            else:
                called = cast(Callable[[Symbol], Symbol], network)
                graph = trace(called, sample, batch=batch, loss=loss)
    except GraphError as error:
        raise BadInput(*(f"{code}: {problem}" for problem in error.problems)) from None
    except OwnCodeError as error:
        cause = error.__cause__
        if isinstance(cause, GraphError):
            raise BadInput(*(f"{code}: {problem}" for problem in cause.problems)) from None
        raise BadInput(str(error)) from None
    return graph, first


def _is_of_torch(network: Any) -> bool:
    """Return whether a network is a module of PyTorch, which the user's file has imported."""
    torch: Any = sys.modules.get("torch")
    return torch is not None and isinstance(network, torch.nn.Module)


def first_parameters(path: Path, graph: Graph) -> dict[str, NDArray[np.float32]]:
    """Return the initial parameters in a file: an .npz, or a network that Diastole saved. BadInput
    for absent names and for other shapes."""
    if path.suffix.lower() == ENDING:
        found: Mapping[str, NDArray[Any]] = NetworkFile.read(path).parameters
    else:
        archive = Archive(path)
        try:
            found = {name: archive.read(name) for name in archive.names}
        except Unreadable as reason:
            raise BadInput(f"{path}: an array cannot be read: {reason}") from None
    problems: list[str] = []
    for name, parameter in graph.parameters.items():
        if name not in found:
            problems.append(f"{path}: the parameter {name} is missing")
        elif found[name].shape != parameter.shape or found[name].dtype.kind != "f":
            problems.append(
                f"{path}: {name} must be floats of shape {list(parameter.shape)}, not "
                f"{found[name].dtype} of shape {list(found[name].shape)}"
            )
    unknown = [name for name in found if name not in graph.parameters]
    problems += [f"{path}: the network has no parameter {name}" for name in unknown]
    if problems:
        raise BadInput(*problems)
    return {name: found[name].astype(np.float32) for name in graph.parameters}


def _table(training: OwnTraining, *, labels: bool) -> DataTable:
    if training.data in BUNDLED:
        if training.target is not None:
            raise BadInput(f"--target works only with a CSV file, not with --data {training.data}")
        return bundled_table(training.data, labels=labels)
    path = Path(training.data)
    if training.target is not None and path.suffix.lower() != ".csv":
        raise BadInput(f"--target works only with a CSV file, not with {path}")
    return read_table(path, labels=labels, outputs=training.target)


def _targets(table: DataTable) -> NDArray[Any]:
    assert table.targets is not None
    return table.targets


def _standards(
    training: OwnTraining, table: DataTable, seed: int
) -> tuple[Standard | None, Standard | None]:
    """Return how inputs and targets are standardised, by the training samples alone."""
    if training.standardize is None:
        return None, None
    samples = Samples(inputs=table.inputs, labels=_targets(table))
    learnt, _ = split(samples, seed=seed)
    if training.standardize == "inputs":
        return Standard.of(learnt.inputs), None
    if table.classes is not None:
        raise BadInput("--standardize all works only with numbers to learn: give inputs")
    return Standard.of(learnt.inputs), Standard.of(learnt.labels)


def _applied(standard: Standard | None, values: NDArray[Any]) -> NDArray[Any]:
    return values if standard is None else standard.apply(values)


def _result(graph: Graph) -> str:
    """Return the name of the network's result."""
    return next(node for node in graph.nodes if node.name == graph.output).operands[0]


def _same(samples: Samples) -> Samples:
    return samples
