"""`formats --data`: compare number formats on tensors of the user and on their products."""

import argparse
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from diastole.commands.progress import progress
from diastole.console import note, print_json, say, warn
from diastole.errors import BadInput
from diastole.files import tensors
from diastole.files.matrices import operands_of, read_matrices
from diastole.report import survey_table, verdict_table
from diastole.trials.choices import KIND, Choices
from diastole.trials.mixtures import TABLES, Mixture, combine, make_mixtures
from diastole.trials.trial import check_products, class_of, run_trials
from diastole_sim.codes.quality import plain_products
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.operations import CLASSES, OPERAND_BY_CLASS
from diastole_sim.spec.require import excerpt, real_number

PRODUCTS = "Y = X W, dX = dY W^T, dW = X^T dY"
NEEDED = "two of X (M x K), W (K x N) and dY (M x N)"
ABOUT = {
    "rounding": "rounding of tensors (default: nearest, stochastic-b for gradients); every run "
    "draws the same random bits",
    "scale": "rule of a scale for the largest magnitude of a group (default: the rule of the "
    "format)",
    "grouping": "elements that share a scale, such as 8x8, 1x32, tensor (default: the groups of "
    "the format)",
}
OPTIONS = (*CLASS_NAMES, *TABLES)


def decibels(text: str) -> float:
    """Parse a finite number of dB, as a type for argparse."""
    value = real_number(text)
    if value is None:
        raise argparse.ArgumentTypeError(f"must be a number of dB, such as 20, not {excerpt(text)}")
    return value


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `formats` for tensors of the user."""
    group = parser.add_argument_group(
        "your tensors",
        f"If the file has {NEEDED}, the report compares the products of a machine "
        f"({PRODUCTS}) with float64, and names the formats with a signal to noise of your "
        "choice.",
    )
    group.add_argument(
        "--data",
        metavar="A.npz",
        type=Path,
        help="file with matrices of floats to try the formats on; X, W and dY get the groups "
        "of their class, all other matrices the groups of X",
    )
    for name in CLASS_NAMES:
        text = f"formats of {OPERAND_BY_CLASS[name].name}, to mix with formats of the other tensors"
        if name == CLASS_NAMES[0]:
            text += "; a tensor without formats takes each format of --formats"
        group.add_argument(f"--{name}", metavar="A,B,...", help=text)
    for name, about in ABOUT.items():
        group.add_argument(f"--{name}", metavar="V", help=f"{about}; V, or x=V,w=V,dy=V")
    group.add_argument(
        f"--{KIND}",
        metavar="KIND",
        help="source of the random bits: counter (default), lfsr, lfsr3, data",
    )
    group.add_argument(
        "--least-db",
        metavar="DB",
        type=decibels,
        help="signal to noise that the worst row and column of every product must have, for a "
        "verdict (default: no verdict, because training does not follow the noise)",
    )
    group.add_argument("--out", metavar="PICTURE", type=Path, help="picture to write, .png or .svg")


def option_values(arguments: argparse.Namespace) -> dict[str, str]:
    """Return the given options among :data:`OPTIONS`, as texts. :class:`BadInput` without data."""
    texts = {name: getattr(arguments, name) for name in OPTIONS}
    texts = {name: text for name, text in texts.items() if text is not None}
    others = {KIND: arguments.rounding_kind, "least-db": arguments.least_db}
    names = [*texts, *(name for name, value in others.items() if value is not None)]
    if names and arguments.data is None:
        raise BadInput(f"--{names[0]} needs --data: the option applies to your tensors")
    return texts


def try_on(arguments: argparse.Namespace, choices: Choices) -> int:
    """Try every format on every matrix of the user, and on the products."""
    matrices, notes = read_matrices(arguments.data)
    operands = operands_of(matrices)
    if len(operands) < 2 and (choices.mixed or arguments.least_db is not None):
        raise BadInput(f"{arguments.data}: {_too_few(matrices)}")
    mixtures, left_out = _mixtures(choices, {CLASSES[name] for name in operands})
    check_products(str(arguments.data), operands, mixtures[0])
    for text in (*notes, *(f"left out: {text}" for text in left_out)):
        note(text)
    for text in tensors.warnings(matrices, "flag"):
        warn(text)
    if arguments.least_db is not None:
        _check_judged(arguments.data, operands)
    with progress("formats", lines=False) as report:
        trials = run_trials(mixtures, matrices, lambda done, every: report(done, every, None))
    surveys = {
        name: [each.surveys[name] for each in trials if each.mixture.uniform] for name in matrices
    }
    if arguments.out is not None:
        title = f"{arguments.data.name}, blocks of {arguments.block} x {arguments.block}"
        survey_table.write_picture(surveys, arguments.out, title)
    verdict = None
    if len(operands) > 1:
        verdict = verdict_table.verdict_of(trials, arguments.least_db)
    if arguments.json:
        shapes = {name: matrix.shape for name, matrix in matrices.items()}
        print_json(_record(arguments, surveys, shapes, verdict))
        return 0
    for name, each in surveys.items():
        for line in (*survey_table.tensor_table(name, matrices[name].shape, each), ""):
            say(line)
    for line in (*survey_table.LEGEND, ""):
        say(line)
    if verdict is None:
        say(f"no products: {_too_few(matrices)}")
    else:
        _say_verdict(verdict, choices)
    if arguments.out is not None:
        say(f"wrote {arguments.out}")
    return 0


def _check_judged(data: Path, options: Mapping[str, tensors.Floats]) -> None:
    """Warn of elements of products that a verdict leaves out. Refuse a product without further
    elements."""
    for name, plain in plain_products(options).items():
        left_out = int(np.count_nonzero(~np.isfinite(plain)))
        if left_out == plain.size:
            raise BadInput(
                f"{data}: --least-db cannot judge {name}, because NaN or Inf reach every element "
                f"of {name}: give finite tensors, or leave --least-db out"
            )
        if left_out:
            warn(
                f"--least-db judges {plain.size - left_out} of {plain.size} elements of "
                f"{name}: NaN or Inf reach all others"
            )


def _mixtures(choices: Choices, present: Collection[str]) -> tuple[list[Mixture], list[str]]:
    """Return every format alone, then the mixtures of formats, and the texts of combinations left
    out."""
    alone = [(name, name, name) for name in choices.names]
    mixed = [each for each in combine(choices.names, choices.mixed, present) if each not in alone]
    mixtures, left_out = make_mixtures(alone, choices.settings)
    named = set(present) <= set(choices.mixed)
    more, others = make_mixtures(mixed, choices.settings, strict=named)
    return [*mixtures, *more], [*left_out, *others]


def _say_verdict(verdict: verdict_table.Verdict, choices: Choices) -> None:
    for line in (
        *verdict_table.products_table(verdict.trials),
        "",
        *verdict_table.PRODUCTS_LEGEND,
        "",
        *verdict_table.ranking_table(verdict),
        "",
        *verdict_table.ranking_legend(),
        "",
        *verdict_table.conclusion(verdict, choices.settings),
    ):
        say(line)


def _too_few(matrices: Mapping[str, object]) -> str:
    """Return the operands that a file without a product lacks, and arrays that may be meant as
    operands."""
    text = f"products need {NEEDED}, but the file has {', '.join(matrices)}"
    present = {name.lower() for name in matrices}
    likely = [
        f"{operand} for {name}"
        for name in matrices
        for operand, small in CLASSES.items()
        if small not in present and name.lower().startswith(small)
    ]
    return text + (f"; did you mean {', '.join(likely)}?" if likely else "")


def _record(
    arguments: argparse.Namespace,
    surveys: survey_table.Surveys,
    shapes: Mapping[str, tuple[int, ...]],
    verdict: verdict_table.Verdict | None,
) -> dict[str, Any]:
    return {
        "data": str(arguments.data),
        "block": arguments.block,
        "tensors": [
            {
                "name": name,
                "class": class_of(name),
                "shape": list(shapes[name]),
                "formats": [asdict(survey) for survey in each],
            }
            for name, each in surveys.items()
        ],
        "mixtures": [] if verdict is None else verdict_table.records(verdict),
        "verdict": None if verdict is None else verdict_table.verdict_record(verdict),
    }
