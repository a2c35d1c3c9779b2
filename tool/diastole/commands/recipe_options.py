"""Options of trainings by a program: the recipe, the optimiser, the memory."""

import argparse
from math import nan

from diastole.commands.arguments import fraction, integer
from diastole.commands.own import OWN_PAGE, NamesOrOwn, named_or_own
from diastole.learning.task import MOMENTUM, RATE
from diastole_sim.program.chains.activations import ACTIVATIONS
from diastole_sim.program.optimizer_table import (
    BETAS,
    DECOUPLED_DECAY,
    OF_OPTIMIZERS,
    OPTIMIZERS,
    TRUST,
)
from diastole_sim.program.own_code import FORM
from diastole_sim.program.own_parts import own_activation, own_optimizer
from diastole_sim.program.schedules import GAMMA, LINEAR, SCHEDULES
from diastole_sim.spec.limits import MAX_STEPS
from diastole_sim.spec.require import excerpt, real_number, whole_number
from diastole_sim.train.tasks import HIDDEN
from diastole_sim.trainer.options import (
    MAX_CLIP,
    MAX_DECAY,
    MAX_LAYERS,
    MAX_MICROBATCHES,
    MAX_TRUST,
    MAX_UNITS,
    GroupOptions,
)

MAX_RATE = 1000.0
MAX_MEMORY_KIB = 1 << 30
OPTIONS = (
    "optimizer", "rate", *OF_OPTIMIZERS, "groups", "hidden", "activation", "clip", "accumulate",
    "schedule", "warmup", "step_size", "gamma",
)  # fmt: skip


def rate(text: str) -> float:
    """Parse a learning rate, as a type for argparse."""
    value = _number(text)
    if not 0 < value <= MAX_RATE:
        raise argparse.ArgumentTypeError(
            f"must be a number above 0 and at most {MAX_RATE:g}, not {excerpt(text)}"
        )
    return value


def norm(text: str) -> float:
    """Parse the largest norm of all gradients together, as a type for argparse."""
    value = _number(text)
    if not 0 < value <= MAX_CLIP:
        raise argparse.ArgumentTypeError(
            f"must be a number above 0 and at most {MAX_CLIP:g}, not {excerpt(text)}"
        )
    return value


def weight_decay(text: str) -> float:
    """Parse a weight decay, as a type for argparse."""
    value = _number(text)
    if not 0 <= value <= MAX_DECAY:
        raise argparse.ArgumentTypeError(
            f"must be a number from 0 to {MAX_DECAY:g}, not {excerpt(text)}"
        )
    return value


def trust(text: str) -> float:
    """Parse the factor of the trust ratio, as a type for argparse."""
    value = _number(text)
    if not 0 < value <= MAX_TRUST:
        raise argparse.ArgumentTypeError(
            f"must be a number above 0 and at most {MAX_TRUST:g}, not {excerpt(text)}"
        )
    return value


def momentum(text: str) -> float:
    """Parse a momentum, as a type for argparse."""
    value = _number(text)
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(
            f"must be a number of at least 0 and below 1, not {excerpt(text)}"
        )
    return value


def betas(text: str) -> tuple[float, float]:
    """Parse the factors of Adam's two means, as a type for argparse."""
    values = tuple(_number(word.strip()) for word in text.split(","))
    if len(values) != 2 or not all(0 <= each < 1 for each in values):
        raise argparse.ArgumentTypeError(
            f"must be two numbers of at least 0 and below 1, such as 0.9,0.999, not {excerpt(text)}"
        )
    return values


GROUP_OPTIONS = {"rate": rate, "weight-decay": weight_decay}
"""Options of a group of parameters, with the function that parses a value."""


def _number(text: str) -> float:
    """Return the number of a text; NaN for a text that is no number."""
    value = real_number(text)
    return nan if value is None else value


def parameter_group(text: str) -> GroupOptions:
    """Parse options of a group of parameters, as a type for argparse."""
    pattern, colon, rest = text.rpartition(":")
    words = [word.strip() for word in rest.split(",")]
    values: dict[str, float] = {}
    for name, equals, value in (word.partition("=") for word in words):
        parse = GROUP_OPTIONS.get(name.strip())
        if not pattern or not colon or not equals or parse is None or name in values:
            raise argparse.ArgumentTypeError(
                f"must be PATTERN:NAME=VALUE,NAME=VALUE with the names {', '.join(GROUP_OPTIONS)}, "
                f"such as *.bias:weight-decay=0, not {excerpt(text)}"
            )
        try:
            values[name.strip().replace("-", "_")] = parse(value.strip())
        except argparse.ArgumentTypeError as error:
            raise argparse.ArgumentTypeError(f"{name.strip()} of {pattern} {error}") from None
    return GroupOptions(pattern=pattern, **values)


def hidden(text: str) -> tuple[int, ...]:
    """Parse the units of hidden layers, as a type for argparse."""
    words = [word.strip() for word in text.split(",")]
    units = tuple(n for word in words if (n := whole_number(word)) is not None)
    if len(words) > MAX_LAYERS:
        raise argparse.ArgumentTypeError(f"must have at most {MAX_LAYERS} layers, not {len(words)}")
    whole = len(units) == len(words)
    if not whole or not all(1 <= each <= MAX_UNITS for each in units):
        raise argparse.ArgumentTypeError(
            f"must be 1 to {MAX_LAYERS} integers in 1..{MAX_UNITS}, such as 64,64, "
            f"not {excerpt(text)}"
        )
    return units


