"""Find the row and column maxima of a copy's stored exponents while the groups of the copy pass."""

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.convert.by_class import by_class
from diastole_hw.convert.image.copy_port import image_group_layout
from diastole_hw.convert.image.pack_bytes import PackBytes
from diastole_hw.convert.tile_order import (
    NEXT_LINE,
    RIGHT,
    Numbers,
    cut_layout,
    make_tile_order,
)
from diastole_hw.data_registers import data_register, delayed_record
from diastole_hw.memory.ram import Ram
from diastole_sim.spec.image import EXTENT_BITS, GROUP_BLOCKS
from diastole_sim.spec.require import require_int
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes

MAX_COL_BLOCKS = 2**16
MAX_STORED_ROWS = 2**16


class MaxMemory(wiring.Component):
    """Store ``depth`` bytes and replace a byte by the maximum of the byte and an entry.

    Timing: 1 ``add`` per cycle; the new byte can be read from 3 cycles later on. ``read_data`` is
    valid 1 cycle after ``read_en``, and holds. ``add`` and ``read_en`` must not be high in the same
    cycle; not checked.

    Parameters
    ----------
    depth : int
        Number of bytes, 2 to 2^24.

    Members
    -------
    add, first : In(1)
        The byte at ``addr`` becomes the larger of the byte and ``entry``. With ``first``, the byte
        becomes ``entry``, whatever it was.
    addr : In(range(depth))
    entry : In(8)
    read_en : In(1)
        Read the byte at ``addr``.
    read_data : Out(8)
    """

    def __init__(self, *, depth: int):
        require_int("depth", depth, 2, 2**24)
        self.depth = depth
        super().__init__(
            {
                "add": In(1),
                "first": In(1),
                "addr": In(range(depth)),
                "entry": In(8),
                "read_en": In(1),
                "read_data": Out(8),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = Ram(width=8, depth=self.depth)
        added = Signal(
            data.StructLayout({"add": 1, "addr": self.addr.shape(), "entry": 8}), name="added"
        )
        # First cycle: read the byte. Second cycle: the memory outputs the byte. Third cycle:
        # compare the byte with the entry, and write the result.
        read = delayed_record(m, added, "read", control=("add",))
        joins = delayed_record(m, read, "joins", control=("add",))
        first = data_register()
        near = data_register()  # the addition a cycle before had the same address
        far = data_register()  # the addition 2 cycles before had it, and its write blocked the read
        old = data_register(8)
        joined = Signal(8)
        before = data_register(8)
        written = joins.add & (joins.addr == self.addr)
        m.d.comb += [
            added.add.eq(self.add),
            added.addr.eq(self.addr),
            added.entry.eq(self.entry),
            joined.eq(Mux(joins.entry > old, joins.entry, old)),
            ram.read_en.eq((self.add | self.read_en) & ~written),
            ram.read_addr.eq(self.addr),
            ram.write_en.eq(joins.add),
            ram.write_addr.eq(joins.addr),
            ram.write_data.eq(joined),
            self.read_data.eq(ram.read_data),
        ]
        collides = ram.write_en & ram.read_en & (ram.write_addr == ram.read_addr)
        m.d.sync += Assert(~collides, "a byte is read while it is written")
        m.d.sync += [
            first.eq(self.first),
            near.eq(read.add & (read.addr == self.addr)),
            far.eq(written),
            before.eq(joined),
            old.eq(Mux(first, 0, Mux(near, joined, Mux(far, before, ram.read_data)))),
        ]
        return m


class ImageMaxima(wiring.Component):
    """Pass on the bytes of exponent fields, and find the largest byte of every row and column.

    With squares, the maxima are a byte per row of blocks, then a byte per column of blocks. With
    vectors, the maxima are a byte per row of elements of the first copy, then a byte per row of the
    second copy, which is a column of the tensor. NaN counts as 0. Row maxima are output when a row
    of tiles is complete, with the tile at the right end of the tensor. Column maxima are output
    after the last group.

    Timing: 1 byte per cycle. After a row of tiles, and at the end, ``i`` waits while the maxima are
    output, at most a byte per cycle. Within a group ``i`` does not wait.

    Parameters
    ----------
    sizes : ConverterSizes
    max_col_blocks : int
        Most columns of blocks of a tensor (1 to 65536). More columns are not checked, and give
        wrong maxima.
    stored_rows : int
        Most rows of blocks whose maxima wait for the tiles on the right, if tensors may come in
        patches. The rows are the rows of a patch or, if patches come column by column, of the
        tensor. 0 if no tensor comes in patches.

    Members
    -------
    start : In(1)
        A pulse before the first group of a tensor.
    cut : In(:func:`diastole_hw.convert.tile_order.cut_layout`)
        Patches of the tensor; must hold as ``cols``. Present with ``stored_rows``.
    cls : In(2)
    cols : In(24)
        Columns of the tensor; must hold until the last beat is accepted.
    group : In(stream of :func:`image_group_layout`)
        Group of the bytes at ``i``.
    i, o : In, Out(stream of {"byte": unsigned(8), "last": 1})
    beats : Out(stream of unsigned(data_width))
        Row maxima, with zeros up to a whole beat; then column maxima in the same way.
    """

    def __init__(self, sizes: ConverterSizes, *, max_col_blocks: int, stored_rows: int = 0):
        require_int("max_col_blocks", max_col_blocks, 1, MAX_COL_BLOCKS)
        require_int("stored_rows", stored_rows, 0, MAX_STORED_ROWS)
        self.max_col_blocks, self.stored_rows = max_col_blocks, stored_rows
        self.sizes = sizes
        byte = data.StructLayout({"byte": unsigned(8), "last": 1})
        super().__init__(
            ({"cut": In(cut_layout())} if stored_rows else {})
            | {
                "start": In(1),
                "cls": In(2),
                "cols": In(EXTENT_BITS),
                "group": In(stream.Signature(image_group_layout())),
                "i": In(stream.Signature(byte)),
                "o": Out(stream.Signature(byte)),
                "beats": Out(stream.Signature(unsigned(sizes.data_width))),
            }
        )

    @property
    def _row_entries(self) -> int:
        """Largest number of row maxima: of a row of tiles, or of all rows that wait."""
        sizes = self.sizes
        rows = (
            sizes.tile_rows(cls) // (1 if vectors else sizes.block)
            for cls, vectors in enumerate(sizes.vectors)
        )
        patch_rows = self.stored_rows * (sizes.block if sizes.two_copies else 1)
        return max(2, patch_rows, *rows)

    @property
    def _column_entries(self) -> int:
        sizes = self.sizes
        blocks = -(-self.max_col_blocks // GROUP_BLOCKS) * GROUP_BLOCKS
        return blocks * (sizes.block if sizes.two_copies else 1)

    def elaborate(self, platform):
        m = Module()
        sizes = self.sizes
        m.submodules.rows = rows = MaxMemory(depth=self._row_entries)
        m.submodules.columns = columns = MaxMemory(depth=self._column_entries)
        vectors = by_class(m, self.cls, map(int, sizes.vectors), "vectors").bool()
        draining = Signal()
        took = Signal()
        group = self.group.p
        may = self.group.valid & ~draining
        m.d.comb += [
            self.o.payload.eq(self.i.payload),
            self.o.valid.eq(self.i.valid & may),
            self.i.ready.eq(self.o.ready & may),
            took.eq(self.i.valid & self.i.ready),
            self.group.ready.eq(took & self.i.p.last),
        ]
        # Count the bytes of a group, and the lines of both copies in the tile.
        number = Signal(range(max(sizes.by_class(sizes.exponent_entries))))
        fresh = Signal(init=1)  # the group is the first of a line of the first copy
        lines = range(max(2, sizes.max_tile_rows // sizes.block))
        line = Signal(lines)  # line of the first copy
        line_t = Signal(lines)  # line of the second copy
        with m.If(took):
            m.d.sync += number.eq(number + 1)
        with m.If(self.group.ready):
            m.d.sync += number.eq(0)
            after = [(line_t, group.copy)] * sizes.two_copies + [(line, ~group.copy)]
            for counted, here in after:
                with m.If(here & group.line_end):
                    m.d.sync += counted.eq(Mux(group.copy_end, 0, counted + 1))
            with m.If(~group.copy):
                m.d.sync += fresh.eq(group.line_end)
        m.d.comb += [rows.entry.eq(self._counted()), columns.entry.eq(rows.entry)]
        order, order_t = self._orders(m, vectors)
        top = self._top(m, order) if self.stored_rows else Const(0)
        of_rows = top + line if self.stored_rows else line
        self._add_rows(m, rows, took, number, fresh, of_rows, vectors)
        self._add_columns(m, columns, took, number, (line, line_t), vectors, order_t)
        self._drain(m, rows, columns, line, top, vectors, draining)
        return m

    def _orders(self, m, vectors):
        """Return the order of the tiles of the first copy, and the order of the tiles that give
        column maxima."""
        group = self.group.p
        return [
            make_tile_order(
                m,
                name,
                cut=self.cut if self.stored_rows else None,
                start=self.start,
                advance=self.group.ready & group.copy_end & here,
                last_row=group.last_row,
                last_col=group.last_col,
            )
            for name, here in (("order", ~group.copy), ("order_t", group.copy | ~vectors))
        ]

    def _top(self, m, order):
        """Return the first row of blocks of the current tile, among the rows that wait."""
        sizes = self.sizes
        counts = [rows // sizes.block for rows in sizes.by_class(sizes.tile_rows)]
        below = by_class(m, self.cls, counts, "tile_lines")
        top = data_register(range(self._row_entries), name="top")
        with m.If(order.advance & (order.move != RIGHT)):
            m.d.sync += top.eq(Mux(order.move == NEXT_LINE, top + below, 0))
        with m.If(self.start):
            m.d.sync += top.eq(0)
        return top

    def _counted(self):
        """Return the byte at the input, or 0 if the byte is NaN."""
        byte = self.i.p.byte
        if self.sizes.numerics.special != "poison":
            return byte
        return Mux(byte == self.sizes.classes[0].format.nan_byte, 0, byte)

    def _add_rows(self, m, rows, took, number, fresh, line, vectors):
        row_bits = exact_log2(self.sizes.block)
        address = line
        first = number == 0
        if self.sizes.two_copies:
            address = Mux(vectors, Cat(number[:row_bits], line), line)
            first = (number >> Mux(vectors, row_bits, 0)) == 0
        m.d.comb += [
            rows.add.eq(took & ~self.group.p.copy),
            rows.addr.eq(address),
            rows.first.eq(self.group.p.first_col & fresh & first),
        ]

    def _add_columns(self, m, columns, took, number, lines, vectors, order):
        sizes, group = self.sizes, self.group.p
        line, line_t = lines
        row_bits = exact_log2(sizes.block)
        # Column of the group, counted in groups of blocks or, with vectors, in blocks.
        here = Signal.like(columns.addr, name="column")
        goes_on = self.group.ready & (group.copy | ~vectors)
        self._follow_columns(m, order, here, goes_on)
        m.d.comb += [
            columns.add.eq(took & ~vectors),
            columns.addr.eq(Cat(number[: exact_log2(GROUP_BLOCKS)], here)),
            columns.first.eq(group.first_row & (line == 0)),
        ]
        if sizes.two_copies:
            with m.If(vectors):
                m.d.comb += [
                    columns.add.eq(took & group.copy),
                    columns.addr.eq(Cat(number[:row_bits], here)),
                    columns.first.eq(group.first_row & (line_t == 0) & ((number >> row_bits) == 0)),
                ]

    def _follow_columns(self, m, order, here, goes_on):
        """Find the columns of a group of a tensor with tiles in the order ``order``."""
        sizes, group = self.sizes, self.group.p
        counts = [
            sizes.tile_cols(cls) // (sizes.block if vectors else sizes.group_cols)
            for cls, vectors in enumerate(sizes.vectors)
        ]
        tile_columns = by_class(m, self.cls, counts, "tile_columns")
        numbers = Numbers(Const(0, len(here)), tile_columns, 0, after=here + 1)
        tile, following = order.follow(m, numbers, "columns")
        with m.If(goes_on):
            m.d.sync += here.eq(here + 1)
            with m.If(group.line_end):
                m.d.sync += here.eq(Mux(group.copy_end, following, tile))
        with m.If(self.start):
            m.d.sync += here.eq(0)

    def _drain(self, m, rows, columns, line, top, vectors, draining):
        """Output the row maxima of a row of tiles, or the column maxima, or both."""
        sizes, group = self.sizes, self.group.p
        bits = exact_log2(sizes.block)
        m.submodules.packer = packer = PackBytes(data_width=self.sizes.data_width)
        col_blocks = (self.cols + (sizes.block - 1)) >> bits
        entries = Signal(range(max(self._row_entries, self._column_entries) + 1))
        drained = Signal.like(entries)
        of_columns = Signal()
        then_columns = Signal()
        flush = Signal()
        settling = Signal()
        settled = Signal()  # the last byte has reached its memory
        valid = Signal()
        last = Signal()
        move = Signal()
        read = Signal()
        m.d.comb += [
            self.beats.payload.eq(packer.o.p.beat),
            self.beats.valid.eq(packer.o.valid),
            packer.o.ready.eq(self.beats.ready),
            packer.i.valid.eq(valid),
            packer.i.p.byte.eq(Mux(of_columns, columns.read_data, rows.read_data)),
            packer.i.p.last.eq(last),
            move.eq(packer.i.ready | ~valid),
            read.eq(draining & settled & move & (drained != entries)),
            rows.read_en.eq(read & ~of_columns),
            columns.read_en.eq(read & of_columns),
        ]
        # First of the complete rows.
        first_row = data_register(range(self._row_entries), name="first_row")
        m.d.sync += [settling.eq(draining), settled.eq(draining & settling)]
        # Output: read a byte per cycle, then the columns if they follow.
        with m.If(move):
            m.d.sync += [valid.eq(read), last.eq(flush & (drained + 1 == entries))]
        with m.If(draining):
            row_at = first_row + drained if self.stored_rows else drained
            m.d.comb += [rows.addr.eq(row_at), columns.addr.eq(drained)]
            m.d.sync += drained.eq(drained + read)
            with m.If(settled & move & (drained == entries)):
                m.d.sync += [draining.eq(then_columns), of_columns.eq(1), drained.eq(0)]
                m.d.sync += [entries.eq(col_blocks), then_columns.eq(0)]
        # Begin to output when a row of tiles is complete.
        with m.If(self.group.ready & group.copy_end & group.last_col):
            lines = Signal(len(line) + 1)
            m.d.comb += lines.eq(line + 1)
            m.d.sync += [drained.eq(0), flush.eq(group.last_row)]
            if self.stored_rows:
                m.d.sync += first_row.eq(Mux(vectors, top << bits, top))
            with m.If(~group.copy):
                m.d.sync += [draining.eq(1), of_columns.eq(0)]
                m.d.sync += entries.eq(Mux(vectors, lines << bits, lines))
                m.d.sync += then_columns.eq(group.last_row & ~vectors)
            with m.Elif(group.last_row):
                m.d.sync += [draining.eq(1), of_columns.eq(1), then_columns.eq(0)]
                m.d.sync += entries.eq(col_blocks << bits)
