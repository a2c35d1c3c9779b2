"""A chain's inputs in time: requests, beats, and blocks in their buffers."""

from collections import deque
from collections.abc import Iterator

from diastole_sim.perf.modelled_machine import OUTSTANDING
from diastole_sim.perf.modelled_vector import ChainTask, ModelledVector, VisitedBlock
from diastole_sim.spec.sizes.queues import DIGIT_BITS
from diastole_sim.spec.stream_table import ELEMENT_BITS, GATHERED, IN_MEMORY, Descriptor, Kind

BLOCKS_AHEAD = 4
"""Of an input that its buffer has room for."""
LOCATED = 3
"""Cycles from a number of a list to its row's address, besides those of its digits."""
NUMBER_CYCLES = 4
"""Of each number of a list, where several wait: of 256 to 4095."""
KEPT_CYCLES = 1
"""Cycles before an input is written that lies in beats of the block before."""
COUNTED = 1
"""From a block's last beat to the cycle in which an instruction may be taken."""


class SegmentTimes:
    """Requests for the rows of blocks: each block is located while those before it are asked for.

    ``entered``: when the last block was taken; ``accepted``: when the next one may be; ``last``:
    of the last request."""

    def __init__(self) -> None:
        self.entered = self.accepted = self.last = -1

    def begin(self, offered: int, count: int, digits: int | None = None) -> int:
        """A block is offered, whose number of rows before it is ``count``, or has ``digits``; the
        cycle of its first request."""
        if digits is None:
            digits = -(-count.bit_length() // DIGIT_BITS)
        self.entered = max(offered, self.accepted)
        moves = max(self.entered + 1 + digits, self.last)
        self.accepted = moves
        return moves + 1


class ChainInputs:
    """Blocks of all inputs, four ahead. ``now``: the cycle of the first block's offer."""

    def __init__(self, vector: ModelledVector, task: ChainTask, now: int):
        self.vector, self.task = vector, task
        self.next_begin = now
        self.segments = SegmentTimes()
        self.beat = now  # the cycle of the last beat
        self.open = deque([now - 1] * OUTSTANDING)  # when bursts have come
        self.released = deque([now - 2] * BLOCKS_AHEAD)
        self.product = now  # the cycle after the last row of a product
        self.read_beats = 0
        self.several = sum(each.kind in GATHERED for each in task.inputs.values()) > 1
        self.lists_always = task.walk.by_columns or self.several
        self.located: list[int] = []  # when the rows of a list are

    def block(self, block: VisitedBlock, product: int = 0) -> dict[int, int]:
        """By input, the cycle from which an instruction may be taken that reads the block.
        ``product``: the first cycle in which its row of the product could come."""
        begin = max(self.next_begin, self.released.popleft() + 1)
        found: dict[int, int] = {}
        asks = begin
        for number, stream in sorted(self.task.inputs.items()):
            if stream.kind == Kind.PRODUCT:
                self.product = max(self.product, product, begin + 1) + self.vector.block
                found[number] = self.product - 1 + COUNTED
            elif stream.kind in IN_MEMORY:
                asks = self._input(stream, block, asks)
                found[number] = self.beat + COUNTED
        self.next_begin = asks
        return found

    def release(self, cycle: int) -> None:
        """The oldest block is given back."""
        self.released.append(cycle)

    def _input(self, stream: Descriptor, block: VisitedBlock, asks: int) -> int:
        """One input of a block; the cycle in which the next one may be offered."""
        gathered = stream.kind in GATHERED
        if gathered and self._lists_now(block):
            asks = self._list(block.rows, asks)
        self._empty(block)
        rows, holds = self._pieces(stream, block)
        if self._again(stream, block):
            self.beat = max(self.beat, asks) + KEPT_CYCLES + rows * sum(holds)
            return asks + 1
        if gathered:
            asks = self._gathered(rows, holds, asks)
        else:
            by_row = stream.kind not in (Kind.COLUMN, Kind.ROW, Kind.LABELS, Kind.MASK)
            count = block.i * self.vector.block * by_row
            count = block.i if stream.kind == Kind.MASK else count
            first = self.segments.begin(asks, count)
            self._requests(first, rows, holds)
            asks = self.segments.entered + 1
        if gathered and block.first and self._lists_ahead:
            left = self.task.walk.rows - (block.i + 1) * self.vector.block
            if left > 0:
                asks = self._list(min(left, self.vector.block), asks)
        return asks

    @property
    def _lists_ahead(self) -> bool:
        """Whether a list is read while its line's blocks are not yet begun."""
        return not (self.lists_always or self.task.of_product)

    def _lists_now(self, block: VisitedBlock) -> bool:
        if self._lists_ahead:
            return block.first and block.i == 0
        return block.first or self.lists_always

    def _again(self, stream: Descriptor, block: VisitedBlock) -> bool:
        """Whether an input of the block lies in the beats of the one before."""
        kind, width = Kind(stream.kind), self.vector.data_width
        if block.first or self.task.walk.by_columns or (kind in GATHERED and self.several):
            return False
        if kind in (Kind.ROW, Kind.LABELS):
            return True
        side = self.vector.block
        bits = side * (side if kind == Kind.MASK else ELEMENT_BITS[kind])
        return block.j % max(1, width // bits) != 0

    def _list(self, rows: int, asks: int) -> int:
        """The numbers of a line's rows; the cycle in which the next piece may be offered."""
        first = self.segments.begin(asks, 0)
        self._requests(first, 1, list(self._shared(rows, 32)))
        begun = self.beat - rows + 1
        self.located = [begun + LOCATED + NUMBER_CYCLES * (row + 1) for row in range(rows)]
        return self.segments.entered + 1

    def _gathered(self, rows: int, holds: list[int], asks: int) -> int:
        """Rows of a block that are gathered, when they are located."""
        for row in range(rows):
            first = self.segments.begin(max(asks, self.located[row] + 1), 0)
            self._requests(first, 1, holds)
            asks = self.segments.entered + 1
        return asks

    def _empty(self, block: VisitedBlock) -> None:
        """A row of zeros stands for those outside."""
        if block.rows < self.vector.block:
            self.beat += 1

    def _pieces(self, stream: Descriptor, block: VisitedBlock) -> tuple[int, list[int]]:
        """Rows of a block, and of each the cycles that its beats take."""
        vector, kind = self.vector, Kind(stream.kind)
        if kind in (Kind.ROW, Kind.LABELS):
            return 1, list(self._shared(block.rows, 32))
        if kind == Kind.MASK:
            return 1, list(self._shared(block.rows, vector.block))
        beats = vector.beats(block.cols, ELEMENT_BITS[kind])
        return (1 if kind == Kind.COLUMN else block.rows), [1] * beats

    def _shared(self, rows: int, bits: int) -> Iterator[int]:
        """Rows that are in each beat, of which a row has ``bits``."""
        most = min(self.vector.block, max(1, self.vector.data_width // bits))
        for begin in range(0, rows, most):
            yield min(most, rows - begin)

    def _requests(self, first: int, rows: int, holds: list[int]) -> None:
        """``rows`` requests, one a cycle from ``first`` on; ``holds``: cycles of each one's
        beats."""
        request = first - 1
        for _ in range(rows):
            request = max(request + 1, self.open.popleft() + 1)
            came = request + self.vector.memory.read_cycles
            for cycles in holds:
                self.beat = max(self.beat + cycles, came + cycles - 1)
            self.open.append(self.beat)
            self.read_beats += len(holds)
        self.segments.last = request
