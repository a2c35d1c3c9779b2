"""Second half of the load unit: write the requested data into the scratchpads."""

from contextlib import nullcontext

from amaranth.hdl import Array, Cat, Const, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_output, data_register
from diastole_hw.load.block_targets import BlockTargets
from diastole_hw.load.deficits import Deficits
from diastole_hw.load.parse import RegionParse
from diastole_hw.memory.maxima import MaximaWriteSignature, load_signature
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.tokens import (
    block_layout,
    region_layout,
    scratch_write_layout,
)
from diastole_hw.stream.blocks import BlockBuffer
from diastole_hw.stream.elements import decoded, extent


class WriteScratchpads(wiring.Component):
    """Parse regions, describe their blocks, cut the blocks into vectors, transpose where needed,
    and write the vectors to the banks.

    Elements are written in the layout of the array (:mod:`diastole_hw.stream.elements`). Blocks
    that only fill a granule are not written. Each port to memory has a unit of its own, for the
    rows that the port delivers (:class:`diastole_hw.load.region_requests.RegionRequests`).

    Timing: at most one beat of ``data`` and one word of V vectors per cycle, and a cycle for a
    dropped block. The first word of a block is written 2 cycles after the last beat of the block,
    at least 3 cycles after the last beat of its group's exponents. If the two times have passed,
    the word directly follows the last word of the previous block. Beats wait only while two earlier
    blocks are still inside (:class:`BlockBuffer`). If memories have output registers, words have a
    register before the memories, and are written a cycle later.

    Parameters
    ----------
    plan : Plan
    port : int
        Number of the port.

    Members
    -------
    regions : In(stream of region_layout(plan))
    data : In(stream of unsigned(plan.data_width))
    blocks_loaded, maxima_loaded : Out(1), Out(1)
        Pulses: the last word of a chunk's blocks, or the last beat of a chunk's maxima, is written
        in the current cycle.
    write_en, write : Out(1), Out(scratch_write_layout(plan))
        A word for a scratchpad.
    write_ready : In(1)
        The word is accepted. The first port has no ``write_ready``, and its words are always
        accepted.
    maxima : Out(MaximaWriteSignature(plan))
    lookup : Out(load_signature(plan))
    """

    regions: stream.Interface
    data: stream.Interface
    write: data.View
    maxima: wiring.PureInterface
    lookup: wiring.PureInterface

    def __init__(self, plan: Plan, port: int = 0):
        self.plan, self.port = plan, port
        super().__init__(
            {
                "regions": In(stream.Signature(region_layout(plan))),
                "data": In(stream.Signature(unsigned(plan.data_width))),
                "blocks_loaded": Out(1),
                "maxima_loaded": Out(1),
                "write_en": Out(1),
                "write": Out(scratch_write_layout(plan)),
                "maxima": Out(MaximaWriteSignature(plan)),
                "lookup": Out(load_signature(plan)),
            }
            | ({"write_ready": In(1)} if port else {})
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        parse = RegionParse(plan, self.port)
        targets = BlockTargets(plan, self.port)
        buffer = BlockBuffer(
            beat=plan.data_width,
            elements=tuple(form.element_bits for form in plan.formats),
            side=plan.block,
            vectors=plan.fill_vectors,
        )
        for name, unit in {"parse": parse, "targets": targets, "buffer": buffer}.items():
            m.submodules[name] = unit
        wiring.connect(m, wiring.flipped(self.regions), parse.regions)
        wiring.connect(m, wiring.flipped(self.data), parse.data)
        wiring.connect(m, parse.groups, targets.groups)
        wiring.connect(m, parse.mantissas, buffer.i)
        wiring.connect(m, wiring.flipped(self.maxima), parse.maxima)
        wiring.connect(m, wiring.flipped(self.lookup), targets.lookup)
        m.d.comb += self.maxima_loaded.eq(parse.maxima_loaded)
        self._write(m, buffer.o, self._described(m, targets.blocks, buffer.blocks))
        return m

    def _described(self, m, targets, blocks):
        """Move a block on together with the block's description. Return the description of the
        block whose vectors are sent."""
        head = data_register(block_layout(self.plan))
        m.d.comb += [
            blocks.valid.eq(targets.valid),
            targets.ready.eq(blocks.ready),
            blocks.p.kind.eq(targets.p.cls),
            blocks.p.transposed.eq(targets.p.transposed),
            blocks.p.drop.eq(targets.p.drop),
            blocks.p.ends.eq(targets.p.ends),
        ]
        with m.If(blocks.valid & blocks.ready):
            m.d.sync += head.eq(targets.payload)
        return head

    def _write(self, m, vectors, head):
        """Combine vectors with the description of their block, and drive the write port."""
        accepted = self.write_ready if self.port else Const(1, 1)
        write = Signal(self.write.shape(), name="word")
        en, last = Signal(name="word_en"), Signal(name="word_last")
        m.d.comb += [
            en.eq(vectors.valid & ~head.drop),
            last.eq(vectors.valid & vectors.p.last & head.last),
        ]
        if self.plan.output_register:
            goes = self._register(m, en, last, write, accepted)
        else:
            goes = accepted | head.drop
            m.d.comb += [
                self.write_en.eq(en),
                self.write.eq(write),
                self.blocks_loaded.eq(last & goes),
            ]
        m.d.comb += [
            vectors.ready.eq(goes),
            write.kind.eq(head.kind),
            write.bank.eq(head.bank),
            write.word.eq(head.word + vectors.p.index),
        ]
        of_vectors = self._deficits(m, head, vectors.p.index)
        for number, vector in enumerate(write.vectors):
            of_group = of_vectors[number % len(of_vectors)]
            self._of_group(m, of_group, vector)
            self._elements(m, head, vectors.p.vectors[number], vector, number, of_group)

    def _register(self, m, en, last, write, accepted):
        """Drive the write port from a register, since the banks lie far away on the chip. Return
        whether the register accepts a word."""
        goes = accepted | ~self.write_en
        waits, ends = Signal(name="written_en"), Signal(name="written_last")
        written = data_output(m, self.write, "written")  # also output while the word waits
        with m.If(goes):
            m.d.sync += [waits.eq(en), ends.eq(last), written.eq(write)]
        m.d.comb += [self.write_en.eq(waits), self.blocks_loaded.eq(ends & goes)]
        return goes

    def _deficits(self, m, head, index):
        """Return the :class:`Deficits` of the vectors of word ``index``: a unit per vector, or a
        unit for all vectors."""
        plan = self.plan
        deficits = []
        for number in range(
            min(plan.fill_vectors, max(plan.stream_entries, plan.stationary_entries))
        ):
            m.submodules[f"deficits_{number}"] = of = Deficits(plan)
            for name in ["scale", "maximum"] + ["maximum_north"] * plan.north:
                own = head[name]
                if len(own) > 1:
                    own = own[number :: plan.fill_vectors]
                m.d.comb += getattr(of, name).eq(own[index] if len(own) > 1 else own[0])
            if plan.planar:
                m.d.comb += of.plane.eq(head.plane)
            deficits.append(of)
        return deficits

    def _of_group(self, m, of_group, vector):
        plan = self.plan
        names = ["deficit", "nonzero"]
        names += ["deficit_north"] * plan.north + ["significand"] * plan.significands
        m.d.comb += [vector[name].eq(getattr(of_group, name)) for name in names]

    def _elements(self, m, head, stored, vector, number, of_group):
        """Drive the elements in the layout of the array, the marks of elements that are not a
        number, and the extent."""
        plan = self.plan
        layout = plan.element()
        if not layout.depth:  # stored elements have the layout of the array
            m.d.comb += vector.elements.eq(stored)
            specials = Const(0, plan.block)
        else:
            specials = Signal(plan.block, name=f"specials_{number}")
            self._decode(m, head.cls, stored, vector, specials)
        if plan.shape.extents:
            precision = Array([plan.formats[cls].precision for cls in (0, 1, 2, 2)])[head.cls]
            m.d.comb += vector.extent.eq(extent(list(vector.elements), layout, precision))
        if plan.poison:
            m.d.comb += vector.poison.eq(specials | of_group.poison.replicate(plan.block))

    def _decode(self, m, cls, stored, vector, specials):
        """Decode elements by class. The format of the first class applies to every class without
        another format."""
        plan = self.plan
        target = plan.shape, plan.element()
        for number, form in enumerate(plan.formats):
            if number and form == plan.formats[0]:
                continue
            pairs = [decoded(form, each[:-1], each[-1], *target) for each in stored]
            with m.If(cls == number) if number else nullcontext():
                m.d.comb += vector.elements.eq(Cat(element for element, _ in pairs))
                m.d.comb += specials.eq(Cat(special for _, special in pairs))
