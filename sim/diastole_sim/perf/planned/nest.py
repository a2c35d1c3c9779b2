"""The loops of a product as data."""

from collections.abc import Iterator
from dataclasses import dataclass

from diastole_sim.spec.check import require_choice, require_int

MOST = 1 << 24


@dataclass(frozen=True, kw_only=True)
class PlannedNest:
    """How the loops of a product are cut and ordered; C[t, l] = sum over c of A[t, c] * B[l, c].

    ``t_blocks``: of a tile of the streamed dimension. ``groups``: slices of lanes that an output
    tile has; what lies along the lanes is cut into so many times a side of the array. ``chunk``:
    blocks of the contraction that are loaded together. ``outer``: the tile loop that is outermost,
    ``t`` or ``l``. ``keep_a``, ``keep_b``: an operand is loaded only where the tile loop that it
    does not depend on is at 0, and stays. ``fused``: dX and dW in one pass over dY, which is held;
    then ``groups`` is all of N.

    ValueError if a length is no positive integer, or if the outermost loop is no tile loop.
    """

    t_blocks: int
    groups: int
    chunk: int
    outer: str = "t"
    keep_a: bool = False
    keep_b: bool = False
    fused: bool = False

    def __post_init__(self) -> None:
        require_int("t_blocks", self.t_blocks, 1, MOST)
        require_int("groups", self.groups, 1, MOST)
        require_int("chunk", self.chunk, 1, MOST)
        require_choice("outer", self.outer, ("t", "l"))

    def __str__(self) -> str:
        order = "t>l" if self.outer == "t" else "l>t"
        said = {"keep A": self.keep_a, "keep B": self.keep_b, "fused": self.fused}
        flags = "".join(f" {name}" for name, on in said.items() if on)
        return f"{order} T{self.t_blocks} G{self.groups} c{self.chunk}{flags}"

    def tiles(self, t_blocks: int, l_blocks: int, lanes: int) -> Iterator[tuple[int, int]]:
        """Where output tiles begin, in their order; ``lanes``: blocks of a lane tile."""
        ts, ls = range(0, t_blocks, self.t_blocks), range(0, l_blocks, lanes)
        if self.outer == "t":
            return ((t, lane) for t in ts for lane in ls)
        return ((t, lane) for lane in ls for t in ts)

    def chunks(self, c_blocks: int, side: int) -> Iterator[tuple[int, int]]:
        """First block and length of each chunk of a tile's contraction.

        The first is one slice of ``side`` blocks, so that a tile begins early; the fused pass loads
        slice by slice.
        """
        at = 0
        while at < c_blocks:
            step = self.chunk if self.fused else self.chunk - at % self.chunk
            if at == 0 and not self.fused:
                step = min(side, self.chunk)
            step = min(step, c_blocks - at)
            yield at, step
            at += step
