"""Hold the options of a perceptron's training by a program, by the names that users give."""

from dataclasses import dataclass, fields, replace
from typing import Any

from diastole_sim.lowering.recipe import ParameterGroup
from diastole_sim.program.chains.activations import ACTIVATIONS, Activation
from diastole_sim.program.optimizer_table import (
    FIRST_RATE,
    OF_OPTIMIZERS,
    OPTIMIZERS,
    OptimizerChoice,
    with_option,
)
from diastole_sim.program.own_code import OwnCode
from diastole_sim.program.own_parts import OwnOptimiser, own_activation, own_optimizer
from diastole_sim.program.recipe import Optimiser, falling
from diastole_sim.program.schedules import LINEAR, RateSchedule
from diastole_sim.spec.limits import Limits
from diastole_sim.spec.numerics import Numerics
from diastole_sim.spec.require import require_choice, require_int
from diastole_sim.train.gradient import require_gradient
from diastole_sim.train.loss_scaling import Floors, LossScaling, require_floors
from diastole_sim.train.master import FLOAT32, Master
from diastole_sim.train.precision import Precision
from diastole_sim.train.tasks import HIDDEN, Task
from diastole_sim.trainer.tasks import TaskProgram, TaskRecipe, task_program, task_recipe

MAX_LAYERS, MAX_UNITS = 64, 4096
"""Most hidden layers, and most units of a hidden layer."""
MAX_DECAY = 1000.0
MAX_TRUST = 1000.0
MAX_CLIP = 1e30
MAX_MICROBATCHES = 256
DEFAULT_SCALING = LossScaling()


@dataclass(frozen=True, kw_only=True)
class GroupOptions:
    """Options of the parameters whose names match a ``pattern``. ``rate``: learning rate in step 0.
    None for the option of all parameters."""

    pattern: str
    rate: float | None = None
    weight_decay: float | None = None

    def __str__(self) -> str:
        values = {"rate": self.rate, "weight decay": self.weight_decay}
        given = [f"{name} {value:g}" for name, value in values.items() if value is not None]
        return f"{self.pattern}: {', '.join(given)}"


