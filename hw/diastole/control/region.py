"""Regions: which rectangles of blocks a chunk needs, and where they go (design: uses)."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data

from diastole.control.descriptors import POSITION, Mode, Region
from diastole.plan import GROUP, Plan

X, W, DY = range(3)
STEPS = 7  # of a chunk: four maxima, then the west, held and stream regions


def region_layout(plan: Plan) -> data.StructLayout:
    """One rectangle of blocks (or run of maxima) on its way from memory to a scratchpad."""
    blocks = max(
        plan.tile_blocks,
        plan.groups * max(plan.rows, plan.cols),
        plan.chunk(plan.rows),
        plan.chunk(plan.cols),
        plan.fused_blocks_n,
        plan.fused_blocks_m,
    )
    return data.StructLayout(
        {
            "kind": Region,
            "cls": unsigned(2),
            "rows": range(blocks + 1),
            "cols": range(blocks + 1),
            "offset": range(GROUP),  # block of its group in which the first column stands
            "by_column": 1,  # which bank: by the block's column, or by its row
            "turned": 1,
            "stream_offset": range(plan.beat_bytes),  # of the tile's first maximum in its beat
            "held_offset": range(plan.beat_bytes),
            "beats": range(blocks // plan.beat_bytes + 3),  # maxima only
            "index": range(plan.fused_slices_m + 1),
            "c0": range(plan.fused_blocks_m + 1),
            "fused": 1,
            "tile": 2,
            "half": 1,
            "west_half": 1,
            "last": 1,  # region of its chunk
        }
    )


class RegionSteps:
    """Combinational table: for step ``step`` of ``chunk``, whether there is a region, and which.

    Signals after :meth:`elaborate`: ``enabled``, ``kind``, ``tensor`` (class), ``row0``, ``rows``,
    ``col0``, ``cols``, ``by_column``, ``turned``, ``maxima_of_columns``. A maxima step uses
    ``row0`` and ``rows`` as its first entry and count.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        size = len(data.View(region_layout(plan), Signal(region_layout(plan).size)).rows)
        self.enabled = Signal()
        self.kind = Signal(Region)
        self.tensor = Signal(2)
        self.row0 = Signal(POSITION, name="row0")
        self.col0 = Signal(POSITION, name="col0")
        self.rows = Signal(size, name="rows")
        self.cols = Signal(size, name="cols")
        self.by_column = Signal()
        self.turned = Signal()
        self.maxima_of_columns = Signal()

    def elaborate(self, m: Module, step, chunk, product):
        self._m, self._chunk = m, chunk
        mode = product.mode
        with m.Switch(mode):
            with m.Case(Mode.FORWARD):
                self._product(step, X, W, cols_t=False, held_rows="c", cols_maxima=True)
            with m.Case(Mode.DX):
                self._product(step, DY, W, cols_t=False, held_rows="l", cols_maxima=False)
            with m.Case(Mode.DW):
                self._product(step, X, DY, cols_t=True, held_rows="c", cols_maxima=True)
            if self.plan.in_place:
                with m.Case(Mode.FUSED):
                    self._fused(step, product)

    def _maxima(self, kind, tensor, axis, of_columns, enabled, count=None):
        m, chunk = self._m, self._chunk
        first, length = {"t": (chunk.t0, chunk.t_blocks), "l": (chunk.l0, chunk.l_blocks)}[axis]
        m.d.comb += [
            self.enabled.eq(enabled),
            self.kind.eq(kind),
            self.tensor.eq(tensor),
            self.row0.eq(first),
            self.rows.eq(length if count is None else count),
            self.maxima_of_columns.eq(of_columns),
        ]

    def _blocks(self, kind, tensor, rows, cols, *, enabled=1, by_column=0, turned=0):
        m, chunk = self._m, self._chunk
        axes = {
            "t": (chunk.t0, chunk.t_blocks),
            "l": (chunk.l0, chunk.l_blocks),
            "c": (chunk.c0, chunk.c_blocks),
        }
        m.d.comb += [
            self.enabled.eq(enabled),
            self.kind.eq(kind),
            self.tensor.eq(tensor),
            self.row0.eq(axes[rows][0]),
            self.rows.eq(axes[rows][1]),
            self.col0.eq(axes[cols][0]),
            self.cols.eq(axes[cols][1]),
            self.by_column.eq(by_column),
            self.turned.eq(turned),
        ]

    def _product(self, step, stream, held, *, cols_t, held_rows, cols_maxima):
        """``cols_t``: T runs along the stream's columns; ``cols_maxima``: lanes along the held."""
        m, first = self._m, self._chunk.first
        dx = held_rows == "l"
        west = dx and self.plan.in_place
        edge = dx and not self.plan.in_place
        with m.Switch(step):
            with m.Case(0):
                kind = Region.MAXIMA_WEST if west else Region.MAXIMA_SOUTH
                self._maxima(kind, stream, "t", cols_t, first)
            with m.Case(1):
                kind = Region.MAXIMA_NORTH if west else Region.MAXIMA_EAST
                self._maxima(kind, held, "l", cols_maxima, first)
            with m.Case(5):
                rows, cols = ("l", "c") if dx else ("c", "l")
                self._blocks(Region.HELD, held, rows, cols, by_column=edge, turned=edge)
            with m.Case(6):
                rows, cols = ("c", "t") if cols_t else ("t", "c")
                kind = Region.WEST if west else Region.SOUTH
                self._blocks(kind, stream, rows, cols, by_column=not cols_t, turned=cols_t)

    def _fused(self, step, product):
        m, chunk = self._m, self._chunk
        once = chunk.first & chunk.first_tile
        with m.Switch(step):
            with m.Case(0):
                self._maxima(Region.MAXIMA_SOUTH, X, "t", 1, chunk.first)
            with m.Case(1):
                self._maxima(Region.MAXIMA_EAST, DY, "l", 1, once)
            with m.Case(2):
                self._maxima(Region.MAXIMA_WEST, W, "t", 0, chunk.first)
            with m.Case(3):  # l0 is 0: all of N is one lane tile, and so is all of M
                self._maxima(Region.MAXIMA_NORTH, DY, "l", 0, once, count=product.c_blocks)
            with m.Case(4):
                self._blocks(Region.WEST, W, "t", "l", enabled=chunk.first, by_column=1)
            with m.Case(5):
                self._blocks(Region.HELD, DY, "c", "l", enabled=chunk.first_tile)
            with m.Case(6):
                self._blocks(Region.SOUTH, X, "c", "t", turned=1)


def granules(blocks, granule: int):
    """``blocks`` rounded up to whole granules (a power of two)."""
    return (
        Mux(blocks[: granule.bit_length() - 1] != 0, (blocks | (granule - 1)) + 1, blocks)
        if granule > 1
        else blocks
    )
