"""Options of `train` for the scale of the loss, on a machine that does whole steps and on a
host."""

import argparse
from collections.abc import Mapping
from typing import Any

from diastole.config.numbers import Numbers
from diastole.errors import BadInput
from diastole_sim.spec.require import excerpt, signed_number, whole_number
from diastole_sim.train.loss_scaling import Floors, LossScaling, require_floors

OPTIONS = ("loss_scale", "loss_scale_floor")
DEFAULT = LossScaling()


def exponent(text: str) -> int:
    """Parse the exponent of a scale of the loss, as a type for argparse."""
    low, high = DEFAULT.smallest, DEFAULT.largest
    value = signed_number(text)
    if value is None or not low <= value <= high:
        raise argparse.ArgumentTypeError(
            f"must be an integer in {low}..{high}, not {excerpt(text)}"
        )
    return value


def floors(text: str) -> Floors:
    """Parse steps with the smallest exponent from each step on, as a type for argparse."""
    pairs: list[tuple[int, int]] = []
    for word in text.split(","):
        first, equals, second = word.partition("=")
        step, smallest = whole_number(first), signed_number(second)
        if not equals or step is None or smallest is None:
            raise argparse.ArgumentTypeError(
                "must be STEP=EXPONENT pairs of integers with commas between them, such as "
                f"40000=13,150000=15, not {excerpt(text)}"
            )
        pairs.append((step, smallest))
    try:
        return require_floors(tuple(pairs), DEFAULT.smallest, DEFAULT.largest)
    except ValueError as error:
        text = str(error).removeprefix("loss_scale_floor: ")
        raise argparse.ArgumentTypeError(text) from error


def add_loss_scale(parser: argparse.ArgumentParser) -> None:
    """Add the options of the scale of the loss."""
    group = parser.add_argument_group("scale of the loss", "for every training")
    group.add_argument(
        "--loss-scale",
        metavar="X",
        type=exponent,
        help="multiply the gradient of the loss by 2^X at first, halve the factor after a step "
        f"that overflowed, double the factor after {DEFAULT.window} steps without overflow "
        "(default: from the key numbers, else off)",
    )
    group.add_argument(
        "--loss-scale-floor",
        metavar="STEP=X,...",
        type=floors,
        help="smallest exponents: from each STEP on, the gradient of the loss is multiplied by "
        "at least 2^X; steps and exponents rise (default: from the key numbers, else "
        f"{DEFAULT.smallest} throughout)",
    )


def scale_argument(
    arguments: argparse.Namespace, published: Numbers | None = None
) -> dict[str, Any]:
    """Return the given options, else the options of ``published`` numbers. BadInput for floors
    without a scale."""
    options = {name: getattr(arguments, name) for name in OPTIONS}
    options = {name: value for name, value in options.items() if value is not None}
    if published is not None and published.loss_scale is not None:
        options = {name: getattr(published, name) for name in OPTIONS} | options
    if "loss_scale_floor" in options and "loss_scale" not in options:
        raise BadInput("--loss-scale-floor needs --loss-scale X, the exponent of the first step")
    return options


def scaling_of(options: Mapping[str, Any]) -> LossScaling | None:
    """Return the loss scaling of a host, None without options. ``options`` comes from
    :func:`scale_argument`."""
    if not options:
        return None
    return LossScaling(exponent=options["loss_scale"], floors=options.get("loss_scale_floor", ()))
