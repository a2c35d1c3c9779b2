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
    """``make``: gives the optimiser, from ``rate`` and the options that it has. ``defaults``: of
    its rate in step 0 and of these options, None for that of the task. ``layers``: so many hidden
    layers fit whatever else is chosen, since every tensor that a chain of a step reads or writes is
    a stream in a table of :data:`diastole_sim.spec.stream_table.SLOTS`, and an optimiser that keeps
    more of a weight needs more of them; None where nobody has counted.
    """

    make: Callable[..., Optimiser]
    defaults: Mapping[str, Any] = field(default_factory=dict[str, Any])
    layers: int | None = None

    def takes(self, option: str) -> bool:
        """Return whether it has an option of :data:`OF_OPTIMIZERS`."""
        return option in self.defaults


_GRADIENT = {"rate": None, "momentum": None, "weight_decay": 0.0}
_ADAM = {"rate": FIRST_RATE, "betas": BETAS, "weight_decay": 0.0}
OPTIMIZERS: Mapping[str, OptimizerChoice] = {
    "sgd": OptimizerChoice(make=Sgd, defaults=_GRADIENT, layers=3),
    "nesterov": OptimizerChoice(make=partial(Sgd, nesterov=True), defaults=_GRADIENT, layers=3),
    "rmsprop": OptimizerChoice(
        make=RmsProp,
        defaults={"rate": FIRST_RATE, "momentum": 0.0, "weight_decay": 0.0},
        layers=2,
    ),
    "adam": OptimizerChoice(make=Adam, defaults=_ADAM, layers=2),
    "adamw": OptimizerChoice(
        make=partial(Adam, decoupled=True),
        defaults=_ADAM | {"weight_decay": DECOUPLED_DECAY},
        layers=2,
    ),
}


def with_option(option: str) -> list[str]:
    """Return the names of those that have an option of :data:`OF_OPTIMIZERS`."""
    return [name for name, choice in OPTIMIZERS.items() if choice.takes(option)]


def fitting_layers() -> dict[str, int]:
    """Return how many hidden layers always fit, by name."""
    return {name: choice.layers for name, choice in OPTIMIZERS.items() if choice.layers is not None}
