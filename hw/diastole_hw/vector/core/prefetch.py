"""Fetch the instructions of a program, block by block, ahead of execution."""

from amaranth.hdl import Array, Assert, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_hw.stream.fifo import StreamFifo
from diastole_hw.vector.core.descriptor_check import instruction_layout
from diastole_hw.vector.core.entry import entry_layout
from diastole_hw.vector.core.instruction_decode import Decode, is_done_in
from diastole_hw.vector.core.row_order import row_order_of
from diastole_hw.vector.stream_layouts import WORD, VectorShape, stream_layout, visited_layout
from diastole_sim.spec.micro import CONSTANTS, MAX_INSTRUCTIONS, MICRO_BITS
from diastole_sim.spec.stream_table import STREAMS

AHEAD = 2
"""Maximum number of waiting entries, and of waiting blocks. An instruction takes 8 cycles or
more."""


class Prefetch(wiring.Component):
    """Fetch and decode, for every block, the instructions whose ``when`` holds. Output an entry at
    ``o`` per instruction, followed by an entry ``end``.

    Timing: in the first block of a chain every instruction is selected in sequence. In later blocks
    the unit knows which instructions are executed, and skipped instructions take no cycles. An
    entry is available 3 cycles after selection. At most ``AHEAD`` entries are selected and not yet
    accepted, so 2 entries can leave in 3 cycles. The first instruction of a block is selected in
    the cycle after acceptance of the block. The next block is accepted in the cycle after selection
    of ``end``, at the earliest: blocks with 1 instruction take 4 cycles each. ``blocks.ready`` and
    ``o.valid`` are functions of registers.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    start : In(1)
        Pulse: a chain begins, and the first block arrives now or later. The previous chain has no
        blocks left, and all its entries were accepted.
    first, length : In(8), In(6)
        First instruction and number of instructions. Stable, as ``streams``, until the last entry
        of the chain is accepted.
    streams : In(8 of :func:`stream_layout`)
    blocks : In(stream of :func:`visited_layout`)
    program_en, program_at : Out(1), Out(8)
    program_word : In(64)
        Valid 1 cycle after the request.
    constant_en, constant_at : Out(1), Out(8)
    constant_word : In(32)
        Valid 1 cycle after the request.
    o : Out(stream of :func:`entry_layout`)
    block : Out(:func:`visited_layout`)
        Block of the entry at ``o``.
    """

    blocks: stream.Interface
    o: stream.Interface

    def __init__(self, shape: VectorShape):
        self.shape = shape
        super().__init__(
            {
                "start": In(1),
                "first": In(8),
                "length": In(range(MAX_INSTRUCTIONS + 1)),
                "streams": In(data.ArrayLayout(stream_layout(shape), STREAMS)),
                "blocks": In(stream.Signature(visited_layout(shape))),
                "program_en": Out(1),
                "program_at": Out(8),
                "program_word": In(MICRO_BITS),
                "constant_en": Out(1),
                "constant_at": Out(range(CONSTANTS)),
                "constant_word": In(WORD),
                "o": Out(stream.Signature(entry_layout(shape))),
                "block": Out(visited_layout(shape)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.entries = entries = StreamFifo(self.o.p.shape(), AHEAD)
        whens = Array(data_register(unsigned(2), name=f"when_{n}") for n in range(MAX_INSTRUCTIONS))
        space = Signal()
        block, begun = self._take(m)
        number, chosen, ended = self._choose(m, begun, whens, space)
        flight = self._decode(m, block, number, chosen, ended, whens, entries)
        m.d.comb += [
            space.eq(entries.level + flight < AHEAD),
            self.o.payload.eq(entries.o.payload),
            self.o.valid.eq(entries.o.valid),
            entries.o.ready.eq(self.o.ready),
        ]
        m.d.sync += Assert(~entries.i.valid | entries.i.ready, "an entry has no place")
        clear = ~begun & ~flight.any() & ~entries.o.valid
        m.d.sync += Assert(~self.start | clear, "a chain begins with entries left")
        return m

    def _take(self, m):
        """Return the block whose instructions are selected, and whether a block is present. A queue
        holds every accepted block until the block's ``end`` entry is accepted."""
        m.submodules.waiting = waiting = StreamFifo(self.block.shape(), AHEAD)
        block, begun = data_register(self.block.shape()), Signal()
        m.d.comb += [
            self.blocks.ready.eq(~begun & waiting.i.ready),
            waiting.i.valid.eq(self.blocks.valid & ~begun),
            waiting.i.payload.eq(self.blocks.payload),
            self.block.eq(waiting.o.payload),
            waiting.o.ready.eq(self.o.valid & self.o.ready & self.o.p.end),
        ]
        with m.If(self.blocks.valid & self.blocks.ready):
            m.d.sync += [block.eq(self.blocks.payload), begun.eq(1)]
        m.d.sync += Assert(~self.o.valid | waiting.o.valid, "an entry without its block")
        return block, begun

    def _choose(self, m, begun, whens, space):
        """Select the lowest remaining instruction, or the end of the block."""
        left = data_register(MAX_INSTRUCTIONS)
        conditions_valid = Signal()  # `whens` holds the condition of every instruction
        number = Signal(range(MAX_INSTRUCTIONS))
        chosen, ended = Signal(), Signal()
        for n in reversed(range(MAX_INSTRUCTIONS)):
            with m.If(left[n]):
                m.d.comb += number.eq(n)
        m.d.comb += [
            chosen.eq(begun & space & left.any()),
            ended.eq(begun & space & ~left.any()),
            self.program_en.eq(chosen),
            self.program_at.eq(self.first + number),
        ]
        program = Cat(n < self.length for n in range(MAX_INSTRUCTIONS))
        done = Cat(is_done_in(when, self.blocks.p) for when in whens)
        with m.If(chosen):
            m.d.sync += left.eq(left & (left - 1))
        with m.If(ended):
            m.d.sync += [begun.eq(0), conditions_valid.eq(1)]
        with m.If(self.blocks.valid & self.blocks.ready):
            m.d.sync += left.eq(program & Mux(conditions_valid & ~self.start, done, ~0))
        with m.If(self.start):
            m.d.sync += conditions_valid.eq(0)
        return number, chosen, ended

    def _decode(self, m, block, number, chosen, ended, whens, entries):
        """Decode the fetched word, and add the constant 1 cycle later. Return the number of entries
        in flight."""
        m.submodules.decode = decode = Decode(self.shape)
        word = data.View(instruction_layout(), self.program_word)
        read, ends, ready = Signal(), Signal(), Signal()
        last = data_register(number.shape())
        entry, fetched = data_register(entries.i.p.shape()), Signal()
        m.d.sync += [read.eq(chosen), ends.eq(ended), last.eq(number)]
        with m.If(read):
            m.d.sync += whens[last].eq(word.when)
        m.d.comb += [
            decode.word.eq(self.program_word),
            decode.block.eq(block),
            decode.streams.eq(self.streams),
            fetched.eq(read & decode.holds),
            self.constant_en.eq(fetched),
            self.constant_at.eq(word.k),
            entries.i.valid.eq(ready),
            entries.i.payload.eq(entry),
            entries.i.p.constant.eq(self.constant_word),
            entries.i.p.order.eq(row_order_of(m, self.shape, entry)),
        ]
        m.d.sync += [ready.eq(fetched | ends), entry.eq(decode.entry), entry.end.eq(ends)]
        return read + ends + ready
