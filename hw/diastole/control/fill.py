"""The load unit's second half: puts what the requests bring into the scratchpads."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole.control.describe import BlockDescribe, block_layout
from diastole.control.descriptors import chunk_layout
from diastole.control.parse import RegionParse, max_mantissa_beats
from diastole.control.region import region_layout
from diastole.emit.place import place
from diastole.memory.maxima import NAMES, lookup_layout
from diastole.plan import GROUP, Plan
from diastole.stream.fifo import StreamFifo
from diastole.stream.turn import Turn
from diastole.stream.unpack import Unpack

BLOCKS_AHEAD = 4  # descriptions of blocks that wait for their vectors


def scratch_write_layout(plan: Plan) -> data.StructLayout:
    """One vector on its way into a scratchpad; ``addr`` counts vectors within the bank."""
    block = block_layout(plan).members
    kept = ("kind", "bank", "addr", "deficit", "deficit_north", "nonzero")
    element = unsigned(max(plan.mantissas) + 1)
    return data.StructLayout(
        {name: block[name] for name in kept} | {"elements": data.ArrayLayout(element, plan.block)}
    )


class Fill(wiring.Component):
    """Parse regions, describe their blocks, cut and turn their vectors, write them to the banks.

    When the last block of a chunk is written, its descriptor goes from ``chunks_in`` to
    ``chunks_out``. ``turn_stall``: a vector waits for the turning array.

    Timing: one vector per cycle, or one block per two cycles where that is slower (B = 1).
    """

    regions: stream.Interface
    data: stream.Interface
    chunks_in: stream.Interface
    chunks_out: stream.Interface
    write: data.View

    def __init__(self, plan: Plan):
        self.plan = plan
        chunk = stream.Signature(chunk_layout(plan))
        members = {
            "regions": In(stream.Signature(region_layout(plan))),
            "data": In(stream.Signature(unsigned(plan.data_width))),
            "chunks_in": In(chunk),
            "chunks_out": Out(chunk),
            "write_en": Out(1),
            "write": Out(scratch_write_layout(plan)),
            "maxima_write_en": Out(1),
            "maxima_write_select": Out(2),
            "maxima_write_addr": Out(range(plan.maxima_depth)),
            "maxima_write_data": Out(plan.data_width),
            "lookup_en": Out(1),
            "turn_stall": Out(1),
        }
        for name in NAMES[: 4 if plan.in_place else 2]:
            members[f"{name}_index"] = Out(lookup_layout(plan.maxima_depth, plan.beat_bytes))
            members[f"{name}_value"] = In(8)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        parse = RegionParse(plan)
        describe = BlockDescribe(plan)
        blocks = StreamFifo(block_layout(plan), BLOCKS_AHEAD)
        unpack = Unpack(
            beat=plan.data_width,
            vectors=tuple(plan.vector_bits(cls) for cls in range(3)),
            max_beats=max_mantissa_beats(plan),
            max_vectors=GROUP * plan.block,
        )
        turn = Turn(side=plan.block, width=max(plan.mantissas) + 1)
        units = {"parse": parse, "describe": describe, "blocks": blocks}
        for name, unit in (units | {"unpack": unpack, "turn": turn}).items():
            m.submodules[name] = place(unit, platform)
        wiring.connect(m, wiring.flipped(self.regions), parse.regions)
        wiring.connect(m, wiring.flipped(self.data), parse.data)
        wiring.connect(m, parse.groups, describe.groups)
        wiring.connect(m, parse.runs, unpack.run)
        wiring.connect(m, parse.mantissas, unpack.i)
        wiring.connect(m, describe.blocks, blocks.i)
        m.d.comb += [
            self.maxima_write_en.eq(parse.maxima_en),
            self.maxima_write_select.eq(parse.maxima_select),
            self.maxima_write_addr.eq(parse.maxima_addr),
            self.maxima_write_data.eq(parse.maxima_data),
            self.lookup_en.eq(describe.lookup_en),
        ]
        for name in describe.names:
            m.d.comb += [
                getattr(self, f"{name}_index").eq(getattr(describe, f"{name}_index")),
                getattr(describe, f"{name}_value").eq(getattr(self, f"{name}_value")),
            ]
        self._write(m, unpack.o, turn, blocks.o)
        return m

    def _write(self, m, vectors, turn, blocks):
        """Vectors, turned or not, meet the description of their block."""
        plan, head, write = self.plan, blocks.p, self.write
        vector = Signal(write.elements.shape())
        for cls, bits in enumerate(plan.mantissas):
            with m.If(vectors.p.kind == cls):
                m.d.comb += vector.eq(self._aligned(vectors.p.bits, bits))
        turns = vectors.p.mark  # the vector at hand goes through the turning array
        count = Signal(range(plan.block))
        arrived = Signal()
        taken = Signal()
        last = Signal()
        m.d.comb += [
            turn.i.payload.eq(vector),
            turn.i.valid.eq(vectors.valid & turns),
            self.turn_stall.eq(turn.i.valid & ~turn.i.ready),
            arrived.eq(Mux(head.turned, turn.o.valid, vectors.valid & ~turns)),
            last.eq((count == plan.block - 1) & head.last),
            taken.eq(blocks.valid & arrived & (~last | self.chunks_out.ready)),
            turn.o.ready.eq(taken & head.turned),
            vectors.ready.eq(Mux(turns, turn.i.ready, taken & ~head.turned)),
            blocks.ready.eq(taken & (count == plan.block - 1)),
            self.write_en.eq(taken & ~head.drop),
            write.elements.eq(Mux(head.turned, turn.o.payload, vector)),
            write.kind.eq(head.kind),
            write.bank.eq(head.bank),
            write.addr.eq(head.addr + count),
            write.deficit.eq(head.deficit),
            write.deficit_north.eq(head.deficit_north),
            write.nonzero.eq(head.nonzero),
            self.chunks_out.valid.eq(blocks.valid & arrived & last),
            self.chunks_out.payload.eq(self.chunks_in.payload),
            self.chunks_in.ready.eq(taken & last),
        ]
        with m.If(taken):
            m.d.sync += count.eq(Mux(count == plan.block - 1, 0, count + 1))

    def _aligned(self, bits, mantissa_bits: int):
        """A vector of one class in the widest class's elements: magnitude low, sign on top."""
        pad = max(self.plan.mantissas) - mantissa_bits
        width = mantissa_bits + 1
        elements = []
        for k in range(self.plan.block):
            element = bits[k * width : (k + 1) * width]
            elements.append(Cat(element[:-1], Const(0, pad), element[-1]))
        return Cat(*elements)
