"""Convert the beats of a chain's inputs to rows in the buffers of blocks."""

from typing import NamedTuple

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.memory.ram import Ram
from diastole_hw.vector.stream_layouts import WORD, VectorShape, row_layout, stream_layout
from diastole_hw.vector.streams.drawn import drawn_layout
from diastole_hw.vector.streams.gathered import INDEX_BITS
from diastole_hw.vector.streams.packing import (
    BYTES,
    PER_ROW,
    WIDE,
    Packing,
    expected_layout,
    inputs_in_memory,
    lowest,
    one_of,
)
from diastole_hw.vector.streams.unpack import RowUnpack, banks
from diastole_sim.spec.micro import INPUTS
from diastole_sim.spec.stream_table import GATHERED, Kind


def fill_layout(shape: VectorShape) -> data.StructLayout:
    """Return the layout of a write to a row slot of a block in the buffers of the inputs.
    ``input``: inputs that are written, 1 bit per input. ``banks``: parts of the row that are
    written."""
    return data.StructLayout(
        {
            "input": INPUTS,
            "row": range(shape.block),
            "banks": banks(shape),
            "numbers": row_layout(shape),
        }
    )


class _Reads(NamedTuple):
    """Input that the unit reads now: the ``kind`` of the input, and ``block``.

    ``again``: the beats of the input were kept from the previous block. ``listing_next``: the unit
    reads the row numbers of the next line instead of an input.
    """

    kind: Signal
    block: data.View
    again: Signal
    listing_next: Signal


