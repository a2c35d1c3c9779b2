"""Buffer the inputs of a chain, from memory and from a product, as blocks for the core."""

from typing import NamedTuple

from amaranth.hdl import Array, Assert, Cat, Module, Mux, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.services import ReadSignature
from diastole_hw.data_registers import data_register
from diastole_hw.memory.ram import Ram
from diastole_hw.vector.stream_layouts import VectorShape, row_layout, stream_layout, visited_layout
from diastole_hw.vector.streams.drawn import DrawnRows
from diastole_hw.vector.streams.gathered import GatheredRows
from diastole_hw.vector.streams.input_fill import InputFill
from diastole_hw.vector.streams.input_requests import InputRequests
from diastole_hw.vector.streams.packing import expected_layout
from diastole_hw.vector.streams.unpack import banks
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.image import MAX_SIZE
from diastole_sim.spec.micro import INPUTS
from diastole_sim.spec.sizes.queues import INPUT_BLOCKS
from diastole_sim.spec.stream_table import Kind


class _Drawn(NamedTuple):
    """Inputs of random numbers. ``inputs``: per input, whether the input has random numbers.
    ``blocks``: number of blocks with all random numbers, modulo 8. ``ready``: a block may begin."""

    inputs: list[Value]
    blocks: Signal
    ready: Value


