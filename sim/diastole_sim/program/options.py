"""How a perceptron is trained by a program, by the names that people give."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from diastole_sim.program.chains.activations import (
    Activation,
    gelu,
    leaky_relu,
    relu,
    sigmoid,
    silu,
    tanh,
)
from diastole_sim.program.recipe import Adam, LossScaling, Optimiser, Rate, RmsProp, Sgd, falling
from diastole_sim.program.tasks import TaskProgram, task_program
from diastole_sim.spec.check import require_choice, require_int
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.numerics import Numerics
from diastole_sim.train.tasks import HIDDEN, Task

ACTIVATIONS: Mapping[str, Callable[[], Activation]] = {
    "relu": relu,
    "leaky-relu": leaky_relu,
    "gelu": gelu,
    "silu": silu,
    "sigmoid": sigmoid,
    "tanh": tanh,
}
RATES: Mapping[str, float | None] = {"sgd": None, "rmsprop": 0.01, "adam": 0.01, "adamw": 0.01}
"""Optimisers, and their rates in step 0, from which they fall towards 0; None: the task's own."""
MOST_LAYERS, MOST_UNITS = 16, 4096
"""Hidden layers, and units of each."""
DEFAULT_SCALING = LossScaling()


@dataclass(frozen=True, kw_only=True)
class ProgramOptions:
    """``optimizer``, ``activation``: a name of :data:`RATES`, of :data:`ACTIVATIONS`. ``rate``: of
    step 0, None for that of the optimiser. ``hidden``: units of every hidden layer.
    ``loss_scale``: exponent of the first scale of the loss, None for none. ``limits``: of the
    machine. ValueError if one is not accepted."""

    limits: Limits
    optimizer: str = "sgd"
    rate: float | None = None
    hidden: tuple[int, ...] = (HIDDEN,)
    activation: str = "relu"
    loss_scale: int | None = None

    def __post_init__(self) -> None:
        require_choice("optimizer", self.optimizer, tuple(RATES))
        require_choice("activation", self.activation, tuple(ACTIVATIONS))
        require_int("hidden layers", len(self.hidden), 1, MOST_LAYERS)
        for units in self.hidden:
            require_int("hidden", units, 1, MOST_UNITS)
        if self.loss_scale is not None:
            low, high = DEFAULT_SCALING.smallest, DEFAULT_SCALING.largest
            require_int("loss_scale", self.loss_scale, low, high)

    def first_rate(self, task: Task) -> float:
        """Of step 0."""
        own = RATES[self.optimizer]
        default = task.rate if own is None else own
        return default if self.rate is None else self.rate

    def program(self, task: Task, numerics: Numerics, *, steps: int, seed: int) -> TaskProgram:
        """Of a task, for so many steps. ValueError if the machine is too small for it."""
        scaling = None if self.loss_scale is None else LossScaling(exponent=self.loss_scale)
        return task_program(
            task,
            numerics=numerics,
            limits=self.limits,
            steps=steps,
            seed=seed,
            hidden=self.hidden,
            activation=ACTIVATIONS[self.activation](),
            optimiser=self._optimiser(task, falling(self.first_rate(task), steps)),
            loss_scaling=scaling,
        )

    def described(self, task: Task) -> dict[str, Any]:
        """As a result has them."""
        found = {name: value for name, value in vars(self).items() if name != "limits"}
        return found | {"rate": self.first_rate(task)}

    def _optimiser(self, task: Task, rate: Rate) -> Optimiser:
        if self.optimizer == "sgd":
            return Sgd(rate=rate, momentum=task.momentum)
        if self.optimizer == "rmsprop":
            return RmsProp(rate=rate)
        decoupled = self.optimizer == "adamw"
        return Adam(rate=rate, decoupled=decoupled, weight_decay=0.01 if decoupled else 0.0)