@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """Options of the training of a perceptron, independent of the number formats.

    - ``optimizer``, ``activation``: a name of :data:`OPTIMIZERS` or :data:`ACTIVATIONS`, or code of
      a user.
    - ``rate``: learning rate in step 0, None for the optimiser's default.
    - ``momentum``, ``betas``, ``weight_decay``, ``trust``: None for the default of the optimiser or
      of the task. Only for optimisers with the option.
    - ``groups``: options of groups of parameters. A parameter belongs to the first group that
      matches the name.
    - ``hidden``: units of every hidden layer.
    - ``clip``: largest norm of all gradients together, None for no limit.
    - ``accumulate``: number of microbatches of a step, whose gradients are added.
    - ``schedule``, ``warmup``, ``step_size``, ``gamma``: learning rates of later steps, as in
      :class:`diastole_sim.program.schedules.RateSchedule`.

    ValueError if an option is not accepted.
    """

    optimizer: str | OwnCode = "sgd"
    rate: float | None = None
    momentum: float | None = None
    betas: tuple[float, float] | None = None
    weight_decay: float | None = None
    trust: float | None = None
    groups: tuple[GroupOptions, ...] = ()
    hidden: tuple[int, ...] = (HIDDEN,)
    activation: str | OwnCode = "relu"
    clip: float | None = None
    accumulate: int = 1
    schedule: str = LINEAR
    warmup: int = 0
    step_size: int | None = None
    gamma: float | None = None

    def __post_init__(self) -> None:
        self.rates()
        if isinstance(self.optimizer, str):
            require_choice("optimizer", self.optimizer, tuple(OPTIMIZERS))
        self._check_optimizer()
        if isinstance(self.activation, str):
            require_choice("activation", self.activation, tuple(ACTIVATIONS))
        self.check_user_code()
        require_int("hidden layers", len(self.hidden), 1, MAX_LAYERS)
        for units in self.hidden:
            require_int("hidden", units, 1, MAX_UNITS)
        require_int("accumulate", self.accumulate, 1, MAX_MICROBATCHES)
        if self.clip is not None and not 0 < self.clip <= MAX_CLIP:
            raise ValueError(f"clip must be above 0 and at most {MAX_CLIP:g}, not {self.clip}")

    def rates(self) -> RateSchedule:
        """Return the learning rates of all steps."""
        return RateSchedule(
            kind=self.schedule, warmup=self.warmup, step_size=self.step_size, gamma=self.gamma
        )

    @property
    def choice(self) -> OptimizerChoice:
        """Table entry of the optimiser."""
        if isinstance(self.optimizer, OwnCode):
            return own_optimizer(self.optimizer)
        return OPTIMIZERS[self.optimizer]

    def check_user_code(self) -> None:
        """Check the code of a user; OwnCodeError if the code cannot be used."""
        if isinstance(self.activation, OwnCode):
            own_activation(self.activation)
        made = self.choice.make(rate=falling(FIRST_RATE, 2), **self._explicit_options)
        if isinstance(made, OwnOptimiser):
            made.check()

    def first_rate(self, task: Task) -> float:
        """Return the learning rate of step 0."""
        return self._value("rate", task)

    def recipe(self, task: Task, *, steps: int, seed: int) -> TaskRecipe:
        """Return the recipe of a task, for ``steps`` steps."""
        return task_recipe(task, **self.how(task, steps=steps, seed=seed))

    def how(self, task: Task, *, steps: int, seed: int) -> dict[str, Any]:
        """Return the arguments of :func:`diastole_sim.trainer.tasks.task_recipe`, except the
        task."""
        return {
            "steps": steps,
            "seed": seed,
            "hidden": self.hidden,
            "activation": self._activation(),
            "optimiser": self._optimiser(task, steps),
            "groups": self._groups(task, steps),
            "clip": self.clip,
            "accumulate": self.accumulate,
        }

    def description(self, task: Task) -> dict[str, Any]:
        """Return the options as a result reports them."""
        values = {each.name: getattr(self, each.name) for each in fields(RecipeOptions)}
        options = {name: self._value(name, task) for name in OF_OPTIMIZERS}
        description = values | {"rate": self.first_rate(task)} | options | self._own_description()
        if task.graph is not None:  # the graph has its layers
            description |= {"hidden": (), "activation": None}
        return description

    def _check_optimizer(self) -> None:
        for name in OF_OPTIMIZERS:
            if getattr(self, name) is not None and name not in self.choice.takes:
                raise ValueError(
                    f"{name} is an option of {' and '.join(with_option(name))}, not of "
                    f"{self.optimizer}: leave {name} out"
                )
        for group in self.groups:
            if group.weight_decay is not None and "weight_decay" not in self.choice.takes:
                raise ValueError(
                    f"group {group.pattern}: the optimiser {self.optimizer} has no weight decay: "
                    "leave weight-decay out"
                )
        for value in (self.momentum or 0.0, *(self.betas or ())):
            if not 0 <= value < 1:
                raise ValueError(f"momentum and betas must be at least 0 and below 1, not {value}")
        if self.optimizer == "nesterov" and self.momentum == 0:
            raise ValueError("momentum of nesterov must be above 0, not 0")
        if self.trust is not None and not 0 < self.trust <= MAX_TRUST:
            raise ValueError(f"trust must be above 0 and at most {MAX_TRUST:g}, not {self.trust}")
        if not 0 <= (self.weight_decay or 0.0) <= MAX_DECAY:
            raise ValueError(
                f"weight_decay must be at least 0 and at most {MAX_DECAY:g}, not "
                f"{self.weight_decay}"
            )

    @property
    def _explicit_options(self) -> dict[str, Any]:
        """Return the options of :data:`OF_OPTIMIZERS` that the user gave."""
        options = {name: getattr(self, name) for name in OF_OPTIMIZERS}
        return {name: value for name, value in options.items() if value is not None}

    def _value(self, name: str, task: Task) -> Any:
        """Return the value of an option: the user's value, else the default of the task or of the
        optimiser. None for an option that the optimiser lacks."""
        value, choice = getattr(self, name), self.choice
        if value is not None:
            return value
        return getattr(task, name) if name in choice.of_task else choice.defaults.get(name)

    def _groups(self, task: Task, steps: int) -> tuple[ParameterGroup, ...]:
        return tuple(
            ParameterGroup(
                pattern=group.pattern,
                optimiser=replace(
                    self,
                    rate=self.rate if group.rate is None else group.rate,
                    weight_decay=self.weight_decay
                    if group.weight_decay is None
                    else group.weight_decay,
                )._optimiser(task, steps),
            )
            for group in self.groups
        )

    def _optimiser(self, task: Task, steps: int) -> Optimiser:
        rate = self.rates().rate(self.first_rate(task), steps)
        options = {name: self._value(name, task) for name in self.choice.takes}
        options = {name: value for name, value in options.items() if value is not None}
        return self.choice.make(rate=rate, **options)

    def _activation(self) -> str | Activation:
        """Return the name of an operation, or the texts of a user."""
        if isinstance(self.activation, OwnCode):
            return own_activation(self.activation)
        return self.activation.replace("-", "_")

    def _own_description(self) -> dict[str, Any]:
        """Return optimiser and activation by name, or by file and name with the hash of the user's
        file."""
        description: dict[str, Any] = {}
        for name in ("optimizer", "activation"):
            code = getattr(self, name)
            description[name] = str(code)
            description[f"{name}_sha256"] = code.sha256 if isinstance(code, OwnCode) else None
        return description


