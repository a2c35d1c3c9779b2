"""Learning rates over the steps of a training.

All rates are computed by sums and products alone, so every computer has the same bits.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from diastole_sim.spec.require import require_choice, require_int

Rate = Callable[[int], float]
"""Learning rate of step 0, 1, .. ."""
LINEAR, CONSTANT, COSINE, STEP = "linear", "constant", "cosine", "step"
SCHEDULES = (LINEAR, CONSTANT, COSINE, STEP)
GAMMA = 0.1
"""Default factor of the schedule ``step``, as in torch."""


@dataclass(frozen=True, kw_only=True)
class RateSchedule:
    """Learning rate of every step, as a share of the learning rate of the training.

    - ``kind``: ``linear`` falls from 1 towards 0 in the step after the last, ``constant`` is 1,
      ``cosine`` is (1 + cos(pi step / steps)) / 2, and ``step`` is multiplied by ``gamma`` every
      ``step_size`` steps.
    - ``warmup``: number of first steps in which the share is also multiplied by
      (step + 1) / (``warmup`` + 1).

    ValueError for members that do not go together.
    """

    kind: str = LINEAR
    warmup: int = 0
    step_size: int | None = None
    gamma: float | None = None

    def __post_init__(self) -> None:
        require_choice("schedule", self.kind, SCHEDULES)
        require_int("warmup", self.warmup, 0, 2**31)
        for name, value in (("step_size", self.step_size), ("gamma", self.gamma)):
            if value is not None and self.kind != STEP:
                raise ValueError(f"{name} is an option of schedule step, not of {self.kind}")
        if self.kind == STEP and self.step_size is None:
            raise ValueError("schedule step needs step_size, the steps between two changes")

    def rate(self, first: float, steps: int) -> Rate:
        """Return the learning rate of every step, in float32. ``first``: learning rate of the
        training."""

        def of(step: int) -> float:
            rate = np.float32(first) * self._share(step, steps)
            if step < self.warmup:
                rate *= np.float32(step + 1) / np.float32(self.warmup + 1)
            return float(rate)

        return of

    def _share(self, step: int, steps: int) -> np.float32:
        if self.kind == LINEAR:
            return np.float32(steps - step) / np.float32(steps)
        if self.kind == COSINE:
            return np.float32(_half_cosine(step, steps))
        if self.kind == STEP:
            assert self.step_size is not None
            gamma = GAMMA if self.gamma is None else self.gamma
            return np.float32(_power(gamma, step // self.step_size))
        return np.float32(1)


def _half_cosine(step: int, steps: int) -> float:
    """Return (1 + cos(pi step / steps)) / 2, the square of the sine of half the angle that is left,
    by the series of the sine, to 1e-15."""
    angle = 3.141592653589793 * (steps - step) / (2 * steps)
    term = total = angle
    for number in range(1, 12):
        term *= -angle * angle / ((2 * number) * (2 * number + 1))
        total += term
    return total * total


def _power(base: float, exponent: int) -> float:
    """Return a power, by one product after another."""
    result = 1.0
    for _ in range(exponent):
        result *= base
    return result
