"""The fused backward pass: its chunks, and the rows of dX, which turn on their way out.

Positions and lengths are in blocks unless a name says otherwise.
"""

from collections.abc import Iterator

from diastole_sim.perf.machine import DY, WIDEST, ModelledMachine, W, Widths, X, ceil_div
from diastole_sim.perf.walk import (
    NOTHING,
    Chunk,
    LoadedRegion,
    Span,
    Stretch,
    blocks,
    maxima,
    plane_pairs,
    steps,
)


def fused_chunks(
    machine: ModelledMachine, m: int, n: int, k: int, widths: Widths = WIDEST
) -> Iterator[Chunk]:
    """The fused backward pass: k tiles outermost, then slices of M, then planes of dY; N inside a
    chunk. With each plane of dY those of X and of W stream side by side, as far as there are any.
    """
    size = machine.block
    m_blocks, n_blocks, k_blocks = (ceil_div(value, size) for value in (m, n, k))
    of_x, of_w, of_dy = (machine.planes(cls, widths[cls]) for cls in (X, W, DY))
    all_m, all_n = (0, m_blocks), (0, n_blocks)
    for t in steps(k_blocks, machine.fused_tile):
        slots = min(machine.fused_tile * size, k - t[0] * size)
        first_tile, last_tile = t[0] == 0, sum(t) == k_blocks
        row = ceil_div(4 * n, machine.beat_bytes)
        east = Span(slots, n_blocks, row, start=t[0] * size * row, pitch=row)
        for c in steps(m_blocks, machine.cols):
            x_blocks = blocks(machine, X, *((t, c) if machine.grouped(X) else (c, t)))
            dy_blocks = blocks(machine, DY, c, all_n)
            for planes in plane_pairs(max(of_x, of_w), of_dy):
                uses = planes.stream < of_x, planes.stream < of_w
                first = c[0] == 0 and planes.first
                last = sum(c) == m_blocks and planes.last
                loads = uses[0] and planes.held == 0, first_tile and planes.stream == 0
                regions: list[LoadedRegion] = []
                if first:
                    regions.append(maxima(machine, X, *t))
                    regions.append(maxima(machine, DY, *all_n) if first_tile else NOTHING)
                    regions.append(maxima(machine, W, *t))
                    regions.append(maxima(machine, DY, *all_m) if first_tile else NOTHING)
                if c[0] == 0 and planes.held == 0 and uses[1]:
                    regions.append(blocks(machine, W, t, all_n))
                regions.append(dy_blocks if loads[1] else NOTHING)
                regions.append(x_blocks if loads[0] else NOTHING)
                closes = (
                    sum(c) == m_blocks and planes.last_held and planes.stream == of_x - 1,
                    planes.last_held and planes.stream == of_w - 1,
                )
                yield Chunk(
                    regions=tuple(regions),
                    first=first,
                    last=last,
                    loads=loads,
                    frees=(uses[0] and planes.last_held, last_tile and planes.last_stream),
                    slots=slots,
                    slices=1,
                    groups=ceil_div(n_blocks, machine.rows),
                    uses=uses,
                    opens=(first, planes.first),
                    closes=closes,
                    spans=(
                        (east,) if closes[0] else (),
                        turned_spans(machine, m, k, c, t) if closes[1] else (),
                    ),
                )


def fused_passes(machine: ModelledMachine, widths: Widths) -> float:
    """Of a multiplication of both gradients, in the mean: dW takes every plane of X, dX of W."""
    of_x, of_w, of_dy = (machine.planes(cls, widths[cls]) for cls in (X, W, DY))
    return of_dy * (of_x + of_w) / 2


def turned_spans(
    machine: ModelledMachine, m: int, k: int, c: Stretch, t: Stretch
) -> tuple[Span, ...]:
    """dX of one slice of M and one k tile: the rows of as many of its blocks as turn at a time."""
    size, beat = machine.block, machine.beat_bytes
    first, end = 4 * size * t[0], 4 * min(size * sum(t), k)
    beats = ceil_div(end, beat) - first // beat
    step, pitch = machine.turned_blocks, ceil_div(4 * k, beat)
    spans: list[Span] = []
    for row in range(c[0], sum(c), step):
        rows = min(size * min(step, sum(c) - row), m - size * row)
        start = size * row * pitch + first // beat
        columns = (end - first) // 4
        spans.append(Span(rows, t[1], beats, columns=columns, start=start, pitch=pitch))
    return tuple(spans)
