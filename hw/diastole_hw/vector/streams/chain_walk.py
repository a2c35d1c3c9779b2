"""Visit the blocks of a chain's tensor, in memory or in the order of a product."""

from amaranth.hdl import Module, Mux, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.vector.core.chain_setup import chain_layout
from diastole_hw.vector.stream_layouts import VectorShape, visited_layout
from diastole_hw.vector.streams.block_walk import BlockWalk
from diastole_hw.vector.streams.product_walk import ProductWalk, tiles_layout


class ChainWalk(wiring.Component):
    """Visit every block of a chain's tensor once, in the order of the chain. A chain over memory
    has the order of :class:`diastole_hw.vector.streams.block_walk.BlockWalk`. A chain of a product
    has the order of :class:`diastole_hw.vector.streams.product_walk.ProductWalk`.

    Timing: as for the walk in use, 1 block per cycle. All outputs are functions of registers and of
    ``chain`` and ``tiles``.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    start : In(1)
        Pulse, after the last block of the previous walk.
    chain : In(chain_layout())
    tiles : In(tiles_layout())
        Tiles of the product. ``chain`` and ``tiles`` are stable from the start to the last block.
    blocks : Out(stream of visited_layout(shape))
    """

    chain: data.View
    tiles: data.View
    blocks: stream.Interface

    def __init__(self, shape: VectorShape):
        self.shape = shape
        super().__init__(
            {
                "start": In(1),
                "chain": In(chain_layout()),
                "tiles": In(tiles_layout()),
                "blocks": Out(stream.Signature(visited_layout(shape))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.over_memory = over_memory = BlockWalk(self.shape)
        m.submodules.of_product = of_product = ProductWalk(self.shape)
        chain, chosen = self.chain, self.chain.of_product
        m.d.comb += [
            *(getattr(over_memory, n).eq(chain[n]) for n in ("rows", "cols", "by_columns")),
            of_product.tiles.eq(self.tiles),
            over_memory.start.eq(self.start & ~chosen),
            of_product.start.eq(self.start & chosen),
            self.blocks.valid.eq(over_memory.blocks.valid | of_product.blocks.valid),
            Value.cast(self.blocks.payload).eq(
                Mux(
                    chosen,
                    Value.cast(of_product.blocks.payload),
                    Value.cast(over_memory.blocks.payload),
                )
            ),
            over_memory.blocks.ready.eq(self.blocks.ready),
            of_product.blocks.ready.eq(self.blocks.ready),
        ]
        return m
