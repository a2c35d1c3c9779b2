"""One product on the planned machine: cycles and bytes of a nest."""

from dataclasses import dataclass, field

from diastole_sim.perf.machine import W, ceil_div
from diastole_sim.perf.planned.load import LoadQueues
from diastole_sim.perf.planned.machine import PlannedMachine
from diastole_sim.perf.planned.nest import PlannedNest
from diastole_sim.perf.planned.store import EAST, NORTH, MergedStore, Place, Ring
from diastole_sim.perf.walk import Roles, roles_of

SET_UP = 14
SHORTEST_PASS = 4


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What a nest costs on a machine: as :class:`diastole_sim.perf.Estimate` has it."""

    op: str
    nest: str
    macs: int
    multipliers: int
    cycles: float
    read_bytes: int
    write_bytes: int
    idle: dict[str, float]

    @property
    def utilisation(self) -> float:
        return self.macs / (self.cycles * self.multipliers)


@dataclass(frozen=True)
class Sizes:
    """Of one use of the array: elements and blocks of the streamed dimension, of the lanes and of
    the contraction, and the blocks of a slice of the last two."""

    t: int
    lanes: int
    contraction: int
    block: int
    lane_side: int
    side: int

    @property
    def blocks(self) -> tuple[int, int, int]:
        t, lanes, contraction = self.t, self.lanes, self.contraction
        return (
            ceil_div(t, self.block),
            ceil_div(lanes, self.block),
            ceil_div(contraction, self.block),
        )


def use_sizes(machine: PlannedMachine, op: str, m: int, n: int, k: int) -> Sizes:
    """``op``: forward, dx, dw, or backward, the fused pass, which is dW with dX beside it."""
    t, lanes, contraction = {"forward": (m, n, k), "dx": (m, k, n)}.get(op, (k, n, m))
    sides = machine.rows, machine.cols
    if _roles(machine, op).north:
        sides = machine.cols, machine.rows
    return Sizes(t, lanes, contraction, machine.block, *sides)


def _roles(machine: PlannedMachine, op: str) -> Roles:
    return roles_of(machine, "dw" if op == "backward" else op)


def forecast(
    machine: PlannedMachine, op: str, m: int, n: int, k: int, nest: PlannedNest
) -> Forecast:
    """``op``: forward, dx, dw, or backward, which is the fused pass. ValueError if the nest does
    not fit into the machine's memories."""
    if (op == "backward") != nest.fused:
        raise ValueError(f"{nest} is no nest of {op}")
    if nest.fused and not machine.has_fused_pass:
        raise ValueError("a fused pass needs dY in squares, and an array that turns")
    run = _Run(machine, op, use_sizes(machine, op, m, n, k), nest)
    return run.product(macs=m * n * k * (2 if nest.fused else 1))


@dataclass
class _Slab:
    """A slice of an operand on chip: when its first and its last vectors are there; its place."""

    first: float
    last: float
    place: Place


