"""`diastole predict`: compute the results of a trained network for new samples."""

import argparse
import csv
import io
from pathlib import Path

import numpy as np

from diastole.commands.arguments import Commands, add_backend
from diastole.commands.backends import execution_of
from diastole.console import say, say_next
from diastole.errors import BadInput
from diastole.files import atomic
from diastole.files.data_tables import read_inputs
from diastole.files.outputs import check_output
from diastole.learning.prediction import TrainedNetwork
from diastole_sim.program.run import Floats

CLASS, PROBABILITY = "class", "probability"


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "predict",
        help="results of a trained network for new samples",
        description=__doc__,
        epilog="example: diastole predict run.safetensors --in new.csv --out predictions.csv",
        allow_abbrev=False,
    )
    add_network_file(parser)
    parser.add_argument(
        "--in",
        dest="source",
        metavar="FILE",
        type=Path,
        required=True,
        help="samples: a CSV file, an .npz file or a folder of .npy files with inputs",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=Path,
        required=True,
        help="predictions, a row for each sample: .csv (class and probability, or the learnt "
        "columns) or .npy (the results of the network)",
    )
    add_backend(parser)
    parser.set_defaults(execute=execute)


def add_network_file(parser: argparse.ArgumentParser) -> None:
    """Add the file of a trained network."""
    parser.add_argument(
        "network", metavar="NETWORK", type=Path, help="network that diastole train --save kept"
    )


def execute(arguments: argparse.Namespace) -> int:
    check_output("--out", arguments.out, (".csv", ".npy"))
    if arguments.out.exists() and arguments.out.samefile(arguments.source):
        raise BadInput("--in and --out must be two files")
    execution = execution_of(arguments)
    network = TrainedNetwork.read(arguments.network)
    table = read_inputs(arguments.source, network.features)
    results = network.results(table.inputs, execution)
    if network.targets is not None:
        results = network.targets.undo(results)
    if arguments.out.suffix.lower() == ".npy":
        atomic.replace(arguments.out, lambda file: np.save(file, results, allow_pickle=False))
    else:
        text = _csv(network, results).encode()
        atomic.replace(arguments.out, lambda file: file.write(text))
    say(f"{arguments.out}: predictions for {len(results)} samples by {network.path}")
    say_next("diastole evaluate compares predictions with known targets")
    return 0


def _csv(network: TrainedNetwork, results: Floats) -> str:
    """Return the predictions as a CSV text."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if network.classes is None:
        writer.writerow(network.outputs)
        writer.writerows([[f"{value:.9g}" for value in row] for row in results])
        return text.getvalue()
    shares = np.exp(results - results.max(axis=1, keepdims=True), dtype=np.float64)
    shares /= shares.sum(axis=1, keepdims=True)
    writer.writerow((CLASS, PROBABILITY))
    best_places: list[int] = results.argmax(axis=1).tolist()
    for row, best in zip(shares, best_places, strict=True):
        name = network.classes[best] if best < len(network.classes) else str(best)
        writer.writerow((name, f"{row[best]:.6f}"))
    return text.getvalue()