@dataclass(frozen=True, kw_only=True)
class ProgramOptions(RecipeOptions):
    """Options of a training on a machine.

    - ``loss_scale``: exponent of the first scale of the loss, None without loss scaling.
    - ``loss_scale_floor``: pairs of a step and the smallest exponent from the step on.
    - ``precision``, ``master``, ``gradient``: as in a recipe.
    - ``limits``: limits of the machine.

    ValueError if an option is not accepted.
    """

    limits: Limits
    loss_scale: int | None = None
    loss_scale_floor: Floors = ()
    precision: Precision | None = None
    master: Master = FLOAT32
    gradient: str = "float32"

    def __post_init__(self) -> None:
        super().__post_init__()
        if require_gradient(self.gradient) != "float32" and self.accumulate > 1:
            raise ValueError("gradient works only without accumulate: a gradient is rounded once")
        if self.loss_scale is not None:
            low, high = DEFAULT_SCALING.smallest, DEFAULT_SCALING.largest
            require_int("loss_scale", self.loss_scale, low, high)
            require_floors(self.loss_scale_floor, low, high)
        elif self.loss_scale_floor:
            raise ValueError("loss_scale_floor needs loss_scale: give both")

    @property
    def loss_scaling(self) -> LossScaling | None:
        """Loss scaling for a recipe."""
        if self.loss_scale is None:
            return None
        return LossScaling(exponent=self.loss_scale, floors=self.loss_scale_floor)

    @property
    def in_float32(self) -> RecipeOptions:
        """Options without the members about the machine's numbers. A step in float32 has no
        microbatches."""
        shared = {each.name: getattr(self, each.name) for each in fields(RecipeOptions)}
        return replace(RecipeOptions(**shared), accumulate=1)

    def how(self, task: Task, *, steps: int, seed: int) -> dict[str, Any]:
        """Return the arguments of :meth:`RecipeOptions.how`, with those about the machine."""
        own = {
            "loss_scaling": self.loss_scaling,
            "precision": self.precision,
            "master": self.master,
            "gradient": self.gradient,
        }
        return super().how(task, steps=steps, seed=seed) | own

    def program(
        self,
        task: Task,
        numerics: Numerics,
        *,
        steps: int,
        seed: int,
        memory_bytes: int | None = None,
    ) -> TaskProgram:
        """Return the program of a task, for ``steps`` steps. ``memory_bytes``: as for
        :func:`diastole_sim.trainer.tasks.task_program`. ValueError if the machine is too small for
        the program."""
        machine = {"numerics": numerics, "limits": self.limits, "memory_bytes": memory_bytes}
        return task_program(task, **machine, **self.how(task, steps=steps, seed=seed))

    def description(self, task: Task) -> dict[str, Any]:
        """Return the options as a result reports them."""
        scaling = {"loss_scale": self.loss_scale, "loss_scale_floor": self.loss_scale_floor}
        return super().description(task) | scaling