@dataclass
class _Run:
    machine: PlannedMachine
    op: str
    sizes: Sizes
    nest: PlannedNest
    end: float = -float(SHORTEST_PASS)  # of the last pass so far
    swap: float = -float(SHORTEST_PASS)
    taken: float = 0.0
    idle: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(("load", "sums", "short"), 0.0)
    )
    held_slabs: dict[tuple[int, int], _Slab] = field(default_factory=dict)
    stream_slabs: dict[tuple[int, int], _Slab] = field(default_factory=dict)

    def __post_init__(self) -> None:
        machine, block = self.machine, self.machine.block
        sums = machine.sum_words // block
        self.load = LoadQueues(machine, SET_UP, SET_UP)
        self.store = MergedStore(machine)
        self.stream, self.west = (Ring(machine.stream_words // block) for _ in range(2))
        self.held = Ring(machine.held_words // block)
        self.sums = tuple(
            Ring(sums, sums // machine.sum_units, self.store.until) for _ in (EAST, NORTH)
        )
        self.roles = _roles(machine, self.op)

    def product(self, macs: int) -> Forecast:
        t_blocks, l_blocks, c_blocks = self.sizes.blocks
        lanes = self.nest.groups * self.sizes.lane_side
        for t, lane in self.nest.tiles(t_blocks, l_blocks, lanes):
            tile = _OutputTile(
                t, min(self.nest.t_blocks, t_blocks - t), lane, min(lanes, l_blocks - lane)
            )
            tile.vectors = min(
                tile.t_blocks * self.sizes.block, self.sizes.t - t * self.sizes.block
            )
            for c, length in self.nest.chunks(c_blocks, self.sizes.side):
                self._chunk(tile, c, length)
            self._close(tile)
        end = self.store.finish() + self.machine.memory.response_cycles + 3
        bytes_ = self.machine.beat_bytes
        return Forecast(
            op=self.op, nest=str(self.nest), macs=macs, multipliers=self.machine.multipliers,
            cycles=end, read_bytes=self.load.beats * bytes_, write_bytes=self.store.beats * bytes_,
            idle=self.idle | {"tail": end - self.end},
        )  # fmt: skip

    # A chunk: what it loads, then its passes.

    def _chunk(self, tile: "_OutputTile", c: int, length: int) -> None:
        slices = ceil_div(length, self.sizes.side)
        groups = ceil_div(tile.lanes, self.sizes.lane_side)
        if c == 0:
            self._maxima(tile)
            if self.nest.fused:
                tile.west = self._west(tile, groups)
        held = self._held(tile, c, length, groups * slices)
        streamed = self._streamed(tile, c, length, slices)
        for number in range(slices * groups):
            self._pass(tile, c, length, number, groups, held, streamed)
        freed = self.end + 2 + max(self.machine.rows, self.machine.cols)
        t_blocks, l_blocks, c_blocks = self.sizes.blocks
        if not self.nest.keep_a or tile.lane + tile.lanes >= l_blocks:
            streamed.place.free = freed
        if not self.nest.keep_b or tile.t + tile.t_blocks >= t_blocks:
            held.place.free = freed
        if tile.west and c + length >= c_blocks:
            tile.west.place.free = freed

    def _maxima(self, tile: "_OutputTile") -> None:
        self.load.maxima(self.roles.stream, tile.t_blocks)
        once = not self.nest.fused or tile.t == 0
        self.load.maxima(self.roles.held, tile.lanes if once else 0)

    def _west(self, tile: "_OutputTile", groups: int) -> _Slab:
        """W of a k tile, all of N, for dX."""
        free, place = self.west.take(groups * tile.t_blocks)
        rows, cols = (tile.t, tile.t_blocks), (0, self.sizes.blocks[1])
        return _Slab(*self.load.streamed(W, (0, rows[1]), cols, free=free), place)

    def _held(self, tile: "_OutputTile", c: int, length: int, slices: int) -> _Slab:
        key = tile.lane, c
        if self.nest.keep_b and tile.t:
            return self.held_slabs[key]
        free, place = self.held.take(slices * self.machine.rows)
        rows, cols = (c, length), (tile.lane, tile.lanes)
        if self.roles.lanes_down:
            rows, cols = cols, rows
        slab = _Slab(*self.load.held(self.roles.held, rows, cols, free=free), place)
        self.held_slabs[key] = slab
        return slab

    def _streamed(self, tile: "_OutputTile", c: int, length: int, slices: int) -> _Slab:
        key = tile.t, c
        if self.nest.keep_a and tile.lane:
            return self.stream_slabs[key]
        free, place = self.stream.take(tile.t_blocks * slices)
        rows, cols = (tile.t, tile.t_blocks), (c, length)
        if self.roles.cols_t:
            rows, cols = cols, rows
        times = self.load.streamed(
            self.roles.stream, rows, cols, free=free, turned=self.roles.cols_t
        )
        slab = self.stream_slabs[key] = _Slab(*times, place)
        return slab

    def _pass(
        self, tile: "_OutputTile", c: int, length: int, number: int, groups: int,
        held: _Slab, streamed: _Slab,
    ) -> None:  # fmt: skip
        """A pass streams after the loader: never ahead of it, a bubble where nothing is there."""
        group, fused = number % groups, self.nest.fused
        ready, room = self.swap, 0.0
        if c == 0 and number == 0:
            direction = NORTH if self.roles.north else EAST
            room, tile.sums = self.sums[direction].take(groups * tile.t_blocks)
        if fused and group == 0:
            there, tile.north = self.sums[NORTH].take(tile.t_blocks)
            room = max(room, there)
        have = held.last
        if self.roles.north:  # lane by lane
            have = held.first + (held.last - held.first) * (group + 1) / groups
        begin = max(ready, have + 2, room + 2, self.taken + 2)
        loaded = begin + self.machine.rows * self.machine.block
        swap = max(loaded, self.swap + SHORTEST_PASS, self.end)
        first, last = streamed.first, streamed.last
        if tile.west:
            first = max(first, tile.west.first)
            last = max(last, tile.west.last if c == 0 else 0)
        swap = max(swap, first + 1)
        slots = tile.vectors * (2 if fused else 1)
        end = max(swap + slots, last + 2)
        self._waited(end - slots, room + 1 - max(ready, have + 1), max(loaded, last + 2 - slots))
        self.taken, self.swap, self.end = begin - 1, swap, end
        if fused and group == groups - 1:
            self._leaves_north(tile, c, length)

    def _waited(self, start: float, for_sums: float, for_load: float) -> None:
        """Cycles without a slot before ``start``, by what was awaited."""
        if self.end < 0:
            self.idle["load"] += start
            return
        gap = start - self.end
        sums = min(gap, max(0.0, for_sums))
        load = min(gap - sums, max(0.0, for_load - self.end))
        self.idle["sums"] += sums
        self.idle["load"] += load
        self.idle["short"] += gap - sums - load

    # What leaves.

    def _leaves_north(self, tile: "_OutputTile", c: int, length: int) -> None:
        """A slice of M of dX: its rows, a k tile wide, as whole beats."""
        block, skew = self.sizes.block, self.machine.rows + self.machine.cols + 2
        rows = min(length * block, self.sizes.contraction - c * block)
        assert tile.north is not None
        tile.north.free = self.store.tile(
            NORTH, self.end + skew + 3, rows=rows, cols=tile.vectors, vectors=tile.t_blocks
        )

    def _close(self, tile: "_OutputTile") -> None:
        block, skew = self.sizes.block, self.machine.rows + self.machine.cols + 2
        cols = min(tile.lanes * block, self.sizes.lanes - tile.lane * block)
        direction = NORTH if self.roles.north else EAST
        assert tile.sums is not None
        tile.sums.free = self.store.tile(
            direction, self.end + skew + 3, rows=tile.vectors, cols=cols, vectors=tile.lanes
        )


@dataclass
class _OutputTile:
    """Where it begins and how long it is, in blocks; what it has taken."""

    t: int
    t_blocks: int
    lane: int
    lanes: int
    vectors: int = 0
    sums: Place | None = None
    north: Place | None = None
    west: _Slab | None = None
