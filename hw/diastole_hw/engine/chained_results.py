"""Pass results of the product engine to chains of the vector unit instead of memory.

A chain is a program that the vector unit applies to every block of a tensor.
"""

from amaranth.hdl import Assert, Module, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_hw.plan.modes import PRODUCTS, Mode
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.tokens import COMMAND_RESULT, COMMAND_RESULTS, product_layout
from diastole_hw.stream.fifo import StreamFifo
from diastole_hw.vector.streams.product_walk import tiles_layout

SIDES = ("rows", "cols")


class ChainedResults(wiring.Component):
    """Merge the chained results of both directions in the order of products, and describe how every
    result is cut into tiles.

    Timing: ``rows`` is combinational from the rows of the drains, and the drains' ready signals are
    combinational from ``rows.ready``. The ``tiles`` of a product are valid 3 cycles after
    ``started``.

    Parameters
    ----------
    plan : Plan
        Plan of a machine with a vector unit.

    Members
    -------
    started : In(1)
        Pulse: a product with a chain begins.
    mode, results : In(Mode), In(COMMAND_RESULTS)
        Mode and results of the product, valid with ``started``.
    product : In(product_layout(plan))
        Record of the product, 2 cycles later; its loop nest is read.
    tiles : Out(stream of tiles_layout())
        Lengths of the tiles of every chained product, in order. At most two words wait: the reader
        must accept the tiles of a product before its last row.
    east, north : In(stream of B times unsigned(32))
        Rows of blocks from the drains of ``plan.directions``.
    east_first, north_first : In(1)
        True if the rows belong to the oldest product in flight, and may pass.
    rows : Out(stream of B times unsigned(32))
        Rows of blocks of all chained products, one product after another.
    """

    product: data.View
    results: data.View
    tiles: stream.Interface
    rows: stream.Interface

    def __init__(self, plan: Plan):
        self.plan = plan
        rows = stream.Signature(data.ArrayLayout(unsigned(32), plan.block))
        super().__init__(
            {
                "started": In(1),
                "mode": In(Mode),
                "results": In(COMMAND_RESULTS),
                "product": In(product_layout(plan)),
                "tiles": Out(stream.Signature(tiles_layout())),
                "rows": Out(rows),
            }
            | {name: In(rows) for name in plan.directions}
            | {f"{name}_first": In(1) for name in plan.directions}
        )

    def elaborate(self, platform):
        m = Module()
        tiles, product = StreamFifo(tiles_layout(), 2), self.product
        m.submodules.tiles_queue = tiles
        record_valid = Signal()  # the record of the product is valid
        rows, cols = (data_register(COMMAND_RESULT[name].shape, name=name) for name in SIDES)
        with m.If(self.started):
            for mode in PRODUCTS:
                result = self.results["north" if self.plan.use(mode).north else "east"]
                with m.If(self.mode == mode):
                    m.d.sync += [rows.eq(result.rows), cols.eq(result.cols)]
        begun = Signal()
        m.d.sync += [begun.eq(self.started), record_valid.eq(begun)]
        m.d.comb += [
            tiles.i.valid.eq(record_valid),
            tiles.i.p.rows.eq(rows),
            tiles.i.p.cols.eq(cols),
            tiles.i.p.t_step.eq(product.t_step),
            tiles.i.p.l_step.eq(product.l_step),
            tiles.i.p.lanes_outermost.eq(product.lanes_outermost),
        ]
        wiring.connect(m, tiles.o, wiring.flipped(self.tiles))
        m.d.sync += Assert(~record_valid | tiles.i.ready, "tiles of a product were never asked for")
        offered = []
        for name in self.plan.directions:
            side, first = getattr(self, name), getattr(self, f"{name}_first")
            offers = Signal(name=f"{name}_offers")
            m.d.comb += [
                offers.eq(side.valid & first),
                side.ready.eq(self.rows.ready & first),
            ]
            with m.If(offers):
                m.d.comb += [
                    self.rows.valid.eq(1),
                    Value.cast(self.rows.payload).eq(Value.cast(side.payload)),
                ]
            offered.append(offers)
        if len(offered) > 1:
            m.d.sync += Assert(~(offered[0] & offered[1]), "rows of two results at once")
        return m
