"""How a perceptron is trained by a program, by the names that people give."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
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
from diastole_sim.program.program_tables import TooManyStreamsError
from diastole_sim.program.recipe import Adam, Optimiser, Rate, RmsProp, Sgd, falling
from diastole_sim.program.tasks import TaskProgram, TaskRecipe, task_program, task_recipe
from diastole_sim.spec.check import require_choice, require_int
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.stream_table import SLOTS
from diastole_sim.train.loss_scaling import Floors, LossScaling, require_floors
from diastole_sim.train.precision import Precision
from diastole_sim.train.tasks import HIDDEN, Task

ACTIVATIONS: Mapping[str, Callable[[], Activation]] = {
    "relu": relu,
    "leaky-relu": leaky_relu,
    "gelu": gelu,
    "silu": silu,
    "sigmoid": sigmoid,
    "tanh": tanh,
}
RATES: Mapping[str, float | None] = {
    "sgd": None,
    "nesterov": None,
    "rmsprop": 0.01,
    "adam": 0.01,
    "adamw": 0.01,
}
"""Optimisers, and their rates in step 0, from which they fall towards 0; None: the task's own."""
MOST_LAYERS, MOST_UNITS = 5, 4096
"""Hidden layers that fit at most, of ``sgd`` without momentum, and units of each."""
FITTING_LAYERS: Mapping[str, int] = {
    "sgd": 3,
    "nesterov": 3,
    "rmsprop": 2,
    "adam": 2,
    "adamw": 2,
}
"""By optimiser, so many hidden layers fit whatever the other options are: every tensor that a chain
of a step reads or writes is a stream in a table of :data:`diastole_sim.spec.stream_table.SLOTS`,
and an optimiser that keeps more of a weight needs more of them."""
OF_OPTIMIZERS: Mapping[str, tuple[str, ...]] = {
    "momentum": ("sgd", "nesterov", "rmsprop"),
    "betas": ("adam", "adamw"),
    "weight_decay": tuple(RATES),
}
"""Options that not every optimiser has, and those that have them."""
BETAS = (0.9, 0.999)
DECOUPLED_DECAY = 0.01
"""Of ``adamw``, as torch has it; 0 of the others."""
MOST_DECAY = 1000.0
MOST_CLIP = 1e30
DEFAULT_SCALING = LossScaling()


@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """What a perceptron learns by, in whatever numbers.

    ``optimizer``, ``activation``: a name of :data:`RATES`, of :data:`ACTIVATIONS`. ``rate``: of
    step 0, None for that of the optimiser. ``momentum``, ``betas``, ``weight_decay``: None for that
    of the optimiser, or of the task; only of those that :data:`OF_OPTIMIZERS` names. ``hidden``:
    units of every hidden layer. ``clip``: the largest norm of all gradients together, None for
    any. ValueError if one is not accepted."""

    optimizer: str = "sgd"
    rate: float | None = None
    momentum: float | None = None
    betas: tuple[float, float] | None = None
    weight_decay: float | None = None
    hidden: tuple[int, ...] = (HIDDEN,)
    activation: str = "relu"
    clip: float | None = None

    def __post_init__(self) -> None:
        require_choice("optimizer", self.optimizer, tuple(RATES))
        self._check_optimizer()
        require_choice("activation", self.activation, tuple(ACTIVATIONS))
        require_int("hidden layers", len(self.hidden), 1, MOST_LAYERS)
        for units in self.hidden:
            require_int("hidden", units, 1, MOST_UNITS)
        if self.clip is not None and not 0 < self.clip <= MOST_CLIP:
            raise ValueError(f"clip must be above 0, at most {MOST_CLIP:g}, not {self.clip}")

    def first_rate(self, task: Task) -> float:
        """Of step 0."""
        own = RATES[self.optimizer]
        default = task.rate if own is None else own
        return default if self.rate is None else self.rate

    def recipe(self, task: Task, *, steps: int, seed: int) -> TaskRecipe:
        """The recipe of a task, for so many steps."""
        return task_recipe(task, **self.how(task, steps=steps, seed=seed))

    def how(self, task: Task, *, steps: int, seed: int) -> dict[str, Any]:
        """The arguments of :func:`diastole_sim.program.tasks.task_recipe` besides the task."""
        return {
            "steps": steps,
            "seed": seed,
            "hidden": self.hidden,
            "activation": ACTIVATIONS[self.activation](),
            "optimiser": self._optimiser(task, falling(self.first_rate(task), steps)),
            "clip": self.clip,
        }

    def described(self, task: Task) -> dict[str, Any]:
        """As a result has them."""
        found = {each.name: getattr(self, each.name) for each in fields(RecipeOptions)}
        has = {n: self.optimizer in names for n, names in OF_OPTIMIZERS.items()}
        return found | {
            "rate": self.first_rate(task),
            "momentum": self._momentum(task) if has["momentum"] else None,
            "betas": self._betas if has["betas"] else None,
            "weight_decay": self._weight_decay,
        }

    def _check_optimizer(self) -> None:
        for name, optimizers in OF_OPTIMIZERS.items():
            if getattr(self, name) is not None and self.optimizer not in optimizers:
                raise ValueError(
                    f"{name} is of {' and '.join(optimizers)}, not of {self.optimizer}"
                )
        for value in (self.momentum or 0.0, *(self.betas or ())):
            if not 0 <= value < 1:
                raise ValueError(f"momentum and betas must be from 0, below 1, not {value}")
        if self.optimizer == "nesterov" and self.momentum == 0:
            raise ValueError("momentum of nesterov must be above 0, not 0")
        if not 0 <= (self.weight_decay or 0.0) <= MOST_DECAY:
            raise ValueError(
                f"weight_decay must be from 0, at most {MOST_DECAY:g}, not {self.weight_decay}"
            )

    def _momentum(self, task: Task) -> float:
        if self.momentum is not None:
            return self.momentum
        return 0.0 if self.optimizer == "rmsprop" else task.momentum

    @property
    def _betas(self) -> tuple[float, float]:
        return BETAS if self.betas is None else self.betas

    @property
    def _weight_decay(self) -> float:
        if self.weight_decay is not None:
            return self.weight_decay
        return DECOUPLED_DECAY if self.optimizer == "adamw" else 0.0

    def _optimiser(self, task: Task, rate: Rate) -> Optimiser:
        decay = self._weight_decay
        if self.optimizer in ("sgd", "nesterov"):
            nesterov, momentum = self.optimizer == "nesterov", self._momentum(task)
            return Sgd(rate=rate, momentum=momentum, nesterov=nesterov, decay=decay)
        if self.optimizer == "rmsprop":
            return RmsProp(rate=rate, momentum=self._momentum(task), decay=decay)
        decoupled = self.optimizer == "adamw"
        return Adam(rate=rate, betas=self._betas, decoupled=decoupled, weight_decay=decay)


