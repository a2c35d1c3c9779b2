"""What updates weights, by the names that people give."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from diastole_sim.program.recipe import Adam, Optimiser, RmsProp, Sgd

FIRST_RATE = 0.01
"""Of step 0, of optimisers whose updates do not grow with the gradient."""
BETAS = (0.9, 0.999)
DECOUPLED_DECAY = 0.01
"""Of ``adamw``, as torch has it."""
OF_OPTIMIZERS = ("momentum", "betas", "weight_decay")
"""Options that not every optimiser has."""


@dataclass(frozen=True, kw_only=True)
class OptimizerChoice:
    """``make``: gives the optimiser, from ``rate`` and options. ``takes``: those of
    :data:`OF_OPTIMIZERS` that it has. ``defaults``: of its rate in step 0 and of these, where they
    are known; ``of_task``: those whose default is the task's. ``layers``: so many hidden
    layers fit whatever else is chosen, since every tensor that a chain of a step reads or writes is
    a stream in a table of :data:`diastole_sim.spec.stream_table.SLOTS`, and an optimiser that keeps
    more of a weight needs more of them; None where nobody has counted.
    """

    make: Callable[..., Optimiser]
    takes: tuple[str, ...]
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])
    of_task: tuple[str, ...] = ()
    layers: int | None = None


_GRADIENT: dict[str, Any] = {
    "takes": ("momentum", "weight_decay"),
    "defaults": {"weight_decay": 0.0},
    "of_task": ("rate", "momentum"),
    "layers": 3,
}
_ADAM: dict[str, Any] = {"takes": ("betas", "weight_decay"), "layers": 2}
_OF_ADAM = {"rate": FIRST_RATE, "betas": BETAS}
OPTIMIZERS: Mapping[str, OptimizerChoice] = {
    "sgd": OptimizerChoice(make=Sgd, **_GRADIENT),
    "nesterov": OptimizerChoice(make=partial(Sgd, nesterov=True), **_GRADIENT),
    "rmsprop": OptimizerChoice(
        make=RmsProp,
        takes=("momentum", "weight_decay"),
        defaults={"rate": FIRST_RATE, "momentum": 0.0, "weight_decay": 0.0},
        layers=2,
    ),
    "adam": OptimizerChoice(make=Adam, defaults=_OF_ADAM | {"weight_decay": 0.0}, **_ADAM),
    "adamw": OptimizerChoice(
        make=partial(Adam, decoupled=True),
        defaults=_OF_ADAM | {"weight_decay": DECOUPLED_DECAY},
        **_ADAM,
    ),
}


def with_option(option: str) -> list[str]:
    """Return the names of those that have an option of :data:`OF_OPTIMIZERS`."""
    return [name for name, choice in OPTIMIZERS.items() if option in choice.takes]


def fitting_layers() -> dict[str, int]:
    """Return how many hidden layers always fit, by name."""
    return {name: choice.layers for name, choice in OPTIMIZERS.items() if choice.layers is not None}
