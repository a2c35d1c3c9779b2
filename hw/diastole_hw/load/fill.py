"""The load unit's second half: puts what the requests bring into the scratchpads."""

from contextlib import nullcontext

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.load.block_targets import BlockTargets
from diastole_hw.load.parse import RegionParse
from diastole_hw.memory.maxima import MaximaWriteSignature, load_signature
from diastole_hw.place import place
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.tokens import (
    block_layout,
    chunk_layout,
    max_mantissa_beats,
    region_layout,
    scratch_write_layout,
)
from diastole_hw.stream.elements import decoded, extent
from diastole_hw.stream.fifo import StreamFifo
from diastole_hw.stream.turn import Turn
from diastole_hw.stream.unpack import Unpack
from diastole_sim.spec.image import GROUP_BLOCKS

BLOCKS_AHEAD = 4  # descriptions of blocks that wait for their vectors


class Fill(wiring.Component):
    """Parse regions, describe their blocks, cut and turn their vectors, write them to the banks.

    Elements are written as the array has them (:mod:`diastole_hw.stream.elements`). Blocks that
    only fill a granule are cut, and not written.

    With the last vector of a chunk, its descriptor goes from ``chunks_in`` to ``chunks_out``: that
    vector waits for ``chunks_out.ready``. Not checked: that the descriptor is there by then.

    Timing: at most one beat of ``data`` and one vector per cycle, and one block in two cycles,
    which binds where B = 1. Beyond its beats, a region costs 1 cycle and a part of a group 1
    (:class:`RegionParse`); its vectors are cut when those of the part before have left
    (:class:`Unpack`). A vector is written in the cycle in which it leaves :class:`Unpack` or
    :class:`Turn`.

    Members
    -------
    regions : In(stream of region_layout(plan))
    data : In(stream of unsigned(plan.data_width))
    chunks_in, chunks_out : In, Out(stream of chunk_layout(plan))
    write_en, write : Out(1), Out(scratch_write_layout(plan))
        A vector for a scratchpad.
    maxima : Out(MaximaWriteSignature(plan))
    lookup : Out(load_signature(plan))
    turn_stall : Out(1)
        A vector waits for the turning array.
    """

    regions: stream.Interface
    data: stream.Interface
    chunks_in: stream.Interface
    chunks_out: stream.Interface
    write: data.View
    maxima: wiring.PureInterface
    lookup: wiring.PureInterface

    def __init__(self, plan: Plan):
        self.plan = plan
        chunk = stream.Signature(chunk_layout(plan))
        super().__init__(
            {
                "regions": In(stream.Signature(region_layout(plan))),
                "data": In(stream.Signature(unsigned(plan.data_width))),
                "chunks_in": In(chunk),
                "chunks_out": Out(chunk),
                "write_en": Out(1),
                "write": Out(scratch_write_layout(plan)),
                "maxima": Out(MaximaWriteSignature(plan)),
                "lookup": Out(load_signature(plan)),
                "turn_stall": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        parse = RegionParse(plan)
        targets = BlockTargets(plan)
        blocks = StreamFifo(block_layout(plan), BLOCKS_AHEAD)
        unpack = Unpack(
            beat=plan.data_width,
            vectors=tuple(plan.vector_bits(cls) for cls in range(3)),
            max_beats=max_mantissa_beats(plan),
            max_vectors=GROUP_BLOCKS * plan.block,
        )
        turn = Turn(side=plan.block, width=max(f.element_bits for f in plan.formats))
        units = {"parse": parse, "targets": targets, "blocks": blocks}
        for name, unit in (units | {"unpack": unpack, "turn": turn}).items():
            m.submodules[name] = place(unit, platform)
        wiring.connect(m, wiring.flipped(self.regions), parse.regions)
        wiring.connect(m, wiring.flipped(self.data), parse.data)
        wiring.connect(m, parse.groups, targets.groups)
        wiring.connect(m, parse.runs, unpack.run)
        wiring.connect(m, parse.mantissas, unpack.i)
        wiring.connect(m, targets.blocks, blocks.i)
        wiring.connect(m, wiring.flipped(self.maxima), parse.maxima)
        wiring.connect(m, wiring.flipped(self.lookup), targets.lookup)
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
