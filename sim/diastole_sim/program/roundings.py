"""Round the tensors of a program once more when they are stored, as no vector unit does.

A machine without a vector unit converts and multiplies. Golden code does the rest of a program, and
can keep master weights and weight gradients in fewer bits than binary32. Each tensor is rounded
where the program writes the tensor to memory, with random bits of seed, tag, step and element.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from diastole_sim.device.interface import Floats
from diastole_sim.program.memory_plan import PlannedArea
from diastole_sim.train.gradient import round_gradient
from diastole_sim.train.master import Master


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """Rounding of a tensor.

    - ``master``: format of a parameter; None for a gradient. ``gradient``: format of a gradient.
    - ``tag``: tag of the random bits of the parameter, or of the gradient's parameter.
    """

    master: Master | None = None
    gradient: str = "float32"
    tag: int

    def of(self, values: Floats, *, seed: int, step: int) -> Floats:
        """Return the rounded numbers."""
        if self.master is not None:
            return self.master.round(values, seed=seed, tag=self.tag, step=step)
        return round_gradient(values, self.gradient, seed=seed, tag=self.tag, step=step)


@dataclass(frozen=True, kw_only=True)
class PlacedRounding:
    """Rounding on a machine with the seed ``seed``. ``watched``: True if an Inf of the rounding is
    an overflow of the step, as for a gradient."""

    rounding: Rounding
    seed: int

    @property
    def watched(self) -> bool:
        return self.rounding.master is None

    def __call__(self, values: Floats, step: int) -> Floats:
        return self.rounding.of(values, seed=self.seed, step=step)


def by_address(
    roundings: Mapping[str, Rounding], areas: Mapping[str, PlannedArea], *, seed: int
) -> dict[int, PlacedRounding]:
    """Return the rounding for each address at which a rounded tensor begins."""
    return {
        areas[name].address: PlacedRounding(rounding=rounding, seed=seed)
        for name, rounding in roundings.items()
    }
