"""Describe the loops of a product: lengths that are cut into steps. Positions and lengths are in
blocks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd, lcm, prod
from typing import TypeAlias

from diastole_sim.spec.image import GROUP_BLOCKS
from diastole_sim.spec.integers import ceil_div

LONGEST_PERIOD = 16
"""Longest period of a loop in steps. A longer period makes little difference."""
FEW_STEPS, FEW_INSIDE = 4, 8
"""Limits for exact address times: steps of a loop, and steps of the loops inside."""

Stretch: TypeAlias = tuple[int, int]
"""First block and number of blocks."""


@dataclass(frozen=True)
class Axis:
    """Loop in steps of ``step`` out of ``total``. Steps that are a multiple of ``period`` steps
    apart take the same time, except the first and the last step."""

    total: int
    step: int
    period: int = 1

    @classmethod
    def of(cls, total: int, step: int, *rounds: tuple[int, int]) -> "Axis":
        """Return an axis with its period. The period covers where steps begin in groups of blocks,
        and every pair in ``rounds``: the distance that a step moves a position, and the length
        after which the position wraps."""
        periods = (whole // gcd(whole, part) for part, whole in ((step, GROUP_BLOCKS), *rounds))
        return cls(total, step, gcd(lcm(*periods), LONGEST_PERIOD))

    @property
    def count(self) -> int:
        return ceil_div(self.total, self.step)

    def at(self, number: int) -> Stretch:
        """Return the stretch of a step."""
        start = number * self.step
        return start, min(self.step, self.total - start)

    def rows(self, rows: Stretch) -> Stretch:
        """Return the rows of blocks of a step, moved to the usual row unless the step is the
        first."""
        return (self.usual_row, rows[1]) if rows[0] else rows

    def same_bits(self, number: int) -> int:
        """Return the first step whose start has more bits than the start of step ``number``."""
        return ceil_div(1 << (number * self.step).bit_length(), self.step)

    @cached_property
    def usual_row(self) -> int:
        """Row number with as many bits as the starts of steps have on average, without the first
        step."""
        bits, steps_before = 0, 1
        for length in range(1, self.total.bit_length() + 1):
            steps_up_to = min(self.count, ceil_div(1 << length, self.step))  # steps with fewer bits
            bits += length * (steps_up_to - steps_before)
            steps_before = steps_up_to
        return 1 << (round(bits / max(1, self.count - 1)) - 1) if bits else 0


def exact(axis: Axis, axes: Sequence[Axis]) -> bool:
    """Return whether a loop counts the exact bits of addresses, in a walk whose steps are ``alike``
    otherwise. A loop of few steps does, and a loop with few steps of the loops inside."""
    place = next(place for place, each in enumerate(axes) if each is axis)
    inside = prod(each.count for each in axes[place + 1 :])
    return axis.count <= FEW_STEPS or inside <= FEW_INSIDE
