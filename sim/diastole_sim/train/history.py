"""Record the curves of a training, and the tensors that became NaN or Inf."""

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

HELD_OUT_LOSS, MINIBATCH_LOSS = "the held-out loss", "the loss of the minibatch"
HELD_OUT_LOGITS = "the matrix of held-out logits"


@dataclass(frozen=True, kw_only=True)
class History:
    """Curves of a training.

    - ``losses``, ``accuracies``: loss and accuracy on every step's minibatch before the update.
    - ``held_out``: (steps done, loss, accuracy) on the held-out samples. The final evaluation is
      the last entry.
    - ``not_finite``: for each tensor or loss with a NaN or an Inf, by name, a text with the first
      step and the contents, in the order of detection. Empty if all numbers are finite.
    """

    losses: list[float] = field(default_factory=list[float])
    accuracies: list[float] = field(default_factory=list[float])
    held_out: list[tuple[int, float, float]] = field(default_factory=list[tuple[int, float, float]])
    not_finite: dict[str, str] = field(default_factory=dict[str, str])

    def look_at(self, name: str, values: ArrayLike, steps: str) -> None:
        """Record that a tensor, or a single number, is not finite after ``steps``, for example
        "step 7". A second record of a name is dropped."""
        array = np.asarray(values)
        if name not in self.not_finite and not np.isfinite(array).all():
            self.not_finite[name] = f"{steps}: {name} {content(array)}"

    def forget_all_but(self, names: Collection[str]) -> None:
        """Keep only ``names`` in ``not_finite``, after a step was skipped because of an
        overflow."""
        for name in set(self.not_finite) - set(names):
            del self.not_finite[name]


def content(values: NDArray[np.generic]) -> str:
    """Return a text that counts the NaN and Inf of an array."""
    nan, inf = int(np.isnan(values).sum()), int(np.isinf(values).sum())
    if not values.ndim:
        return f"is {'NaN' if nan else 'Inf'}"
    counted = ((nan, "NaN"), (inf, "Inf"))
    summary = " and ".join(f"{count} {kind}" for count, kind in counted if count)
    return f"has {summary} among {values.size} numbers"
