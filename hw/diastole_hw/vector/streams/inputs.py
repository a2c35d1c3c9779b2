"""What a chain reads, inputs in memory and a product, as blocks that wait to be worked on."""

from amaranth.hdl import Array, Assert, Cat, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import ReadSignature
from diastole_hw.data_registers import data_register
from diastole_hw.memory.ram import Ram
from diastole_hw.vector.stream_layouts import VectorShape, row_layout, stream_layout, visited_layout
from diastole_hw.vector.streams.gathered import GatheredRows
from diastole_hw.vector.streams.input_fill import InputFill
from diastole_hw.vector.streams.input_requests import InputRequests
from diastole_hw.vector.streams.packing import expected_layout
from diastole_hw.vector.streams.unpack import banks
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.image import MAX_SIZE
from diastole_sim.spec.micro import INPUTS
from diastole_sim.spec.stream_table import Kind

DEPTH = 4
"""Blocks that an input has room for."""


class InputStreams(wiring.Component):
    """Read the blocks of a chain's inputs ahead, each input into a buffer of four, numbers in
    binary32 and +0 outside the tensor. Panels are left to the core, and any input that is not used.

    All inputs have the same blocks, and give them back together; so one of them that is late holds
    the others up once they are four blocks ahead. Only that is asked for what there is room for:
    beats are taken whatever the core does.

    Timing: a block's requests begin 2 cycles after it is offered; ``level`` counts a block from the
    cycle after its last beat on (:class:`diastole_hw.vector.streams.input_fill.InputFill` says at
    which rate beats are taken). ``rows`` are there one cycle after ``row_at``.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    streams : In(4 times stream_layout(shape))
        Stable from the first block until the last one is released.
    lists : In(4 times 40)
    by_columns, by_lines, rows_of_tensor : In(1), In(1), In(range(MAX_SIZE + 1))
        As of :class:`diastole_hw.vector.streams.input_requests.InputRequests`; as stable.
    blocks : In(stream of visited_layout(shape))
    product : In(stream of row_layout(shape))
        Of an input of kind ``product`` the blocks in the same order, B rows each.
    level : Out(4 times range(5))
        Whole blocks of each input that are here.
    row_at : In(range(B))
        Row slot of the oldest block.
    rows : Out(4 times row_layout(shape))
        Of each input.
    give_back : In(1)
        A pulse: no row of the oldest block is asked for from the next cycle on.
    read : Out(ReadSignature(data_width))
    """

    streams: data.View
    lists: data.View
    blocks: stream.Interface
    product: stream.Interface
    level: data.View
    rows: data.View
    read: wiring.PureInterface

    def __init__(self, shape: VectorShape):
        self.shape = shape
        super().__init__(
            {
                "streams": In(data.ArrayLayout(stream_layout(shape), INPUTS)),
                "lists": In(data.ArrayLayout(ADDRESS_BITS, INPUTS)),
                "by_columns": In(1),
                "by_lines": In(1),
                "rows_of_tensor": In(range(MAX_SIZE + 1)),
                "blocks": In(stream.Signature(visited_layout(shape))),
                "product": In(stream.Signature(row_layout(shape))),
                "level": Out(data.ArrayLayout(range(DEPTH + 1), INPUTS)),
                "row_at": In(range(shape.block)),
                "rows": Out(data.ArrayLayout(row_layout(shape), INPUTS)),
                "give_back": In(1),
                "read": Out(ReadSignature(shape.data_width)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        requests, fill = InputRequests(self.shape), InputFill(self.shape)
        m.submodules.requests = requests
        m.submodules.fill = fill
        wiring.connect(m, wiring.flipped(self.blocks), requests.blocks)
        wiring.connect(m, requests.requests, wiring.flipped(self.read.requests))
        wiring.connect(m, wiring.flipped(self.read.beats), fill.beats)
        wiring.connect(m, wiring.flipped(self.product), fill.product)
        m.d.comb += [
            requests.streams.eq(self.streams),
            fill.streams.eq(self.streams),
            requests.lists.eq(self.lists),
            requests.by_columns.eq(self.by_columns),
            requests.by_lines.eq(self.by_lines),
            requests.rows.eq(self.rows_of_tensor),
        ]
        self._gathered(m, requests, fill)
        released = self._count(m, requests, fill)
        self._buffers(m, fill, *released)
        return m

    def _gathered(self, m, requests, fill):
        """Rows that are gathered, from their numbers to their addresses."""
        m.submodules.gathered = gathered = GatheredRows(self.shape)
        m.d.comb += [
            gathered.base.eq(requests.table_address),
            gathered.pitch.eq(requests.table_pitch),
            gathered.number_en.eq(fill.index_en),
            gathered.number.eq(fill.index),
            gathered.last.eq(fill.listed),
            gathered.at.eq(requests.row_at),
            gathered.read_en.eq(requests.row_en),
            gathered.let_go.eq(requests.let_go),
            requests.row_there.eq(gathered.there),
            requests.row.eq(gathered.address),
        ]

    def _count(self, m, requests, fill):
        """Blocks that were begun, filled and released, modulo 8."""
        shape = self.shape
        bits = DEPTH.bit_length()
        begun, filled = Signal(bits, name="begun"), Signal(bits, name="filled")
        released, multiplied = Signal(bits, name="released"), Signal(bits, name="multiplied")
        m.d.sync += [
            begun.eq(begun + requests.begins),
            filled.eq(filled + fill.done),
            released.eq(released + self.give_back),
        ]
        is_product = [each.used & (each.kind == Kind.PRODUCT) for each in self.streams]
        with m.If(Cat(is_product).any()):
            m.d.sync += multiplied.eq(multiplied + fill.product_done)
        with m.Else():
            m.d.sync += multiplied.eq(begun)
        blocks = Array(
            data_register(expected_layout(shape), name=f"block{n}") for n in range(DEPTH)
        )
        with m.If(requests.begins):
            m.d.sync += blocks[begun[: bits - 1]].eq(requests.expected)
        # A block may be given back while a list is read behind it: it still has its register.
        held, unread = Signal(bits), Signal(bits)
        m.d.comb += [
            held.eq(begun - released),
            unread.eq(begun - filled),
            requests.room.eq((held != DEPTH) & (unread != DEPTH)),
            fill.there.eq(begun != filled),
            fill.block.eq(blocks[filled[: bits - 1]]),
            fill.product_there.eq(Cat(is_product).any() & (begun != multiplied)),
            fill.product_block.eq(blocks[multiplied[: bits - 1]]),
        ]
        for number, product in enumerate(is_product):
            whole = Signal(bits, name=f"whole_{number}")
            m.d.comb += whole.eq(Mux(product, multiplied, filled + fill.finished[number]))
            m.d.comb += self.level[number].eq((whole - released)[:bits])
        m.d.sync += Assert(~self.give_back | (held != 0), "a block is released that is not here")
        return filled, multiplied, released, blocks

    def _buffers(self, m, fill, filled, multiplied, released, blocks):
        shape = self.shape
        place_bits = DEPTH.bit_length() - 1
        oldest = released[:place_bits]
        outside = Signal()
        written = Signal(range(DEPTH * shape.block))
        m.d.comb += [
            outside.eq(self.row_at >= blocks[oldest].rows),
            written.eq(Cat(fill.write.row, Mux(fill.of_product, multiplied, filled)[:place_bits])),
        ]
        for number, each in enumerate(self.streams):
            row = Mux(each.kind == Kind.COLUMN, 0, self.row_at)
            row = Mux(outside, shape.block - 1, row)[: shape.row_bits]
            parts = []
            for bank in range(banks(shape)):
                ram = Ram(width=shape.vector_bits // banks(shape), depth=DEPTH * shape.block)
                m.submodules[f"input{number}_bank{bank}"] = ram
                parts.append(ram.read_data)
                m.d.comb += [
                    ram.write_en.eq(
                        fill.write_en & fill.write.input[number] & fill.write.banks[bank]
                    ),
                    ram.write_addr.eq(written),
                    ram.write_data.eq(fill.write.numbers.as_value().word_select(bank, ram.width)),
                    ram.read_en.eq(self.level[number] != 0),
                    ram.read_addr.eq(Cat(row, oldest)),
                ]
            m.d.comb += self.rows[number].eq(Cat(parts))
