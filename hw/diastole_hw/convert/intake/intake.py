"""First pass over a tile: from the reader into the buffer, with the exponents of its units."""

from typing import NamedTuple

from amaranth.hdl import Assert, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.convert.by_class import by_class
from diastole_hw.convert.lanes.quantise import TOP_CYCLES, LaneQuantiser, late
from diastole_hw.convert.lanes.reduction import largest
from diastole_hw.convert.lanes.scale import LARGEST_BYTE, LaneScale
from diastole_hw.convert.tile_layouts import (
    tile_layout,
    word_layout,
)
from diastole_hw.data_registers import data_output, data_register
from diastole_hw.random.draws import INDEX_BITS, words_ahead
from diastole_hw.random.kinds import draw_unit
from diastole_hw.stream.fifo import StreamFifo
from diastole_sim.spec.formats import NAN_EXPONENT
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes


class _Word(NamedTuple):
    """A word that is measured, when ``valid``; ``random``: draws of its elements, where any class
    needs them for that."""

    valid: Value
    at: Value
    data: Value
    row_end: Value
    last_row: Value
    random: Value | None = None


class Intake(wiring.Component):
    """Write the words of tiles into the buffer, and say what a unit of each of their elements would
    have for exponent; or only find the largest magnitude of a tensor.

    Only words that begin inside the tensor are taken, piece by piece; what such a word has beside
    it becomes zeros. With two tiles in the buffer they go to half 0 first, then in turn. A tensor
    that is ``fed`` comes block by block: the words of a piece in the order of
    :class:`diastole_hw.convert.lanes.passes.Passes`, and no others; in machines with such tensors.

    Where a class's units are folded (:attr:`ConverterSizes.folds`), the values are its elements'
    ``top``, as :class:`LaneQuantiser` has it, or 255 where a NaN or an Inf make the unit no number.
    If they draw (:attr:`ConverterSizes.draws_at_intake`), that is with the draws that they will be
    stored with.

    Timing: one word per cycle; in a class that draws here that is the rate of its unit of draws. A
    tile waits for room in the buffer first. A word is written 1 cycle after it was taken; ``add``
    and its values are :attr:`measuring` cycles after that, in machines with a class that draws here
    1 more, and of that class when the draws come too, 7 after the first. ``data.ready`` does not
    depend on ``data.valid``, nor ``words.ready`` on ``words.valid``.

    Parameters
    ----------
    sizes : ConverterSizes
    fed : bool
        Tensors may come block by block.

    Members
    -------
    restart : In(1)
        A pulse before the first tile of a tensor; forgets ``amax``.
    scan : In(1)
        Only look: nothing is written or added. Must hold from the first tile's word to ``done``.
    cls : In(2)
    scale : In(8)
        As in :class:`LaneScale`; must hold while words are on their way.
    cols, seed, tag, step : In(32)
        Of the tensor, there only if a class draws here; must hold as ``scale``.
    start : In(1)
    rows : In(32)
        As in :class:`diastole_hw.convert.lanes.tile_quantiser.TileQuantiser`; there only as
        ``cols``.
    tile : In(stream of :func:`tile_layout`)
    data : In(stream of unsigned(data_width))
        The beats that :class:`diastole_hw.convert.intake.read_requests.ReadRequests` asks for.
    by_blocks : In(1)
        The tensor is fed; must hold from its first tile to its last. Not together with ``scan``.
    words : In(stream of unsigned(32 * lanes))
        What :class:`diastole_hw.convert.intake.feed.Feed` gives; like ``by_blocks`` only there if
        ``fed``.
    freed : In(1)
        A pulse: the tile written longest ago is not needed any more.
    write_en : Out(1)
    write_at : Out(:func:`word_layout`)
    write_data : Out(32 * lanes)
    taken : Out(stream of :func:`tile_layout`)
        A tile, in the cycle in which its first piece's last word is taken; ``ready`` is not looked
        at.
    add, row_end, last_row : Out(1)
    at : Out(:func:`word_layout`)
    values : Out(array of lanes unsigned(measured_bits))
        As :class:`diastole_hw.convert.lanes.gather.Gather` takes them: of the sizes'
        ``measured``.
    done : Out(1)
        A pulse ``scanning`` cycles after the tensor's last word was taken: ``amax`` is complete.
    amax : Out(31)
        Bits 30..0 of the largest normal number so far, 0 if there is none.
    """

    def __init__(self, sizes: ConverterSizes, *, fed: bool = False):
        self.fed = fed
        self.sizes = sizes
        drawing = {name: In(32) for name in ("cols", "seed", "tag", "step")}
        if sizes.numerics.draws_by_rows:
            drawing |= {"start": In(1), "rows": In(32)}
        word = stream.Signature(unsigned(32 * sizes.lanes))
        super().__init__(
            (drawing if any(sizes.draws_at_intake) else {})
            | ({"by_blocks": In(1), "words": In(word)} if fed else {})
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
                "taken": Out(stream.Signature(tile_layout(sizes))),
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
        """Cycles from a word to its values."""
        return TOP_CYCLES if any(self.sizes.folds) else 1

    @property
    def scanning(self) -> int:
        """Cycles from a word to the ``amax`` that it is in: its write, a comparison of two lanes a
        cycle, and one with the largest so far."""
        return 2 + exact_log2(self.sizes.lanes)

    def elaborate(self, platform):
        m = Module()
        sizes = self.sizes
        at = Signal(word_layout(sizes))
        free = Signal(range(sizes.halves + 1), init=sizes.halves)
        take = Signal()
        row_end = Signal()  # of the piece
        last_row = Signal()
        last = Signal()  # of the piece
        cols_end = Signal()
        tile_end = Signal()
        column = at.word << exact_log2(sizes.lanes)
        may = self.tile.valid & (self.scan | free.any())
        offered = self.data.valid
        if self.fed:
            offered = Mux(self.by_blocks, self.words.valid, offered)
            m.d.sync += Assert(~self.by_blocks | ~self.scan, "what is fed was to be scanned")
        floats = self._masked(at.word, column)
        drawn = None
        if any(sizes.draws_at_intake):
            room, word = Signal(), _Word(take & ~self.scan, at, floats, row_end, last_row)
            turn = self._turn(at, cols_end, row_end, last_row, last)
            drawn = self._draw(m, word, may & offered, turn, room)
            may &= self.scan | room
        beats = may
        if self.fed:
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
            self.taken.valid.eq(last & ~self.scan),
            self.taken.payload.eq(self.tile.payload),
        ]
        filled = tile_end & ~self.scan
        m.d.sync += free.eq(free + self.freed - filled)
        m.d.sync += Assert(~self.freed | (free != sizes.halves), "a tile was freed twice")
        with m.If(take):
            m.d.sync += at.word.eq(at.word + 1)
            with m.If(row_end):
                m.d.sync += [at.word.eq(0), at.row.eq(at.row + 1)]
            with m.If(last):
                m.d.sync += at.row.eq(0)
            if any(sizes.in_pieces):
                self._go_by_pieces(m, at.word, row_end, last, tile_end)
            if self.fed:
                with m.If(self.by_blocks):
                    self._go_by_blocks(m, at, cols_end, last_row)
        with m.If(filled):
            m.d.sync += at.half.eq(~at.half)
        m.d.sync += [
            self.write_en.eq(take & ~self.scan),
            data_output(m, self.write_at, "written_at").eq(at),
            data_output(m, self.write_data, "written").eq(floats),
        ]
        self._measure(m, drawn or self._written(m, row_end, last_row))
        end = tile_end & self.tile.p.last_row & self.tile.p.last_col
        m.d.comb += self.done.eq(late(m, end, "end", self.scanning))
        self._find_largest(m, late(m, take, "take", self.scanning - 1))
        return m

    def _go_by_pieces(self, m, word, row_end, last, tile_end):
        """Where the rows of a piece end and begin, and which is the first."""
        sizes = self.sizes
        masks = [n - 1 for n in sizes.piece_words]
        mask = by_class(m, self.cls, masks, "piece_words")
        begin = Signal.like(word)  # of the row at hand
        others = by_class(m, self.cls, [sizes.tile_row_words - 1 & ~n for n in masks], "pieces")
        m.d.comb += begin.eq(word & others)
        with m.If((word & mask) == mask):
            m.d.comb += row_end.eq(1)
        with m.If(begin.any()):
            m.d.comb += self.taken.valid.eq(0)
        with m.If(row_end & ~tile_end):
            m.d.sync += word.eq(Mux(last, word + 1, begin))

    def _block_ends(self, at, cols_end, last_row):
        """Whether a word is the last of a block's row, and of the block; of what lies inside."""
        rows, words = self.sizes.block - 1, self.sizes.block_words - 1
        row_end = cols_end | ((at.word & words) == words)
        return row_end, row_end & (last_row | ((at.row & rows) == rows))

    def _go_by_blocks(self, m, at, cols_end, last_row):
        """Through a block, to the one beside it, to the next row of blocks; then a tile begins."""
        rows, words = self.sizes.block - 1, self.sizes.block_words - 1
        row_end, block_end = self._block_ends(at, cols_end, last_row)
        m.d.sync += [at.word.eq(at.word + 1), at.row.eq(at.row)]
        with m.If(row_end):
            m.d.sync += [at.word.eq(at.word & ~words), at.row.eq(at.row + 1)]
        with m.If(block_end):
            m.d.sync += [at.word.eq(at.word + 1), at.row.eq(at.row & ~rows)]
            with m.If(cols_end):
                m.d.sync += [at.word.eq(0), at.row.eq(Mux(last_row, 0, at.row + 1))]

    def _turn(self, at, cols_end, row_end, last_row, last):
        """After which words the next row of the tile is drawn for, and after which the first again:
        what is folded by what is known here has tiles of one row of blocks."""
        if not self.fed:
            return row_end, last
        end_of_row, end_of_block = self._block_ends(at, cols_end, last_row)
        return Mux(self.by_blocks, end_of_row, row_end), Mux(self.by_blocks, end_of_block, last)

    def _part(self, word):
        """Which word of a beat is taken; a beat may hold those of several tiles."""
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
        """The word taken: zeros in the lanes that lie outside the tensor."""
        sizes = self.sizes
        beat, part = self.data.payload, self._part(word)
        if part is not None:
            beat = beat.word_select(part, 32 * sizes.lanes)
        if self.fed:
            beat = Mux(self.by_blocks, self.words.payload, beat)
        keep = (column + n < self.tile.p.cols for n in range(sizes.lanes))
        return Cat(Mux(k, beat.word_select(n, 32), 0) for n, k in enumerate(keep))

    def _written(self, m, row_end, last_row):
        """The word that is written."""
        written_row_end = Signal()
        written_last_row = Signal()
        m.d.sync += [written_row_end.eq(row_end), written_last_row.eq(last_row)]
        return _Word(
            self.write_en, self.write_at, self.write_data, written_row_end, written_last_row
        )

    def _draw(self, m, word, offered, turn, room):
        """The words that are taken, each with its draws, as soon as these come. ``offered``: there
        is one, if there is ``room`` for it here. ``turn``: as :meth:`_turn` has it."""
        sizes = self.sizes
        layout = data.StructLayout(
            {"at": word_layout(sizes), "row_end": 1, "last_row": 1, "data": 32 * sizes.lanes}
        )
        words = StreamFifo(shape=layout, depth=words_ahead(sizes.lanes), quick=True)
        m.submodules.words = words
        rows = {"block": sizes.block, "rows": sizes.block}
        # All words of a tensor are drawn, or none: one waits for its draws, and they not for it.
        draws = draw_unit(self.sizes.numerics, lanes=sizes.lanes, copies=1, prompt=True, **rows)
        m.submodules.draws = draws
        drawn = by_class(m, self.cls, map(int, sizes.draws_at_intake), "drawn").bool()
        offset = Signal(INDEX_BITS)  # of the row's first element from the tile's
        row_ends, begins_anew = turn
        with m.If(word.valid & row_ends):
            m.d.sync += offset.eq(Mux(begins_anew, 0, offset + self.cols))
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
            room.eq(words.i.ready & (draws.i.ready | ~drawn)),
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
        """What the lanes say of a word, and beside it where that belongs."""
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
            self.row_end.eq(late(m, word.row_end, "row_end", cycles)),
            self.last_row.eq(late(m, word.last_row, "last_row", cycles)),
            self.at.eq(late(m, Value.cast(word.at), "at", cycles)),
            self.add.eq(late(m, word.valid, "add", cycles)),
        ]

    def _value(self, m, n, word, scale):
        """Of a lane: its exponent, or, where a class folds, its top; or both of its scales."""
        sizes = self.sizes
        if any(sizes.finds):
            return Cat(scale.four, scale.stored)
        if not any(sizes.folds):
            return scale.stored
        stored = late(m, scale.stored, f"stored{n}", self.measuring - 1)
        m.submodules[f"lane{n}"] = lane = LaneQuantiser(numerics=self.sizes.numerics)
        ones = [chosen.format.scale == "one" for chosen in sizes.classes]
        one = by_class(m, self.cls, map(int, ones), f"one{n}").bool()
        known = by_class(m, self.cls, map(int, sizes.folds), f"known{n}").bool()
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
        return Mux(known & (stored != NAN_EXPONENT), lane.top, stored)

    def _find_largest(self, m, taken):
        """``taken``: the largest magnitude of a word is known."""
        numbers = (self.write_data.word_select(n, 32) for n in range(self.sizes.lanes))
        found = []
        for n, number in enumerate(numbers):
            found.append(Signal(31, name=f"magnitude_{n}"))
            normal = number[23:31].any() & ~number[23:31].all()
            m.d.comb += found[-1].eq(Mux(normal, number[:31], 0))
        while len(found) > 1:
            pairs = list(zip(found[::2], found[1::2], strict=True))
            found = [data_register(31, name=f"largest_{len(pairs) + n}") for n in range(len(pairs))]
            for larger, pair in zip(found, pairs, strict=True):
                m.d.sync += larger.eq(largest(m, pair, f"{larger.name}_of"))
        with m.If(taken & (found[0] > self.amax)):
            m.d.sync += self.amax.eq(found[0])
        with m.If(self.restart):
            m.d.sync += self.amax.eq(0)
