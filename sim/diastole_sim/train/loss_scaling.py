"""The scale of the loss of a training, and what a host that trains does with it.

A step's gradient of the loss is multiplied by 2^x. The gradients of the parameters are divided by
2^x before the update, which is exact unless a gradient is subnormal. If one of them is NaN or Inf,
or a tensor dY that was converted had a NaN or Inf, or the result of a product was too large, the
step *overflowed*, as on a machine: nothing is updated, and x falls by 1. After ``window`` steps in
a row without an overflow x grows by 1. x stays within a smallest and a largest exponent; the
smallest one may be a table over steps, whose floors rise as training goes on.

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

MOST_STEP = 1_000_000
"""The last step from which on a floor may hold."""
Floors = tuple[tuple[int, int], ...]
"""Pairs of a step and the smallest exponent from that step on."""


def require_floors(floors: Floors, low: int, high: int) -> Floors:
    """Return ``floors`` if steps and exponents rise, within 0 to :data:`MOST_STEP` and ``low`` to
    ``high``; ValueError that names the step otherwise."""
    for step, exponent in floors:
        require_int("a step of loss_scale_floor", step, 0, MOST_STEP)
        require_int(f"the exponent of loss_scale_floor at step {step}", exponent, low, high)
    for (before, lower), (step, exponent) in pairwise(floors):
        if step == before:
            raise ValueError(f"loss_scale_floor has step {step} twice: say one exponent for it")
        if step < before:
            raise ValueError(
                f"loss_scale_floor has step {step} behind step {before}: steps must rise"
            )
        if exponent <= lower:
            raise ValueError(
                f"loss_scale_floor has exponent {exponent} at step {step}, and {lower} before: "
                "floors must rise"
            )
    return floors


@dataclass(frozen=True, kw_only=True)
class LossScaling:
    """``exponent``: of step 0. ``smallest``, ``largest``: exponents that the scale keeps within.
    ``window``: steps without overflow after which the scale doubles. ``floors``: from each of these
    steps on the smallest exponent is the one beside the step. ValueError for floors that do not
    rise, or are not within ``smallest`` and ``largest``."""

    exponent: int = 8
    smallest: int = -14
    largest: int = 24
    window: int = 100
    floors: Floors = ()

    def __post_init__(self) -> None:
        require_floors(self.floors, self.smallest, self.largest)

    def floor(self, step: int) -> int:
        """The smallest exponent in a step."""
        reached = [exponent for first, exponent in self.floors if first <= step]
        return reached[-1] if reached else self.smallest

    def begin(self) -> LossScale:
        """The state before step 0."""
        return LossScale(
            on=True,
            exponent=self.exponent,
            smallest=self.smallest,
            largest=self.largest,
            window=self.window,
        )


class HostScale:
    """The scale of the loss in a training by a host. ``state``: as the registers of a machine have
    it. ``skipped``: steps that overflowed so far. Without ``scaling`` nothing is scaled.
    ``gradient``: the format of weight gradients while they have the scale, of
    :data:`diastole_sim.train.gradient.FORMATS`; its draws are of ``seed``."""

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
        """Return a gradient of weights in its format; ``tag``: that of the weights' update."""
        return round_gradient(gradient, self.gradient, seed=self.seed, tag=tag, step=step)

    def unscaled(self, gradients: Sequence[Floats], *, overflowed: bool) -> list[Floats]:
        """End the step: return the gradients of all parameters without the scale, or none of them
        if the step overflowed, on the device or here."""
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
        """What changes, as plain values."""
        return {
            "exponent": self.state.exponent,
            "clean": self.state.clean,
            "skipped": self.skipped,
        }

    def restore(self, record: dict[str, int]) -> None:
        """Go on from what :meth:`record` gave."""
        self.state.exponent, self.state.clean = record["exponent"], record["clean"]
        self.skipped = record["skipped"]


UNSCALED = HostScale()
"""Of trainings without a scale; nothing changes in it."""
