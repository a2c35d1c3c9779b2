"""The order in which the words of a tile go through the lanes, once or several times."""

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.convert.by_class import by_class
from diastole_hw.convert.tile_layouts import tile_layout, word_layout
from diastole_hw.random.draws import INDEX_BITS
from diastole_hw.successor import is_last
from diastole_sim.spec.image import EXTENT_BITS
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes


def step_layout(sizes: ConverterSizes) -> data.StructLayout:
    """A word's turn. ``at``: where it lies. ``find``: only to find which scales its units get, else
    to be stored. ``inside``: it begins inside the tensor. ``index``: of its first element in
    the tensor. ``row_end``, ``last_row``: when found, it is the last of its row, is in the last row
    inside. ``first``, ``last``: when stored, it is the first, the last of a group. ``line_end``,
    ``copy_end``: that group is the last of its row of blocks, of the first copy, in the tile.
    ``strip_first``, ``strip_last``: when stored, it is the first, the last of a strip.
    ``strip_end``: that strip is the tile's last. ``piece_end``, ``tile_end``: when stored, it is
    the last of its piece, the tile's last."""
    flags = ("find", "inside", "row_end", "last_row", "first", "last", "line_end", "copy_end")
    flags += ("strip_first", "strip_last", "strip_end", "piece_end", "tile_end")
    fields = {"at": word_layout(sizes), "index": unsigned(INDEX_BITS)}
    return data.StructLayout(fields | {flag: unsigned(1) for flag in flags})


