"""First pass over a tile: write words from the reader into the buffer, and measure the elements."""

from typing import NamedTuple

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.convert.by_class import by_class
from diastole_hw.convert.lanes.quantise import TOP_CYCLES, LaneQuantiser, delay
from diastole_hw.convert.lanes.reduction import largest
from diastole_hw.convert.lanes.scale import LARGEST_BYTE, LaneScale
from diastole_hw.convert.tile_layouts import (
    tile_layout,
    word_layout,
)
from diastole_hw.data_registers import data_output, data_register
from diastole_hw.random.draws import INDEX_BITS
from diastole_hw.random.kinds import draw_unit
from diastole_hw.stream.fifo import StreamFifo
from diastole_sim.spec.formats import NAN_EXPONENT
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from diastole_sim.spec.sizes.draws import words_ahead


class _Word(NamedTuple):
    """Hold a word to be measured, when ``valid``. ``random``: random bits for the elements, or None
    if no class needs random bits for the measurement."""

    valid: Value
    at: Value
    data: Value
    row_end: Value
    last_row: Value
    random: Value | None = None


class Intake(wiring.Component):
    """Write the words of tiles into the buffer, and output for every element the exponent of a unit
    with only this element. Or, with ``scan``, only find the largest magnitude of a tensor.

    A unit is a set of elements with a common stored exponent.

    Only words that begin inside the tensor are accepted, piece by piece. Lanes outside the tensor
    become zeros. If the buffer holds two tiles, the first tile is written to half 0, and later
    tiles to alternating halves. With ``streamed``, a tensor may come block by block: the words of a
    piece come in the order of :class:`diastole_hw.convert.lanes.passes.Passes`, without any further
    words.

    If a class folds its units (:attr:`ConverterSizes.folds`), a value is ``top`` of
    :class:`LaneQuantiser`, or 255 if a NaN or an Inf makes the unit no number. If the class also
    rounds by random bits (:attr:`ConverterSizes.folds_by_draws`), ``top`` is computed with the
    random bits with which the element will be stored.

    Timing: 1 word per cycle. In a class that needs random bits in this unit, the rate is the rate
    of the unit of random bits. A tile first waits for free space in the buffer. A word is written 1
    cycle after the word is accepted. ``add`` and its values come :attr:`measuring` cycles after the
    write. In a machine with such a class, ``add`` comes 1 cycle later. For words of such a class,
    the latency of the unit of random bits takes the place of this cycle. ``data.ready`` does not
    depend on ``data.valid``, nor ``words.ready`` on ``words.valid``.

    Parameters
    ----------
    sizes : ConverterSizes
    streamed : bool
        True if tensors may come block by block.

    Members
    -------
    restart : In(1)
        A pulse before the first tile of a tensor; clears ``amax``.
    scan : In(1)
        Only find the largest magnitude: no word is written or added. Must hold from the first word
        of the first tile to ``done``.
    cls : In(2)
    scale : In(8)
        As in :class:`LaneScale`; must hold while words are in the pipeline.
    cols, seed, tag, step : In(32)
        Parameters of the tensor, present only if a class needs random bits in this unit; must hold
        as ``scale``.
    start : In(1)
    rows : In(32)
        As in :class:`diastole_hw.convert.lanes.tile_quantiser.TileQuantiser`, if ``cols`` is
        present.
    tile : In(stream of :func:`tile_layout`)
    data : In(stream of unsigned(data_width))
        Beats that :class:`diastole_hw.convert.intake.read_requests.ReadRequests` requests.
    by_blocks : In(1)
        The tensor comes block by block. Must hold from the first tile of the tensor to the last.
        Not together with ``scan``. Present with ``streamed``.
    words : In(stream of unsigned(32 * lanes))
        Words of :class:`diastole_hw.convert.intake.word_assembler.WordAssembler`. Present with
        ``streamed``.
    freed : In(1)
        A pulse: the tile written longest ago is not needed any more.
    write_en : Out(1)
    write_at : Out(:func:`word_layout`)
    write_data : Out(32 * lanes)
    loaded : Out(stream of :func:`tile_layout`)
        A tile, in the cycle in which the last word of its first piece is accepted; ``ready`` is
        ignored.
    add, row_end, last_row : Out(1)
    at : Out(:func:`word_layout`)
    values : Out(array of lanes unsigned(measured_bits))
        Inputs of :class:`diastole_hw.convert.lanes.unit_reduction.UnitReduction`, of
        ``measured_bits`` of the sizes.
    done : Out(1)
        A pulse ``scanning`` cycles after the tensor's last word is accepted: ``amax`` is complete.
    amax : Out(31)
        Bits 30..0 of the largest normal number so far, 0 if no number was normal.
    """

    def __init__(self, sizes: ConverterSizes, *, streamed: bool = False):
        self.streamed = streamed
        self.sizes = sizes
        drawing = {name: In(32) for name in ("cols", "seed", "tag", "step")}
        if sizes.numerics.draws_by_rows:
            drawing |= {"start": In(1), "rows": In(32)}
        word = stream.Signature(unsigned(32 * sizes.lanes))
        super().__init__(
            (drawing if any(sizes.folds_by_draws) else {})
            | ({"by_blocks": In(1), "words": In(word)} if streamed else {})
            | {
                "restart": In(1),
                "scan": In(1),
                "cls": In(2),
                "scale": In(8),
                "tile": In(stream.Signature(tile_layout(sizes))),
                "data": In(stream.Signature(unsigned(sizes.data_width))),
                "freed": In(1),
                "write_en": Out(1),
                "write_at": Out(word_layout(sizes)),
                "write_data": Out(32 * sizes.lanes),
                "loaded": Out(stream.Signature(tile_layout(sizes))),
                "add": Out(1),
                "row_end": Out(1),
                "last_row": Out(1),
                "at": Out(word_layout(sizes)),
                "values": Out(data.ArrayLayout(unsigned(sizes.measured_bits), sizes.lanes)),
                "done": Out(1),
                "amax": Out(31),
            }
        )

    @property
    def measuring(self) -> int:
        """Cycles from the write of a word to the values of the word."""
        return TOP_CYCLES if any(self.sizes.folds) else 1

    @property
    def scanning(self) -> int:
        """Cycles from a word to an ``amax`` that includes the word. The write takes a cycle, every
        comparison of pairs of lanes a cycle, and the comparison with the largest magnitude so far a
        cycle."""
        return 2 + exact_log2(self.sizes.lanes)

    def elaborate(self, platform):
        m = Module()
        sizes = self.sizes
        at = Signal(word_layout(sizes))
        free = Signal(range(sizes.buffered_tiles + 1), init=sizes.buffered_tiles)
        take = Signal()
        row_end = Signal()  # the word is the last of its row in the piece
        last_row = Signal()
        last = Signal()  # the word is the last of the piece
        cols_end = Signal()
        tile_end = Signal()
        column = at.word << exact_log2(sizes.lanes)
        may = self.tile.valid & (self.scan | free.any())
        offered = self.data.valid
        if self.streamed:
            offered = Mux(self.by_blocks, self.words.valid, offered)
            m.d.sync += Assert(~self.by_blocks | ~self.scan, "what is fed was to be scanned")
        # Accept a word: from memory, or block by block from a chain.
        floats = self._masked(at.word, column)
        drawn = None
        if any(sizes.folds_by_draws):
            space, word = Signal(), _Word(take & ~self.scan, at, floats, row_end, last_row)
            row_marks = self._row_marks(at, cols_end, row_end, last_row, last)
            drawn = self._draw(m, word, may & offered, row_marks, space)
            may &= self.scan | space
        beats = may
        if self.streamed:
            m.d.comb += self.words.ready.eq(may & self.by_blocks)
            beats &= ~self.by_blocks
        m.d.comb += [
            cols_end.eq(column + sizes.lanes >= self.tile.p.cols),
            row_end.eq(cols_end),
            last_row.eq(at.row + 1 == self.tile.p.rows),
            take.eq(may & offered),
            last.eq(take & row_end & last_row),
            self.data.ready.eq(beats & (row_end | self._beat_end(at.word))),
            tile_end.eq(last & cols_end),
            self.tile.ready.eq(tile_end),
            self.loaded.valid.eq(last & ~self.scan),
            self.loaded.payload.eq(self.tile.payload),
        ]
        # Count the free halves of the buffer.
        filled = tile_end & ~self.scan
        m.d.sync += free.eq(free + self.freed - filled)
        m.d.sync += Assert(~self.freed | (free != sizes.buffered_tiles), "a tile was freed twice")
        # Go on to the place of the next word.
        with m.If(take):
            m.d.sync += at.word.eq(at.word + 1)
            with m.If(row_end):
                m.d.sync += [at.word.eq(0), at.row.eq(at.row + 1)]
            with m.If(last):
                m.d.sync += at.row.eq(0)
            if any(sizes.in_pieces):
                self._go_by_pieces(m, at.word, row_end, last, tile_end)
            if self.streamed:
                with m.If(self.by_blocks):
                    self._go_by_blocks(m, at, cols_end, last_row)
        with m.If(filled):
            m.d.sync += at.half.eq(~at.half)
        # Write the word 1 cycle later, then measure it and compare magnitudes.
        m.d.sync += [
            self.write_en.eq(take & ~self.scan),
            data_output(m, self.write_at, "written_at").eq(at),
            data_output(m, self.write_data, "written").eq(floats),
        ]
        self._measure(m, drawn or self._written(m, row_end, last_row))
        end = tile_end & self.tile.p.last_row & self.tile.p.last_col
        m.d.comb += self.done.eq(delay(m, end, "end", self.scanning))
        self._find_largest(m, delay(m, take, "take", self.scanning - 1))
        return m

    def _go_by_pieces(self, m, word, row_end, last, tile_end):
        """Find the ends of the rows of a piece, go on to the next row or piece, and announce the
        tile with its first piece only."""
        sizes = self.sizes
        masks = [n - 1 for n in sizes.piece_words]
        mask = by_class(m, self.cls, masks, "piece_words")
        begin = Signal.like(word)  # first word of the current row of the piece
        others = by_class(m, self.cls, [sizes.tile_row_words - 1 & ~n for n in masks], "pieces")
        m.d.comb += begin.eq(word & others)
        with m.If((word & mask) == mask):
            m.d.comb += row_end.eq(1)
        with m.If(begin.any()):
            m.d.comb += self.loaded.valid.eq(0)
        with m.If(row_end & ~tile_end):
            m.d.sync += word.eq(Mux(last, word + 1, begin))

    def _block_ends(self, at, cols_end, last_row):
        """Return whether a word is the last of a row of a block, and the last of the block, inside
        the tile."""
        rows, words = self.sizes.block - 1, self.sizes.block_words - 1
        row_end = cols_end | ((at.word & words) == words)
        return row_end, row_end & (last_row | ((at.row & rows) == rows))

    def _go_by_blocks(self, m, at, cols_end, last_row):
        """Go through a block, to the block on the right, to the next row of blocks; then to a new
        tile."""
        rows, words = self.sizes.block - 1, self.sizes.block_words - 1
        row_end, block_end = self._block_ends(at, cols_end, last_row)
        m.d.sync += [at.word.eq(at.word + 1), at.row.eq(at.row)]
        with m.If(row_end):
            m.d.sync += [at.word.eq(at.word & ~words), at.row.eq(at.row + 1)]
        with m.If(block_end):
            m.d.sync += [at.word.eq(at.word + 1), at.row.eq(at.row & ~rows)]
            with m.If(cols_end):
                m.d.sync += [at.word.eq(0), at.row.eq(Mux(last_row, 0, at.row + 1))]

    def _row_marks(self, at, cols_end, row_end, last_row, last):
        """Return whether a word ends a row of a tile, and whether the next word begins again in the
        first row. The random bits follow these rows. A class that folds units in this pass has
        tiles of a single row of blocks."""
        if not self.streamed:
            return row_end, last
        end_of_row, end_of_block = self._block_ends(at, cols_end, last_row)
        return Mux(self.by_blocks, end_of_row, row_end), Mux(self.by_blocks, end_of_block, last)

    def _part(self, word):
        """Return the number of the accepted word in its beat; a beat may hold words of several
        tiles."""
        sizes = self.sizes
        bits = exact_log2(sizes.beat_words)
        if not bits:
            return None
        start = self.tile.p.address[exact_log2(4 * sizes.lanes) :][:bits]
        return (start + word)[:bits]

    def _beat_end(self, word):
        part = self._part(word)
        return 1 if part is None else part.all()

    def _masked(self, word, column):
        """Return the accepted word, with zeros in the lanes outside the tensor."""
        sizes = self.sizes
        beat, part = self.data.payload, self._part(word)
        if part is not None:
            beat = beat.word_select(part, 32 * sizes.lanes)
        if self.streamed:
            beat = Mux(self.by_blocks, self.words.payload, beat)
        keep = (column + n < self.tile.p.cols for n in range(sizes.lanes))
        return Cat(Mux(k, beat.word_select(n, 32), 0) for n, k in enumerate(keep))

    def _written(self, m, row_end, last_row):
        """Return the word that is written."""
        written_row_end = Signal()
        written_last_row = Signal()
        m.d.sync += [written_row_end.eq(row_end), written_last_row.eq(last_row)]
        return _Word(
            self.write_en, self.write_at, self.write_data, written_row_end, written_last_row
        )

    def _draw(self, m, word, offered, row_marks, space):
        """Return the accepted words, with their random bits, as soon as the random bits arrive.

        ``offered``: a word is offered, and is accepted if ``space`` is 1. ``row_marks``: result of
        :meth:`_row_marks`.
        """
        sizes = self.sizes
        layout = data.StructLayout(
            {"at": word_layout(sizes), "row_end": 1, "last_row": 1, "data": 32 * sizes.lanes}
        )
        words = StreamFifo(shape=layout, depth=words_ahead(sizes.lanes), quick=True)
        m.submodules.words = words
        rows = {"block": sizes.block, "rows": sizes.block}
        # All words of a tensor need random bits, or none: a word waits for its random bits, and
        # random bits never wait for a word.
        draws = draw_unit(
            self.sizes.numerics, lanes=sizes.lanes, copies=1, reader_never_stalls=True, **rows
        )
        m.submodules.draws = draws
        drawn = by_class(m, self.cls, map(int, sizes.folds_by_draws), "drawn").bool()
        offset = Signal(INDEX_BITS)  # index of the row's first element in the tile
        row_ends, restarts = row_marks
        with m.If(word.valid & row_ends):
            m.d.sync += offset.eq(Mux(restarts, 0, offset + self.cols))
        column = word.at.word << exact_log2(sizes.lanes)
        place_of_word = {
            "index": self.tile.p.index + offset + column,
            "row": word.at.row,
            "goes_on": word.at.word != 0,
            "begins": self.tile.p.first_col & (word.at.word == 0),
            "odd": word.at.word & 1,
        }
        if self.sizes.numerics.draws_by_rows:
            m.d.comb += [draws.start.eq(self.start & drawn), draws.height.eq(self.rows)]
        m.d.comb += [
            space.eq(words.i.ready & (draws.i.ready | ~drawn)),
            words.i.valid.eq(word.valid),
            words.i.p.at.eq(word.at),
            words.i.p.row_end.eq(word.row_end),
            words.i.p.last_row.eq(word.last_row),
            words.i.p.data.eq(word.data),
            draws.seed.eq(self.seed),
            draws.tag.eq(self.tag),
            draws.step.eq(self.step),
            draws.i.valid.eq(offered & ~self.scan & words.i.ready & drawn),
            *(draws.i.p[name].eq(place_of_word[name]) for name in draws.i.p.shape().members),
            words.o.ready.eq(draws.o.valid | ~drawn),
            draws.o.ready.eq(words.o.valid & drawn),
        ]
        valid = Signal()
        shown = data_register(layout, name="measured")
        random = data_register(len(draws.o.payload[0]), name="random")
        m.d.sync += [
            valid.eq(words.o.valid & words.o.ready),
            shown.eq(words.o.p),
            random.eq(draws.o.payload[0]),
        ]
        return _Word(valid, shown.at, shown.data, shown.row_end, shown.last_row, random)

    def _measure(self, m, word):
        """Measure a word in the lanes, and delay its place and flags to the same cycle."""
        sizes = self.sizes
        for n in range(sizes.lanes):
            m.submodules[f"scale{n}"] = lane = LaneScale(numerics=self.sizes.numerics)
            m.d.comb += [
                lane.cls.eq(self.cls),
                lane.scale.eq(self.scale),
                lane.value.eq(word.data.word_select(n, 32)),
                self.values[n].eq(self._value(m, n, word, lane)),
            ]
        cycles = self.measuring
        m.d.comb += [
            self.row_end.eq(delay(m, word.row_end, "row_end", cycles)),
            self.last_row.eq(delay(m, word.last_row, "last_row", cycles)),
            self.at.eq(delay(m, Value.cast(word.at), "at", cycles)),
            self.add.eq(delay(m, word.valid, "add", cycles)),
        ]

    def _value(self, m, n, word, scale):
        """Return the value of a lane: the exponent, or ``top`` if the class folds, or the codes of
        both scales."""
        sizes = self.sizes
        if any(sizes.tries_scales):
            return Cat(scale.four, scale.stored)
        if not any(sizes.folds):
            return scale.stored
        stored = delay(m, scale.stored, f"stored{n}", self.measuring - 1)
        m.submodules[f"lane{n}"] = lane = LaneQuantiser(numerics=self.sizes.numerics)
        ones = [chosen.format.scale == "one" for chosen in sizes.classes]
        one = by_class(m, self.cls, map(int, ones), f"one{n}").bool()
        folds = by_class(m, self.cls, map(int, sizes.folds), f"folds{n}").bool()
        m.d.comb += [
            lane.cls.eq(self.cls),
            lane.scale.eq(self.scale),
            lane.value.eq(word.data.word_select(n, 32)),
            lane.exponent.eq(Mux(one, LARGEST_BYTE, self.scale)),
            lane.fold.eq(~0),
        ]
        bits = self.sizes.numerics.random_bits
        if self.sizes.numerics.rounding_kind == "data":
            m.d.comb += lane.random.eq(lane.value[:bits])
        if word.random is not None:
            m.d.comb += lane.random.eq(word.random.word_select(n, bits))
        return Mux(folds & (stored != NAN_EXPONENT), lane.top, stored)

    def _find_largest(self, m, measured):
        """Find the largest magnitude. ``measured``: the largest magnitude of a word is known."""
        numbers = (self.write_data.word_select(n, 32) for n in range(self.sizes.lanes))
        magnitudes = []
        for n, number in enumerate(numbers):
            magnitudes.append(Signal(31, name=f"magnitude_{n}"))
            normal = number[23:31].any() & ~number[23:31].all()
            m.d.comb += magnitudes[-1].eq(Mux(normal, number[:31], 0))
        while len(magnitudes) > 1:
            pairs = list(zip(magnitudes[::2], magnitudes[1::2], strict=True))
            magnitudes = [
                data_register(31, name=f"largest_{len(pairs) + n}") for n in range(len(pairs))
            ]
            for larger, pair in zip(magnitudes, pairs, strict=True):
                m.d.sync += larger.eq(largest(m, pair, f"{larger.name}_of"))
        with m.If(measured & (magnitudes[0] > self.amax)):
            m.d.sync += self.amax.eq(magnitudes[0])
        with m.If(self.restart):
            m.d.sync += self.amax.eq(0)
