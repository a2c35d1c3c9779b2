"""The curves of a training."""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class History:
    """Curves. ``losses`` and ``accuracies`` of every step's minibatch before its update;
    ``held_out`` as (steps done, loss, accuracy) on the held-out samples, the final one last."""

    losses: list[float] = field(default_factory=list[float])
    accuracies: list[float] = field(default_factory=list[float])
    held_out: list[tuple[int, float, float]] = field(default_factory=list[tuple[int, float, float]])
