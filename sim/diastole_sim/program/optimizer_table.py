"""List the optimisers by the names that users give."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from diastole_sim.program.recipe import Adagrad, Adam, Lars, Optimiser, RmsProp, Sgd

FIRST_RATE = 0.01
"""Default learning rate in step 0, for optimisers whose updates do not grow with the gradient."""
BETAS = (0.9, 0.999)
DECOUPLED_DECAY = 0.01
"""Default weight decay of ``adamw``, as in torch."""
TRUST = 0.001
"""Default factor of the trust ratio, as in the source of LARS."""
OF_OPTIMIZERS = ("momentum", "betas", "weight_decay", "trust")
"""Options that not every optimiser has."""


@dataclass(frozen=True, kw_only=True)
class OptimizerChoice:
    """Optimiser that a user can choose.

    - ``make``: function that returns the optimiser, from ``rate`` and options.
    - ``takes``: accepted options, of :data:`OF_OPTIMIZERS`.
    - ``defaults``: defaults of the rate in step 0 and of the accepted options, as far as known.
    - ``of_task``: options whose default comes from the task.
    """

    make: Callable[..., Optimiser]
    takes: tuple[str, ...]
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])
    of_task: tuple[str, ...] = ()


_GRADIENT: dict[str, Any] = {
    "takes": ("momentum", "weight_decay"),
    "defaults": {"weight_decay": 0.0},
    "of_task": ("rate", "momentum"),
}
_ADAM: dict[str, Any] = {"takes": ("betas", "weight_decay")}
_OF_ADAM = {"rate": FIRST_RATE, "betas": BETAS}
OPTIMIZERS: Mapping[str, OptimizerChoice] = {
    "sgd": OptimizerChoice(make=Sgd, **_GRADIENT),
    "nesterov": OptimizerChoice(make=partial(Sgd, nesterov=True), **_GRADIENT),
    "lars": OptimizerChoice(
        make=Lars,
        takes=("momentum", "weight_decay", "trust"),
        defaults={"weight_decay": 0.0, "trust": TRUST},
        of_task=("rate", "momentum"),
    ),
    "rmsprop": OptimizerChoice(
        make=RmsProp,
        takes=("momentum", "weight_decay"),
        defaults={"rate": FIRST_RATE, "momentum": 0.0, "weight_decay": 0.0},
    ),
    "adam": OptimizerChoice(make=Adam, defaults=_OF_ADAM | {"weight_decay": 0.0}, **_ADAM),
    "adamw": OptimizerChoice(
        make=partial(Adam, decoupled=True),
        defaults=_OF_ADAM | {"weight_decay": DECOUPLED_DECAY},
        **_ADAM,
    ),
    "adagrad": OptimizerChoice(
        make=Adagrad,
        takes=("weight_decay",),
        defaults={"rate": FIRST_RATE, "weight_decay": 0.0},
    ),
}


def with_option(option: str) -> list[str]:
    """Return the names of the optimisers with an option of :data:`OF_OPTIMIZERS`."""
    return [name for name, choice in OPTIMIZERS.items() if option in choice.takes]
