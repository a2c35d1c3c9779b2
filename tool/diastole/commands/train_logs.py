"""Options of `train` for logs of a training."""

import argparse
from pathlib import Path

from diastole import install
from diastole.errors import BadInput
from diastole.files.outputs import check_folder, check_output
from diastole.learning.log import Journal, JsonLines
from diastole.learning.tensorboard import TensorBoard


def add_logs(parser: argparse.ArgumentParser) -> None:
    """Add the options of logs."""
    parser.add_argument(
        "--log",
        metavar="FILE",
        type=Path,
        help="write loss and learning rate of every step, and the results of every evaluation, to "
        "FILE (.jsonl), except where a host trains",
    )
    parser.add_argument(
        "--tensorboard",
        metavar="DIR",
        type=Path,
        help="write the values of --log, as curves for TensorBoard, to a file in the folder DIR",
    )


def check_logs(arguments: argparse.Namespace) -> None:
    """Raise BadInput for logs that cannot be written, and ToolMissing without a package for
    them."""
    if arguments.log is not None:
        check_output("--log", arguments.log, (".jsonl",))
    folder: Path | None = arguments.tensorboard
    if folder is not None:
        if folder.exists() and not folder.is_dir():
            raise BadInput(f"--tensorboard must be a folder, not {folder}, which is a file")
        check_folder(folder)
        install.require(install.TENSORBOARD)


def journals_of(arguments: argparse.Namespace) -> list[Journal]:
    """Return the requested logs."""
    journals: list[Journal] = []
    if arguments.log is not None:
        journals.append(JsonLines(arguments.log))
    if arguments.tensorboard is not None:
        journals.append(TensorBoard(arguments.tensorboard))
    return journals
