"""`diastole train`: trains a network, every product and conversion on the device."""

import argparse
from contextlib import ExitStack

from diastole import install
from diastole.backend import make_device
from diastole.commands.arguments import (
    Commands,
    add_config,
    add_execution,
    fraction,
    integer,
    read_config,
)
from diastole.commands.backends import check_execution
from diastole.commands.progress import progress
from diastole.config.keys import Config
from diastole.console import fail, print_json, say, say_next
from diastole.errors import BadInput
from diastole_sim.train import TASKS, TrainResult, run_task

MAX_STEPS = 1_000_000


def add_parser(commands: Commands) -> None:
    parser = commands.add_parser(
        "train",
        help="train a network",
        description=__doc__,
        epilog="example: diastole train my.toml --task digits --steps 20 --verify",
        allow_abbrev=False,
    )
    add_config(parser)
    parser.add_argument(
        "--task", metavar="NAME", required=True, help=f"what to learn: {', '.join(TASKS)}"
    )
    parser.add_argument(
        "--steps",
        metavar="N",
        type=integer(1, MAX_STEPS),
        help="minibatches to train on (default: the task's own number)",
    )
    parser.add_argument(
        "--min-accuracy",
        metavar="A",
        type=fraction,
        help="exit with 1 if the held-out accuracy, from 0 to 1, is below A",
    )
    add_execution(parser)
    parser.set_defaults(execute=execute)


def execute(arguments: argparse.Namespace) -> int:
    config = read_config(arguments)
    if arguments.task not in TASKS:
        raise BadInput(f"--task must be one of {', '.join(TASKS)}, not {arguments.task}")
    check_execution(arguments)
    install.require(install.SKLEARN)
    result = train(config, arguments)
    if arguments.json:
        print_json(result.to_json())
    else:
        say(describe(result))
        say_next("--set format.x=..., format.w=... and format.dy=... train it in other numbers")
    return judge(result, arguments.min_accuracy)


def train(config: Config, arguments: argparse.Namespace) -> TrainResult:
    with ExitStack() as stack:
        device = stack.enter_context(
            make_device(
                arguments.backend,
                config,
                seed=arguments.seed,
                stalls=arguments.stalls,
                latency=arguments.latency,
                trace=arguments.trace,
                trace_depth=arguments.trace_depth,
            )
        )
        reference = None
        if arguments.verify:
            reference = stack.enter_context(make_device("golden", config, seed=arguments.seed))
        report = stack.enter_context(progress(f"{arguments.task} on {arguments.backend}"))
        return run_task(
            arguments.task,
            device,
            backend=arguments.backend,
            steps=arguments.steps,
            seed=arguments.seed,
            reference=reference,
            multipliers=config.macs,
            progress=report,
        )


def judge(result: TrainResult, min_accuracy: float | None) -> int:
    """0 if all that was asked holds, else 1, with a line for each thing that does not."""
    failures: list[str] = []
    if result.mismatches:
        first = str(result.first_mismatch)
        failures.append(
            f"{result.mismatches} of {result.compared} elements and reported values differ from "
            f"the golden model; {first}"
        )
        failures += [line for line in result.reports_differ if line != first]
    if min_accuracy is not None and not result.accuracy >= min_accuracy:
        failures.append(f"the accuracy is {result.accuracy:.4f}, below {min_accuracy:g}")
    for failure in failures:
        fail(failure)
    return 1 if failures else 0


def describe(result: TrainResult) -> str:
    """A few lines for people."""
    lines = [
        (
            f"{result.task} on {result.backend}: {result.steps} steps in {result.seconds:.1f} s, "
            f"seed {result.seed}"
        ),
        (
            f"held-out accuracy {result.accuracy:.2%} (float32: {result.float_accuracy:.2%}), "
            f"loss {result.loss:.4f}"
        ),
        f"weights {result.weights_sha256}",
    ]
    if result.cycles is not None:
        lines.append(
            f"{result.cycles} cycles of products, utilisation {result.utilisation:.1%}; "
            f"{result.total_cycles} with conversions"
        )
    if result.underflowed or result.saturated:
        lines.append(
            f"of {result.converted} elements {result.underflowed} became zeros when converted, "
            f"{result.saturated} saturated"
        )
    if result.verified:
        lines.append(
            f"{result.compared} elements and reported values equal to the golden model, bit for bit"
        )
    return "\n".join(lines)
