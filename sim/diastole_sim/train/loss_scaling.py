"""Scale the loss of a training on a host.

A step's gradient of the loss is multiplied by 2^x. The gradients of the parameters are divided by
2^x before the update, which is exact unless a gradient is subnormal. A step *overflows*, as on a
machine, in three cases: one of these gradients is NaN or Inf, a converted tensor dY had a NaN or
Inf, or the result of a product was too large. After an overflow nothing is updated, and x falls
by 1. After ``window`` steps in a row without an overflow x grows by 1. x stays within a smallest
and a largest exponent. The smallest exponent may be a table over steps, with floors that rise
during training.

Source of rising floors: Mellempudi et al., "Mixed Precision Training With 8-bit Floating Point",
arXiv:1905.12334: 2^13 after 40 000 steps of GNMT, and 2^15 after about 150 000.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from diastole_sim.device.interface import Floats
from diastole_sim.golden.loss_scale import LossScale
from diastole_sim.spec.require import require_int
from diastole_sim.train.gradient import require_gradient, round_gradient

MAX_STEP = 1_000_000
"""Last step at which a floor may begin."""
Floors = tuple[tuple[int, int], ...]
"""Pairs of a step and the smallest exponent from the step on."""


def require_floors(floors: Floors, low: int, high: int) -> Floors:
    """Return ``floors`` if steps and exponents rise, with steps within 0 to :data:`MAX_STEP` and
    exponents within ``low`` to ``high``. Otherwise ValueError with the number of the step."""
    for step, exponent in floors:
        require_int("a step of loss_scale_floor", step, 0, MAX_STEP)
        require_int(f"the exponent of loss_scale_floor at step {step}", exponent, low, high)
    for (before, lower), (step, exponent) in pairwise(floors):
        if step == before:
            raise ValueError(
                f"loss_scale_floor: step {step} appears twice: give step {step} a single exponent"
            )
        if step < before:
            raise ValueError(
                f"loss_scale_floor: steps must rise, but step {step} follows step {before}"
            )
        if exponent <= lower:
            raise ValueError(
                f"loss_scale_floor: exponents must rise, but exponent {exponent} at step {step} "
                f"follows exponent {lower}"
            )
    return floors


@dataclass(frozen=True, kw_only=True)
class LossScaling:
    """Parameters of loss scaling.

    - ``exponent``: exponent in step 0.
    - ``smallest``, ``largest``: limits of the exponent.
    - ``window``: number of steps without overflow after which the scale doubles.
    - ``floors``: pairs of a step and the smallest exponent from the step on.

    ValueError for floors that do not rise, or are not within ``smallest`` and ``largest``.
    """

    exponent: int = 8
    smallest: int = -14
    largest: int = 24
    window: int = 100
    floors: Floors = ()

    def __post_init__(self) -> None:
        require_floors(self.floors, self.smallest, self.largest)

    def floor(self, step: int) -> int:
        """Return the smallest exponent in a step."""
        reached = [exponent for first, exponent in self.floors if first <= step]
        return reached[-1] if reached else self.smallest

    def begin(self) -> LossScale:
        """Return the state before step 0."""
        return LossScale(
            on=True,
            exponent=self.exponent,
            smallest=self.smallest,
            largest=self.largest,
            window=self.window,
        )


class HostScale:
    """Scale of the loss in a training by a host. Nothing is scaled without ``scaling``.

    - ``state``: state as in the registers of a machine.
    - ``skipped``: number of steps that overflowed so far.
    - ``gradient``: format of weight gradients with the scale, of
      :data:`diastole_sim.train.gradient.FORMATS`.
    - ``seed``: seed of the random bits for ``gradient``.
    """

    def __init__(
        self, scaling: LossScaling | None = None, *, gradient: str = "float32", seed: int = 0
    ):
        self.scaling, self.seed = scaling, seed
        self.gradient = require_gradient(gradient)
        self.state = LossScale() if scaling is None else scaling.begin()
        self.skipped = 0

    def begin_step(self, step: int) -> None:
        """Raise the scale to the floor of a step."""
        if self.scaling is not None and self.scaling.floors:
            self.state.set_floor(np.float32(2.0 ** self.scaling.floor(step)))

    def scaled(self, gradient: Floats) -> Floats:
        """Return the gradient of the loss times the scale."""
        return gradient * self.state.factors[0] if self.state.on else gradient

    def of_weights(self, gradient: Floats, *, tag: int, step: int) -> Floats:
        """Return a gradient of weights in the format ``gradient``. ``tag``: tag of the weights'
        update."""
        return round_gradient(gradient, self.gradient, seed=self.seed, tag=tag, step=step)

    def unscaled(self, gradients: Sequence[Floats], *, overflowed: bool) -> list[Floats]:
        """End the step. Return the gradients of all parameters without the scale, or no gradients
        if the step overflowed on the device or in this function."""
        if not self.state.on:
            return list(gradients)
        inverse = self.state.factors[1]
        overflowed = overflowed or not all(np.isfinite(each).all() for each in gradients)
        self.state.next(overflowed)
        if overflowed:
            self.skipped += 1
            return []
        return [each * inverse for each in gradients]

    def record(self) -> dict[str, int]:
        """Return the changing state as plain values."""
        return {
            "exponent": self.state.exponent,
            "clean": self.state.clean,
            "skipped": self.skipped,
        }

    def restore(self, record: dict[str, int]) -> None:
        """Continue from the result of :meth:`record`."""
        self.state.exponent, self.state.clean = record["exponent"], record["clean"]
        self.skipped = record["skipped"]


UNSCALED = HostScale()
"""Scale for trainings without loss scaling. The object never changes."""
