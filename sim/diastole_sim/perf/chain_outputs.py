"""Model the outputs of a chain in time: waiting rows, beats, and responses."""

from collections import deque

from diastole_sim.perf.chain_inputs import SegmentTimes
from diastole_sim.perf.modelled_vector import WRITTEN, ChainTask, ModelledVector, VisitedBlock
from diastole_sim.perf.result_store import RESPONSE_TO_BEAT
from diastole_sim.perf.streamed_conversion import StreamedConversion
from diastole_sim.spec.integers import ceil_div
from diastole_sim.spec.sizes.queues import OPEN_WRITES, OUTPUT_BLOCKS, OUTPUT_REQUESTS, image_rows
from diastole_sim.spec.stream_table import ELEMENT_BITS, ROW_BY_ROW, Kind

LEAVES = 2
"""Cycles from a row's arrival until the row leaves."""
ACCEPT_CYCLES = 2
"""Cycles from a write request to its first beat."""


class ChainOutputs:
    """Rows of blocks, in the order of the instructions' outputs. ``now``: earlier cycles do not
    matter."""

    def __init__(self, vector: ModelledVector, task: ChainTask, now: int):
        self.vector, self.task = vector, task
        self.segments = SegmentTimes()
        self.packed = deque([now - 2] * OUTPUT_BLOCKS)
        self.requested = deque([now - 2] * OUTPUT_REQUESTS)
        self.row = self.beat = now - 1
        self.responses: deque[int] = deque([now - 2] * OPEN_WRITES)
        self.written = 0
        self.write_beats = 0
        self.image: StreamedConversion | None = None
        self.image_rows = deque([now - 2] * image_rows(vector.data_width))
        self.image_row = now - 1
        for each in task.outputs.values():
            if each.kind == Kind.IMAGE:
                self.image = StreamedConversion(vector, each, task, now)

    @property
    def free_cycle(self) -> int:
        """First cycle in which an instruction may output a block."""
        return max(self.packed[0], self.requested[0]) + 1

    @property
    def idle(self) -> int:
        """First cycle in which all rows have left, except rows of an image."""
        return max(self.row, self.segments.last) + 1

    @property
    def last_response(self) -> int:
        """Cycle in which all outputs are in memory."""
        return self.written if self.image is None else max(self.written, self.image.last_response)

    def write_block(self, number: int, block: VisitedBlock, accepted: int) -> None:
        """Output a block of an instruction that is ``accepted`` in a cycle."""
        self.packed.popleft()
        self.requested.popleft()
        kind = Kind(self.task.outputs[number].kind)
        per_row = self._beats(kind, block)
        requests = self._request(kind, block, accepted, per_row)
        pending: deque[int] = deque(requests)
        for row in range(self.vector.block):
            self.row = max(self.row + 1, accepted + 1 + row + WRITTEN + LEAVES)
            if kind == Kind.IMAGE:
                self._write_row(block, row)
            begins = pending.popleft() + ACCEPT_CYCLES if pending and per_row[row] else 0
            for _ in range(per_row[row]):
                self.beat = max(self.beat + 1, self.row, begins)
                self.row = self.beat
                self.write_beats += 1
            if per_row[row] and self._ends(kind, row, per_row):
                self.written = self.beat + self.vector.memory.response_cycles
                self.responses[-1 - len(pending)] = self.written
        self.packed.append(self.row)
        if self.image is not None and kind == Kind.IMAGE:
            self.image.block(block, self.image_row)

    def _ends(self, kind: Kind, row: int, per_row: list[int]) -> bool:
        return kind != Kind.MASK or not any(per_row[row + 1 :])

    def _write_row(self, block: VisitedBlock, row: int) -> None:
        """Pass a row of an image to the queue before the converter. The converter takes rows word
        by word if the converter has space for the tile."""
        assert self.image is not None
        self.row = max(self.row, self.image_rows.popleft() + 1)
        self.image_row = max(self.image_row, self.row) + 1
        if block.first and row == 0:
            self.image_row = max(self.image_row, self.image.free)
        if row < block.rows:
            self.image_row += max(1, ceil_div(32 * block.cols, self.vector.data_width)) - 1
        self.image_rows.append(self.image_row)

    def _beats(self, kind: Kind, block: VisitedBlock) -> list[int]:
        """Return the beats of every row of a block."""
        vector, side = self.vector, self.vector.block
        if kind in ROW_BY_ROW:
            beats = vector.beats(block.cols, ELEMENT_BITS[kind])
            return [beats if row < block.rows else 0 for row in range(side)]
        if kind == Kind.MASK:
            rows_per_beat = max(1, min(side, vector.data_width // side))
            return [int((row + 1) % rows_per_beat == 0) for row in range(side)]
        if kind == Kind.ROW and block.last:
            return [int(row < block.rows) for row in range(side)]
        if kind == Kind.COLUMN and block.last:
            return [vector.beats(block.cols, 32), *[0] * (side - 1)]
        return [0] * side

    def _request(
        self, kind: Kind, block: VisitedBlock, accepted: int, per_row: list[int]
    ) -> list[int]:
        """Return the cycles of a block's requests."""
        if not any(per_row):
            self.requested.append(accepted + 1)
            return []
        by_block = kind in (Kind.MASK, Kind.COLUMN)
        count = {Kind.MASK: block.i, Kind.COLUMN: 0, Kind.ROW: 0}.get(
            kind, block.i * self.vector.block
        )
        first = self.segments.begin(accepted + 1, count)
        self.requested.append(self.segments.entered)
        cycles: list[int] = []
        request = first - 1
        for _ in range(1 if by_block else sum(map(bool, per_row))):
            request = max(request + 1, self.responses.popleft() + RESPONSE_TO_BEAT - ACCEPT_CYCLES)
            self.responses.append(request)
            cycles.append(request)
        self.segments.last = request
        return cycles
