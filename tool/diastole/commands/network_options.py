"""Options of `train` for a network and data of the user."""

import argparse
from pathlib import Path

from diastole.commands.arguments import integer
from diastole.commands.own import OWN_PAGE, NamesOrOwn, named_or_own
from diastole.errors import BadInput
from diastole.files.bundled_data import BUNDLED
from diastole.files.outputs import check_output
from diastole.files.sealed_file import ENDING, check_sealed
from diastole.learning.task import MOST_BATCH, STANDARDIZE, OwnTraining
from diastole.nn.tracing import LOSSES
from diastole_sim.program.chains.losses import ElementLoss
from diastole_sim.program.own_code import FORM, OwnCode, OwnCodeError
from diastole_sim.program.own_parts import own_loss

MAX_EPOCHS, MAX_BATCH = 1_000_000, 65_536
EPOCHS = 10
OPTIONS = ("data", "loss", "target", "standardize", "epochs", "batch", "init")
"""Options that need a network of the user."""
FILES = ("save", "resume", "weights")
Group = argparse._ArgumentGroup  # pyright: ignore[reportPrivateUsage] - argparse has no other


DATA = (
    "a CSV file, an .npz file or a folder of .npy files with inputs and targets, "
    f"or {', '.join(BUNDLED)}"
)
"""Samples for a network, for people."""


def add_network(parser: argparse.ArgumentParser, data: str = f"samples: {DATA}") -> None:
    """Add the options of a network and of data. ``data`` is the help of --data."""
    group = parser.add_argument_group("your own network", "instead of a task")
    group.add_argument(
        "--graph",
        metavar=FORM,
        help="network in a Python file: a module of diastole.nn, or a function of a symbol",
    )
    group.add_argument(
        "--data",
        metavar="PATH",
        help=data,
    )
    add_loss(group, "loss to make small")
    group.add_argument(
        "--target",
        metavar="COLUMN,...",
        help="columns of a CSV file to learn (default: the last column)",
    )
    group.add_argument(
        "--standardize",
        choices=STANDARDIZE,
        help="subtract the mean of each column and divide by the standard deviation, of inputs, or "
        "of all: inputs and targets",
    )
    group.add_argument(
        "--epochs",
        metavar="N",
        type=integer(1, MAX_EPOCHS),
        help=f"times that every training sample is used (default: {EPOCHS}); the rest of an epoch "
        "that fills no batch is left out",
    )
    group.add_argument(
        "--batch",
        metavar="N",
        type=integer(1, MAX_BATCH),
        help=f"samples of a step (default: {MOST_BATCH}, or all)",
    )
    group.add_argument(
        "--init",
        metavar="FILE",
        type=Path,
        help=f"initial parameters by name: an .npz, or a {ENDING} that --save wrote",
    )


def add_loss(parser: argparse.ArgumentParser | Group, about: str) -> None:
    """Add --loss. ``about`` begins the help of the option."""
    parser.add_argument(
        "--loss",
        metavar=f"NAME|{FORM}",
        type=named_or_own(LOSSES, own_loss),
        choices=NamesOrOwn(LOSSES),
        help=f"{about}: {', '.join(LOSSES)}, or your own: an ElementLoss ({OWN_PAGE})",
    )


def loss_of(named: str | OwnCode) -> str | ElementLoss:
    """Return the loss of an option: a name, or the loss in a file of the user."""
    return named if isinstance(named, str) else own_loss(named)


def add_network_files(parser: argparse.ArgumentParser) -> None:
    """Add the files of a training."""
    group = parser.add_argument_group("files of the training", "not for the task text")
    group.add_argument(
        "--save",
        metavar="FILE",
        type=Path,
        help=f"keep the network and the state of the training in FILE ({ENDING}) at every "
        "evaluation: after every epoch, or every 25 steps of the digits",
    )
    group.add_argument(
        "--resume",
        action="store_true",
        help="continue the training that --save kept in FILE, with the same bits",
    )
    group.add_argument(
        "--weights",
        metavar="FILE",
        type=Path,
        help="write the trained parameters to FILE (.npz), with the names and shapes of PyTorch",
    )


def own_training(arguments: argparse.Namespace) -> OwnTraining | None:
    """Return the requested training of a user's network, None for a task. BadInput for options that
    do not go together."""
    if arguments.graph is None:
        if arguments.task is None:
            raise BadInput(
                "--task or --graph must be given: --task digits, or a network of your own"
            )
        for name in OPTIONS:
            if getattr(arguments, name, None):
                raise BadInput(f"--{name} needs --graph, a network of your own: leave --{name} out")
        return None
    if arguments.task is not None:
        raise BadInput("--graph and --task exclude each other: give one")
    for name in ("data", "loss"):
        if getattr(arguments, name) is None:
            raise BadInput(f"--graph needs --{name}")
    refuse_layers(arguments)
    if arguments.steps is not None:
        raise BadInput("--steps does not work with --graph: give --epochs")
    try:
        network = OwnCode.read(arguments.graph)
    except OwnCodeError as error:
        raise BadInput(f"--graph: {error}") from None
    return _training_of(arguments, network)


def refuse_layers(arguments: argparse.Namespace) -> None:
    """Raise BadInput for options of trainings without a network of the user."""
    for name in ("hidden", "activation", "state"):
        if getattr(arguments, name, None) is not None:
            raise BadInput(f"--{name} does not work with --graph: leave --{name} out")


def check_network_files(arguments: argparse.Namespace) -> None:
    """Raise BadInput for files of a training that do not go together, or cannot be written."""
    own = arguments.graph is not None
    if own and arguments.min_accuracy is not None and arguments.loss != "cross-entropy":
        raise BadInput("--min-accuracy works only with --loss cross-entropy: leave it out")
    if arguments.resume and arguments.save is None:
        raise BadInput("--resume needs --save FILE, the file of the training")
    if arguments.weights is not None:
        check_output("--weights", arguments.weights, (".npz",))
    if arguments.save is not None:
        check_sealed("--save", arguments.save)


def _training_of(arguments: argparse.Namespace, network: OwnCode) -> OwnTraining:
    names = None if arguments.target is None else arguments.target.split(",")
    return OwnTraining(
        network=network,
        data=arguments.data,
        loss=loss_of(arguments.loss),
        target=None if names is None else tuple(name.strip() for name in names),
        standardize=arguments.standardize,
        epochs=arguments.epochs or EPOCHS,
        batch=arguments.batch,
        first=arguments.init,
    )