class Passes(wiring.Component):
    """Give out the words of a tile: if its class asks for it, every word inside the tensor, row by
    row; then its groups by rows of blocks, as the first copy is stored, each from its left block to
    its right one, a block by its rows; where a word covers several blocks, these together. Of a
    group only the blocks that have an element inside the tensor are given, as far as no word covers
    others too; those whole. What is given in 8 rows of blocks are the groups of a strip.

    Between two passes it waits until all that was given has been used.

    Timing: one word per cycle; 2 cycles between passes besides waiting, and none where a tile has
    only one. ``o.valid`` does not depend on ``o.ready``.

    Parameters
    ----------
    sizes : ConverterSizes

    Members
    -------
    cls : In(2)
    cols : In(24)
        Of the tensor; must hold, as must ``cls``.
    tile : In(stream of :func:`tile_layout`)
        ``valid`` when the piece is measured that the next word is of; taken with its last word.
    used : In(1)
        Every word given has been read, and its draws taken.
    found : In(1)
        A pulse: the scales of units are known, of the words given since the last pulse.
    o : Out(stream of :func:`step_layout`)
    """

    def __init__(self, sizes: ConverterSizes):
        self.sizes = sizes
        super().__init__(
            {
                "cls": In(2),
                "cols": In(EXTENT_BITS),
                "tile": In(stream.Signature(tile_layout(sizes))),
                "used": In(1),
                "found": In(1),
                "o": Out(stream.Signature(step_layout(sizes))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sizes = self.sizes
        find = Signal(init=1)  # of this pass, if the class asks for it
        settle = Signal()  # between two passes
        at = self.o.p.at
        place_ = Signal(word_layout(sizes))
        finds = by_class(m, self.cls, map(int, sizes.finds), "finds")
        finding = Signal()
        m.d.comb += [
            finding.eq(finds.bool() & find),
            at.eq(place_),
            self.o.p.find.eq(finding),
            self.o.valid.eq(self.tile.valid & ~settle),
        ]
        column = place_.word << exact_log2(sizes.lanes)
        m.d.comb += self.o.p.inside.eq(
            (place_.row < self.tile.p.rows) & (column < self.tile.p.cols)
        )
        took = Signal()
        m.d.comb += took.eq(self.o.valid & self.o.ready)
        end = Signal()  # of the pass
        # Of the row's first element from the tile's.
        offset = Signal(range(sizes.max_tile_rows << EXTENT_BITS))
        # A tile begins at multiples of its sides: the lowest bits are known early.
        low, in_word = sizes.log_tile_side, exact_log2(sizes.lanes)
        beside = Cat(offset[:in_word], offset[in_word:] + place_.word)
        begins = ~self.tile.p.index[:low].any() if low else Const(1)
        m.d.sync += Assert(~self.tile.valid | begins, "a tile begins between its sides")
        m.d.comb += self.o.p.index.eq(Cat(beside[:low], self.tile.p.index[low:] + beside[low:]))
        with m.If(~finding):
            self._store(m, place_, took, end, offset)
        if any(sizes.finds):
            with m.If(finding):
                self._find(m, place_, took, end, offset)
            self._between(m, took & end, finding, find, finds, settle)
        m.d.comb += self.o.p.tile_end.eq(end & ~finding)
        if not any(sizes.in_pieces):
            m.d.comb += self.o.p.piece_end.eq(self.o.p.tile_end)
        m.d.comb += self.tile.ready.eq(took & self.o.p.tile_end)
        with m.If(took & end):
            m.d.sync += [place_.row.eq(0), place_.word.eq(0), offset.eq(0)]
        with m.If(self.tile.ready):
            m.d.sync += place_.half.eq(~place_.half)
        return m

    def _between(self, m, end, finding, find, finds, settle):
        """After a pass: which is next, and when."""
        found = Signal()
        was_finding = Signal()
        with m.If(end):
            m.d.sync += [settle.eq(finds.bool()), was_finding.eq(finding)]
        ready = Mux(was_finding, found, self.used)
        started = Signal()  # the words given have reached what says `used`
        m.d.sync += started.eq(settle)
        with m.If(self.found):
            m.d.sync += found.eq(1)
        with m.If(settle & started & ready):
            m.d.sync += [settle.eq(0), found.eq(0), started.eq(0)]
            m.d.sync += find.eq(~was_finding)

    def _find(self, m, at, took, end, offset):
        """Row by row, only what lies inside the tensor."""
        row_end = is_last(at.word, self.tile.p.cols, exact_log2(self.sizes.lanes))
        last_row = is_last(at.row, self.tile.p.rows, 0)
        m.d.comb += [
            self.o.p.row_end.eq(row_end),
            self.o.p.last_row.eq(last_row),
            end.eq(row_end & last_row),
        ]
        with m.If(took):
            m.d.sync += at.word.eq(at.word + 1)
            with m.If(row_end):
                m.d.sync += [at.word.eq(0), at.row.eq(at.row + 1), offset.eq(offset + self.cols)]

    def _store(self, m, at, took, end, offset):
        """Groups, 8 blocks wide, of the tile's rows of blocks, block by block."""
        sizes = self.sizes
        words, rows, in_block = sizes.row_words - 1, sizes.block - 1, sizes.block_words - 1
        last_block = self._last_columns(at.word, sizes.block_words)
        line = Signal.like(offset)  # of the line's first row
        below = Signal.like(offset)
        last_line = Signal()
        line_end = Signal()
        row_end = Signal()  # of a block
        block_end = Signal()
        group_end = Signal()
        m.d.comb += [
            below.eq(offset + self.cols),
            last_line.eq(self._last_rows(at.row, sizes.block)),
            line_end.eq(self._last_columns(at.word, sizes.row_words)),
            row_end.eq((at.word & in_block) == in_block),
            block_end.eq(row_end & ((at.row & rows) == rows)),
            group_end.eq(block_end & (((at.word & words) == words) | last_block)),
            self.o.p.first.eq(((at.word & words) | (at.row & rows)) == 0),
            self.o.p.last.eq(group_end),
            self.o.p.line_end.eq(line_end),
            self.o.p.copy_end.eq(line_end & last_line),
            end.eq(group_end & line_end & last_line),
        ]
        if sizes.two_copies:
            self._mark_strips(m, at, group_end & line_end, end)
        if any(sizes.in_pieces):
            mask = by_class(m, self.cls, (n - 1 for n in sizes.piece_words), "piece_words")
            several = by_class(m, self.cls, map(int, sizes.in_pieces), "in_pieces").bool()
            piece_end = several & block_end & ((at.word & mask) == mask)
            m.d.comb += self.o.p.piece_end.eq(piece_end | end)
        with m.If(took):
            m.d.sync += at.word.eq(at.word + 1)
            with m.If(row_end):
                m.d.sync += [at.word.eq(at.word & ~in_block), at.row.eq(at.row + 1)]
                m.d.sync += offset.eq(below)
            with m.If(block_end):
                m.d.sync += [at.word.eq(at.word + 1), at.row.eq(at.row & ~rows), offset.eq(line)]
            with m.If(group_end & line_end):
                m.d.sync += [at.word.eq(0), at.row.eq(at.row + 1)]
                m.d.sync += [offset.eq(below), line.eq(below)]
            with m.If(end):
                m.d.sync += line.eq(0)

    def _mark_strips(self, m, at, line_done, end):
        """Which words begin and end a strip."""
        rows = self.sizes.strip_rows - 1
        vectors = by_class(m, self.cls, map(int, self.sizes.vectors), "vectors").bool()
        m.d.comb += [
            self.o.p.strip_first.eq(vectors & (at.word == 0) & ((at.row & rows) == 0)),
            self.o.p.strip_last.eq(vectors & line_done & (((at.row & rows) == rows) | end)),
            self.o.p.strip_end.eq(self._last_rows(at.row, self.sizes.strip_rows)),
        ]

    def _last_rows(self, row, height):
        """Whether the tile ends in the ``height`` rows among which ``row`` is, a power of two."""
        log = exact_log2(height)
        return is_last(row[log:], self.tile.p.rows, log)

    def _last_columns(self, word, width):
        """Whether the tensor, or the tile, ends in the ``width`` words among which ``word`` is."""
        log = exact_log2(width)
        return is_last(word[log:], self.tile.p.cols, log + exact_log2(self.sizes.lanes))
