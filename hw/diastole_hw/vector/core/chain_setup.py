"""Set-up of a chain: read and check program and streams, and compute addresses."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.conditions import among
from diastole_hw.data_registers import data_register
from diastole_hw.transfer.address import AddressGenerator
from diastole_hw.vector.core.descriptor_check import (
    DescriptorCheck,
    descriptor_layout,
    instruction_layout,
)
from diastole_hw.vector.core.scan import ProgramScan
from diastole_hw.vector.stream_layouts import STEP_BITS, VectorShape, stream_layout
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.image import EXTENT_BITS
from diastole_sim.spec.micro import CONSTANTS, INPUTS, MAX_INSTRUCTIONS
from diastole_sim.spec.stream_table import CHOICE_FIELDS, GATHERED, SLOTS, STREAMS, Kind, PanelOrder


def chain_layout() -> data.StructLayout:
    """Return the layout of a chain. ``first``, ``length``: first instruction, and number of
    instructions, 1 to 32, all of which exist. ``streams``: first slot in the table of descriptors.
    ``rows``, ``cols``: extents of the tensor, at least 1. ``by_columns``: order of the walk.
    ``of_product``: the chain runs at the drain of a product."""
    return data.StructLayout(
        {
            "first": range(CONSTANTS),
            "length": range(MAX_INSTRUCTIONS + 1),
            "streams": range(SLOTS),
            "rows": unsigned(EXTENT_BITS),
            "cols": unsigned(EXTENT_BITS),
            "by_columns": 1,
            "of_product": 1,
        }
    )


class ChainSetup(wiring.Component):
    """Read the descriptors and the program of a chain, check the rules, and compute the addresses.

    Streams that an instruction names must obey
    :func:`diastole_sim.spec.stream_table.stream_problems`. The program must obey
    :func:`diastole_sim.spec.micro.program_problems`.

    Timing: 11 cycles, plus 1 cycle for every instruction after the fourth, plus the cycles of every
    stream that an instruction names. A stream takes 1 cycle. A stream whose address depends on the
    step takes 2 more cycles, plus as many as the register ``step`` has bits (from the highest 1
    on). A panel takes 2 more cycles, plus, if the panel has the order ``BLOCK``, as many as the
    number of the last row of blocks has bits. Gathered rows take 1 more cycle for the list of rows,
    plus the cycles of the list's address. ``done`` follows in the next cycle.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    start : In(1)
        Pulse, not before ``done`` of the previous set-up. ``chain`` and ``step`` are stable from
        ``start`` to ``done``.
    chain : In(chain_layout())
    step : In(32)
    instruction_en, instruction_at, instruction : Out(1), Out(range(256)), In(64)
    slot_en, slot_at, slot : Out(1), Out(range(128)), In(128)
        Read ports of the tables. A word is available 1 cycle after the request, and holds.
    done : Out(1)
        Pulse.
    bad_stream, bad_program : Out(1), Out(1)
        Valid with ``done``: a stream, or the program, breaks a rule.
    streams : Out(array of 8 of stream_layout(shape))
        Inputs, then outputs. Valid from ``done`` until the next start.
    lists : Out(array of 4 of 40 bits)
        Address of the list of rows of every input with gathered rows. Valid at the time of
        ``streams``.
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
        registers = [data_register(stream_layout(self.shape), name=f"s{n}") for n in range(STREAMS)]
        lists = [data_register(ADDRESS_BITS, name=f"list{n}") for n in range(INPUTS)]
        for number, register in enumerate(registers):
            m.d.comb += Value.cast(self.streams[number]).eq(Value.cast(register))
        for number, register in enumerate(lists):
            m.d.comb += self.lists[number].eq(register)
        scan = self._scan(m, registers)
        at, left = Signal(range(STREAMS + 1)), Signal(STREAMS)
        with m.FSM():
            with m.State("IDLE"):  # wait for a chain
                m.d.sync += at.eq(0)
                with m.If(self.start):
                    m.d.sync += self.bad_stream.eq(0)
                    m.next = "READ"
            with m.State("READ"):  # read the kinds of all streams, and scan the program
                m.d.comb += [
                    self.slot_en.eq(at != STREAMS),
                    self.slot_at.eq(self._slot_of(at)),
                    scan.start.eq(at == INPUTS - 1),
                ]
                m.d.sync += scan.condition_valid.eq(at == STREAMS)
                with m.If(at != STREAMS):
                    m.d.sync += at.eq(at + 1)
                for number, register in enumerate(registers):
                    with m.If(at == number + 1):
                        m.d.sync += register.kind.eq(self.slot.kind)
                with m.If(scan.done):
                    m.d.sync += [
                        register.used.eq(scan.used[n]) for n, register in enumerate(registers)
                    ]
                    self._look_at_first(m, scan.used, at, left)
            self._each_stream(m, at, left, registers, lists)
            with m.State("DONE"):  # all named streams are resolved
                m.d.comb += self.done.eq(1)
                m.next = "IDLE"
        return m

    @property
    def _copied(self):
        """Names of the descriptor fields that the units of a chain receive unchanged."""
        return COPIED + CHOICE_FIELDS * self.shape.has_choices

    def _slot_of(self, at):
        """Return the table slot of stream number ``at`` of the chain."""
        return (self.chain.streams + at)[: len(self.slot_at)]

    def _scan(self, m, registers):
        """Connect the scan of the program to the instruction memory and to the streams' kinds."""
        m.submodules.scan = scan = ProgramScan(block=self.shape.block)
        m.d.comb += [
            scan.first.eq(self.chain.first),
            scan.length.eq(self.chain.length),
            *(scan.kinds[n].eq(register.kind) for n, register in enumerate(registers)),
            self.instruction_en.eq(scan.read_en),
            self.instruction_at.eq(scan.read_at),
            scan.word.eq(self.instruction),
            self.bad_program.eq(scan.bad),
        ]
        return scan

    def _each_stream(self, m, at, left, registers, lists):
        """Add the states that check and locate every named stream, and every list of rows."""
        as_list = Signal()
        is_panel, is_gathered, bad = Signal(), Signal(), self._checked(m, at, as_list)
        descriptor, locate = self.slot, self._locate(m, is_panel)
        moved = Signal()  # the address must be computed
        m.d.comb += [
            is_panel.eq(descriptor.kind == Kind.PANEL),
            is_gathered.eq(among(descriptor.kind, GATHERED) & ~as_list),
            moved.eq(is_panel | descriptor.per_step),
        ]

        def store_address(address):
            for number, register in enumerate(registers):
                with m.If((at == number) & ~as_list):
                    m.d.sync += register.address.eq(address)
            for number, register in enumerate(lists):
                with m.If(at == number):
                    m.d.sync += register.eq(address)

        def go_on():
            with m.If(is_gathered):
                m.d.comb += [self.slot_en.eq(1), self.slot_at.eq(descriptor.aux)]
                m.d.sync += as_list.eq(1)
                m.next = "LOOK"
            with m.Else():
                m.d.sync += as_list.eq(0)
                self._look_at_first(m, left, at, left)

        with m.State("LOOK"):  # check a descriptor
            with m.If(bad):
                m.d.sync += self.bad_stream.eq(1)
            for number, register in enumerate(registers):
                with m.If((at == number) & ~as_list):
                    m.d.sync += [register[name].eq(descriptor[name]) for name in self._copied]
            store_address(descriptor.address)
            with m.If(moved & ~bad):
                m.d.comb += locate.start.eq(1)
                m.next = "ADDRESS"
            with m.Else():
                go_on()
        with m.State("ADDRESS"):  # wait for the address
            with m.If(locate.ready):
                with m.If(is_panel):
                    with m.If(locate.address > self.shape.panel_vectors):
                        m.d.sync += self.bad_stream.eq(1)
                with m.Else():
                    store_address(locate.address)
                go_on()

    def _look_at_first(self, m, streams, at, left):
        """Read the descriptor of the first stream in ``streams``. The remaining streams stay in
        ``left``."""
        m.d.sync += left.eq(streams & (streams - 1))
        m.next = "DONE"
        for number in reversed(range(STREAMS)):
            with m.If(streams[number]):
                m.d.comb += [self.slot_en.eq(1), self.slot_at.eq(self._slot_of(number))]
                m.d.sync += at.eq(number)
                m.next = "LOOK"

    def _checked(self, m, at, as_list):
        """Return whether the current descriptor breaks a rule. A panel is also refused here if the
        panel ends so far out of range that the vector numbers would overflow."""
        check, vectors = DescriptorCheck(self.shape), self.shape.panel_vectors
        descriptor: Any = self.slot
        m.submodules.check = check
        i, j = self._last_blocks()
        far = (descriptor.address >= vectors) | (self._index(i, j) >= vectors)
        with_pitch = (descriptor.aux == PanelOrder.BLOCK) & i.any() & descriptor.pitch.any()
        far |= with_pitch & ((i >= vectors) | (descriptor.pitch >= vectors))
        m.d.comb += [
            check.word.eq(descriptor),
            check.as_list.eq(as_list),
            check.as_output.eq((at >= INPUTS) & ~as_list),
            check.by_columns.eq(self.chain.by_columns),
            check.of_product.eq(self.chain.of_product),
        ]
        bad = Signal()
        m.d.comb += bad.eq(check.bad | ((descriptor.kind == Kind.PANEL) & far))
        return bad

    def _last_blocks(self):
        """Return the numbers of the last row and of the last column of blocks."""
        chain, low = self.chain, self.shape.row_bits
        return tuple((chain[name] - 1)[:EXTENT_BITS] >> low for name in ("rows", "cols"))

    def _index(self, i, j):
        """Return the summand of a panel's block number that is not a multiple of the pitch."""
        return Mux(self.slot.aux == PanelOrder.BLOCK_ROW, i, j)

    def _locate(self, m, is_panel):
        """Compute the end of a panel, 1 after the last vector, or the address of a stream in memory
        in this step."""
        descriptor, low = self.slot, self.shape.row_bits
        m.submodules.locate = locate = AddressGenerator(count_bits=STEP_BITS)
        i, j = self._last_blocks()
        rows = Mux(descriptor.aux == PanelOrder.BLOCK, i, 0)
        m.d.comb += [
            locate.base.eq(
                Mux(
                    is_panel,
                    descriptor.address + ((self._index(i, j) + 1) << low),
                    descriptor.address,
                )
            ),
            locate.pitch.eq(Mux(is_panel, descriptor.pitch << low, descriptor.offset)),
            locate.count.eq(Mux(is_panel, rows, self.step)),
        ]
        return locate


COPIED = ("kind", "tensor_class", "watch", "aux", "pitch", "offset")
