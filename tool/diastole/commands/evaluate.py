"""`diastole evaluate`: measure a trained network on samples with known targets."""

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np

from diastole.commands.arguments import Commands, add_backend, add_json
from diastole.commands.backends import execution_of
from diastole.commands.predict import add_network_file
from diastole.console import print_json, say
from diastole.errors import BadInput, CheckFailed
from diastole.files.bundled_data import BUNDLED, bundled_table
from diastole.files.data_tables import DataTable, read_table
from diastole.learning.prediction import TrainedNetwork
from diastole_sim.program.run import Floats
from diastole_sim.trainer.tasks import measures


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "evaluate",
        help="loss and accuracy of a trained network",
        description=__doc__,
        epilog="example: diastole evaluate run.safetensors --data test.csv",
        allow_abbrev=False,
    )
    add_network_file(parser)
    parser.add_argument(
        "--data",
        metavar="PATH",
        required=True,
        help="samples with targets: a CSV file, an .npz file or a folder of .npy files, or "
        f"{', '.join(BUNDLED)}",
    )
    add_backend(parser)
    add_json(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    execution = execution_of(arguments)
    network = TrainedNetwork.read(arguments.network)
    table = _table(network, arguments.data)
    targets = table.targets
    assert targets is not None
    if network.classes is None and targets.shape[1] != len(network.outputs):
        raise BadInput(
            f"{arguments.data}: the network has {len(network.outputs)} columns to learn, but the "
            f"samples have {targets.shape[1]}"
        )
    results = network.results(table.inputs, execution)
    if network.targets is not None:
        targets = network.targets.apply(targets)
    with np.errstate(all="ignore"):  # a loss that is not finite is reported
        loss, accuracy = measures(network.recipe, results, targets)
    if not math.isfinite(loss):
        raise CheckFailed(f"the loss on {arguments.data} is not finite")
    record: dict[str, Any] = {
        "network": str(network.path),
        "data": arguments.data,
        "samples": len(results),
        "loss": loss,
        "accuracy": None if network.classes is None else accuracy,
        "backend": execution.backend,
    }
    if network.classes is None:
        record["mean_absolute_error"] = _mean_error(network, results, table)
    if arguments.json:
        print_json(record)
        return 0
    measured = f"accuracy {accuracy:.2%}, " if network.classes is not None else ""
    error = record.get("mean_absolute_error")
    mean = "" if error is None else f", mean absolute error {error:.6g}"
    say(f"{len(results)} samples of {arguments.data}: {measured}loss {loss:.4f}{mean}")
    return 0


def _mean_error(network: TrainedNetwork, results: Floats, table: DataTable) -> float:
    """Return the mean absolute error in the units of the data."""
    assert table.targets is not None
    found = results if network.targets is None else network.targets.undo(results)
    return float(np.abs(found.astype(np.float64) - table.targets).mean())


def _table(network: TrainedNetwork, data: str) -> DataTable:
    """Return the samples, with the columns and classes of the network. BadInput for others."""
    labels = network.classes is not None
    if data in BUNDLED:
        table = bundled_table(data, labels=labels)
        if (table.features, table.classes) != (network.features, network.classes):
            raise BadInput(f"{network.path} was trained on other columns or classes than {data}")
        return table
    of_columns = Path(data).suffix.lower() == ".csv"
    return read_table(
        Path(data),
        labels=labels,
        outputs=network.outputs if of_columns else None,
        classes=network.classes,
        features=network.features if of_columns else None,
    )
