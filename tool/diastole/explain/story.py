"""Read the work of a machine in a product from waves: passes, slots, sums, and memory traffic.

The registers of the loop walk tell the meaning of a number. Every number is checked against the
converted tensors: a page cannot differ from the work of the machine.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diastole.explain.shown_operands import Doubles, Operands, factors_of
from diastole.explain.shown_run import (
    DATAPATH,
    ENGINE,
    NORTH,
    Pass,
    ShownDirection,
    ShownRun,
    WavesDisagree,
    ways_of,
)
from diastole.explain.sum_rules import Factors
from diastole.explain.traffic import BEATS, PORTS, READ, WRITE, ShownTraffic
from diastole.explain.waves import PackedLayout, Waves, member
from diastole_hw.array.array import partial_sum_bits
from diastole_hw.cell.align import low_bits
from diastole_hw.cell.cell_shape import Element
from diastole_hw.cell.layouts import stationary_layout, sum_layout, vector_layout
from diastole_hw.plan.modes import Mode
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.tokens import (
    chunk_layout,
    pass_layout,
    product_layout,
    slot_layout,
    stationary_read_layout,
)
from diastole_sim.spec.operations import MatrixProduct, Tensor

Sums = NDArray[np.int64]


def signals(plan: Plan) -> list[str]:
    """Return the names of the signals that :func:`runs_of` reads."""
    engine = ("walk.start", "flight_start", "flight_results", "flight_set_up", "pass_walk.accepted",
              "walk.chunks__payload", "chunks.i__valid", "pass_walk.c_done",
              "pass_walk.l_done", "pass_walk.passes__payload", "pass_walk.wait_load",
              "pass_walk.wait_accumulator")  # fmt: skip
    names = [ENGINE + name for name in engine]
    names += [DATAPATH + name for name in ("slot", "stationary", "write_en", "write")]
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


def runs_of(waves: Waves, plan: Plan, operands: Operands) -> list[ShownRun]:
    """Return every product in the waves, in order.

    :class:`WavesDisagree` if the waves have other numbers than the operands.
    """
    return list(_Reader(waves, plan, operands).runs())


class _Reader:
    """Read runs from waves."""

    def __init__(self, waves: Waves, plan: Plan, operands: Operands):
        self.waves, self.plan, self.operands = waves, plan, operands
        self.words = plan.rows * plan.block
        slot, stationary = waves[f"{DATAPATH}slot"], waves[f"{DATAPATH}stationary"]
        layout = slot_layout(plan)
        self.swaps = [at for at, value in enumerate(slot) if member(layout, value, "swap")]
        self.slots = [at for at, value in enumerate(slot) if member(layout, value, "valid")]
        words = stationary_read_layout(plan)
        self.loads = [at for at, value in enumerate(stationary) if member(words, value, "valid")]
        self.consumed = waves.high(f"{ENGINE}pass_walk.accepted")
        self.requested = waves.high(f"{ENGINE}chunks.i__valid")  # cycles of requests for chunks
        self.traffic = ShownTraffic(waves, plan, self.consumed)

    def runs(self) -> Iterator[ShownRun]:
        starts = self.waves.high(f"{ENGINE}walk.start")
        bounds = [*starts[1:], self.waves.cycles]
        for start, end in zip(starts, bounds, strict=True):
            record = self.waves[f"{ENGINE}flight_set_up"][start]
            mode = Mode(member(product_layout(self.plan), record, "mode"))
            run = ShownRun(mode=mode, ways=ways_of(self.plan, mode))
            factors = [self._factors(way) for way in run.ways]
            numbers = [n for n, at in enumerate(self.consumed) if start <= at < end]
            self.traffic.memory(run, record, start, end)
            self._passes(run, numbers, start)
            for each in run.passes:
                self._check_pass(run, factors, each, start)
            self.traffic.arrivals(run, numbers, start)
            yield run

    def _passes(self, run: ShownRun, numbers: Sequence[int], start: int) -> None:
        plan, waves = self.plan, self.waves
        chunks, passes = chunk_layout(plan), pass_layout(plan)
        before = sum(1 for at in self.slots if at < start)
        requests = iter([at for at in self.requested if at >= start])
        chunk = 0
        for number in numbers:
            at = self.consumed[number]
            say = waves[f"{ENGINE}pass_walk.passes__payload"][at]
            north = run.ways[0].direction == NORTH
            lane, c = (waves[f"{ENGINE}pass_walk.{name}_done"][at] for name in "lc")
            if not lane and not c:  # the first pass of the next chunk
                chunk = waves[f"{ENGINE}walk.chunks__payload"][next(requests)]
            lane += member(chunks, chunk, "l0")
            c += member(chunks, chunk, "c0")
            count = member(passes, say, "t_count")
            first = self.slots[before]
            used = count * len(run.ways)
            if self.slots[before : before + used] != list(range(first, first + used)):
                raise WavesDisagree(f"the slots of pass {number} are not one behind the other")
            if first != self.swaps[number] + 1:
                raise WavesDisagree(f"pass {number} does not begin behind its swap")
            words = self.loads[number * self.words : (number + 1) * self.words]
            if words != list(range(words[0], words[0] + self.words)):
                raise WavesDisagree(f"the held words of pass {number} are not one behind the other")
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

    # Expected numbers, and checks against the numbers in the waves.

    def _factors(self, way: ShownDirection) -> Factors:
        numerics = self.plan.numerics
        return factors_of(way.product, way.streaming, way.stationary, self.operands, numerics)

    def _matrix(self, product: MatrixProduct, operand: Tensor, rows: str) -> Doubles:
        """Return an operand with the axis ``rows`` down, padded to whole blocks."""
        values = self.operands[operand.name].values(product.copy(operand))
        oriented = values if operand.rows == rows else values.T
        height, width = (-size % self.plan.block for size in oriented.shape)
        return np.pad(oriented, ((0, height), (0, width)))

    def _check_pass(
        self, run: ShownRun, factors: Sequence[Factors], each: Pass, start: int
    ) -> None:
        plan, direction = self.plan, run.ways[0]
        block = self._matrix(direction.product, direction.stationary, direction.cols)
        self._check_stationary(each, block, start)
        for number, (way, multiplied) in enumerate(zip(run.ways, factors, strict=True)):
            streamed = self._matrix(way.product, way.streaming, way.t)
            first = each.first + start + number * each.count
            self._check_stream(way, each, streamed, first)
            got = self._sums(each, first)
            require_sums(got, expected_sums(way.direction, each, multiplied), each)
            cells = plan.rows * plan.cols
            run.sums += got.reshape(each.count, cells, plan.block).tolist()

    def _check_stationary(self, each: Pass, block: Doubles, start: int) -> None:
        """Check the stationary blocks of a pass. Words of the cell in row r arrive r B words later.
        ``block`` has the axis of the columns down."""
        plan, side = self.plan, self.plan.block
        layout = stationary_layout(plan.shape)
        for c in range(each.cols):
            port = self.waves[f"{DATAPATH}array_load__{c}"]
            for r in range(each.rows):
                at = each.loads + start + 1 + c + r * side
                got = np.array(
                    [
                        self._elements(layout, port[at + a], plan.shape.stationary)
                        for a in range(side)
                    ]
                )  # fmt: skip
                top, left = (each.col + c) * side, (each.row + r) * side
                require_alike(got, block[top : top + side, left : left + side], "held block")

    def _check_stream(self, way: ShownDirection, each: Pass, streamed: Doubles, first: int) -> None:
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
                expected = streamed[each.t0 + t, left : left + side]
                require_alike(np.array(got), expected, f"vector at {name}")

    def _elements(self, layout: PackedLayout, word: int, element: Element) -> list[float]:
        """Return (-1)^s sig 2^-d of each element of a vector or a stationary word."""
        place = layout["elements"]
        bits = word >> place.offset
        values: list[float] = []
        for _ in range(self.plan.block):
            own = bits & ((1 << element.bits) - 1)
            bits >>= element.bits
            sig = own & ((1 << element.significand_bits) - 1)
            fall = (own & ((1 << element.magnitude_bits) - 1)) >> element.significand_bits
            values.append(math.ldexp(-sig if own >> element.magnitude_bits else sig, -fall))
        return values

    def _sums(self, each: Pass, first: int) -> Sums:
        """Return the partial sums of every cell for every slot of a pass in one direction."""
        plan = self.plan
        bits = partial_sum_bits(plan.shape, plan.cols)
        layout = sum_layout(plan.block, bits, plan.shape.poison)
        sums_of_pass = np.zeros((each.count, plan.rows, plan.cols, plan.block), np.int64)
        for t, r, c in np.ndindex(sums_of_pass.shape[:3]):
            at = first + t + 2 + r + c + plan.shape.stages
            whole = self._whole_sums(_cell_sums(r, c), at, layout, bits)
            sums_of_pass[t, r, c] = [_signed(sums, bits) for sums in whole]
        return sums_of_pass

    def _whole_sums(self, name: str, at: int, layout: PackedLayout, bits: int) -> list[int]:
        """Return the bits of partial sums. In cells that add in halves, upper halves arrive a cycle
        later."""
        shape, words = self.plan.shape, self.waves[name]
        sums = [[member(layout, word, "sums", b) for b in range(shape.block)]
                for word in words[at : at + 1 + shape.halves]]  # fmt: skip
        low = low_bits(bits)
        return [
            late >> low << low | early & ((1 << low) - 1)
            for early, late in zip(sums[0], sums[-1], strict=True)
        ]


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


def require_alike(got: Any, expected: Doubles, what: str) -> None:
    """Raise :class:`WavesDisagree` unless two sets of numbers are equal, but for the scale of each
    group."""
    both = np.stack([np.atleast_2d(got), np.atleast_2d(expected)])
    if ((both[0] == 0) != (both[1] == 0)).any():
        raise WavesDisagree(f"the zeros of a {what} are not the zeros of the tensor")
    for mine, theirs in zip(*both, strict=True):
        there = mine != 0
        ratios = theirs[there] / mine[there]
        if len(ratios) and (ratios[0] <= 0 or (ratios != ratios[0]).any()):
            raise WavesDisagree(f"a {what} is {mine}, but the tensor has {theirs}")


def expected_sums(direction: int, each: Pass, factors: Factors) -> Sums:
    """Return the expected sums of a pass: vectors x rows x columns of cells x lanes."""
    side, north = factors.block, direction == NORTH
    vectors = slice(each.t0, each.t0 + each.count)
    addends = np.zeros((each.count, each.rows, each.cols, side), np.int64)
    for r, c in np.ndindex(each.rows, each.cols):
        lane, number = (each.col + c, each.row + r) if north else (each.row + r, each.col + c)
        lanes = slice(lane * side, lane * side + side)
        addends[:, r, c] = factors.addends(vectors, lanes, number)
    return addends.cumsum(axis=1 if north else 2)


def require_sums(got: Sums, expected: Sums, each: Pass) -> None:
    """Raise :class:`WavesDisagree` unless the used cells of a pass have these sums, bit for bit."""
    used = got[:, : each.rows, : each.cols]
    if (used == expected).all():
        return
    t, r, c, lane = (int(place) for place in np.argwhere(used != expected)[0])
    raise WavesDisagree(
        f"sums of cell {r}, {c} are not those of the operands: vector {each.t0 + t}, lane {lane}: "
        f"{used[t, r, c, lane]}, expected {expected[t, r, c, lane]}"
    )
