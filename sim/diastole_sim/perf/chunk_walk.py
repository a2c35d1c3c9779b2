"""Walk the loops of a product: yield its chunks, with the data that every chunk loads and stores.

Positions and lengths are in blocks unless a name says otherwise.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from math import gcd
from typing import NamedTuple, Protocol

from diastole_sim.perf.axes import Axis, Stretch, exact
from diastole_sim.perf.modelled_machine import ModelledMachine
from diastole_sim.spec.command import DEFAULT_NEST
from diastole_sim.spec.image import GROUP_BLOCKS
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.nest import Nest
from diastole_sim.spec.sizes.queues import BURST_BEATS
from diastole_sim.spec.sizes.uses import DY, WIDEST, W, Widths, X

LONG_TILE = 2000
"""Cycles from which on a tile is long: one cycle more makes no difference."""


class Run(NamedTuple):
    """Neighbouring blocks of a group, with a single read of the group's exponents.

    ``requests``: beats of every read request, for ``exponents`` and then for mantissas. The
    mantissas hold ``blocks`` requested blocks, then ``dropped`` blocks to complete a granule.
    """

    cls: int
    requests: tuple[int, ...]
    exponents: int
    blocks: int
    dropped: int = 0


@dataclass(frozen=True)
class LoadedRegion:
    """Rows of blocks of one tensor, every row cut into the same runs; or beats of maxima."""

    rows: int
    first_row: int = 0
    runs: tuple[Run, ...] = ()
    maxima_beats: int = 0

    @property
    def beats(self) -> int:
        return self.maxima_beats + self.rows * sum(sum(run.requests) for run in self.runs)

    def of_port(self, port: int, ports: int) -> "LoadedRegion":
        """Return the part of the region that one of several ports reads: the maxima, and every
        ``ports``-th row. A port without a row reads the first row and drops all of it."""
        if ports == 1 or not self.rows:
            return self
        if port >= self.rows:
            runs = [run._replace(blocks=0, dropped=run.blocks + run.dropped) for run in self.runs]
            return replace(self, rows=1, runs=tuple(runs))
        rows = ceil_div(self.rows - port, ports)
        return replace(self, rows=rows, first_row=self.first_row + port)


NOTHING = LoadedRegion(rows=0)


@dataclass(frozen=True)
class Chunk:
    """Part of a contraction for a plane of each operand: ``regions`` in the order of loading, then
    passes. A step without a request is a region without beats.

    - ``loads``, ``frees``: True if the chunk loads and frees a slab, for the streaming and for the
      stationary operand.
    - ``slots``: slots per pass and direction.
    - ``slices``: slices of the contraction.
    - ``groups``: groups of lanes.
    - ``uses``: directions in use.
    - ``opens``, ``closes``: for each direction, True if the chunk opens and closes an output tile.
    """

    regions: tuple[LoadedRegion, ...]
    first: bool  # in its tile
    last: bool
    loads: tuple[bool, bool]
    frees: tuple[bool, bool]
    slots: int
    slices: int
    groups: int
    uses: tuple[bool, bool]  # east, north
    opens: tuple[bool, bool]
    closes: tuple[bool, bool]
    spans: "tuple[tuple[Span, ...], tuple[Span, ...]]"  # spans of the closed tiles


@dataclass(frozen=True)
class Span:
    """Rows of a result, with a write request per row: ``vectors`` vectors of B floats, or ``beats``
    beats, per row.

    ``columns``: for transposed rows, the words that leave the accumulators before the first row
    can. ``start``: beats from the first beat of the result, where a burst may begin, to the first
    row. ``pitch``: beats from row to row.
    """

    rows: int
    vectors: int
    beats: int
    columns: int = 0
    start: int = 0
    pitch: int = 0

    @property
    def alike(self) -> tuple[int, ...]:
        """Properties that decide the duration of rows, for rows with equal positions in bursts."""
        return self.rows, self.vectors, self.beats, self.columns, self.pitch

    def bursts(self, row: int) -> list[int]:
        """Return the beats of every burst of a row."""
        first = BURST_BEATS - (self.start + row * self.pitch) % BURST_BEATS
        if self.beats <= first:
            return [self.beats]
        rest = self.beats - first
        last = [rest % BURST_BEATS] if rest % BURST_BEATS else []
        return [first, *[BURST_BEATS] * (rest // BURST_BEATS), *last]


@dataclass(frozen=True)
class Roles:
    """Use of the array: the streaming tensor, the stationary tensor, and their layout.

    ``cols_t``: True if the streaming dimension runs along the columns of the streaming tensor.
    ``lanes_down``: True if the lanes run along the rows of the stationary tensor. ``north``: True
    if sums leave to the north.
    """

    stream: int
    stationary: int
    cols_t: bool = False
    lanes_down: bool = False
    north: bool = False


def roles_of(machine: ModelledMachine, op: str) -> Roles:
    """Return the roles of the tensors of an operation.

    The lanes run along the rows of the stationary tensor for ``dx``, and for a stationary tensor in
    vector groups, because rows of its image run along the contraction. The sums
    then leave to the north if the array transposes.
    """
    stream, stationary = {"forward": (X, W), "dx": (DY, W), "dw": (X, DY)}[op]
    lanes_down = op == "dx" or machine.grouped(stationary)
    return Roles(
        stream,
        stationary,
        cols_t=op == "dw" and not machine.grouped(stream),
        lanes_down=lanes_down,
        north=lanes_down and machine.in_place,
    )


class ChunkWalk(Protocol):
    """Loops, the outermost first, and the chunks of their steps. ``alike``: True if the address of
    a row takes its average time, except in loops that are :func:`exact`."""

    alike: bool

    @property
    def maxima_beats(self) -> int:
        """Beats of maxima that every port reads in all steps."""
        ...

    @property
    def axes(self) -> tuple[Axis, ...]: ...

    def chunks(self, *steps: Stretch) -> Iterator[Chunk]: ...


def every_chunk(walk: ChunkWalk) -> Iterator[Chunk]:
    """Yield the chunks of all steps in order."""
    for numbers in product(*(range(axis.count) for axis in walk.axes)):
        yield from walk.chunks(*(axis.at(n) for axis, n in zip(walk.axes, numbers, strict=True)))


def steps(total: int, step: int) -> Iterator[Stretch]:
    """Return every part of ``total``."""
    return ((start, min(step, total - start)) for start in range(0, total, step))


def maxima(machine: ModelledMachine, cls: int, first: int, count: int) -> LoadedRegion:
    """Return the region of maxima of ``count`` blocks along a dimension."""
    beat, entries = machine.beat_bytes, machine.entries(cls)
    end = ceil_div((first + count) * entries, beat)
    return LoadedRegion(rows=0, maxima_beats=end - first * entries // beat)


def blocks(machine: ModelledMachine, cls: int, rows: Stretch, cols: Stretch) -> LoadedRegion:
    """Return the region of a rectangle of blocks."""
    memo = machine.run_memo  # most rectangles of a product have the same columns
    runs = memo.get((cls, cols))
    if runs is None:
        runs = memo[cls, cols] = _runs(machine, cls, cols)
    return LoadedRegion(rows=rows[1], first_row=rows[0], runs=runs)


def _runs(machine: ModelledMachine, cls: int, cols: Stretch) -> tuple[Run, ...]:
    """Cut a row of blocks into runs at the bounds of groups."""
    runs: list[Run] = []
    layout = machine.group_layouts[cls]
    col, end = cols[0], sum(cols)
    while col < end:
        offset = col % GROUP_BLOCKS
        count = min(GROUP_BLOCKS - offset, end - col)
        unit = layout.granule
        count_whole = ceil_div(count, unit) * unit
        beats = layout.block_beats(count_whole)
        exponents = layout.exponent_beats
        requests = (exponents, beats) if offset else (exponents + beats,)
        runs.append(Run(cls, requests, exponents, count, count_whole - count))
        col += count
    return tuple(runs)


@dataclass(frozen=True)
class Loops:
    """Loops of one product. ``sizes``, ``blocks``: numbers of elements and of blocks along the
    streaming dimension, the lanes and the contraction. ``lengths``: lengths of tiles and chunks.
    ``lanes_side``, ``chunk_side``: blocks of a slice along the lanes and along the contraction."""

    roles: Roles
    sizes: tuple[int, int, int]
    blocks: tuple[int, int, int]
    lengths: tuple[int, int, int]
    lanes_side: int
    chunk_side: int
    outer: str
    keeps: tuple[bool, bool] = (False, False)  # streaming, stationary operand
    slabs: tuple[int, int] = (0, 0)  # blocks of a bank that a chunk takes of both operands
    units: int = 2  # units of sums that a tile takes
    planes: tuple[int, int] = (1, 1)  # streaming, stationary operand

    def tiles(self) -> Iterator[tuple[Stretch, Stretch]]:
        """Return every output tile in order, along the streaming dimension and along the lanes."""
        t_steps, lane_steps = (list(steps(self.blocks[k], self.lengths[k])) for k in (0, 1))
        if self.outer == "l":
            return ((t, lanes) for lanes in lane_steps for t in t_steps)
        return ((t, lanes) for t in t_steps for lanes in lane_steps)


def loops_of(
    machine: ModelledMachine,
    op: str,
    m: int,
    n: int,
    k: int,
    nest: Nest = DEFAULT_NEST,
    widths: Widths = WIDEST,
) -> Loops:
    """Return the loops of a product. ``op``: forward, dx or dw. Sizes are in elements."""
    roles = roles_of(machine, op)
    sizes = {"forward": (m, n, k), "dx": (m, k, n), "dw": (k, n, m)}[op]
    c_side, l_side = (machine.rows, machine.cols) if roles.north else (machine.cols, machine.rows)
    t_blocks, l_blocks, c_blocks = (ceil_div(size, machine.block) for size in sizes)
    lengths = (
        nest.t_blocks or machine.tile_blocks,
        (nest.groups or machine.groups) * l_side,
        nest.chunk or machine.chunk(north=roles.north),
    )
    slices = ceil_div(lengths[2], c_side)
    return Loops(
        roles, sizes, (t_blocks, l_blocks, c_blocks), lengths, l_side, c_side, nest.outer,
        keeps=(nest.keeps_stream, nest.keeps_stationary),
        slabs=(slices * lengths[0], slices * ceil_div(lengths[1], l_side) * machine.rows),
        units=machine.sum_halves(lengths[0] * ceil_div(lengths[1], l_side) * machine.block),
        planes=(
            machine.planes(roles.stream, widths[roles.stream]),
            machine.planes(roles.stationary, widths[roles.stationary]),
        ),
    )  # fmt: skip


class PlanePair(NamedTuple):
    """Numbers of a plane of the streaming and of the stationary operand, with the numbers of
    planes."""

    stream: int
    stationary: int
    streams: int
    stationaries: int

    @property
    def last_stream(self) -> bool:
        return self.stream == self.streams - 1

    @property
    def last_stationary(self) -> bool:
        return self.stationary == self.stationaries - 1

    @property
    def first(self) -> bool:
        return self.stream == self.stationary == 0

    @property
    def last(self) -> bool:
        return self.last_stream and self.last_stationary


def plane_pairs(streams: int, stationaries: int) -> Iterator[PlanePair]:
    """Return every pair of planes; the streaming plane is innermost."""
    pairs = product(range(stationaries), range(streams))
    return (PlanePair(stream, stationary, streams, stationaries) for stationary, stream in pairs)


class WalkedProduct:
    """Loops of a product: over tiles, and in every tile over the contraction. A part of the
    contraction is one chunk for every pair of planes, with the streaming plane innermost. The
    streaming planes stay for all stationary planes."""

    def __init__(self, machine: ModelledMachine, loops: Loops):
        self.machine, self.loops, self.alike = machine, loops, False
        self.pitch = ceil_div(4 * loops.sizes[1], machine.beat_bytes)
        self.span_at: tuple[Stretch, Stretch] | None = None

    @cached_property
    def lengths(self) -> tuple[Axis, Axis, Axis]:
        """Axes of the streaming dimension, the lanes and the contraction."""
        loops = self.loops
        t, lanes, chunk = loops.lengths
        maxima_t, maxima_l = self._maxima_rounds()
        rows_t, rows_l = self._burst_rounds()
        return (
            Axis.of(loops.blocks[0], t, *maxima_t, *rows_t),
            Axis.of(loops.blocks[1], lanes, *maxima_l, *rows_l),
            Axis.of(loops.blocks[2], chunk),
        )

    def _maxima_rounds(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return how maxima move on through beats, along the streaming dimension and the lanes. In
        a long tile a beat of maxima more or less makes no difference."""
        loops, machine = self.loops, self.machine
        t, lanes, _ = loops.lengths
        passes = ceil_div(lanes, loops.lanes_side) * ceil_div(loops.blocks[2], loops.chunk_side)
        if t * machine.block * passes > LONG_TILE:
            return [], []
        classes = loops.roles.stream, loops.roles.stationary
        of_t, of_l = (machine.entries(cls) for cls in classes)
        return [(t * of_t, machine.beat_bytes)], [(lanes * of_l, machine.beat_bytes)]

    def _burst_rounds(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return how the rows of a tile move on through bursts, along the streaming dimension and
        the lanes."""
        t, lanes, _ = self.loops.lengths
        rows, row = (
            t * self.machine.block,
            4 * lanes * self.machine.block // self.machine.beat_bytes,
        )
        whole = gcd(self.pitch, BURST_BEATS)
        if row and whole % row == 0:  # no row crosses a burst bound
            return [], []
        fewest = self.loops.sizes[0] % rows or rows
        if fewest * whole < BURST_BEATS:  # else the rows of a tile begin at every possible place
            whole = BURST_BEATS
        return [(rows * self.pitch, whole)], [(row, whole)]

    @property
    def maxima_beats(self) -> int:
        """Beats of maxima that every port reads."""
        classes = self.loops.roles.stream, self.loops.roles.stationary
        of_t, of_l = (
            sum(
                maxima(self.machine, cls, *axis.at(number)).maxima_beats
                for number in range(axis.count)
            )
            for cls, axis in zip(classes, self.lengths, strict=False)
        )
        t, lanes, _ = self.lengths
        return of_t * lanes.count + of_l * t.count

    @property
    def axes(self) -> tuple[Axis, Axis, Axis]:
        """Outer loop, inner loop and contraction."""
        t, lanes, c = self.lengths
        return (lanes, t, c) if self.loops.outer == "l" else (t, lanes, c)

    def _row(self, rows: Stretch, axis: Axis) -> Stretch:
        return axis.rows(rows) if self.alike and not exact(axis, self.axes) else rows

    def chunks(self, *steps: Stretch) -> Iterator[Chunk]:
        """Yield the chunks of a part of the contraction of one tile."""
        outer, inner, c = steps
        machine, loops, roles = self.machine, self.loops, self.loops.roles
        uses = (not roles.north, roles.north)
        t, lanes = (inner, outer) if loops.outer == "l" else (outer, inner)
        span = self._span(t, lanes)
        others = (lanes, t)  # loops in which the streaming and the stationary operand are reused
        begins = [not reused or at[0] == 0 for reused, at in zip(loops.keeps, others, strict=True)]
        ends = [
            not reused or sum(at) == whole
            for reused, at, whole in zip(loops.keeps, others, loops.blocks[1::-1], strict=True)
        ]
        of_t, of_lanes, of_c = self.lengths
        rows, cols = stationary_sides(roles, lanes, c)
        row = self._row(rows, of_lanes if roles.lanes_down else of_c)
        stationary = blocks(machine, roles.stationary, row, cols)
        rows, cols = (c, t) if roles.cols_t else (t, c)
        row = self._row(rows, of_c if roles.cols_t else of_t)
        streamed = blocks(machine, roles.stream, row, cols)
        for planes in plane_pairs(*loops.planes):
            first = c[0] == 0 and planes.first
            last = sum(c) == loops.blocks[2] and planes.last
            loads = begins[0] and planes.stationary == 0, begins[1] and planes.stream == 0
            regions: list[LoadedRegion] = []
            if first:
                regions.append(maxima(machine, roles.stream, *t))
                regions.append(maxima(machine, roles.stationary, *lanes))
                regions += [NOTHING] * 3
            regions += [stationary if loads[1] else NOTHING, streamed if loads[0] else NOTHING]
            done = (span,) if last else ()
            yield Chunk(
                regions=tuple(regions),
                first=first,
                last=last,
                loads=loads,
                frees=(ends[0] and planes.last_stationary, ends[1] and planes.last_stream),
                slots=span.rows,
                slices=ceil_div(c[1], loops.chunk_side),
                groups=ceil_div(lanes[1], loops.lanes_side),
                uses=uses,
                opens=(first and uses[0], first and uses[1]),
                closes=(last and uses[0], last and uses[1]),
                spans=((), done) if roles.north else (done, ()),
            )

    def _span(self, t: Stretch, lanes: Stretch) -> Span:
        """Return the rows of a tile."""
        if self.span_at != (t, lanes):
            machine, (t_size, l_size, _) = self.machine, self.loops.sizes
            cols = min(lanes[1] * machine.block, l_size - lanes[0] * machine.block)
            self.span_at = t, lanes
            self.span = Span(
                min(t[1] * machine.block, t_size - t[0] * machine.block),
                lanes[1],
                ceil_div(4 * cols, machine.beat_bytes),
                start=t[0] * machine.block * self.pitch
                + 4 * lanes[0] * machine.block // machine.beat_bytes,
                pitch=self.pitch,
            )
        return self.span


def stationary_sides(roles: Roles, lanes: Stretch, c: Stretch) -> tuple[Stretch, Stretch]:
    """Return rows and columns of the stationary operand."""
    return (lanes, c) if roles.lanes_down else (c, lanes)
