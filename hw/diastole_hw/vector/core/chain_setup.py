"""What happens before a chain: its program and its streams are read, checked and worked out."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_hw.transfer.address import Locate
from diastole_hw.vector.core.descriptor_check import (
    DescriptorCheck,
    among,
    descriptor_layout,
    instruction_layout,
)
from diastole_hw.vector.core.scan import ProgramScan
from diastole_hw.vector.stream_layouts import VectorShape, stream_layout
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.image import EXTENT_BITS
from diastole_sim.spec.micro import CONSTANTS, INPUTS, MOST_INSTRUCTIONS
from diastole_sim.spec.stream_table import CHOICE_FIELDS, GATHERED, SLOTS, STREAMS, Kind, PanelOrder

STEP_BITS = 32


def chain_layout() -> data.StructLayout:
    """A chain. ``first``, ``length``: of its instructions, 1 to 32 that there are. ``streams``: its
    first slot in the table. ``rows``, ``cols``: of its tensor, at least 1. ``of_product``: it
    stands at a product's drain."""
    return data.StructLayout(
        {
            "first": range(CONSTANTS),
            "length": range(MOST_INSTRUCTIONS + 1),
            "streams": range(SLOTS),
            "rows": unsigned(EXTENT_BITS),
            "cols": unsigned(EXTENT_BITS),
            "by_columns": 1,
            "of_product": 1,
        }
    )