class TooManyLayersError(ValueError):
    """Of these options only so many hidden layers are a program as are ``fitting``."""

    def __init__(self, options: "ProgramOptions", fitting: int):
        self.fitting = fitting
        given = {
            "momentum": options.momentum,
            "clip": options.clip,
            "loss_scale": options.loss_scale,
        }
        others = [f"{name} {value:g}" for name, value in given.items() if value is not None]
        with_others = f" ({', '.join(others)})" if others else ""
        always = ", ".join(f"{count} of {name}" for name, count in FITTING_LAYERS.items())
        super().__init__(
            f"hidden has {len(options.hidden)} layers, and {fitting} fit with "
            f"{options.optimizer}{with_others}: each tensor that a step's chains read or write "
            f"takes a place among the {SLOTS} streams of the machine, and what the optimiser keeps "
            f"of weights takes more; {always} fit whatever the other options are"
        )


@dataclass(frozen=True, kw_only=True)
class ProgramOptions(RecipeOptions):
    """A recipe on a machine. ``loss_scale``: exponent of the first scale of the loss, None for
    none. ``loss_scale_floor``: steps, and the smallest exponent from each of them on.
    ``precision``: as of a recipe. ``limits``: of the machine. ValueError if one is not
    accepted."""

    limits: Limits
    loss_scale: int | None = None
    loss_scale_floor: Floors = ()
    precision: Precision | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss_scale is not None:
            low, high = DEFAULT_SCALING.smallest, DEFAULT_SCALING.largest
            require_int("loss_scale", self.loss_scale, low, high)
            require_floors(self.loss_scale_floor, low, high)
        elif self.loss_scale_floor:
            raise ValueError("loss_scale_floor is of a loss_scale: give that too")

    @property
    def loss_scaling(self) -> LossScaling | None:
        """As a recipe has it."""
        if self.loss_scale is None:
            return None
        return LossScaling(exponent=self.loss_scale, floors=self.loss_scale_floor)

    @property
    def in_float32(self) -> RecipeOptions:
        """The same recipe without what is of the machine's numbers."""
        shared = {each.name: getattr(self, each.name) for each in fields(RecipeOptions)}
        return RecipeOptions(**shared)

    def how(self, task: Task, *, steps: int, seed: int) -> dict[str, Any]:
        """As that of the recipe, with what is of the machine's numbers."""
        own = {"loss_scaling": self.loss_scaling, "precision": self.precision}
        return super().how(task, steps=steps, seed=seed) | own

    def program(self, task: Task, numerics: Numerics, *, steps: int, seed: int) -> TaskProgram:
        """Of a task, for so many steps. ValueError if the machine is too small for it:
        :class:`TooManyLayersError` where its table of streams is."""
        machine = {"numerics": numerics, "limits": self.limits}
        try:
            return task_program(task, **machine, **self.how(task, steps=steps, seed=seed))
        except TooManyStreamsError as error:
            raise TooManyLayersError(self, self._fitting(task, numerics)) from error

    def _fitting(self, task: Task, numerics: Numerics) -> int:
        """How many of its hidden layers fit, from the first on."""
        machine = {"numerics": numerics, "limits": self.limits}
        for count in range(len(self.hidden) - 1, 0, -1):
            fewer = replace(self, hidden=self.hidden[:count])
            with suppress(ValueError):
                task_program(task, **machine, **fewer.how(task, steps=1, seed=0))
                return count
        return 0

    def described(self, task: Task) -> dict[str, Any]:
        """As a result has them."""
        scaling = {"loss_scale": self.loss_scale, "loss_scale_floor": self.loss_scale_floor}
        return super().described(task) | scaling
