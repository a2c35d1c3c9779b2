"""A chain's inputs in time: requests, beats, and blocks in their buffers."""

from collections import deque
from collections.abc import Iterator

from diastole_sim.perf.machine import OUTSTANDING
from diastole_sim.perf.vector import ChainTask, ModelledVector, VisitedBlock
from diastole_sim.spec.stream_table import ELEMENT_BITS, GATHERED, IN_MEMORY, Descriptor, Kind

BLOCKS_AHEAD = 4
"""Of an input that its buffer has room for."""
DIGIT = 8
"""Bits of a row's number that are multiplied in a cycle."""
GATHERED_CYCLES = 2
"""Of a gathered row at least, to look its number up and to ask."""
GATHERED_DIGITS = 2
"""Digits of the number of a gathered row: of 256 rows or more."""
LISTED = 1
"""Cycles from the last number of a list to the first row that is looked up."""
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
            digits = -(-count.bit_length() // DIGIT)
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
        several = sum(each.kind in GATHERED for each in task.inputs.values()) > 1
        self.lists_always = task.walk.by_columns or several

    def block(self, block: VisitedBlock, product: int = 0) -> dict[int, int]:
        """By input, the cycle from which an instruction may be taken that reads the block.
        ``product``: the first cycle in which its row of the product could come."""
        begin = max(self.next_begin, self.released.popleft() + 1)
        found: dict[int, int] = {}
        asks = begin + 1
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
        if stream.kind in GATHERED:
            return self._gathered(stream, block, asks)
        self._empty(block)
        rows, holds = self._pieces(stream, block)
        side = self.vector.block
        count = {Kind.MASK: block.i}.get(Kind(stream.kind), block.i * side if rows > 1 else 0)
        if stream.kind in (Kind.COLUMN, Kind.ROW, Kind.LABELS):
            count = 0
        first = self.segments.begin(asks, count)
        self._requests(first, rows, holds)
        return self.segments.entered + 1

    def _gathered(self, stream: Descriptor, block: VisitedBlock, asks: int) -> int:
        if block.first or self.lists_always:
            holds = list(self._shared(block.rows, 32))
            first = self.segments.begin(asks, 0)
            self._requests(first, 1, holds)
            asks = self.beat + LISTED
        self._empty(block)
        bits = ELEMENT_BITS[Kind(stream.kind)]
        holds = [1] * self.vector.beats(block.cols, bits)
        for _ in range(block.rows):
            first = self.segments.begin(asks + GATHERED_CYCLES - 1, 0, GATHERED_DIGITS)
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
