"""Order of the words of a tile in a pass, or two passes, through the lanes."""

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
    """Return the layout of a word in a pass.

    Fields in every pass:

    - ``at``: place of the word in the buffer.
    - ``index``: index in the tensor of the first element of the word.
    - ``find``: 1 in a pass that finds the scales of units, 0 in the pass that stores the words.
    - ``inside``: the word begins inside the tensor.

    Flags in a pass that finds scales:

    - ``row_end``: the word is the last of its row inside the tensor.
    - ``last_row``: the row is the last row of the tile inside the tensor.

    Flags in the pass that stores:

    - ``first``: the word is the first of its group.
    - ``last``: the word is the last of its group.
    - ``line_end``: the group is the last of its row of blocks.
    - ``copy_end``: the group is the last of the tile in the first copy.
    - ``strip_first``: the word is the first of its strip. 0 in classes without vector groups.
    - ``strip_last``: the word is the last of its strip. 0 in classes without vector groups.
    - ``strip_end``: the strip is the last of the tile.
    - ``piece_end``: the word is the last of its piece of the tile.
    - ``tile_end``: the word is the last of the tile.
    """
    flags = ("find", "inside", "row_end", "last_row", "first", "last", "line_end", "copy_end")
    flags += ("strip_first", "strip_last", "strip_end", "piece_end", "tile_end")
    fields = {"at": word_layout(sizes), "index": unsigned(INDEX_BITS)}
    return data.StructLayout(fields | {flag: unsigned(1) for flag in flags})


class Passes(wiring.Component):
    """Output the words of a tile in the order in which the words go through the lanes, in one pass
    or two.

    If the class has two scales to choose from, a first pass outputs every word inside the tensor,
    row by row. The last pass outputs groups by rows of blocks, as the first copy is stored: the
    blocks of a group from left to right, a block row by row. Blocks that a word covers together
    come together. A group is output up to the last block with an element inside the tensor, and to
    the end of the words of this block. Blocks are output whole. The groups of 8 rows of blocks form
    a strip.

    Between two passes the unit waits until all output words have been used.

    Timing: 1 word per cycle; 2 cycles between passes besides waiting, and none if a tile has a
    single pass. ``o.valid`` does not depend on ``o.ready``.

    Parameters
    ----------
    sizes : ConverterSizes

    Members
    -------
    cls : In(2)
    cols : In(24)
        Columns of the tensor; must hold, as must ``cls``.
    tile : In(stream of :func:`tile_layout`)
        ``valid`` when the piece of the next word is measured; accepted with the last word of the
        tile.
    used : In(1)
        Every output word has been read, and the random bits of the word have been accepted.
    trials_done : In(1)
        A pulse: the scales of units are known, for the words since the last pulse.
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
                "trials_done": In(1),
                "o": Out(stream.Signature(step_layout(sizes))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        sizes = self.sizes
        find = Signal(init=1)  # the pass finds scales, if the class has such a pass
        settle = Signal()  # wait between two passes
        at = self.o.p.at
        place_ = Signal(word_layout(sizes))
        finds = by_class(m, self.cls, map(int, sizes.tries_scales), "finds")
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
        end = Signal()  # the word is the last of the pass
        # Index of the row's first element, minus the index of the tile's first element.
        offset = Signal(range(sizes.max_tile_rows << EXTENT_BITS))
        # A tile begins at multiples of its sides: the lowest bits of the index need no addition.
        low, in_word = sizes.log_tile_side, exact_log2(sizes.lanes)
        tile_offset = Cat(offset[:in_word], offset[in_word:] + place_.word)
        begins = ~self.tile.p.index[:low].any() if low else Const(1)
        m.d.sync += Assert(~self.tile.valid | begins, "a tile begins between its sides")
        m.d.comb += self.o.p.index.eq(
            Cat(tile_offset[:low], self.tile.p.index[low:] + tile_offset[low:])
        )
        with m.If(~finding):
            self._store(m, place_, took, end, offset)
        if any(sizes.tries_scales):
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
        """Select the next pass after a pass, and start the next pass when it may begin."""
        search_ended = Signal()
        was_finding = Signal()
        with m.If(end):
            m.d.sync += [settle.eq(finds.bool()), was_finding.eq(finding)]
        ready = Mux(was_finding, search_ended, self.used)
        started = Signal()  # the last words have reached the unit that drives `used`
        m.d.sync += started.eq(settle)
        with m.If(self.trials_done):
            m.d.sync += search_ended.eq(1)
        with m.If(settle & started & ready):
            m.d.sync += [settle.eq(0), search_ended.eq(0), started.eq(0)]
            m.d.sync += find.eq(~was_finding)

    def _find(self, m, at, took, end, offset):
        """Output the words inside the tensor, row by row."""
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
        """Output the groups, 8 blocks wide, of the tile's rows of blocks, block by block."""
        sizes = self.sizes
        words, rows, in_block = sizes.row_words - 1, sizes.block - 1, sizes.block_words - 1
        last_block = self._last_columns(at.word, sizes.block_words)
        line = Signal.like(offset)  # offset of the first row of the row of blocks
        below = Signal.like(offset)  # offset of the next row
        last_line = Signal()
        line_end = Signal()
        row_end = Signal()  # the word is the last of a row of a block
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
        """Mark the words that begin and end a strip."""
        rows = self.sizes.strip_rows - 1
        vectors = by_class(m, self.cls, map(int, self.sizes.vectors), "vectors").bool()
        m.d.comb += [
            self.o.p.strip_first.eq(vectors & (at.word == 0) & ((at.row & rows) == 0)),
            self.o.p.strip_last.eq(vectors & line_done & (((at.row & rows) == rows) | end)),
            self.o.p.strip_end.eq(self._last_rows(at.row, self.sizes.strip_rows)),
        ]

    def _last_rows(self, row, height):
        """Return whether the tile ends in the ``height`` rows (a power of two, aligned) that
        contain ``row``."""
        log = exact_log2(height)
        return is_last(row[log:], self.tile.p.rows, log)

    def _last_columns(self, word, width):
        """Return whether the tensor, or the tile, ends in the ``width`` words (aligned) that
        contain ``word``."""
        log = exact_log2(width)
        return is_last(word[log:], self.tile.p.cols, log + exact_log2(self.sizes.lanes))
