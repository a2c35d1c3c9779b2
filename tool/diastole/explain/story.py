"""What a machine did in a product, from its waves: passes, slots, sums, and what memory saw.

What each number *is* follows from the walk's own registers; that it is so is checked against the
converted tensors, number by number, so that no page can tell a story that the machine does not.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from diastole.explain.waves import PackedLayout, Waves, member
from diastole_hw.array.array import partial_sum_bits
from diastole_hw.cell.align import low_bits
from diastole_hw.cell.layouts import held_layout, sum_layout, vector_layout
from diastole_hw.cell.shape import Element
from diastole_hw.plan.plan import Plan
from diastole_hw.plan.uses import OPERATION_OF, Mode
from diastole_hw.schedule.tokens import (
    GIVEN_RESULTS,
    PRODUCT,
    Region,
    chunk_layout,
    held_read_layout,
    pass_layout,
    scratch_write_layout,
    slot_layout,
)
from diastole_sim.spec.operations import MatrixProduct, Tensor

Doubles = NDArray[np.float64]
Operands = Mapping[tuple[str, int], Doubles]
"""The numbers of each copy of an operand, by its name and the copy's number, in the tensor's own
orientation."""

ENGINE = "core.engine."
DATAPATH = f"{ENGINE}datapath."
EAST, NORTH = 0, 1
"""Directions as slots number them."""
PORTS = ("m_axi_", "m_axi1_")
READ, WRITE = ("arvalid", "arready", "araddr", "arlen"), ("awvalid", "awready", "awaddr", "awlen")
BEATS = ("rvalid", "rready", "wvalid", "wready")


class Untrue(Exception):
    """The waves and the tensors do not say the same."""


@dataclass(frozen=True, kw_only=True)
class Way:
    """A direction in use: the product that it computes, what streams and what is held, and the axes
    that vectors, rows of cells and columns of cells count.

    The fused pass computes dX turned: what the product streams is held, and the reverse.
    """

    direction: int
    product: MatrixProduct
    streamed: Tensor
    held: Tensor
    t: str
    rows: str
    cols: str


@dataclass(frozen=True, kw_only=True)
class Pass:
    """A pass, with the cycle of its first slot and of the first word that it holds.

    ``t0``, ``count``: the first vector, in elements, and how many; of every direction in use, one
    behind the other. ``row``, ``col``: the blocks, along the axes of rows and of columns of cells,
    that the cell in the corner has. ``rows``, ``cols``: how many the tensor has.
    """

    first: int
    loads: int
    t0: int
    count: int
    row: int
    col: int
    rows: int
    cols: int


class Arrival(NamedTuple):
    """A block of an operand, by its row and column as it is stored, in a scratchpad: ``came``, the
    cycle in which its first vector is there, ``last``, that of its last reading."""

    operand: str
    row: int
    col: int
    came: int
    last: int


@dataclass(kw_only=True)
class Run:
    """A product on the array, or two in the fused pass; cycles count from the start of its loops.

    ``sums``: by slot, cell (row by row) and lane, what the cell adds up to. ``reads``: by
    cycle, what a beat from memory is of. ``writes``: (cycle, result, row, first column, columns).
    ``waits``: by cycle, ``l`` or ``a`` where the array waits for what is loaded, or for room for
    sums.
    """

    mode: Mode
    ways: tuple[Way, ...]
    cycles: int = 0
    passes: list[Pass] = field(default_factory=list[Pass])
    sums: list[list[list[int]]] = field(default_factory=list[list[list[int]]])
    arrivals: list[Arrival] = field(default_factory=list[Arrival])
    reads: str = ""
    writes: list[tuple[int, str, int, int, int]] = field(
        default_factory=list[tuple[int, str, int, int, int]]
    )
    waits: str = ""


def signals(plan: Plan) -> list[str]:
    """What of the waves :func:`runs_of` reads."""
    engine = ("walk.start", "flight_start", "flight_results", "flight_set_up", "pass_walk.taken",
              "pass_walk.tile", "pass_walk.c_done",
              "pass_walk.l_done", "pass_walk.passes__payload", "pass_walk.wait_load",
              "pass_walk.wait_accumulator")  # fmt: skip
    names = [ENGINE + name for name in engine]
    names += [DATAPATH + name for name in ("slot", "held", "write_en", "write")]
    if plan.ports > 1:
        names += [DATAPATH + name for name in ("write_en_1", "write_1", "write_ready_1")]
    sides = {"load": plan.cols, "south": plan.cols * plan.east, "west": plan.rows * plan.north}
    names += [f"{DATAPATH}array_{side}__{n}" for side, count in sides.items() for n in range(count)]
    names += [_cell_sums(r, c) for r in range(plan.rows) for c in range(plan.cols)]
    for port in PORTS[: plan.ports]:
        names += [port + name for name in (*READ, *WRITE, *BEATS)]
    return names


def _cell_sums(row: int, col: int) -> str:
    return f"{DATAPATH}array.row_{row}.cell_{col}.psum"


def ways_of(plan: Plan, mode: Mode) -> tuple[Way, ...]:
    """The directions that a mode uses, in the order of its slots."""
    if mode != Mode.FUSED:
        use = plan.use(mode)
        (product,) = OPERATION_OF[mode].products
        rows, cols = (use.contraction, use.lanes) if use.north else (use.lanes, use.contraction)
        return (_way(int(use.north), product, product.held, rows, cols),)
    to_north, to_east = OPERATION_OF[mode].products
    held, rows, cols = to_east.held, to_east.result.columns, to_east.contraction
    return (_way(EAST, to_east, held, rows, cols), _way(NORTH, to_north, held, rows, cols))


def _way(direction: int, product: MatrixProduct, held: Tensor, rows: str, cols: str) -> Way:
    (streamed,) = (tensor for tensor in product.factors if tensor != held)
    (t,) = set(streamed.axes) - {product.contraction}
    return Way(
        direction=direction,
        product=product,
        streamed=streamed,
        held=held,
        t=t,
        rows=rows,
        cols=cols,
    )


def runs_of(waves: Waves, plan: Plan, operands: Operands) -> list[Run]:
    """Every product in the waves, in its order.

    :class:`Untrue` where the waves have other numbers than the operands.
    """
    return list(_Reader(waves, plan, operands).runs())


class _Reader:
    """Reads runs from waves."""

    def __init__(self, waves: Waves, plan: Plan, operands: Operands):
        self.waves, self.plan, self.operands = waves, plan, operands
        self.words = plan.rows * plan.block
        slot, held = waves[f"{DATAPATH}slot"], waves[f"{DATAPATH}held"]
        layout = slot_layout(plan)
        self.swaps = [at for at, value in enumerate(slot) if member(layout, value, "swap")]
        self.slots = [at for at, value in enumerate(slot) if member(layout, value, "valid")]
        words = held_read_layout(plan)
        self.loads = [at for at, value in enumerate(held) if member(words, value, "valid")]
        self.taken = waves.high(f"{ENGINE}pass_walk.taken")
        self.written = self._written()

    def runs(self) -> Iterator[Run]:
        starts = self.waves.high(f"{ENGINE}walk.start")
        bounds = [*starts[1:], self.waves.cycles]
        for start, end in zip(starts, bounds, strict=True):
            record = self.waves[f"{ENGINE}flight_set_up"][start]
            mode = Mode(member(PRODUCT, record, "mode"))
            run = Run(mode=mode, ways=ways_of(self.plan, mode))
            numbers = [n for n, at in enumerate(self.taken) if start <= at < end]
            self._memory(run, record, start, end)
            self._passes(run, numbers, start)
            for number, each in zip(numbers, run.passes, strict=True):
                self._check_pass(run, number, each, start)
            self._arrivals(run, numbers, start)
            yield run

    def _passes(self, run: Run, numbers: Sequence[int], start: int) -> None:
        plan, waves = self.plan, self.waves
        chunks, passes = chunk_layout(plan), pass_layout(plan)
        before = sum(1 for at in self.slots if at < start)
        for number in numbers:
            at = self.taken[number]
            chunk = waves[f"{ENGINE}pass_walk.tile"][at]
            say = waves[f"{ENGINE}pass_walk.passes__payload"][at]
            north = run.ways[0].direction == NORTH
            lane = member(chunks, chunk, "l0") + waves[f"{ENGINE}pass_walk.l_done"][at]
            c = member(chunks, chunk, "c0") + waves[f"{ENGINE}pass_walk.c_done"][at]
            count = member(passes, say, "t_count")
            first = self.slots[before]
            used = count * len(run.ways)
            if self.slots[before : before + used] != list(range(first, first + used)):
                raise Untrue(f"the slots of pass {number} are not one behind the other")
            if first != self.swaps[number] + 1:
                raise Untrue(f"pass {number} does not begin behind its swap")
            words = self.loads[number * self.words : (number + 1) * self.words]
            if words != list(range(words[0], words[0] + self.words)):
                raise Untrue(f"the held words of pass {number} are not one behind the other")
            before += used
            run.passes.append(
                Pass(
                    first=first - start,
                    loads=words[0] - start,
                    t0=member(chunks, chunk, "t0") * plan.block,
                    count=count,
                    row=c if north else lane,
                    col=lane if north else c,
                    rows=member(passes, say, "rows_valid"),
                    cols=member(passes, say, "cols_valid"),
                )
            )

    # What the numbers are, and that they are so.

    def _matrix(self, product: MatrixProduct, operand: Tensor, rows: str) -> Doubles:
        """An operand with the axis ``rows`` down, padded to whole blocks."""
        values = stored_copy(self.operands, product, operand)
        turned = values if operand.rows == rows else values.T
        side = self.plan.block
        height, width = (-(-size // side) * side for size in turned.shape)
        padded = np.zeros((height, width))
        padded[: turned.shape[0], : turned.shape[1]] = turned
        return padded

    def _check_pass(self, run: Run, number: int, each: Pass, start: int) -> None:
        block = self._matrix(run.ways[0].product, run.ways[0].held, run.ways[0].cols)
        self._check_held(each, block, start)
        for turn, way in enumerate(run.ways):
            streamed = self._matrix(way.product, way.streamed, way.t)
            first = each.first + start + turn * each.count
            self._check_stream(way, each, streamed, first)
            self._sums(run, way, each, streamed, block, first)

    def _check_held(self, each: Pass, block: Doubles, start: int) -> None:
        """Words of the cell in row r come r B words later; ``block`` has the columns' axis down."""
        plan, side = self.plan, self.plan.block
        layout = held_layout(plan.shape)
        for c in range(each.cols):
            port = self.waves[f"{DATAPATH}array_load__{c}"]
            for r in range(each.rows):
                at = each.loads + start + 1 + c + r * side
                got = np.array(
                    [
                        self._elements(layout, port[at + a], plan.shape.held)
                        for a in range(side)
                    ]
                )  # fmt: skip
                top, left = (each.col + c) * side, (each.row + r) * side
                require_alike(got, block[top : top + side, left : left + side], "held block")

    def _check_stream(self, way: Way, each: Pass, streamed: Doubles, first: int) -> None:
        plan, side = self.plan, self.plan.block
        north = way.direction == NORTH
        name, count = ("west", each.rows) if north else ("south", each.cols)
        element = plan.shape.west if north else plan.shape.south
        layout = vector_layout(plan.shape, element)
        for port in range(count):
            words = self.waves[f"{DATAPATH}array_{name}__{port}"]
            left = ((each.row if north else each.col) + port) * side
            for t in range(each.count):
                got = self._elements(layout, words[first + t + 1 + port], element)
                wanted = streamed[each.t0 + t, left : left + side]
                require_alike(np.array(got), wanted, f"vector at {name}")

    def _elements(self, layout: PackedLayout, word: int, element: Element) -> list[float]:
        """(-1)^s sig 2^-d of each element of a vector or a held word."""
        found = layout["elements"]
        bits = word >> found.offset
        values: list[float] = []
        for _ in range(self.plan.block):
            own = bits & ((1 << element.bits) - 1)
            bits >>= element.bits
            sig = own & ((1 << element.significand_bits) - 1)
            fall = (own & ((1 << element.magnitude_bits) - 1)) >> element.significand_bits
            values.append(math.ldexp(-sig if own >> element.magnitude_bits else sig, -fall))
        return values

    def _sums(
        self, run: Run, way: Way, each: Pass, streamed: Doubles, block: Doubles, first: int
    ) -> None:
        """What every cell has for every slot; it must be what the operands make of it."""
        plan, side = self.plan, self.plan.block
        bits = partial_sum_bits(plan.shape, plan.cols)
        layout = sum_layout(side, bits, plan.shape.poison)
        down = way.direction == NORTH  # the contraction runs down the rows of cells
        for t in range(each.count):
            cells: list[list[int]] = []
            for r in range(plan.rows):
                for c in range(plan.cols):
                    at = first + t + 2 + r + c + plan.shape.stages
                    word = self.waves[_cell_sums(r, c)][at]
                    whole = self._whole_sums(_cell_sums(r, c), at, layout, bits)
                    values = [_signed(each, bits) for each in whole]
                    cells.append(values)
                    if r >= each.rows or c >= each.cols or member(layout, word, "inexact"):
                        continue
                    origin = (each.row if down else each.col) * side
                    reach = slice(origin, origin + ((r if down else c) + 1) * side)
                    lane = ((each.col + c) if down else (each.row + r)) * side
                    lanes = slice(lane, lane + side)
                    factor = block[lanes, reach] if down else block[reach, lanes].T
                    wanted = factor @ streamed[each.t0 + t, reach]
                    require_powers(np.array(values, np.float64), wanted, f"sums of cell {r}, {c}")
            run.sums.append(cells)

    def _whole_sums(self, name: str, at: int, layout: PackedLayout, bits: int) -> list[int]:
        """The bits of partial sums, whose upper halves come a cycle later where cells add so."""
        shape, words = self.plan.shape, self.waves[name]
        sums = [[member(layout, word, "sums", b) for b in range(shape.block)]
                for word in words[at : at + 1 + shape.halves]]  # fmt: skip
        low = low_bits(bits)
        return [
            late >> low << low | early & ((1 << low) - 1)
            for early, late in zip(sums[0], sums[-1], strict=True)
        ]

    # What memory and the scratchpads saw.

    def _written(self) -> dict[tuple[int, int, int], list[int]]:
        """Cycles in which each vector of a scratchpad was written, by region, bank and vector."""
        plan, waves = self.plan, self.waves
        layout = scratch_write_layout(plan)
        found: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for port in ("", "_1")[: plan.ports]:
            words = waves[f"{DATAPATH}write{port}"]
            taken = waves.high(f"{DATAPATH}write_en{port}")
            if port:
                ready = waves[f"{DATAPATH}write_ready_1"]
                taken = [at for at in taken if ready[at]]
            for at in taken:
                kind = member(layout, words[at], "kind")
                bank = member(layout, words[at], "bank")
                first = member(layout, words[at], "word") * plan.fill_vectors
                for vector in range(first, first + plan.fill_vectors):
                    found[kind, bank, vector].append(at)
        return found

    def _arrived(self, region: Region, bank: int, vector: int, read: int) -> int:
        """When what is read in cycle ``read`` had been written."""
        return max(at for at in self.written[region.value, bank, vector] if at < read)

    def _arrivals(self, run: Run, numbers: Sequence[int], start: int) -> None:
        seen: dict[tuple[str, int, int, int], Arrival] = {}
        passes = pass_layout(self.plan)
        payload = self.waves[f"{ENGINE}pass_walk.passes__payload"]
        for number, each in zip(numbers, run.passes, strict=True):
            say = payload[self.taken[number]]
            for read in self._read_by(run, each, passes, say, start):
                seen[read[:4]] = max(seen.get(read[:4], read), read)
        run.arrivals = sorted(seen.values())

    def _read_by(
        self, run: Run, each: Pass, passes: PackedLayout, say: int, start: int
    ) -> Iterator[Arrival]:
        """Every block that a pass reads; ``last`` is its last reading there."""
        side = self.plan.block
        held = run.ways[0].held
        address = member(passes, say, "held_addr")
        for c in range(each.cols):
            for r in range(each.rows):
                read = each.loads + start + c + r * side
                came = self._arrived(Region.HELD, c, address + r * side, read)
                place = {run.ways[0].rows: each.row + r, run.ways[0].cols: each.col + c}
                row, col = place[held.rows], place[held.columns]
                yield Arrival(held.name, row, col, came - start, read + side - 1 - start)
        for turn, way in enumerate(run.ways):
            north = way.direction == NORTH
            region, name = (Region.WEST, "west_addr") if north else (Region.SOUTH, "south_addr")
            address = member(passes, say, name)
            tensor = way.streamed
            for port in range(each.rows if north else each.cols):
                for block in range(-(-each.count // side)):
                    slot = each.first + turn * each.count + block * side
                    read = slot + start + port
                    came = self._arrived(region, port, address + block * side, read)
                    along = (each.row if north else each.col) + port
                    place = {way.t: each.t0 // side + block}
                    place[way.rows if north else way.cols] = along
                    last = slot + port + min(side, each.count - block * side) - 1
                    row, col = place[tensor.rows], place[tensor.columns]
                    yield Arrival(tensor.name, row, col, came - start, last)

    def _memory(self, run: Run, record: int, start: int, end: int) -> None:
        """Beats of both directions, to the last one that is written."""
        tensors = {
            tensor.name: member(PRODUCT, record, "tensors", tensor.number, "base")
            for way in run.ways
            for tensor in way.product.factors
        }
        given = max(at for at in self.waves.high(f"{ENGINE}flight_start") if at < start)
        told = self.waves[f"{ENGINE}flight_results"][given]
        sides = {
            way.product.result.name: "north" if way.direction == NORTH else "east"
            for way in run.ways
        }
        bases = {name: member(GIVEN_RESULTS, told, side, "base") for name, side in sides.items()}
        pitches = {name: member(GIVEN_RESULTS, told, side, "pitch") for name, side in sides.items()}
        reads: dict[int, str] = {}
        for port in PORTS[: self.plan.ports]:
            for at, address in self._beats(port, "ar", "r", start, end):
                reads[at - start] = _owner(tensors, address)
            for at, address in self._beats(port, "aw", "w", start, end):
                name = _owner(bases, address)
                row, byte = divmod(address - bases[name], pitches[name])
                run.writes.append((at - start, name, row, byte // 4, self.plan.beat_bytes // 4))
        run.writes.sort()
        run.cycles = run.writes[-1][0] + 1
        run.reads = "".join(reads.get(at, " ")[0] for at in range(run.cycles))
        load, sums = (
            self.waves[f"{ENGINE}pass_walk.wait_{what}"] for what in ("load", "accumulator")
        )
        run.waits = "".join(
            "l" if load[at] else "a" if sums[at] else " " for at in range(start, start + run.cycles)
        )

    def _beats(
        self, port: str, address: str, data: str, start: int, end: int
    ) -> Iterator[tuple[int, int]]:
        """The cycle and the address of every beat; those that were asked for come in order."""
        waves = self.waves

        def taken(channel: str) -> list[int]:
            valid, ready = waves[f"{port}{channel}valid"], waves[f"{port}{channel}ready"]
            return [at for at in range(start, end) if valid[at] and ready[at]]

        asked: list[int] = []
        for at in taken(address):
            first = waves[f"{port}{address}addr"][at]
            count = waves[f"{port}{address}len"][at] + 1
            asked += [first + n * self.plan.beat_bytes for n in range(count)]
        return zip(taken(data), asked, strict=True)


def stored_copy(operands: Operands, product: MatrixProduct, operand: Tensor) -> Doubles:
    """The copy of an operand that a product reads, or the only one."""
    return operands.get((operand.name, product.copy(operand)), operands[operand.name, 0])


def _owner(bases: Mapping[str, int], address: int) -> str:
    """Whose range an address is in: of the last one that begins before; else a command's."""
    begun = [(base, name) for name, base in bases.items() if base <= address]
    return max(begun, default=(0, "c"))[1]


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def require_alike(got: Any, wanted: Doubles, what: str) -> None:
    """What the array holds of numbers is these, but for the scale of each group."""
    both = np.stack([np.atleast_2d(got), np.atleast_2d(wanted)])
    if ((both[0] == 0) != (both[1] == 0)).any():
        raise Untrue(f"a {what} has other zeros than its tensor")
    for mine, theirs in zip(*both, strict=True):
        there = mine != 0
        ratios = theirs[there] / mine[there]
        if len(ratios) and (ratios[0] <= 0 or (ratios != ratios[0]).any()):
            raise Untrue(f"a {what} is not that of its tensor: {mine}, {theirs}")


def require_powers(got: Doubles, wanted: Doubles, what: str) -> None:
    """Sums are those of the operands, times a power of two."""
    if ((got == 0) != (wanted == 0)).any():
        raise Untrue(f"{what} have other zeros: {got}, {wanted}")
    there = got != 0
    mantissas, _ = np.frexp(wanted[there] / got[there])
    if (mantissas != 0.5).any():
        raise Untrue(f"{what} are not those of the operands: {got}, {wanted}")
