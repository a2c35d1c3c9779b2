"""Compute regions: the rectangles of blocks that a chunk needs, and where the blocks go."""

from amaranth.hdl import Module, Mux
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.plan.modes import PRODUCTS, Mode
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.tokens import PLANE, POSITION, Region, chunk_layout, region_layout
from diastole_sim.spec.sizes.uses import DY, Use, W, X

STEPS = 7  # of a chunk: maxima, then west, stationary and stream regions
MAXIMA_STEPS = 4


class RegionSteps(wiring.Component):
    """Compute for every step of a chunk its memory request and the destination of the data.

    A step of blocks requests rows ``row0`` to ``row0 + rows - 1`` and columns ``col0`` to
    ``col0 + cols - 1`` of the blocks of a tensor. A step of maxima requests ``rows`` entries from
    ``entry0`` on: maxima of the tensor's columns with ``maxima_of_columns``, else of its rows.
    Where the class is in vector groups, an entry means the maxima of the B rows of a block.

    Data that stay from earlier chunks are not requested again. Maxima are requested with the first
    chunk of a tile, and blocks if the chunk says that it loads them. In the fused pass W is also
    requested with the first chunk of a tile, and all maxima of dY with the very first chunk.

    Timing: combinational.

    Members
    -------
    step : In(range(STEPS))
        Step of ``chunk``. Outputs that depend on the step have a meaning only for a step that the
        chunk needs (``needed``).
    chunk : In(chunk_layout(plan))
    mode : In(Mode)
    c_blocks : In(POSITION)
        Blocks along the contraction of the whole product, as in ``PRODUCT``.
    offered : In(chunk_layout(plan))
    needed : Out(STEPS)
        For every step, whether the chunk ``offered`` needs the step.
    kind : Out(Region)
    tensors : Out(STEPS of 2)
        Class of the tensor of every step: a function of ``mode``.
    entry0 : Out(POSITION)
        First entry of a step of maxima.
    row0, col0 : Out(POSITION)
        First row and column of a step of blocks.
    rows, cols : Out(region_layout(plan)["rows"].shape)
        Numbers of rows and columns. ``col0`` and ``cols`` are 0 in a step of maxima.
    by_column : Out(1)
        The bank of a block is selected by its column, else by its row.
    transposed : Out(1)
        Blocks are transposed while they are loaded.
    maxima_of_columns : Out(1)
    last : Out(1)
        No later step of the chunk requests data of this kind: maxima, or blocks.
    plane : Out(PLANE)
        Plane of the tensor whose blocks are requested; only in a machine with planes.
    """

    chunk: data.View

    def __init__(self, plan: Plan):
        self.plan = plan
        blocks = region_layout(plan)["rows"].shape
        super().__init__(
            {
                "step": In(range(STEPS)),
                "chunk": In(chunk_layout(plan)),
                "mode": In(Mode),
                "c_blocks": In(POSITION),
                "offered": In(chunk_layout(plan)),
                "needed": Out(STEPS),
                "kind": Out(Region),
                "tensors": Out(data.ArrayLayout(2, STEPS)),
                "entry0": Out(POSITION),
                "row0": Out(POSITION),
                "col0": Out(POSITION),
                "rows": Out(blocks),
                "cols": Out(blocks),
                "by_column": Out(1),
                "transposed": Out(1),
                "maxima_of_columns": Out(1),
                "last": Out(1),
            }
            | ({"plane": Out(PLANE)} if plan.planar else {})
        )

    def elaborate(self, platform):
        m = Module()
        # In every mode, steps of T and steps of lanes alternate. Whole addresses depend on this
        # choice.
        m.d.comb += self.entry0.eq(Mux(self.step[0], self.chunk.l0, self.chunk.t0))
        with m.Switch(self.mode):
            for mode in PRODUCTS:
                with m.Case(mode):
                    self._product(m, self.plan.use(mode))
            if self.plan.fused:
                with m.Case(Mode.FUSED):
                    self._fused(m)
        if self.plan.planar:
            m.d.comb += self.plane.eq(self.chunk.stream_plane)
            with m.If(self.kind == Region.STATIONARY):
                m.d.comb += self.plane.eq(self.chunk.stationary_plane)
        return m

    @staticmethod
    def _once(chunk):
        """Return whether a chunk is the first chunk of the product."""
        return chunk.first & chunk.first_t & chunk.first_l

    def _tensors(self, m, classes):
        m.d.comb += [self.tensors[step].eq(cls) for step, cls in classes.items()]

    def _need(self, m, steps):
        m.d.comb += [self.needed[step].eq(needed) for step, needed in steps.items()]

    def _maxima(self, m, kind, count, of_columns, *, last=0):
        m.d.comb += [
            self.kind.eq(kind),
            self.rows.eq(count),
            self.maxima_of_columns.eq(of_columns),
            self.last.eq(last),
        ]

    def _blocks(self, m, kind, rows, cols, *, last=0, by_column=0, transposed=0):
        chunk = self.chunk
        axes = {
            "t": (chunk.t0, chunk.t_blocks),
            "l": (chunk.l0, chunk.l_blocks),
            "c": (chunk.c0, chunk.c_blocks),
        }
        m.d.comb += [
            self.kind.eq(kind),
            self.row0.eq(axes[rows][0]),
            self.rows.eq(axes[rows][1]),
            self.col0.eq(axes[cols][0]),
            self.cols.eq(axes[cols][1]),
            self.by_column.eq(by_column),
            self.transposed.eq(transposed),
            self.last.eq(last),
        ]

    def _product(self, m, use: Use):
        stream, stationary, streams = use.stream, use.stationary, self.chunk.load_stream
        offered = self.offered
        self._tensors(m, {0: stream, 1: stationary, 5: stationary, 6: stream})
        maxima = {0: offered.first, 1: offered.first}
        self._need(m, maxima | {5: offered.load_stationary, 6: offered.load_stream})
        with m.Switch(self.step):
            with m.Case(0):
                kind = Region.MAXIMA_WEST if use.north else Region.MAXIMA_SOUTH
                self._maxima(m, kind, self.chunk.t_blocks, use.stream_transposed)
            with m.Case(1):
                kind = Region.MAXIMA_NORTH if use.north else Region.MAXIMA_EAST
                self._maxima(m, kind, self.chunk.l_blocks, not use.stationary_by_lanes, last=1)
            with m.Case(5):
                rows, cols = ("l", "c") if use.stationary_by_lanes else ("c", "l")
                transposed = use.stationary_transposed
                self._blocks(
                    m, Region.STATIONARY, rows, cols,
                    last=~streams, by_column=transposed, transposed=transposed,
                )  # fmt: skip
            with m.Case(6):
                transposed = use.stream_transposed
                rows, cols = ("c", "t") if transposed else ("t", "c")
                kind = Region.WEST if use.north else Region.SOUTH
                self._blocks(
                    m, kind, rows, cols,
                    last=1, by_column=not transposed, transposed=transposed,
                )  # fmt: skip

    def _fused(self, m):
        chunk, planar = self.chunk, self.plan.planar
        transposed = not self.plan.grouped(X)
        self._tensors(m, dict(enumerate((X, DY, W, DY, W, DY, X))))
        once, offered = self._once(chunk), self.offered
        due, first = self._once(offered), offered.first
        west = offered.load_west if planar else first
        blocks = {4: west, 5: offered.load_stationary, 6: offered.load_stream}
        self._need(m, {0: first, 1: due, 2: first, 3: due} | blocks)
        with m.Switch(self.step):
            with m.Case(0):
                self._maxima(m, Region.MAXIMA_SOUTH, chunk.t_blocks, transposed)
            with m.Case(1):
                self._maxima(m, Region.MAXIMA_EAST, chunk.l_blocks, 1)
            with m.Case(2):
                self._maxima(m, Region.MAXIMA_WEST, chunk.t_blocks, 0, last=~once)
            with m.Case(3):  # l0 is 0: all of N is one lane tile, and so is all of M
                self._maxima(m, Region.MAXIMA_NORTH, self.c_blocks, 0, last=1)
            with m.Case(4):
                self._blocks(
                    m, Region.WEST, "t", "l",
                    last=~chunk.load_stationary & ~chunk.load_stream if planar else 0, by_column=1,
                )  # fmt: skip
            with m.Case(5):
                self._blocks(
                    m, Region.STATIONARY, "c", "l", last=~chunk.load_stream if planar else 0,
                )  # fmt: skip
            with m.Case(6):
                rows, cols = ("c", "t") if transposed else ("t", "c")
                self._blocks(
                    m, Region.SOUTH, rows, cols,
                    last=1, by_column=not transposed, transposed=transposed,
                )  # fmt: skip


def granules(blocks, granule: int):
    """Return the number ``blocks``, rounded up to a multiple of ``granule``, a power of two."""
    return (
        Mux(blocks[: granule.bit_length() - 1] != 0, (blocks | (granule - 1)) + 1, blocks)
        if granule > 1
        else blocks
    )
