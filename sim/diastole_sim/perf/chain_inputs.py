"""Model the inputs of a chain in time: requests, beats, and blocks in buffers."""

from collections import deque
from collections.abc import Iterator

from diastole_sim.perf.drawn_inputs import DrawnTimes
from diastole_sim.perf.modelled_vector import ChainTask, ModelledVector, VisitedBlock
from diastole_sim.spec.sizes.queues import DIGIT_BITS, INPUT_BLOCKS, OPEN_READS
from diastole_sim.spec.stream_table import ELEMENT_BITS, GATHERED, IN_MEMORY, Descriptor, Kind

LOCATED = 3
"""Cycles from a number of a list to the row's address, without the cycles of the number's
digits."""
NUMBER_CYCLES = 4
"""Cycles of every number of a list if several numbers wait, for numbers of 256 to 4095."""
REPEAT_CYCLES = 1
"""Cycles before the write of an input that lies in beats of the block before."""
COUNTED = 1
"""Cycles from a block's last beat until an instruction may be taken."""


class SegmentTimes:
    """Times of requests for the rows of blocks. A block is located while earlier blocks are
    requested.

    ``entered``: cycle in which the last block was taken. ``accepted``: cycle in which the next
    block may be taken. ``last``: cycle of the last request.
    """

    def __init__(self) -> None:
        self.entered = self.accepted = self.last = -1

    def begin(self, offered: int, count: int, digits: int | None = None) -> int:
        """Offer a block; return the cycle of its first request. ``count``: number of rows before
        the block. ``digits``: digits of the number, by default computed from ``count``."""
        if digits is None:
            digits = -(-count.bit_length() // DIGIT_BITS)
        self.entered = max(offered, self.accepted)
        moves = max(self.entered + 1 + digits, self.last)
        self.accepted = moves
        return moves + 1


class ChainInputs:
    """Blocks of all inputs, requested four blocks ahead. ``now``: cycle in which the first block is
    offered."""

    def __init__(self, vector: ModelledVector, task: ChainTask, now: int):
        self.vector, self.task = vector, task
        self.next_begin = now
        self.segments = SegmentTimes()
        self.beat = now  # cycle of the last beat
        self.open = deque([now - 1] * OPEN_READS)  # when bursts have arrived
        self.released = deque([now - 2] * INPUT_BLOCKS)
        self.product = now  # the cycle after the last row of a product
        self.read_beats = 0
        kinds = {each.kind for each in task.inputs.values()}
        self.drawn = DrawnTimes(vector.block, task.walk.cols, now) if Kind.DRAWS in kinds else None
        self.several = sum(each.kind in GATHERED for each in task.inputs.values()) > 1
        self.lists_always = task.walk.by_columns or self.several
        self.located: list[int] = []  # when the rows of the present line's list are located
        self.located_ahead: list[int] = []  # the same for the next line

    def block(self, block: VisitedBlock, product: int = 0) -> dict[int, int]:
        """Return, for every input, the cycle from which an instruction that reads the block may be
        taken. ``product``: first cycle in which a row of the product could arrive."""
        begin = max(self.next_begin, self.released.popleft() + 1)
        if self.drawn is not None:
            begin = max(begin, self.drawn.ready)
            self.drawn.begin(block, begin)
        input_cycles: dict[int, int] = {}
        request = begin
        for number, stream in sorted(self.task.inputs.items()):
            if stream.kind == Kind.PRODUCT:
                self.product = max(self.product, product, begin + 1) + self.vector.block
                input_cycles[number] = self.product - 1 + COUNTED
            elif stream.kind == Kind.DRAWS:
                assert self.drawn is not None
                input_cycles[number] = self.drawn.done + COUNTED
            elif stream.kind in IN_MEMORY:
                request = self._input(stream, block, request)
                input_cycles[number] = self.beat + COUNTED
        self.next_begin = request
        return input_cycles

    def release(self, cycle: int) -> None:
        """Give back the oldest block in ``cycle``."""
        self.released.append(cycle)

    def _input(self, stream: Descriptor, block: VisitedBlock, requests: int) -> int:
        """Request an input of a block; return the cycle in which the next input may be offered."""
        gathered = stream.kind in GATHERED
        if gathered and block.first and self._lists_ahead:
            self.located = self.located_ahead
        if gathered and self._lists_now(block):
            self.located, requests = self._list(block.rows, requests)
        self._empty(block)
        rows, holds = self._pieces(stream, block)
        if self._again(stream, block):
            self.beat = max(self.beat, requests) + REPEAT_CYCLES + rows * sum(holds)
            return requests + 1
        if gathered:
            requests = self._gathered(rows, holds, requests)
        else:
            by_row = stream.kind not in (Kind.COLUMN, Kind.ROW, Kind.LABELS, Kind.MASK)
            count = block.i * self.vector.block * by_row
            count = block.i if stream.kind == Kind.MASK else count
            first = self.segments.begin(requests, count)
            self._requests(first, rows, holds)
            requests = self.segments.entered + 1
        if gathered and block.first and self._lists_ahead:
            left = self.task.walk.rows - (block.i + 1) * self.vector.block
            if left > 0:
                rows = min(left, self.vector.block)
                self.located_ahead, requests = self._list(rows, requests)
        return requests

    @property
    def _lists_ahead(self) -> bool:
        """True if a list is read before the blocks of its line begin."""
        return not (self.lists_always or self.task.of_product)

    def _lists_now(self, block: VisitedBlock) -> bool:
        if self._lists_ahead:
            return block.first and block.i == 0
        return block.first or self.lists_always

    def _again(self, stream: Descriptor, block: VisitedBlock) -> bool:
        """Return whether an input of the block lies in the beats of the block before."""
        kind, width = Kind(stream.kind), self.vector.data_width
        if block.first or self.task.walk.by_columns or (kind in GATHERED and self.several):
            return False
        if kind in (Kind.ROW, Kind.LABELS):
            return True
        side = self.vector.block
        bits = side * (side if kind == Kind.MASK else ELEMENT_BITS[kind])
        return block.j % max(1, width // bits) != 0

    def _list(self, rows: int, requests: int) -> tuple[list[int], int]:
        """Read the numbers of a line's rows; return the cycles in which the rows are located, and
        the cycle in which the next piece may be offered."""
        first = self.segments.begin(requests, 0)
        self._requests(first, 1, list(self._shared(rows, 32)))
        begun = self.beat - rows + 1
        located = [begun + LOCATED + NUMBER_CYCLES * (row + 1) for row in range(rows)]
        return located, self.segments.entered + 1

    def _gathered(self, rows: int, bits: list[int], requests: int) -> int:
        """Request the gathered rows of a block after they are located."""
        for row in range(rows):
            first = self.segments.begin(max(requests, self.located[row] + 1), 0)
            self._requests(first, 1, bits)
            requests = self.segments.entered + 1
        return requests

    def _empty(self, block: VisitedBlock) -> None:
        """Add a cycle for a row of zeros if the block has rows outside the tensor."""
        if block.rows < self.vector.block:
            self.beat += 1

    def _pieces(self, stream: Descriptor, block: VisitedBlock) -> tuple[int, list[int]]:
        """Return the requested rows of a block, and for a row the cycles of every beat."""
        vector, kind = self.vector, Kind(stream.kind)
        if kind in (Kind.ROW, Kind.LABELS):
            return 1, list(self._shared(block.rows, 32))
        if kind == Kind.MASK:
            return 1, list(self._shared(block.rows, vector.block))
        beats = vector.beats(block.cols, ELEMENT_BITS[kind])
        return (1 if kind == Kind.COLUMN else block.rows), [1] * beats

    def _shared(self, rows: int, bits: int) -> Iterator[int]:
        """Yield the number of rows in every beat. ``bits``: bits of a row."""
        max_rows = min(self.vector.block, max(1, self.vector.data_width // bits))
        for begin in range(0, rows, max_rows):
            yield min(max_rows, rows - begin)

    def _requests(self, first: int, rows: int, holds: list[int]) -> None:
        """Send ``rows`` requests, one per cycle from ``first`` on. ``holds``: cycles of the beats
        of a request."""
        request = first - 1
        for _ in range(rows):
            request = max(request + 1, self.open.popleft() + 1)
            came = request + self.vector.memory.read_cycles
            for cycles in holds:
                self.beat = max(self.beat + cycles, came + cycles - 1)
            self.open.append(self.beat)
            self.read_beats += len(holds)
        self.segments.last = request
