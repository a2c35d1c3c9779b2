"""Hold the state of a training after a step, from which a second run of the training can
continue."""

from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from diastole_sim.device.interface import Floats
from diastole_sim.train.history import History
from diastole_sim.train.loss_scaling import HostScale
from diastole_sim.train.network import Network, Parameter
from diastole_sim.train.session import Session

COUNTED = ("cycles", "macs", "inexact", "products", "saturated", "underflowed", "converted")
"""Attributes of a session that continue to count."""


@dataclass(frozen=True, kw_only=True)
class TrainingState:
    """State after ``steps`` steps.

    - ``arrays``: parameters with velocities, by name.
    - ``counts``: counts of the session, with ``total_cycles`` of the device.
    - ``scale``: scale of the loss, as :class:`diastole_sim.train.loss_scaling.HostScale` records
      it.
    - ``history``: curves so far.
    """

    steps: int
    arrays: dict[str, Floats]
    counts: dict[str, int | None]
    scale: dict[str, int]
    history: History = field(default_factory=History)

    @classmethod
    def of(
        cls, steps: int, network: Network, session: Session, history: History, scale: HostScale
    ) -> "TrainingState":
        """Return the present state."""
        arrays = {
            f"{name}.{number}.{part}": getattr(parameter, part)
            for name, parameters in network.parameters_by_name.items()
            for number, parameter in enumerate(parameters)
            for part in ("value", "velocity")
        }
        counts = {name: getattr(session, name) for name in COUNTED}
        counts["total_cycles"] = session.total_cycles
        return cls(steps=steps, arrays=arrays, counts=counts, scale=scale.record(), history=history)

    def restore(self, network: Network, session: Session, scale: HostScale) -> History:
        """Restore network, session and scale of the loss, and return the curves. KeyError or
        ValueError for a state of a different network."""
        for name, parameters in network.parameters_by_name.items():
            for number, parameter in enumerate(parameters):
                parts = {
                    part: self.arrays[f"{name}.{number}.{part}"] for part in ("value", "velocity")
                }
                if any(each.shape != parameter.value.shape for each in parts.values()):
                    raise ValueError(
                        f"parameter {number} of {name} has a different shape in this training"
                    )
                parameters[number] = Parameter(**parts)
        for name in COUNTED:
            setattr(session, name, self.counts[name])
        session.cycles_before = self.counts["total_cycles"]
        scale.restore(self.scale)
        return self.history

    def record(self) -> dict[str, Any]:
        """Return everything except the arrays as plain values."""
        record = {"steps": self.steps, "counts": self.counts, "scale": self.scale}
        return record | {"history": asdict(self.history)}

    @classmethod
    def read(cls, record: dict[str, Any], arrays: dict[str, Floats]) -> "TrainingState":
        """Return the state from the result of :meth:`record`. KeyError or TypeError for a record of
        a different form."""
        curves = dict(record["history"])
        curves["held_out"] = [tuple(each) for each in curves["held_out"]]
        return cls(
            steps=record["steps"],
            arrays=arrays,
            counts=record["counts"],
            scale=record["scale"],
            history=History(**curves),
        )


class StateKeeper(Protocol):
    """Store for the state of a training."""

    def load(self) -> TrainingState | None:
        """Return the state of an earlier run; None without an earlier run."""
        ...

    def keep(self, state: TrainingState) -> None:
        """Replace the stored state, completely or not at all."""
        ...
