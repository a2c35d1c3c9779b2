"""The load unit's second half: puts what the requests bring into the scratchpads."""

from contextlib import nullcontext

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole.array.signature import SIGNIFICAND_BITS
from diastole.control.describe import BlockDescribe, block_layout, lookup_members
from diastole.control.descriptors import chunk_layout
from diastole.control.parse import RegionParse, max_mantissa_beats
from diastole.control.region import region_layout
from diastole.emit.place import place
from diastole.memory.maxima import maxima_names
from diastole.plan import GROUP, Plan
from diastole.stream.elements import decoded, extent
from diastole.stream.fifo import StreamFifo
from diastole.stream.turn import Turn
from diastole.stream.unpack import Unpack

BLOCKS_AHEAD = 4  # descriptions of blocks that wait for their vectors


def scratch_write_layout(plan: Plan) -> data.StructLayout:
    """One vector on its way into a scratchpad; ``addr`` counts vectors within the bank.

    ``deficit``, of a vector or of a held block to the east, to ``significand`` are those of its
    group; ``extent`` and ``poison``, a bit for each element, are of what it holds.
    """
    block = block_layout(plan).members
    deficit = unsigned(plan.deficit_bits)
    members = {name: block[name] for name in ("kind", "bank", "addr")}
    members["elements"] = data.ArrayLayout(unsigned(plan.element().bits), plan.block)
    members["deficit"] = deficit
    if plan.north:
        members["deficit_north"] = deficit
    members["nonzero"] = unsigned(1)
    if plan.significands:
        members["significand"] = unsigned(SIGNIFICAND_BITS)
    if plan.shape.extents:
        members["extent"] = unsigned(plan.shape.extent_bits)
    if plan.poison:
        members["poison"] = unsigned(plan.block)
    return data.StructLayout(members)


class Fill(wiring.Component):
    """Parse regions, describe their blocks, cut and turn their vectors, write them to the banks.

    Elements are written as the array has them (:mod:`diastole.stream.elements`).

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
        super().__init__(members | lookup_members(plan))

    @property
    def names(self) -> tuple[str, ...]:
        """The memories of maxima that are looked up."""
        return maxima_names(self.plan)

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
        turn = Turn(side=plan.block, width=max(f.element_bits for f in plan.formats))
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
        for name in self.names:
            m.d.comb += [
                getattr(self, f"{name}_index").eq(getattr(describe, f"{name}_index")),
                getattr(describe, f"{name}_value").eq(getattr(self, f"{name}_value")),
            ]
        self._write(m, unpack.o, turn, blocks.o)
        return m

    def _write(self, m, vectors, turn, blocks):
        """Vectors, turned or not, meet the description of their block."""
        plan, head, write = self.plan, blocks.p, self.write
        vector = Signal(turn.i.payload.shape())
        for cls, stored in enumerate(plan.formats):
            with m.If(vectors.p.kind == cls):
                m.d.comb += vector.eq(self._aligned(vectors.p.bits, stored.element_bits))
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
            write.kind.eq(head.kind),
            write.bank.eq(head.bank),
            write.addr.eq(head.addr + count),
            self.chunks_out.valid.eq(blocks.valid & arrived & last),
            self.chunks_out.payload.eq(self.chunks_in.payload),
            self.chunks_in.ready.eq(taken & last),
        ]
        with m.If(taken):
            m.d.sync += count.eq(Mux(count == plan.block - 1, 0, count + 1))
        stored = Signal(vector.shape(), name="stored")
        m.d.comb += stored.eq(Mux(head.turned, turn.o.payload, vector))
        group_poison = self._of_group(m, head, count)
        self._elements(m, head, stored, group_poison)

    def _of_group(self, m, head, count):
        """What the group of the vector says of it; returns whether that is that it is no number."""
        plan, write = self.plan, self.write

        def own(entries):
            return entries[count] if len(entries) > 1 else entries[0]

        m.d.comb += [write.deficit.eq(own(head.deficit)), write.nonzero.eq(own(head.nonzero))]
        if plan.north:
            m.d.comb += write.deficit_north.eq(own(head.deficit_north))
        if plan.significands:
            m.d.comb += write.significand.eq(own(head.significand))
        return own(head.poison) if plan.poison else None

    def _elements(self, m, head, stored, group_poison):
        """Elements as the array has them; what is no number, and how far down they reach."""
        plan, write = self.plan, self.write
        layout = plan.element()
        if not layout.depth:  # they are stored as the array has them
            m.d.comb += write.elements.eq(stored)
            specials = Const(0, plan.block)
        else:
            specials = Signal(plan.block)
            self._decode(m, head.cls, stored, specials)
        if plan.shape.extents:
            precision = Array([plan.formats[cls].precision for cls in (0, 1, 2, 2)])[head.cls]
            m.d.comb += write.extent.eq(extent(list(write.elements), layout, precision))
        if plan.poison:
            m.d.comb += write.poison.eq(specials | group_poison.replicate(plan.block))

    def _decode(self, m, cls, stored, specials):
        """The first class if it is none of the others that have another format."""
        plan = self.plan
        target = plan.shape, plan.element()
        for number, form in enumerate(plan.formats):
            if number and form == plan.formats[0]:
                continue
            pairs = [decoded(form, each[:-1], each[-1], *target) for each in stored]
            with m.If(cls == number) if number else nullcontext():
                m.d.comb += self.write.elements.eq(Cat(element for element, _ in pairs))
                m.d.comb += specials.eq(Cat(special for _, special in pairs))

    def _aligned(self, bits, width: int):
        """Stored elements of one class in as many bits as the widest, the sign on top."""
        pad = max(f.element_bits for f in self.plan.formats) - width
        elements = []
        for k in range(self.plan.block):
            element = bits[k * width : (k + 1) * width]
            elements.append(Cat(element[:-1], Const(0, pad), element[-1]))
        return Cat(*elements)
