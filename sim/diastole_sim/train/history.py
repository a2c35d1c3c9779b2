"""The curves of a training, and where it ceased to be finite."""

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

HELD_OUT_LOSS, MINIBATCH_LOSS = "the held-out loss", "the loss of the minibatch"
HELD_OUT_LOGITS = "the matrix of held-out logits"


@dataclass(frozen=True, kw_only=True)
class History:
    """Curves. ``losses`` and ``accuracies`` of every step's minibatch before its update;
    ``held_out`` as (steps done, loss, accuracy) on the held-out samples, the final one last.

    ``not_finite``: of each tensor or loss that held a NaN or an Inf, by its name, the first step
    and what it held, in the order in which they were seen; empty where all was finite."""

    losses: list[float] = field(default_factory=list[float])
    accuracies: list[float] = field(default_factory=list[float])
    held_out: list[tuple[int, float, float]] = field(default_factory=list[tuple[int, float, float]])
    not_finite: dict[str, str] = field(default_factory=dict[str, str])

    def look_at(self, name: str, values: ArrayLike, steps: str) -> None:
        """Note that a tensor, or a single number, is not finite after these ``steps``, such as
        "step 7", unless it was noted before."""
        array = np.asarray(values)
        if name not in self.not_finite and not np.isfinite(array).all():
            self.not_finite[name] = f"{steps}: {name} {content(array)}"

    def forget_all_but(self, names: Collection[str]) -> None:
        """Keep these of ``not_finite`` alone: a step was skipped since it overflowed."""
        for name in set(self.not_finite) - set(names):
            del self.not_finite[name]


def content(values: NDArray[np.generic]) -> str:
    """Return what an array holds that is not finite, in words."""
    nan, inf = int(np.isnan(values).sum()), int(np.isinf(values).sum())
    if not values.ndim:
        return f"is {'NaN' if nan else 'Inf'}"
    counted = ((nan, "NaN"), (inf, "Inf"))
    found = " and ".join(f"{count} {kind}" for count, kind in counted if count)
    return f"has {found} among {values.size} numbers"
