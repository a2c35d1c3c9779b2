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
import json  # noqa: E402
import multiprocessing  # noqa: E402
import sys  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from diastole.cli import exit_code  # noqa: E402
from diastole.commands.arguments import integer  # noqa: E402
from diastole.commands.formats import parse_names  # noqa: E402
from diastole.commands.train import MAX_STEPS  # noqa: E402
from diastole.config_file import from_document  # noqa: E402
from diastole.console import note  # noqa: E402
from diastole.format_table import align  # noqa: E402
from diastole.presets import PRESETS  # noqa: E402
from diastole.tensors import check_writable  # noqa: E402
from diastole_sim.formats import FORMAT_NAMES  # noqa: E402
from diastole_sim.golden.machine import GoldenDevice  # noqa: E402
from diastole_sim.numerics import CLASS_NAMES, Numerics  # noqa: E402
from diastole_sim.train import run_task  # noqa: E402

TASK = "digits"
SEEDS = (0, 1, 2)
WORKERS = 2


def numerics(name: str, grouping: str | None = None) -> Numerics:
    """The preset `nano` in one format, in the format's own groups or in these."""
    document = PRESETS["nano"].model_dump(exclude_none=True)
    document |= {"format": dict.fromkeys(CLASS_NAMES, name)}
    if grouping is not None:
        document |= {"block": dict.fromkeys(CLASS_NAMES, grouping)}
    return from_document(document).numerics


def train(job: tuple[str, str | None, int, int | None]) -> dict[str, Any]:
    """One run: format, groups (None: its own), seed and steps (None: the task's own number)."""
    name, grouping, seed, steps = job
    device = GoldenDevice(numerics(name, grouping), seed)
    result = run_task(TASK, device, backend="golden", seed=seed, steps=steps).to_json()
    return {"format": name} | result


def summary(runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Means over the seeds, in the order of the formats' first runs."""
    means: list[dict[str, Any]] = []
    for name in dict.fromkeys(run["format"] for run in runs):
        same = [run for run in runs if run["format"] == name]
        accuracy, reference, saturated = (
            sum(run[key] for run in same) / len(same)
            for key in ("accuracy", "float_accuracy", "saturated")
        )
        means.append(
            {
                "format": name,
                "accuracy": accuracy,
                "float_accuracy": reference,
                "worst": min(run["accuracy"] for run in same),
                "saturated": saturated,
            }
        )
    return means


def table(means: Sequence[dict[str, Any]]) -> list[str]:
    """The means for people."""
    heading = ["format", "accuracy", "float32", "difference", "worst seed"]
    rows = [
        [
            mean["format"],
            f"{mean['accuracy']:.2%}",
            f"{mean['float_accuracy']:.2%}",
            f"{100 * (mean['accuracy'] - mean['float_accuracy']):+.2f}",
            f"{mean['worst']:.2%}",
        ]
        for mean in means
    ]
    return align([heading, *rows], left=1)


def main(arguments: argparse.Namespace) -> int:
    names = parse_names(arguments.formats)
    if arguments.out is not None:
        check_writable(arguments.out)
    for name in names:
        numerics(name, arguments.block)  # BadInput, before anything runs
    jobs = [(name, arguments.block, seed, arguments.steps) for name in names for seed in SEEDS]
    runs: list[dict[str, Any]] = []
    with multiprocessing.Pool(WORKERS) as pool:
        for run in pool.imap(train, jobs):
            runs.append(run)
            note(
                f"{run['format']}, seed {run['seed']}: {run['accuracy']:.2%} ({len(runs)} of "
                f"{len(jobs)})"
            )
    means = summary(runs)
    for line in table(means):
        print(line)
    if arguments.out is not None:
        found = {"task": TASK, "seeds": SEEDS, "steps": runs[0]["steps"], "formats": means}
        arguments.out.write_text(json.dumps(found | {"runs": runs}, indent=2) + "\n")
    return 0


def read_arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", metavar="N", type=integer(1, MAX_STEPS))
    parser.add_argument("--formats", metavar="A,B,...", default=",".join(FORMAT_NAMES))
    parser.add_argument("--block", metavar="GROUPS", help='of all classes, as "1x16"')
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="the numbers of every run, in JSON"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(read_arguments())))