def add_program(
    parser: argparse.ArgumentParser,
    where: str = "for perceptrons such as digits",
) -> None:
    """Add options of trainings by a program. ``where`` names the trainings, for people."""
    group = parser.add_argument_group("layers", where)
    group.add_argument(
        "--hidden",
        metavar="A,B,...",
        type=hidden,
        help=f"units of each hidden layer, up to {MAX_UNITS}; at most {MAX_LAYERS} layers "
        f"(default: {HIDDEN})",
    )
    group.add_argument(
        "--activation",
        metavar=f"NAME|{FORM}",
        type=named_or_own(ACTIVATIONS, own_activation),
        choices=NamesOrOwn(ACTIVATIONS),
        help=f"function between two layers: {', '.join(ACTIVATIONS)} (default: relu), or your "
        f"own: an Activation, or a function that returns an Activation ({OWN_PAGE})",
    )
    _add_optimizer(parser)


def add_memory(parser: argparse.ArgumentParser, about: str) -> None:
    """Add the limit of a program's memory. ``about``: help of the option."""
    parser.add_argument(
        "--memory",
        dest="memory_kib",
        metavar="KIB",
        type=integer(1, MAX_MEMORY_KIB),
        help=about,
    )


def _add_optimizer(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "optimiser", "for perceptrons such as digits, and for --graph"
    )
    group.add_argument(
        "--optimizer",
        metavar=f"NAME|{FORM}",
        type=named_or_own(OPTIMIZERS, own_optimizer),
        choices=NamesOrOwn(OPTIMIZERS),
        help=f"update of the weights: {', '.join(OPTIMIZERS)} (default: sgd, with the momentum "
        "of --momentum; nesterov: with the momentum of Nesterov), or your own: a class that "
        "is called with rate=, and has chain(options), constants() and of_step(step) "
        f"({OWN_PAGE})",
    )
    rates = {name: choice.defaults.get("rate") for name, choice in OPTIMIZERS.items()}
    defaults = ", ".join(f"{each:g} for {name}" for name, each in rates.items() if each is not None)
    group.add_argument(
        "--rate",
        metavar="R",
        type=rate,
        help=f"learning rate of step 0 (default: {defaults} and for your own optimiser, the rate "
        f"of the task for sgd, nesterov and lars; {RATE:g} with --graph)",
    )
    group.add_argument(
        "--schedule",
        choices=SCHEDULES,
        help="learning rate of later steps: linear and cosine fall to 0 at the end, constant "
        f"stays, step is multiplied by --gamma every --step-size steps (default: {LINEAR})",
    )
    group.add_argument(
        "--warmup",
        metavar="N",
        type=integer(0, MAX_STEPS),
        help="first steps in which the learning rate rises linearly (default: 0)",
    )
    group.add_argument(
        "--step-size",
        metavar="N",
        type=integer(1, MAX_STEPS),
        help="steps between two changes of --schedule step",
    )
    group.add_argument(
        "--gamma",
        metavar="G",
        type=fraction,
        help=f"factor of --schedule step, from 0 to 1 (default: {GAMMA:g})",
    )
    group.add_argument(
        "--clip",
        metavar="N",
        type=norm,
        help="largest norm of all gradients together; larger gradients are scaled down "
        "(default: off)",
    )
    group.add_argument(
        "--accumulate",
        metavar="N",
        type=integer(1, MAX_MICROBATCHES),
        help="cut the samples of a step into N microbatches, and add the gradients before the "
        "update: the step of the whole batch, apart from roundings, with less memory (default: 1)",
    )
    group.add_argument(
        "--momentum",
        metavar="M",
        type=momentum,
        help="momentum of sgd, nesterov, lars, rmsprop, or your own optimiser if the class has a "
        "parameter of this name, as for the next two options (default: 0 for rmsprop, "
        f"else the momentum of the task, {MOMENTUM:g} with --graph)",
    )
    group.add_argument(
        "--betas",
        metavar="A,B",
        type=betas,
        help=f"factors of the two means of adam and adamw (default: {BETAS[0]:g},{BETAS[1]:g})",
    )
    group.add_argument(
        "--weight-decay",
        metavar="D",
        type=weight_decay,
        help="share of a weight that is added to the gradient; adamw takes the share, times "
        f"the rate, from the weight instead (default: {DECOUPLED_DECAY:g} for adamw, 0 for "
        "all others)",
    )
    group.add_argument(
        "--trust",
        metavar="E",
        type=trust,
        help=f"factor of the trust ratio of lars (default: {TRUST:g})",
    )
    group.add_argument(
        "--group",
        dest="groups",
        metavar="PATTERN:NAME=VALUE,...",
        action="append",
        type=parameter_group,
        help="rate and weight-decay of the parameters whose names match the pattern, such as "
        "'*.bias:weight-decay=0'; repeat the option for further groups. The first match counts",
    )


def option(name: str) -> str:
    """Return the name of an option as typed."""
    return "--group" if name == "groups" else f"--{name.replace('_', '-')}"
