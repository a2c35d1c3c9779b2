"""How a perceptron is trained by a program, by the names that people give."""

from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

from diastole_sim.program.chains.activations import ACTIVATIONS, Activation
from diastole_sim.program.optimizer_table import (
    FIRST_RATE,
    OF_OPTIMIZERS,
    OPTIMIZERS,
    OptimizerChoice,
    fitting_layers,
    with_option,
)
from diastole_sim.program.own_code import OwnCode
from diastole_sim.program.own_parts import OwnOptimiser, own_activation, own_optimizer
from diastole_sim.program.program_tables import TooManyStreamsError
from diastole_sim.program.recipe import Optimiser, falling
from diastole_sim.program.tasks import TaskProgram, TaskRecipe, task_program, task_recipe
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.require import require_choice, require_int
from diastole_sim.spec.stream_table import SLOTS
from diastole_sim.train.loss_scaling import Floors, LossScaling, require_floors
from diastole_sim.train.precision import Precision
from diastole_sim.train.tasks import HIDDEN, Task

MOST_LAYERS, MOST_UNITS = 5, 4096
"""Hidden layers that fit at most, of ``sgd`` without momentum, and units of each."""
MOST_DECAY = 1000.0
MOST_CLIP = 1e30
DEFAULT_SCALING = LossScaling()


@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """What a perceptron learns by, in whatever numbers.

    ``optimizer``, ``activation``: a name of :data:`OPTIMIZERS`, of :data:`ACTIVATIONS`, or what a
    user wrote. ``rate``: of step 0, None for that of the optimiser. ``momentum``, ``betas``,
    ``weight_decay``: None for that of the optimiser, or of the task; only of optimisers that have
    them. ``hidden``: units of every hidden layer. ``clip``: the largest norm of all gradients
    together, None for any. ValueError if one is not accepted."""

    optimizer: str | OwnCode = "sgd"
    rate: float | None = None
    momentum: float | None = None
    betas: tuple[float, float] | None = None
    weight_decay: float | None = None
    hidden: tuple[int, ...] = (HIDDEN,)
    activation: str | OwnCode = "relu"
    clip: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.optimizer, str):
            require_choice("optimizer", self.optimizer, tuple(OPTIMIZERS))
        self._check_optimizer()
        if isinstance(self.activation, str):
            require_choice("activation", self.activation, tuple(ACTIVATIONS))
        self.check_own()
        require_int("hidden layers", len(self.hidden), 1, MOST_LAYERS)
        for units in self.hidden:
            require_int("hidden", units, 1, MOST_UNITS)
        if self.clip is not None and not 0 < self.clip <= MOST_CLIP:
            raise ValueError(f"clip must be above 0, at most {MOST_CLIP:g}, not {self.clip}")

    @property
    def choice(self) -> OptimizerChoice:
        """Its optimiser."""
        if isinstance(self.optimizer, OwnCode):
            return own_optimizer(self.optimizer)
        return OPTIMIZERS[self.optimizer]

    def check_own(self) -> None:
        """OwnCodeError if what a user wrote cannot be used."""
        if isinstance(self.activation, OwnCode):
            own_activation(self.activation)
        made = self.choice.make(rate=falling(FIRST_RATE, 2), **self._given_options)
        if isinstance(made, OwnOptimiser):
            made.check()

    def first_rate(self, task: Task) -> float:
        """Of step 0."""
        return self._value("rate", task)

    def recipe(self, task: Task, *, steps: int, seed: int) -> TaskRecipe:
        """The recipe of a task, for so many steps."""
        return task_recipe(task, **self.how(task, steps=steps, seed=seed))

    def how(self, task: Task, *, steps: int, seed: int) -> dict[str, Any]:
        """The arguments of :func:`diastole_sim.program.tasks.task_recipe` besides the task."""
        return {
            "steps": steps,
            "seed": seed,
            "hidden": self.hidden,
            "activation": self._activation(),
            "optimiser": self._optimiser(task, steps),
            "clip": self.clip,
        }

    def described(self, task: Task) -> dict[str, Any]:
        """As a result has them."""
        found = {each.name: getattr(self, each.name) for each in fields(RecipeOptions)}
        options = {name: self._value(name, task) for name in OF_OPTIMIZERS}
        return found | {"rate": self.first_rate(task)} | options | self._own_described()

    def _check_optimizer(self) -> None:
        for name in OF_OPTIMIZERS:
            if getattr(self, name) is not None and name not in self.choice.takes:
                raise ValueError(
                    f"{name} is of {' and '.join(with_option(name))}, not of {self.optimizer}"
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

    @property
    def _given_options(self) -> dict[str, Any]:
        """Of those that not every optimiser has, what was given."""
        given = {name: getattr(self, name) for name in OF_OPTIMIZERS}
        return {name: value for name, value in given.items() if value is not None}

    def _value(self, name: str, task: Task) -> Any:
        """What was given, else the optimiser's, else the task's; None for what it has not."""
        given, choice = getattr(self, name), self.choice
        if given is not None:
            return given
        return getattr(task, name) if name in choice.of_task else choice.defaults.get(name)

    def _optimiser(self, task: Task, steps: int) -> Optimiser:
        rate = falling(self.first_rate(task), steps)
        options = {name: self._value(name, task) for name in self.choice.takes}
        options = {name: value for name, value in options.items() if value is not None}
        return self.choice.make(rate=rate, **options)

    def _activation(self) -> Activation:
        if isinstance(self.activation, OwnCode):
            return own_activation(self.activation)
        return ACTIVATIONS[self.activation]()

    def _own_described(self) -> dict[str, Any]:
        """What is written by a user, by file and name, with the hash of the file."""
        found: dict[str, Any] = {}
        for name in ("optimizer", "activation"):
            code = getattr(self, name)
            found[name] = str(code)
            found[f"{name}_sha256"] = code.sha256 if isinstance(code, OwnCode) else None
        return found


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
        always = ", ".join(f"{count} of {name}" for name, count in fitting_layers().items())
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
