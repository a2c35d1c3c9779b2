"""Reduce the values of all elements of every unit of a tile while the words of the tile pass."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.convert.by_class import by_class, of_vectors
from diastole_hw.convert.lanes.reduction import Reduction
from diastole_hw.data_registers import data_register
from diastole_hw.memory.ram import Ram
from diastole_sim.spec.require import require_int
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes


def squares_layout(sizes: ConverterSizes, shape=None) -> data.ArrayLayout:
    """Return the layout of the values of the squares of a piece: ``measured_bits`` bits, or another
    ``shape``. The place of a square is its number in the tile, modulo the number of places. Missing
    squares are 0. The layout is empty if all classes have vectors."""
    return data.ArrayLayout(shape or unsigned(sizes.measured_bits), sizes.piece_squares)


class UnitReduction(wiring.Component):
    """Reduce the values of every unit of a tile: of squares, or of the vectors of rows and columns.
    With a tensor scale the units are the blocks, as squares.

    Words come piece by piece (a piece is a range of columns), row by row. Or, with ``by_blocks``,
    words come row of blocks by row of blocks, block by block, and row by row in a block. Values
    outside the tensor need not come. In a unit with at least one value, missing values count as 0.
    Units without any value are arbitrary, but squares are 0.

    Timing: 1 word per cycle. ``squares`` holds from ``done``, 2 cycles after the last word of a
    piece, to the ``done`` of the next piece. Vectors can be read from ``done`` on until they are
    overwritten.

    Parameters
    ----------
    sizes : ConverterSizes
    reduction : Reduction
        Reduction of the values of a unit.
    halves : int
        Number of tiles with stored vectors (1 or 2).
    by_blocks : bool
        True if words of a tile may come block by block.

    Members
    -------
    cls : In(2)
        Must hold from the first word of a tile to ``done``.
    add : In(1)
        A word is valid.
    row : In(range(max_tile_rows))
    word : In(range(tile_row_words))
    half : In(log2 halves)
        Place of the word in the tile, and place of the tile's vectors. Sizes as in
        :class:`ConverterSizes`.
    row_end, last_row : In(1)
        The word is the last of its row in the piece; the word is in the last row.
    values, values_t : In(array of lanes of the reduction's values)
        Values of the word's elements, for squares and rows, and for columns. ``values_t`` is
        present only with vectors.
    squares : Out(:func:`squares_layout` of the reduction's results)
    done : Out(1)
        A pulse: the piece is complete.
    read_en : In(1)
    read_row, read_word, read_half : In
        Place of a word, in shapes as above.
    row_value : Out(the reduction's result)
        Result of the row vector that contains the word, 1 cycle after ``read_en``, held until the
        next.
    column_values : Out(array of lanes of the reduction's results)
        Results of the column vectors, with the same timing. The members from ``read_en`` on are
        present only with vectors.
    """

    def __init__(
        self,
        sizes: ConverterSizes,
        *,
        reduction: Reduction,
        halves: int,
        by_blocks: bool = False,
    ):
        self.by_blocks = by_blocks
        self.reduction, self.halves = reduction, require_int("halves", halves, 1, 2)
        self.sizes = sizes
        row, word = range(sizes.max_tile_rows), range(sizes.tile_row_words)
        half = unsigned(exact_log2(halves))
        lanes = data.ArrayLayout(reduction.value, sizes.lanes)
        members = {
            "row": In(row),
            "word": In(word),
            "half": In(half),
            "cls": In(2),
            "add": In(1),
            "row_end": In(1),
            "last_row": In(1),
            "values": In(lanes),
            "squares": Out(squares_layout(sizes, reduction.result)),
            "done": Out(1),
        }
        if sizes.two_copies:
            members |= {
                "values_t": In(lanes),
                "read_row": In(row),
                "read_word": In(word),
                "read_half": In(half),
                "read_en": In(1),
                "row_value": Out(reduction.result),
                "column_values": Out(data.ArrayLayout(reduction.result, sizes.lanes)),
            }
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        last = Signal()
        m.d.sync += [last.eq(self.add & self.row_end & self.last_row), self.done.eq(last)]
        if self.sizes.squares:
            self._squares(m, last)
        if self.sizes.two_copies:
            self._rows(m)
            self._columns(m)
        return m

    def _squares(self, m, last):
        sizes, join = self.sizes, self.reduction.join
        so_far = Signal(squares_layout(sizes, self.reduction.grown))
        mask = by_class(m, self.cls, (n - 1 for n in sizes.piece_words), "piece_words")
        first = (self.row == 0) & ((self.word & mask) == 0)
        chunks = [
            join(m, self.values[chunk * sizes.chunk :][: sizes.chunk], f"chunk{chunk}")
            for chunk in range(sizes.word_chunks)
        ]
        for n in range(sizes.piece_squares):
            values = [self._of_square(m, n, chunks), Mux(first, 0, so_far[n])]
            grown = join(m, values, f"grown{n}")
            with m.If(self.add):
                m.d.sync += so_far[n].eq(grown)
        results = [self.reduction.finish(so_far[n]) for n in range(sizes.piece_squares)]
        with m.If(last):
            m.d.sync += self.squares.eq(Cat(results))

    def _of_square(self, m, n, chunks):
        """Return the value of the word for square ``n`` of a piece, 0 if the word lies outside the
        square. ``chunks``: values of the word's chunks."""
        sizes = self.sizes
        parts = []
        for chunk, value in enumerate(chunks):
            square = square_of(m, sizes, self.cls, self.word, chunk, f"square{n}_{chunk}")
            part = Signal(self.reduction.grown, name=f"square{n}_chunk{chunk}")
            m.d.comb += part.eq(Mux(square == n, value, 0))
            parts.append(part)
        return self.reduction.join(m, parts, f"square{n}_part")

    def _rows(self, m):
        """Reduce the vectors along rows. A vector is complete with its last word, and is written to
        a memory."""
        sizes, reduction = self.sizes, self.reduction
        words = [max(1, sizes.side(cls) // sizes.lanes) for cls in range(3)]
        runs = max(sizes.runs(cls) for cls in range(3) if sizes.vectors[cls])
        depth = max(2, self.halves * sizes.max_tile_rows * runs)
        m.submodules.rows = ram = Ram(width=reduction.result.width, depth=depth)
        mask = of_vectors(m, self.cls, sizes, [n - 1 for n in words], "vector_words")
        shift = of_vectors(m, self.cls, sizes, [exact_log2(n) for n in words], "vector_shift")

        def address(word, row, half):
            run = Signal(exact_log2(runs), name=f"{word.name}_run")
            m.d.comb += run.eq(word >> shift)
            return Cat(run, row, half)

        so_far = self._so_far(max(words) > sizes.block_words)
        joined = Signal(reduction.grown)
        first = (self.word & mask) == 0
        m.d.comb += joined.eq(reduction.join(m, [*self.values, Mux(first, 0, so_far)], "along"))
        with m.If(self.add):
            m.d.sync += so_far.eq(joined)
        m.d.comb += [
            ram.write_en.eq(self.add & (self.row_end | ((self.word & mask) == mask))),
            ram.write_addr.eq(address(self.word, self.row, self.half)),
            ram.write_data.eq(reduction.finish(joined)),
            ram.read_en.eq(self.read_en),
            ram.read_addr.eq(address(self.read_word, self.read_row, self.read_half)),
            self.row_value.eq(ram.read_data),
        ]

    def _so_far(self, longer):
        """Return the register of the joined values of the current vector.

        If words come block by block, vectors that are ``longer`` than a row of a block need a
        register for every row of the block.
        """
        grown = self.reduction.grown
        if not (self.by_blocks and longer):
            return Signal(grown, name="so_far")
        block = self.sizes.block
        rows = Array(data_register(grown, name=f"so_far{n}") for n in range(block))
        return rows[self.row[: exact_log2(block)]]

    def _columns(self, m):
        """Reduce the vectors down the columns of a word, row by row, in a separate memory of joined
        values."""
        sizes, reduction = self.sizes, self.reduction
        grown = data.ArrayLayout(reduction.grown, sizes.lanes)
        growing = Ram(width=grown.size, depth=max(2, sizes.tile_row_words))
        sides = sizes.by_class(sizes.side)
        runs = max(sizes.runs(cls) for cls in range(3) if sizes.vectors[cls])
        depth = max(2, self.halves * sizes.tile_row_words * runs)
        complete = Ram(width=reduction.result.width * sizes.lanes, depth=depth)
        m.submodules.growing = growing
        m.submodules.columns = complete
        mask = of_vectors(m, self.cls, sizes, [n - 1 for n in sides], "vector_rows")
        shift = of_vectors(m, self.cls, sizes, [exact_log2(n) for n in sides], "rows_shift")

        def address(word, row, half):
            run = Signal(exact_log2(runs), name=f"{row.name}_run")
            m.d.comb += run.eq(row >> shift)
            return Cat(word, run, half)

        # First cycle: read the joined values of the columns.
        adding = Signal()
        first = Signal()
        end = Signal()
        values = data_register(self.values_t.shape())
        word = Signal.like(self.word)
        to = data_register(len(complete.write_addr))
        m.d.comb += [growing.read_en.eq(self.add), growing.read_addr.eq(self.word)]
        m.d.sync += adding.eq(self.add)
        with m.If(self.add):
            m.d.sync += [
                first.eq((self.row & mask) == 0),
                end.eq(self.last_row | ((self.row & mask) == mask)),
                values.eq(self.values_t),
                word.eq(self.word),
                to.eq(address(self.word, self.row, self.half)),
            ]
        # Second cycle: join the values of the word, write, and store complete vectors.
        joined = Signal(grown)
        again = Signal()  # the word before had the same columns: the memory's output is stale
        before = data_register(grown)
        m.d.sync += again.eq(adding & self.add & (word == self.word))
        with m.If(adding):
            m.d.sync += before.eq(joined)
        stored = data.View(grown, Mux(again, before, growing.read_data))
        for n in range(sizes.lanes):
            down = [values[n], Mux(first, 0, stored[n])]
            m.d.comb += joined[n].eq(reduction.join(m, down, f"down{n}"))
        m.d.comb += [
            growing.write_en.eq(adding),
            growing.write_addr.eq(word),
            growing.write_data.eq(joined),
            complete.write_en.eq(adding & end),
            complete.write_addr.eq(to),
            complete.write_data.eq(Cat(reduction.finish(joined[n]) for n in range(sizes.lanes))),
            complete.read_en.eq(self.read_en),
            complete.read_addr.eq(address(self.read_word, self.read_row, self.read_half)),
            self.column_values.eq(complete.read_data),
        ]


def square_of(m, sizes: ConverterSizes, cls, word, chunk: int, name: str):
    """Return the number of the square, in :func:`squares_layout`, in which a chunk of a word
    lies."""
    if sizes.piece_squares == 1:
        return Const(0)
    block = Signal(range(max(2, sizes.max_tile_cols // sizes.block)), name=name)
    first = word >> exact_log2(sizes.block_words) << exact_log2(sizes.word_chunks)
    m.d.comb += block.eq(first | chunk)
    sides = {sizes.side(n) for n, vectors in enumerate(sizes.vectors) if not vectors}
    shifts = [
        exact_log2((min(sides) if vectors else sizes.side(n)) // sizes.block)
        for n, vectors in enumerate(sizes.vectors)
    ]
    square = block >> by_class(m, cls, shifts, f"{name}_side")
    return square[: exact_log2(sizes.piece_squares)]
