"""Model the conversion of an image that a chain delivers by rows of blocks, or patch by patch."""

from diastole_sim.perf.conversion_estimate import (
    LANE_START,
    ConversionRun,
    TileReading,
    slot_cycles,
)
from diastole_sim.perf.modelled_converter import ModelledConverter
from diastole_sim.perf.modelled_vector import ChainTask, ModelledVector, VisitedBlock
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.stream_table import Descriptor

RELEASE_CYCLES = -2
"""Cycles from the cycle after the image's last beat to the end of its chain."""


class StreamedReading(TileReading):
    """Tiles whose blocks have arrived in known cycles."""

    def __init__(self, converter: ModelledConverter, vector: ModelledVector, start: int):
        super().__init__(converter, vector.memory, start)
        self.block = vector.block
        self.came: list[int] = []  # last arrival per block column of the current tiles

    def tile(self, rows: int, cols: int, free: int) -> list[int]:
        """Return when the pieces of a tile are known, as :meth:`TileReading.tile` does. ``free`` is
        ignored: the source of the blocks has already waited for it."""
        piece_cycles: list[int] = []
        col = 0
        for width in self.converter.pieces(cols):
            last = -(-(col + width) // self.block)
            self.accepted = max(self.came[:last])
            piece_cycles.append(self.accepted + LANE_START + self.converter.measure_cycles)
            col += width
        del self.came[: -(-cols // self.block)]
        return piece_cycles


class StreamedConversion:
    """Conversion of an image output of a chain. ``now``: first cycle in which rows of the image may
    arrive."""

    def __init__(self, vector: ModelledVector, image: Descriptor, task: ChainTask, now: int):
        self.converter = ModelledConverter(
            numerics=vector.numerics,
            tensor_class=CLASS_NAMES[image.tensor_class],
            data_width=vector.data_width,
        )
        self.walk = task.walk
        now += slot_cycles(vector.numerics, image.aux)
        self.run = ConversionRun(self.converter, vector.memory, task.walk.rows, task.walk.cols)
        self.run.begin_at(now)
        self.run.reading = self.reading = StreamedReading(self.converter, vector, now)
        self.came = [now] * task.walk.block_cols
        self.left = 0  # first block column of the current line
        self.finished: int | None = None

    @property
    def free(self) -> int:
        """First cycle with space for another tile."""
        return self.run.places[0] + 1

    def block(self, block: VisitedBlock, cycle: int) -> None:
        """Add a block whose last row arrived in ``cycle``."""
        self.came[block.j] = max(self.came[block.j], cycle)
        if block.first:
            self.left = block.j
        bottom = (block.i + 1) * self.walk.block
        whole = bottom % self.converter.tile_rows == 0 or bottom >= self.walk.rows
        if whole and block.last:
            side, tile_rows = self.walk.block, self.converter.tile_rows
            after = block.j + 1
            self.reading.came = self.came[self.left : after]
            top = (bottom - 1) // tile_rows * tile_rows
            self.run.tiles(top, self.left * side, min(after * side, self.walk.cols))

    def end(self) -> int:
        """Return the first cycle in which the chain may end, after all blocks have arrived."""
        if self.finished is None:
            self.finished = self.run.finish()
        return self.finished + RELEASE_CYCLES

    @property
    def last_response(self) -> int:
        """Cycle in which the whole image is in memory."""
        return self.end() - RELEASE_CYCLES + self.run.memory.response_cycles
