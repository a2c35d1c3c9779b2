"""What the planned machine has beside today's."""

from dataclasses import dataclass, fields
from typing import Any

from diastole_sim.perf.machine import ModelledMachine, ceil_div, next_power_of_two
from diastole_sim.spec.check import require_int


@dataclass(frozen=True, kw_only=True)
class PlannedMachine(ModelledMachine):
    """A machine whose scratchpads are rings, and whose loops are data.

    ``stream_words``, ``held_words``,
    ``sum_words``: vectors of a bank of what streams (per side), of what is held, and of an
    accumulator bank per direction; the last is in ``sum_units`` memories of equal size.
    """

    stream_words: int
    held_words: int
    sum_words: int
    sum_units: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        require_int("sum_units", self.sum_units, 1, 16)
        if any(self.widths):
            raise ValueError("the planned machine has formats of one width: none may be fast")
        for name in ("stream_words", "held_words", "sum_words"):
            require_int(name, getattr(self, name), self.block, 1 << 24)

    @classmethod
    def after(
        cls, today: ModelledMachine, *, data_width: int | None = None, ports: int = 1
    ) -> "PlannedMachine":
        """The same array with the same memories, and another bus."""
        kept = {field.name: getattr(today, field.name) for field in fields(ModelledMachine)}
        changed: dict[str, Any] = {"data_width": data_width or today.data_width, "ports": ports}
        return cls(
            **kept | changed,
            stream_words=2 * today.bank_words,
            held_words=today.fused_words,
            sum_words=2 * today.bank_words,
        )

    def vectors_per_cycle(self, cls: int) -> int:
        """That a loader writes: what the bus brings, a power of two, at most a block."""
        brought = ceil_div(self.data_width, self.vector_bits(cls))
        return min(self.block, next_power_of_two(brought))

    @property
    def drain_vectors(self) -> int:
        """That the drain reads per cycle: what the bus takes."""
        return max(1, self.ports * self.data_width // (32 * self.block))