class InputStreams(wiring.Component):
    """Read the blocks of a chain's inputs ahead of the core, into a buffer of 4 blocks per input.
    Numbers are in binary32, and +0 outside the tensor. Panels (read by the core) and unused inputs
    are ignored. Random numbers are drawn instead of read.

    All inputs have the same blocks, and release blocks together. A late input therefore stalls the
    remaining inputs when they are 4 blocks ahead. The unit requests a block only if the buffers
    have free space: beats are accepted whatever the core does.

    Timing: the requests of a block begin 2 cycles after the block is offered. ``level`` counts a
    block from the cycle after the last beat of the block on.
    :class:`diastole_hw.vector.streams.input_fill.InputFill` defines the rate of accepted beats.
    ``rows`` are valid 1 cycle after ``row_at``.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    streams : In(4 times stream_layout(shape))
        Stable from the first block until the last block is released.
    lists : In(4 times 40)
    by_columns, by_lines, rows_of_tensor : In(1), In(1), In(range(MAX_SIZE + 1))
        As in :class:`diastole_hw.vector.streams.input_requests.InputRequests`. Stable as
        ``streams``.
    blocks : In(stream of visited_layout(shape))
    product : In(stream of row_layout(shape))
        Rows for inputs of kind ``product``: the blocks in the order of ``blocks``, B rows per
        block.
    level : Out(4 times range(5))
        Number of whole blocks of every input in the buffer.
    seed, step, columns_of_tensor : In(32), In(32), In(range(MAX_SIZE + 1))
        Members of :class:`diastole_hw.vector.streams.drawn.DrawnRows`, stable as ``streams``. Only
        with ``shape.draws``.
    row_at : In(range(B))
        Row slot of the oldest block.
    rows : Out(4 times row_layout(shape))
        Row of every input.
    release_block : In(1)
        Pulse: no row of the oldest block is requested from the next cycle on.
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
        draws = {"seed": In(32), "step": In(32), "columns_of_tensor": In(range(MAX_SIZE + 1))}
        super().__init__(
            (draws if shape.draws else {})
            | {
                "streams": In(data.ArrayLayout(stream_layout(shape), INPUTS)),
                "lists": In(data.ArrayLayout(ADDRESS_BITS, INPUTS)),
                "by_columns": In(1),
                "by_lines": In(1),
                "rows_of_tensor": In(range(MAX_SIZE + 1)),
                "blocks": In(stream.Signature(visited_layout(shape))),
                "product": In(stream.Signature(row_layout(shape))),
                "level": Out(data.ArrayLayout(range(INPUT_BLOCKS + 1), INPUTS)),
                "row_at": In(range(shape.block)),
                "rows": Out(data.ArrayLayout(row_layout(shape), INPUTS)),
                "release_block": In(1),
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
        """Connect the unit that converts numbers of gathered rows to addresses."""
        m.submodules.gathered = gathered = GatheredRows(self.shape)
        m.d.comb += [
            gathered.base.eq(requests.table_address),
            gathered.pitch.eq(requests.table_pitch),
            gathered.number_en.eq(fill.index_en),
            gathered.number.eq(fill.index),
            gathered.last.eq(fill.listed),
            gathered.at.eq(requests.row_at),
            gathered.read_en.eq(requests.row_en),
            gathered.discard.eq(requests.discard),
            requests.row_available.eq(gathered.available),
            requests.row.eq(gathered.address),
        ]

    def _count(self, m, requests, fill):
        """Count, modulo 8, the blocks that were begun, filled and released. Return the number of
        the block that is filled now, the counter of released blocks, and the blocks."""
        shape = self.shape
        bits = INPUT_BLOCKS.bit_length()
        begun, filled = Signal(bits, name="begun"), Signal(bits, name="filled")
        released, multiplied = Signal(bits, name="released"), Signal(bits, name="multiplied")
        m.d.sync += [
            begun.eq(begun + requests.begins),
            filled.eq(filled + fill.done),
            released.eq(released + self.release_block),
        ]
        is_product = self._of_kind(Kind.PRODUCT)
        with m.If(Cat(is_product).any()):
            m.d.sync += multiplied.eq(multiplied + fill.product_done)
        with m.Else():
            m.d.sync += multiplied.eq(begun)
        blocks = Array(
            data_register(expected_layout(shape), name=f"block{n}") for n in range(INPUT_BLOCKS)
        )
        with m.If(requests.begins):
            m.d.sync += blocks[begun[: bits - 1]].eq(requests.expected)
        drawn = self._drawn(m, requests, fill, begun, blocks) if shape.draws else None
        # A block may be released while a list behind the block is read: the register stays in use.
        in_use, unread = Signal(bits), Signal(bits)
        space = (in_use != INPUT_BLOCKS) & (unread != INPUT_BLOCKS)
        m.d.comb += [
            in_use.eq(begun - released),
            unread.eq(begun - filled),
            requests.space.eq(space if drawn is None else space & drawn.ready),
            fill.available.eq(begun != filled),
            fill.block.eq(blocks[filled[: bits - 1]]),
            fill.product_available.eq(Cat(is_product).any() & (begun != multiplied)),
            fill.product_block.eq(blocks[multiplied[: bits - 1]]),
        ]
        for number, product in enumerate(is_product):
            whole = Signal(bits, name=f"whole_{number}")
            count = filled + fill.finished[number]
            if drawn is not None:
                count = Mux(drawn.inputs[number], drawn.blocks, count)
            m.d.comb += whole.eq(Mux(product, multiplied, count))
            m.d.comb += self.level[number].eq((whole - released)[:bits])
        m.d.sync += Assert(
            ~self.release_block | (in_use != 0), "a block is released that is not here"
        )
        written = Mux(fill.of_product, multiplied, filled)
        if drawn is not None:
            written = Mux(fill.of_draws, drawn.blocks, written)
        return written, released, blocks

    def _drawn(self, m, requests, fill, begun, blocks):
        """Draw the random numbers of every block, and count the blocks."""
        m.submodules.drawn = rows = DrawnRows(self.shape)
        count, inputs = Signal.like(begun, name="drawn_blocks"), self._of_kind(Kind.DRAWS)
        here = Cat(inputs).any()
        wiring.connect(m, rows.o, fill.drawn)
        m.d.comb += [
            rows.blocks.valid.eq(requests.begins & here),
            rows.blocks.p.i.eq(self.blocks.p.i),
            rows.blocks.p.j.eq(self.blocks.p.j),
            rows.columns.eq(self.columns_of_tensor),
            rows.seed.eq(self.seed),
            rows.step.eq(self.step),
            fill.drawn_available.eq(here & (begun != count)),
            fill.drawn_block.eq(blocks[count[: len(count) - 1]]),
        ]
        for number, each in enumerate(inputs):
            with m.If(each):
                m.d.comb += rows.tag.eq(self.streams[number].pitch)
        with m.If(here):
            m.d.sync += count.eq(count + fill.drawn_done)
        with m.Else():
            m.d.sync += count.eq(begun)
        return _Drawn(inputs=inputs, blocks=count, ready=~here | rows.blocks.ready)

    def _of_kind(self, kind):
        """Return, for every input, whether the input is used and of ``kind``."""
        return [each.used & (each.kind == kind) for each in self.streams]

    def _buffers(self, m, fill, filled, released, blocks):
        """Add a memory per bank of every input, and read a row of the oldest block."""
        shape = self.shape
        place_bits = INPUT_BLOCKS.bit_length() - 1
        oldest = released[:place_bits]
        outside = Signal()
        written = Signal(range(INPUT_BLOCKS * shape.block))
        m.d.comb += [
            outside.eq(self.row_at >= blocks[oldest].rows),
            written.eq(Cat(fill.write.row, filled[:place_bits])),
        ]
        for number, each in enumerate(self.streams):
            row = Mux(each.kind == Kind.COLUMN, 0, self.row_at)
            row = Mux(outside, shape.block - 1, row)[: shape.row_bits]
            parts = []
            for bank in range(banks(shape)):
                ram = Ram(width=shape.vector_bits // banks(shape), depth=INPUT_BLOCKS * shape.block)
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