class InputFill(wiring.Component):
    """Convert beats from memory to rows, in the order of the requests of
    :class:`diastole_hw.vector.streams.input_requests.InputRequests`. In cycles without a row from
    memory, pass on rows of random numbers, and in the remaining cycles rows of a product.

    A row of a block is written to the row slot (1 of B row positions) with the row's number. A
    vector of columns is written to row slot 0. If a block has fewer than B rows, row slot B - 1 is
    written with +0, and the remaining row slots are not written. Readers use row slot B - 1 for all
    row slots outside the tensor, and row slot 0 for every row of a vector of columns.

    Timing: combinational from beats to rows, 1 beat per cycle. A beat of a vector of rows, of a
    list, or of a mask takes as many cycles as the beat holds rows of the block. Every input of a
    block of fewer than B rows takes 1 cycle more. An input in kept beats of the previous block
    takes 1 cycle more. Beats wait for nothing else. Rows of random numbers and of a product are
    accepted in the remaining cycles.

    Parameters
    ----------
    shape : VectorShape

    Members
    -------
    streams : In(4 times stream_layout(shape))
        Stable from the first block to the last.
    available : In(1), block : In(expected_layout(shape))
        A block whose rows are requested, and are not all written.
    beats : In(stream of unsigned(data_width))
    product : In(stream of row_layout(shape))
        B rows for every block.
    product_available : In(1), product_block : In(expected_layout(shape))
        A block with free space for the product.
    write_en, write, of_product : Out(1), Out(fill_layout(shape)), Out(1)
        Write of a row of ``block``. With ``of_product``, write of a row of ``product_block`` for
        every input of kind ``product``.
    drawn : In(stream of drawn_layout(shape))
    drawn_available, drawn_block, of_draws, drawn_done
        As the members of a product, for inputs of kind ``draws``. Only with ``shape.draws``.
    finished : Out(4)
        Inputs of the block that are completely written.
    done : Out(1)
        Pulse: the last row of ``block`` is written.
    product_done : Out(1)
        Pulse: the last row of ``product_block`` is written.
    index_en, index : Out(1), Out(24)
        Number of a row, from a list.
    listed : Out(1)
        The number is the last number of the request.
    """

    streams: data.View
    block: data.View
    beats: stream.Interface
    product: stream.Interface
    product_block: data.View
    drawn: stream.Interface
    drawn_block: data.View
    write: data.View

    def __init__(self, shape: VectorShape):
        self.shape = shape
        drawn = {
            "drawn": In(stream.Signature(drawn_layout(shape))),
            "drawn_available": In(1),
            "drawn_block": In(expected_layout(shape)),
            "of_draws": Out(1),
            "drawn_done": Out(1),
        }
        super().__init__(
            (drawn if shape.draws else {})
            | {
                "streams": In(data.ArrayLayout(stream_layout(shape), INPUTS)),
                "available": In(1),
                "block": In(expected_layout(shape)),
                "beats": In(stream.Signature(shape.data_width)),
                "product": In(stream.Signature(row_layout(shape))),
                "product_available": In(1),
                "product_block": In(expected_layout(shape)),
                "write_en": Out(1),
                "write": Out(fill_layout(shape)),
                "of_product": Out(1),
                "finished": Out(INPUTS),
                "done": Out(1),
                "product_done": Out(1),
                "index_en": Out(1),
                "index": Out(INDEX_BITS),
                "listed": Out(1),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.unpack = unpack = RowUnpack(self.shape)
        stored = Ram(width=self.shape.data_width, depth=INPUTS << self.shape.row_bits)
        m.submodules.stored = stored
        passed = Signal(INPUTS)  # inputs of the block that are written
        left = Signal(INPUTS)
        one = Signal(INPUTS)  # input that is written now
        kind, again, input_ = Signal(4), Signal(), Signal(range(INPUTS))
        m.d.comb += [
            self.finished.eq(passed),
            left.eq(Cat(inputs_in_memory(self.streams)) & ~passed),
            one.eq(lowest(left)),
        ]
        for number in range(INPUTS):
            with m.If(one[number]):
                m.d.comb += kind.eq(self.streams[number].kind), input_.eq(number)
        ends = Signal()  # the input's last row is written
        after = Signal()  # row numbers of the next line are read before the block ends
        begins_after = ends & one_of(kind, GATHERED) & (self.block.ahead != 0)
        nothing_left = ((left == one) & ends & ~begins_after) | (left == 0)
        m.d.comb += self.done.eq(
            self.available & Mux(after, self.listed & (left == 0), nothing_left)
        )
        m.d.sync += after.eq(begins_after | (after & ~self.listed))
        with m.If(self.done):
            m.d.sync += passed.eq(0)
        with m.Elif(ends):
            m.d.sync += passed.eq(passed | one)
        block = Signal(expected_layout(self.shape), name="read_now")
        m.d.comb += block.eq(self.block)
        with m.If(after):
            m.d.comb += [block.rows.eq(self.block.ahead), block.i.eq(self.block.i + 1)]
        m.d.comb += [
            unpack.kind.eq(kind),
            unpack.block.eq(block),
            again.eq((self.block.again & one).any() & ~after),
            unpack.beat.eq(Mux(again, stored.read_data, self.beats.payload)),
            self.write.input.eq(one),
            self.write.numbers.eq(unpack.numbers),
        ]
        busy = self.available & (left.any() | after)
        reads = _Reads(kind=kind, block=block, again=again, listing_next=after)
        own, leaves = self._rows(m, busy, reads, unpack, ends)
        self._keep(m, stored, input_, leaves, ends, again)
        if self.shape.draws:
            self._drawn(m, own, unpack)
            own = own | self.of_draws
        self._product(m, own, unpack)
        return m

    def _rows(self, m, busy, reads, unpack, ends):
        """Write the rows of the input that is read, while the unit is ``busy`` with an input.

        Return whether a row is written, and whether a beat of rows is finished.
        """
        shape, kind, block = self.shape, reads.kind, reads.block
        again, after = reads.again, reads.listing_next
        row = Signal(range(shape.block))
        part = Signal(range(max(2, banks(shape))))  # beat of the row
        empty, listing = Signal(), Signal()
        zeroed, indexed = Signal(), Signal()  # the +0 row is written; the list is read
        m.d.comb += [
            listing.eq(busy & (after | (one_of(kind, GATHERED) & block.listed & ~indexed))),
            empty.eq(busy & ~listing & (block.rows != shape.block) & ~zeroed),
        ]
        accepted, own = Signal(), Signal()
        needs_beat, stored_available = Signal(), Signal()
        m.d.comb += [
            needs_beat.eq(busy & ~empty),
            accepted.eq(needs_beat & Mux(again, stored_available, self.beats.valid)),
        ]
        m.d.sync += stored_available.eq(needs_beat & again & ~ends)
        here = self._last_here(m, block, Mux(listing, Kind.LABELS, kind), row, part)
        last_row = (row == block.rows - 1) | ((kind == Kind.COLUMN) & ~listing)
        m.d.comb += [
            self.beats.ready.eq(needs_beat & ~again & here.beat),
            ends.eq(accepted & ~listing & here.row & last_row),
            self.listed.eq(accepted & listing & last_row),
            self.index_en.eq(accepted & listing),
            self.index.eq(unpack.word),
            own.eq((accepted & ~listing) | empty),
            self.write_en.eq(self._writes(own)),
            self.write.row.eq(Mux(empty, shape.block - 1, row)),
            self.write.banks.eq(Mux(empty, -1, self._banks(kind, part, here.row))),
            unpack.row.eq(row),
            unpack.zero.eq(empty),
        ]
        with m.If(accepted):
            m.d.sync += part.eq(Mux(here.row, 0, part + 1))
            with m.If(here.row):
                m.d.sync += row.eq(Mux(last_row, 0, row + 1))
        with m.If(empty):
            m.d.sync += zeroed.eq(1)
        with m.If(self.listed & ~after):
            m.d.sync += indexed.eq(1)
        with m.If(ends):
            m.d.sync += [zeroed.eq(0), indexed.eq(0)]
        leaves = Signal()
        m.d.comb += leaves.eq(accepted & here.beat & ~listing)
        return own, leaves

    def _keep(self, m, stored, input_, leaves, ends, again):
        """Keep the beats of the current block, for inputs of the next block that share the beats.
        The memory has space for B beats per input, which is enough for every kind with shared
        beats."""
        number = Signal(self.shape.row_bits)
        following = Signal.like(number, name="following_beat")
        m.d.comb += [
            following.eq(Mux(ends, 0, number + leaves)),
            stored.write_en.eq(leaves & ~again),
            stored.write_addr.eq(Cat(number, input_)),
            stored.write_data.eq(self.beats.payload),
            stored.read_en.eq(again),
            stored.read_addr.eq(Cat(following, input_)),
        ]
        m.d.sync += number.eq(following)

    def _last_here(self, m, block, kind, row, part):
        """Return whether the beat has no further row slots of the block (``beat``), and whether no
        later beat has more of this row slot (``row``)."""
        shape = self.shape
        here = Signal(data.StructLayout({"beat": 1, "row": 1}), name="last")
        m.d.comb += [here.beat.eq(1), here.row.eq(1)]
        with m.Switch(kind):
            for kinds, bits in (((*WIDE, Kind.COLUMN), WORD), ((Kind.BF16,), 16), (BYTES, 8)):
                with m.Case(*kinds):
                    packing = Packing.of_row(shape, bits)
                    m.d.comb += here.row.eq(part == packing.last_part(block.cols))
            for kinds, packing in (
                (PER_ROW, Packing.of_row(shape, WORD)),
                ((Kind.MASK,), Packing.of_mask(shape)),
            ):
                with m.Case(*kinds):
                    last = packing.last_of_beat(row) | (row == block.rows - 1)
                    m.d.comb += here.beat.eq(last)
        return here

    def _banks(self, kind, part, last):
        """Return the banks that beat ``part`` of a row fills. The ``last`` beat also fills all
        later banks."""
        count = banks(self.shape)
        if count == 1:
            return Const(1, 1)
        each = []
        for bank in range(count):
            written = one_of(kind, (Kind.MASK, *PER_ROW))
            for kinds, bits in (((*WIDE, Kind.COLUMN), WORD), ((Kind.BF16,), 16), (BYTES, 8)):
                own = bank // (count // Packing.of_row(self.shape, bits).parts)
                behind = last & (part < own) if own else 0
                written = written | (one_of(kind, kinds) & ((part == own) | behind))
            each.append(written)
        return Cat(each)

    def _writes(self, own):
        """Return whether a row is written. ``own``: a row from memory is written."""
        written = own | self.of_product
        return written | self.of_draws if self.shape.draws else written

    def _product(self, m, own, unpack):
        """Pass on a row of a product in a cycle without another row (``own``)."""
        shape, block = self.shape, self.product_block
        row = Signal(range(shape.block), name="product_row")
        m.d.comb += [
            self.product.ready.eq(self.product_available & ~own),
            self.of_product.eq(self.product.valid & self.product.ready),
            self.product_done.eq(self.of_product & (row == shape.block - 1)),
            unpack.product.eq(self.product.payload),
            unpack.of_product.eq(self.of_product),
            unpack.product_cols.eq(Mux(row < block.rows, block.cols, 0)),
        ]
        self._write_beside(m, Kind.PRODUCT, row, self.of_product, self.product_done)

    def _drawn(self, m, own, unpack):
        """Pass on a row of random numbers in a cycle without a row from memory (``own``)."""
        shape, block = self.shape, self.drawn_block
        row = Signal(range(shape.block), name="drawn_row")
        m.d.comb += [
            self.drawn.ready.eq(self.drawn_available & ~own),
            self.of_draws.eq(self.drawn.valid & self.drawn.ready),
            self.drawn_done.eq(self.of_draws & (row == shape.block - 1)),
            unpack.drawn.eq(self.drawn.payload),
            unpack.of_draws.eq(self.of_draws),
            unpack.drawn_cols.eq(Mux(row < block.rows, block.cols, 0)),
        ]
        self._write_beside(m, Kind.DRAWS, row, self.of_draws, self.drawn_done)

    def _write_beside(self, m, kind, row, valid, ends):
        """Write ``row`` of every input of ``kind`` if the row is ``valid``, and go on to the next
        row. ``ends``: the row is the last row of its block."""
        with m.If(valid):
            m.d.sync += row.eq(Mux(ends, 0, row + 1))
            m.d.comb += [
                self.write.input.eq(Cat(each.used & (each.kind == kind) for each in self.streams)),
                self.write.row.eq(row),
                self.write.banks.eq(-1),
            ]