class ChainSetup(wiring.Component):
    """Read a chain's descriptors and its program, check both, and work out its addresses.

    The rules are those of :func:`diastole_sim.spec.stream_table.stream_problems` for the streams
    that its instructions name, and of :func:`diastole_sim.spec.micro.program_problems`.

    Timing: 11 cycles, and 1 for each instruction but the first 4; then for each stream that one
    names 1, and besides, as many as the register ``step`` has bits (from its highest 1 on), and 2
    more, where its address follows from the step; as many as the number of the last row of blocks
    has, and 2 more, where it is a panel. A list of rows takes 1 more, and the time of its own
    address. ``done`` comes in the cycle after the last.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    start : In(1)
        A pulse; not before ``done`` of the one before. ``chain`` and ``step`` must hold from it to
        ``done``.
    chain : In(chain_layout())
    step : In(32)
    instruction_en, instruction_at, instruction : Out(1), Out(range(256)), In(64)
    slot_en, slot_at, slot : Out(1), Out(range(128)), In(128)
        Both memories give a word one cycle later, and hold it.
    done : Out(1)
        A pulse.
    bad_stream, bad_program : Out(1), Out(1)
        With ``done``: what is wrong, if anything is.
    streams : Out(array of 8 of stream_layout(shape))
        With ``done``, until the next start: inputs, then outputs.
    lists : Out(array of 4 of 40 bits)
        Likewise, of inputs whose rows are gathered: where the list of them is.
    """

    chain: data.View
    slot: data.View
    instruction: data.View
    streams: data.View
    lists: data.View

    def __init__(self, shape: VectorShape):
        self.shape = shape
        super().__init__(
            {
                "start": In(1),
                "chain": In(chain_layout()),
                "step": In(STEP_BITS),
                "instruction_en": Out(1),
                "instruction_at": Out(range(CONSTANTS)),
                "instruction": In(instruction_layout()),
                "slot_en": Out(1),
                "slot_at": Out(range(SLOTS)),
                "slot": In(descriptor_layout(choices=shape.has_choices)),
                "done": Out(1),
                "bad_stream": Out(1),
                "bad_program": Out(1),
                "streams": Out(data.ArrayLayout(stream_layout(shape), STREAMS)),
                "lists": Out(data.ArrayLayout(unsigned(ADDRESS_BITS), INPUTS)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        kept = [data_register(stream_layout(self.shape), name=f"s{n}") for n in range(STREAMS)]
        lists = [data_register(ADDRESS_BITS, name=f"list{n}") for n in range(INPUTS)]
        for number, register in enumerate(kept):
            m.d.comb += Value.cast(self.streams[number]).eq(Value.cast(register))
        for number, register in enumerate(lists):
            m.d.comb += self.lists[number].eq(register)
        scan = self._scan(m, kept)
        at, left = Signal(range(STREAMS + 1)), Signal(STREAMS)
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += at.eq(0)
                with m.If(self.start):
                    m.d.sync += self.bad_stream.eq(0)
                    m.next = "READ"
            with m.State("READ"):
                m.d.comb += [
                    self.slot_en.eq(at != STREAMS),
                    self.slot_at.eq(self._slot_of(at)),
                    scan.start.eq(at == INPUTS - 1),
                ]
                m.d.sync += scan.known.eq(at == STREAMS)
                with m.If(at != STREAMS):
                    m.d.sync += at.eq(at + 1)
                for number, register in enumerate(kept):
                    with m.If(at == number + 1):
                        m.d.sync += register.kind.eq(self.slot.kind)
                with m.If(scan.done):
                    m.d.sync += [register.used.eq(scan.used[n]) for n, register in enumerate(kept)]
                    self._look_at_first(m, scan.used, at, left)
            self._each_stream(m, at, left, kept, lists)
            with m.State("DONE"):
                m.d.comb += self.done.eq(1)
                m.next = "IDLE"
        return m

    @property
    def _copied(self):
        """Of a descriptor, what a chain's units see as it is."""
        return COPIED + CHOICE_FIELDS * self.shape.has_choices

    def _slot_of(self, at):
        """Of one of the chain's streams, its slot in the table."""
        return (self.chain.streams + at)[: len(self.slot_at)]

    def _scan(self, m, kept):
        """The program, once kinds are known."""
        m.submodules.scan = scan = ProgramScan(block=self.shape.block)
        m.d.comb += [
            scan.first.eq(self.chain.first),
            scan.length.eq(self.chain.length),
            *(scan.kinds[n].eq(register.kind) for n, register in enumerate(kept)),
            self.instruction_en.eq(scan.read_en),
            self.instruction_at.eq(scan.read_at),
            scan.word.eq(self.instruction),
            self.bad_program.eq(scan.bad),
        ]
        return scan

    def _each_stream(self, m, at, left, kept, lists):
        """The states that look at one stream after the other, and at lists of rows."""
        as_list = Signal()
        is_panel, is_gathered, bad = Signal(), Signal(), self._checked(m, at, as_list)
        it, locate = self.slot, self._locate(m, is_panel, at)
        moved = Signal()  # the address is yet to be worked out
        m.d.comb += [
            is_panel.eq(it.kind == Kind.PANEL),
            is_gathered.eq(among(it.kind, GATHERED) & ~as_list),
            moved.eq(is_panel | it.per_step),
        ]

        def store_address(address):
            for number, register in enumerate(kept):
                with m.If((at == number) & ~as_list):
                    m.d.sync += register.address.eq(address)
            for number, register in enumerate(lists):
                with m.If(at == number):
                    m.d.sync += register.eq(address)

        def go_on():
            with m.If(is_gathered):
                m.d.comb += [self.slot_en.eq(1), self.slot_at.eq(it.aux)]
                m.d.sync += as_list.eq(1)
                m.next = "LOOK"
            with m.Else():
                m.d.sync += as_list.eq(0)
                self._look_at_first(m, left, at, left)

        with m.State("LOOK"):
            with m.If(bad):
                m.d.sync += self.bad_stream.eq(1)
            for number, register in enumerate(kept):
                with m.If((at == number) & ~as_list):
                    m.d.sync += [register[name].eq(it[name]) for name in self._copied]
            store_address(it.address)
            with m.If(moved & ~bad):
                m.d.comb += locate.start.eq(1)
                m.next = "ADDRESS"
            with m.Else():
                go_on()
        with m.State("ADDRESS"):
            with m.If(locate.ready):
                with m.If(is_panel):
                    with m.If(locate.address > self.shape.panel_vectors):
                        m.d.sync += self.bad_stream.eq(1)
                with m.Else():
                    store_address(locate.address)
                go_on()

    def _look_at_first(self, m, those, at, left):
        """Read the descriptor of the first one of some streams; the others are left."""
        m.d.sync += left.eq(those & (those - 1))
        m.next = "DONE"
        for number in reversed(range(STREAMS)):
            with m.If(those[number]):
                m.d.comb += [self.slot_en.eq(1), self.slot_at.eq(self._slot_of(number))]
                m.d.sync += at.eq(number)
                m.next = "LOOK"

    def _checked(self, m, at, as_list):
        """Whether the descriptor that has come breaks a rule; of a panel, also whether it reaches
        so far beyond the end that numbers would not hold it."""
        check, vectors = DescriptorCheck(self.shape), self.shape.panel_vectors
        it: Any = self.slot
        m.submodules.check = check
        i, j = self._last_blocks()
        far = (it.address >= vectors) | (self._index(i, j) >= vectors)
        with_pitch = (it.aux == PanelOrder.BLOCK) & i.any() & it.pitch.any()
        far |= with_pitch & ((i >= vectors) | (it.pitch >= vectors))
        m.d.comb += [
            check.word.eq(it),
            check.as_list.eq(as_list),
            check.as_output.eq((at >= INPUTS) & ~as_list),
            check.by_columns.eq(self.chain.by_columns),
            check.of_product.eq(self.chain.of_product),
        ]
        bad = Signal()
        m.d.comb += bad.eq(check.bad | ((it.kind == Kind.PANEL) & far))
        return bad

    def _last_blocks(self):
        """Numbers of the last row and of the last column of blocks."""
        chain, low = self.chain, self.shape.row_bits
        return tuple((chain[name] - 1)[:EXTENT_BITS] >> low for name in ("rows", "cols"))

    def _index(self, i, j):
        """What the number of a panel's block has besides rows of them."""
        return Mux(self.slot.aux == PanelOrder.BLOCK_ROW, i, j)

    def _locate(self, m, is_panel, at):
        """Of a panel one past the last vector; else the address in this step."""
        it, low = self.slot, self.shape.row_bits
        m.submodules.locate = locate = Locate(count_bits=STEP_BITS)
        i, j = self._last_blocks()
        rows = Mux(it.aux == PanelOrder.BLOCK, i, 0)
        m.d.comb += [
            locate.base.eq(
                Mux(is_panel, it.address + ((self._index(i, j) + 1) << low), it.address)
            ),
            locate.pitch.eq(Mux(is_panel, it.pitch << low, it.offset)),
            locate.count.eq(Mux(is_panel, rows, self.step)),
        ]
        return locate


COPIED = ("kind", "tensor_class", "watch", "aux", "pitch", "offset")
