"""Describe a systolic array with one scratchpad in front of a memory, as papers on training
assume."""

from dataclasses import dataclass

from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.require import require_choice, require_int

WIDTHS = (1, 2, 4)
MAX_AMOUNT = 1 << 40


@dataclass(frozen=True, kw_only=True)
class SystolicMachine:
    """Machine with ``side`` x ``side`` multipliers. Operands, results and sums share
    ``scratchpad_bytes``.

    - ``bytes_per_second``: bandwidth of the memory.
    - ``hertz``: clock of the array.
    - ``batch``: samples in a step.
    - ``element_bytes``: bytes of an operand's element.
    - ``result_bytes``: bytes of a finished result.
    - ``sum_bytes``: bytes of a partial sum, on chip and spilled.

    ValueError if a member is out of range.
    """

    name: str
    side: int
    scratchpad_bytes: int
    bytes_per_second: int
    hertz: int
    batch: int
    element_bytes: int = 2
    result_bytes: int = 2
    sum_bytes: int = 2

    def __post_init__(self) -> None:
        require_int("side", self.side, 1, 1 << 12)
        require_int("batch", self.batch, 1, 1 << 16)
        for name in ("scratchpad_bytes", "bytes_per_second", "hertz"):
            require_int(name, getattr(self, name), 1, MAX_AMOUNT)
        for name in ("element_bytes", "result_bytes", "sum_bytes"):
            require_choice(name, getattr(self, name), WIDTHS)

    @property
    def bytes_per_cycle(self) -> float:
        return self.bytes_per_second / self.hertz

    def passes(self, rows: int, lanes: int) -> int:
        """Return the number of side x side tiles that a product's results are cut into."""
        return ceil_div(rows, self.side) * ceil_div(lanes, self.side)

    @property
    def fill_cycles(self) -> int:
        """Cycles lost by a pass: operands enter skewed from two sides, then the sums leave."""
        return 3 * self.side - 2

    def array_cycles(self, rows: int, lanes: int, contraction: int, chunks: int = 1) -> int:
        """Return the cycles of a product whose results stay in the array during a pass. Passes run
        back to back.

        ``chunks``: parts of the contraction, with a separate pass for every part. For a single
        chunk the result is the formula of SCALE-Sim (arXiv:1811.02883, equation 1).
        """
        return self.passes(rows, lanes) * (contraction + chunks * self.fill_cycles)


SMALL = SystolicMachine(
    name="small", side=45, scratchpad_bytes=1 << 20, bytes_per_second=22 * 10**9,
    hertz=1000 * 10**6, batch=4,
)  # fmt: skip
"""Machine after ARM's Ethos-N77."""
LARGE = SystolicMachine(
    name="large", side=128, scratchpad_bytes=8 << 20, bytes_per_second=150 * 10**9,
    hertz=1050 * 10**6, batch=8,
)  # fmt: skip
"""Machine after one core of Google's TPUv4."""
