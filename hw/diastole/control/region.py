"""Regions: which rectangles of blocks a chunk needs, and where they go (design: uses)."""

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data

from diastole.control.descriptors import POSITION, Region
from diastole.plan import GROUP, Plan
from diastole.uses import DY, PRODUCTS, Mode, Use, W, X

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
    entries = max(plan.stream_entries, plan.held_entries)
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
            "beats": range(blocks * entries // plan.beat_bytes + 3),  # maxima only
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
        with m.Switch(product.mode):
            for mode in PRODUCTS:
                with m.Case(mode):
                    self._product(step, self.plan.use(mode))
            if self.plan.fused:
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

    def _product(self, step, use: Use):
        m, first = self._m, self._chunk.first
        stream, held = use.stream, use.held
        with m.Switch(step):
            with m.Case(0):
                kind = Region.MAXIMA_WEST if use.north else Region.MAXIMA_SOUTH
                self._maxima(kind, stream, "t", use.stream_turned, first)
            with m.Case(1):
                kind = Region.MAXIMA_NORTH if use.north else Region.MAXIMA_EAST
                self._maxima(kind, held, "l", not use.held_by_lanes, first)
            with m.Case(5):
                rows, cols = ("l", "c") if use.held_by_lanes else ("c", "l")
                turned = use.held_turned
                self._blocks(Region.HELD, held, rows, cols, by_column=turned, turned=turned)
            with m.Case(6):
                turned = use.stream_turned
                rows, cols = ("c", "t") if turned else ("t", "c")
                kind = Region.WEST if use.north else Region.SOUTH
                self._blocks(kind, stream, rows, cols, by_column=not turned, turned=turned)

    def _fused(self, step, product):
        m, chunk = self._m, self._chunk
        once = chunk.first & chunk.first_tile
        turned = not self.plan.grouped(X)
        with m.Switch(step):
            with m.Case(0):
                self._maxima(Region.MAXIMA_SOUTH, X, "t", turned, chunk.first)
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
                rows, cols = ("c", "t") if turned else ("t", "c")
                self._blocks(Region.SOUTH, X, rows, cols, by_column=not turned, turned=turned)


def granules(blocks, granule: int):
    """``blocks`` rounded up to whole granules (a power of two)."""
    return (
        Mux(blocks[: granule.bit_length() - 1] != 0, (blocks | (granule - 1)) + 1, blocks)
        if granule > 1
        else blocks
    )
