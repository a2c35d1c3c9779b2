"""Loops of a product as lengths that are cut into steps. Positions and lengths are in blocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, lcm, prod
from typing import TypeAlias

from diastole_sim.spec.image import GROUP_BLOCKS
from diastole_sim.spec.integers import ceil_div

LONGEST_PERIOD = 16
"""Steps of a loop; where what they move on comes round later, that makes little difference."""
FEW_STEPS, FEW_INSIDE = 4, 8
"""Of a loop, and of those inside it, that addresses are looked at one by one."""

Stretch: TypeAlias = tuple[int, int]
"""The first block and how many."""


@dataclass(frozen=True)
class Axis:
    """A loop in steps of ``step`` out of ``total``; but for the first and the last one, those that
    are a multiple of ``period`` steps apart take the same time."""

    total: int
    step: int
    period: int = 1

    @classmethod
    def of(cls, total: int, step: int, *rounds: tuple[int, int]) -> "Axis":
        """With the period of where steps begin in groups of blocks, and of ``rounds``: by how much
        a step moves something on, and after how much that comes round."""
        periods = (whole // gcd(whole, part) for part, whole in ((step, GROUP_BLOCKS), *rounds))
        return cls(total, step, gcd(lcm(*periods), LONGEST_PERIOD))

    @property
    def count(self) -> int:
        return ceil_div(self.total, self.step)

    def at(self, number: int) -> Stretch:
        """A step."""
        start = number * self.step
        return start, min(self.step, self.total - start)

    def rows(self, rows: Stretch) -> Stretch:
        """Rows of blocks of a step, as if the step was a usual one, unless it is the first."""
        return (self.usual_row, rows[1]) if rows[0] else rows

    def same_bits(self, number: int) -> int:
        """The first step whose start has more bits than that of a step."""
        return ceil_div(1 << (number * self.step).bit_length(), self.step)

    @cached_property
    def usual_row(self) -> int:
        """A number with as many bits as the starts of steps have in the mean, but the first."""
        bits, steps_before = 0, 1
        for length in range(1, self.total.bit_length() + 1):
            steps_up_to = min(self.count, ceil_div(1 << length, self.step))  # that have fewer
            bits += length * (steps_up_to - steps_before)
            steps_before = steps_up_to
        return 1 << (round(bits / max(1, self.count - 1)) - 1) if bits else 0


def exact(axis: Axis, axes: Sequence[Axis]) -> bool:
    """Whether a loop counts the bits of addresses, where steps are ``alike`` otherwise: one of few
    steps does, and one with few steps of others inside."""
    place = next(place for place, each in enumerate(axes) if each is axis)
    inside = prod(each.count for each in axes[place + 1 :])
    return axis.count <= FEW_STEPS or inside <= FEW_INSIDE
