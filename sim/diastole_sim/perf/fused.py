"""Walk the fused backward pass: its chunks, and the rows of dX, which are transposed on the way
out.

Positions and lengths are in blocks unless a name says otherwise.
"""

from collections.abc import Iterator
from functools import cached_property

from diastole_sim.perf.axes import Axis, Stretch, exact
from diastole_sim.perf.chunk_walk import (
    NOTHING,
    Chunk,
    LoadedRegion,
    Span,
    blocks,
    maxima,
    plane_pairs,
)
from diastole_sim.perf.modelled_machine import ModelledMachine
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.sizes.queues import BURST_BEATS
from diastole_sim.spec.sizes.uses import DY, WIDEST, W, Widths, X


class FusedWalk:
    """Loops of the fused backward pass: k tiles, and in every tile slices of M. N is inside a
    chunk. A slice is one chunk for every plane of dY and every number of a plane of X or W. Planes
    of X and W with the same number stream side by side, if both exist."""

    def __init__(
        self, machine: ModelledMachine, sizes: tuple[int, int, int], widths: Widths = WIDEST
    ):
        self.machine, self.sizes, self.alike = machine, sizes, False
        self.blocks = tuple(ceil_div(size, machine.block) for size in sizes)  # M, N, K
        self.planes = tuple(machine.planes(cls, widths[cls]) for cls in (X, W, DY))
        self.row_beats = ceil_div(4 * sizes[1], machine.beat_bytes)  # of a row of dW

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Loops over the k tiles and over the slices of M."""
        return self._axes

    @cached_property
    def _axes(self) -> tuple[Axis, Axis]:
        machine, (_, _, k) = self.machine, self.sizes
        tile, beat = machine.fused_tile_blocks, machine.beat_bytes
        rows = (tile * machine.block * self.row_beats, BURST_BEATS)
        cols = (4 * tile * machine.block, beat * BURST_BEATS)
        maxima_of = ((tile * machine.entries(cls), beat) for cls in (X, W))
        transposed = (machine.cols * machine.block * ceil_div(4 * k, beat), BURST_BEATS)
        along_k = Axis.of(self.blocks[2], tile, rows, cols, *maxima_of)
        return along_k, Axis.of(self.blocks[0], machine.cols, transposed)

    @property
    def maxima_beats(self) -> int:
        """Beats of maxima that every port reads."""
        of_k, (m_blocks, n_blocks, _) = self.axes[0], self.blocks
        whole = (maxima(self.machine, DY, 0, count) for count in (m_blocks, n_blocks))
        parts = (
            maxima(self.machine, cls, *of_k.at(number))
            for cls in (X, W)
            for number in range(of_k.count)
        )
        return sum(region.maxima_beats for regions in (whole, parts) for region in regions)

    def chunks(self, *steps: Stretch) -> Iterator[Chunk]:
        """Yield the chunks of a slice of M of one k tile."""
        t, c = steps
        machine, (m, _, k) = self.machine, self.sizes
        m_blocks, n_blocks, k_blocks = self.blocks
        of_x, of_w, of_dy = self.planes
        all_m, all_n = (0, m_blocks), (0, n_blocks)
        slots = min(machine.fused_tile_blocks * machine.block, k - t[0] * machine.block)
        first_tile, last_tile = t[0] == 0, sum(t) == k_blocks
        start = t[0] * machine.block * self.row_beats
        east = Span(slots, n_blocks, self.row_beats, start=start, pitch=self.row_beats)
        row_t, row_c = (
            axis.rows(rows) if self.alike and not exact(axis, self.axes) else rows
            for axis, rows in zip(self.axes, (t, c), strict=True)
        )
        x_blocks = blocks(machine, X, *((row_t, c) if machine.grouped(X) else (row_c, t)))
        dy_blocks = blocks(machine, DY, row_c, all_n)
        for planes in plane_pairs(max(of_x, of_w), of_dy):
            uses = planes.stream < of_x, planes.stream < of_w
            first = c[0] == 0 and planes.first
            last = sum(c) == m_blocks and planes.last
            loads = uses[0] and planes.stationary == 0, first_tile and planes.stream == 0
            regions: list[LoadedRegion] = []
            if first:
                regions.append(maxima(machine, X, *t))
                regions.append(maxima(machine, DY, *all_n) if first_tile else NOTHING)
                regions.append(maxima(machine, W, *t))
                regions.append(maxima(machine, DY, *all_m) if first_tile else NOTHING)
            if c[0] == 0 and planes.stationary == 0 and uses[1]:
                regions.append(blocks(machine, W, row_t, all_n))
            regions.append(dy_blocks if loads[1] else NOTHING)
            regions.append(x_blocks if loads[0] else NOTHING)
            closes = (
                sum(c) == m_blocks and planes.last_stationary and planes.stream == of_x - 1,
                planes.last_stationary and planes.stream == of_w - 1,
            )
            yield Chunk(
                regions=tuple(regions),
                first=first,
                last=last,
                loads=loads,
                frees=(uses[0] and planes.last_stationary, last_tile and planes.last_stream),
                slots=slots,
                slices=1,
                groups=ceil_div(n_blocks, machine.rows),
                uses=uses,
                opens=(first, planes.first),
                closes=closes,
                spans=(
                    (east,) if closes[0] else (),
                    transposed_spans(machine, m, k, c, t) if closes[1] else (),
                ),
            )


def fused_passes(machine: ModelledMachine, widths: Widths) -> float:
    """Return the average number of pairs of planes of a multiplication, over both gradients: dW
    takes every plane of X, and dX every plane of W."""
    of_x, of_w, of_dy = (machine.planes(cls, widths[cls]) for cls in (X, W, DY))
    return of_dy * (of_x + of_w) / 2


def transposed_spans(
    machine: ModelledMachine, m: int, k: int, c: Stretch, t: Stretch
) -> tuple[Span, ...]:
    """Return the spans of dX for one slice of M and one k tile: the rows of as many blocks as are
    transposed at a time."""
    size, beat = machine.block, machine.beat_bytes
    first, end = 4 * size * t[0], 4 * min(size * sum(t), k)
    beats = ceil_div(end, beat) - first // beat
    step, pitch = machine.transposed_blocks, ceil_div(4 * k, beat)
    spans: list[Span] = []
    for row in range(c[0], sum(c), step):
        rows = min(size * min(step, sum(c) - row), m - size * row)
        start = size * row * pitch + first // beat
        columns = (end - first) // 4
        spans.append(Span(rows, t[1], beats, columns=columns, start=start, pitch=pitch))
    return tuple(spans)
