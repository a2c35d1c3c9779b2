"""`train --state`: keep a training in a file, and continue the training with an equal command."""

import argparse
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from diastole.config.keys import Config
from diastole.console import note
from diastole.errors import BadInput
from diastole.files.training_state import StateFile
from diastole_sim.train.loss_scaling import LossScaling
from diastole_sim.train.tasks import Task


def add_state(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--state",
        metavar="FILE",
        type=Path,
        help="task text: keep the state of the training in FILE (.npz) after every step, and "
        "continue from an existing FILE of the same training, for example after the cable of a "
        "board was pulled",
    )


def state_of(
    config: Config, arguments: argparse.Namespace, task: Task, options: dict[str, Any]
) -> StateFile | None:
    """Return the requested file of the state, or None. BadInput for trainings with a state that is
    not completely in the file."""
    if arguments.state is None:
        return None
    if options["precision"] is not None:
        raise BadInput(
            "--state does not work with the format fast, because the file does not hold the "
            "chosen widths: leave --state out"
        )
    if config.scale.source == "delayed":
        raise BadInput(
            "--state does not work with scale.source = delayed, because the file does not "
            "hold the scales: leave --state out"
        )
    training = {
        "config_sha256": config.config_sha256,
        "task": task.name,
        "steps": arguments.steps or task.steps,
        "seed": arguments.seed,
        "master": asdict(options["master"]),
        "gradient": options["gradient"],
        "loss_scaling": _scaling(options["loss_scaling"]),
    }
    return StateFile(arguments.state, training)


def _scaling(scaling: LossScaling | None) -> dict[str, Any] | None:
    """Return the loss scaling in the form that JSON reads back."""
    if scaling is None:
        return None
    return asdict(scaling) | {"floors": [list(each) for each in scaling.floors]}


@contextmanager
def resumable(state: StateFile | None) -> Generator[None]:
    """Add to an error, or to a Ctrl-C, the step from which the same command continues."""
    try:
        yield
    except BadInput as error:
        if state is None or state.steps is None:
            raise
        raise BadInput(*error.problems, _goes_on(state)) from error
    except KeyboardInterrupt:
        if state is not None and state.steps is not None:
            note(_goes_on(state))
        raise


def _goes_on(state: StateFile) -> str:
    return (
        f"{state.path} has the state after step {state.steps}: the same command continues from "
        "this step"
    )
