"""Define the interface of networks that a host trains, with linear layers on a device."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from diastole_sim.device.interface import Floats
from diastole_sim.train import host
from diastole_sim.train.loss_scaling import HostScale
from diastole_sim.train.samples import Samples
from diastole_sim.train.session import Session


@dataclass(frozen=True, kw_only=True)
class LayerShape:
    """Linear layer in a step: X (m, k), W (k, n). ``input_gradient``: True if dX is computed."""

    m: int
    k: int
    n: int
    input_gradient: bool


class Network(Protocol):
    """Interface of a network for a job, with linear layers on a device."""

    @property
    def depth(self) -> int:
        """Number of linear layers."""
        ...

    @property
    def parameters_by_name(self) -> dict[str, list["Parameter"]]:
        """Everything that training changes, in lists by name. Change the lists to replace
        parameters."""
        ...

    def shapes(self, batch: Samples) -> list[LayerShape]:
        """Return the shapes of the linear layers in a step on ``batch``."""
        ...

    def train_step(
        self,
        session: Session,
        batch: Samples,
        *,
        step: int,
        rate: np.float32,
        momentum: float,
        following: Samples | None = None,
        scale: HostScale = ...,
    ) -> tuple[float, float]:
        """Do one step and return loss and accuracy before the update. ``following``: the next
        batch. ``scale``: scale of the loss."""
        ...

    def evaluate(self, session: Session, samples: Samples, *, step: int) -> tuple[float, float]:
        """Return loss and accuracy on samples."""
        ...

    def sha256(self) -> str:
        """Return the SHA-256 of all parameters."""
        ...


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """Master copy of a parameter, held as float32 whatever the format, and the velocity."""

    value: Floats
    velocity: Floats

    @classmethod
    def at(cls, value: Floats) -> "Parameter":
        """Return a parameter with ``value`` and velocity 0."""
        return cls(value=value, velocity=np.zeros_like(value))

    def descend(
        self,
        gradient: Floats,
        rate: np.float32,
        momentum: float,
        rounded: Callable[[Floats], Floats],
    ) -> "Parameter":
        """Return the parameter after one update. ``rounded``: rounding of the new value."""
        value, velocity = host.descend(self.value, self.velocity, gradient, rate, momentum)
        return Parameter(value=rounded(value), velocity=velocity)
