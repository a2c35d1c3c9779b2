"""Trains the handwritten digits on the golden model in every number format.

    python scripts/accuracy_formats.py [--steps N] [--formats A,B,...] [--block 1x16] [--out FILE]

Every format for X, W and dY alike, with its default scales, and groups unless ``--block`` says, and
all other keys as in the preset `nano`: nearest rounding, stochastic for dY. Seeds 0, 1 and 2 decide
weights, order and draws. Prints the mean held-out accuracy beside that of the same runs with
float32 products; asserts nothing. Two processes; with all formats and steps, some minutes.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"  # read by numpy when it is first imported

import argparse  # noqa: E402
import sys  # noqa: E402
from pathlib import Path  # noqa: E402

from diastole.cli import exit_code  # noqa: E402
from diastole.commands.arguments import integer  # noqa: E402
from diastole.commands.train import MAX_STEPS  # noqa: E402
from diastole.console import note, say  # noqa: E402
from diastole.files.atomic import check_writable  # noqa: E402
from diastole.measure.accuracy_formats import (  # noqa: E402
    accuracy_record,
    jobs,
    mean_of_seeds,
    mean_table,
    train_all,
)
from diastole.measure.figure import write_json  # noqa: E402
from diastole.trials.choices import parse_names  # noqa: E402
from diastole_sim.spec.formats import FORMAT_NAMES  # noqa: E402


def main(arguments: argparse.Namespace) -> int:
    if arguments.out is not None:
        check_writable(arguments.out)
    wanted = jobs(parse_names("formats", arguments.formats), arguments.block, arguments.steps)
    runs = []
    for run in train_all(wanted):
        runs.append(run)
        done = f"({len(runs)} of {len(wanted)})"
        note(f"{run['format']}, seed {run['seed']}: {run['accuracy']:.2%} {done}")
    say("\n".join(mean_table(mean_of_seeds(runs))))
    if arguments.out is not None:
        write_json(arguments.out, accuracy_record(runs))
    return 0


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", metavar="N", type=integer(1, MAX_STEPS))
    parser.add_argument("--formats", metavar="A,B,...", default=",".join(FORMAT_NAMES))
    parser.add_argument("--block", metavar="GROUPS", help='of all classes, as "1x16"')
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="the numbers of every run, in JSON"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(read_arguments())))
