"""Second pass over a tile: from the buffer through the lanes to the reorder memories."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.convert.exponents import field_banks, field_layout
from diastole_hw.convert.gather import Gather, square_of, squares_layout
from diastole_hw.convert.geometry import Geometry, by_class, of_vectors
from diastole_hw.convert.intake import word_layout
from diastole_hw.convert.passes import Passes
from diastole_hw.convert.quantise import LaneQuantiser
from diastole_hw.convert.scale import LARGEST_BYTE
from diastole_hw.convert.walk import tile_layout
from diastole_hw.invariant import invariant
from diastole_hw.place import place
from diastole_hw.random.draws import AHEAD, INDEX_BITS, Draws
from diastole_hw.stream.fifo import StreamFifo
from diastole_sim.spec.command import SECOND_COPY_TAG
from diastole_sim.spec.formats import NAN_EXPONENT
from diastole_sim.spec.numerics import Numerics


def image_group_layout() -> data.StructLayout:
    """A group, for what comes after the lanes. ``copy``: of which copy. ``line_end``, ``copy_end``:
    it is the last of its row of blocks, of its copy, in the tile. The others are the tile's."""
    flags = ("copy", "line_end", "copy_end", "first_row", "first_col", "last_row", "last_col")
    return data.StructLayout({flag: unsigned(1) for flag in flags})


class TileQuantiser(wiring.Component):
    """Quantise the tiles in the buffer, in the order of :class:`Passes`, a word per cycle.

    The draws of a word are asked for up to ``AHEAD`` words ahead, and only for words that lie in
    the tensor. Elements outside get zeros whatever the draw.

    Timing: one word per cycle, with stochastic rounding too as long as their indices ascend, and
    some cycles between the passes of a class that has several. A group begins when halves of the
    reorder memories are free.

    Parameters
    ----------
    numerics : Numerics
    data_width : int
        As in :class:`Geometry`.

    Members
    -------
    cls : In(2)
    scale : In(8)
    cols, seed, tag, step : In(32)
        Of the tensor; must hold until its last group is written.
    restart : In(1)
        A pulse before the first tile of a tensor.
    tile : In(stream of :func:`tile_layout`)
    squares : In(stream of :func:`squares_layout`)
        A tile, and, as soon as it is measured, the exponents of its squares.
    read_en : Out(1)
    read_at : Out(:func:`word_layout`)
    read_data : In(32 * lanes)
    row_value : In(8)
    column_values : In(array of lanes unsigned(8))
        From the buffer, and from :class:`Gather` the exponents of the vectors: one cycle after
        ``read_en``, held until the next. The vectors' are there only with vectors.
    read_done : Out(1)
        A pulse: the tile read last is not needed any more.
    group : Out(stream of :func:`image_group_layout`)
        A group, before its first word is written.
    write_en, write_copy : Out(1)
    write_at : Out(:func:`word_layout`)
        Its ``half`` means nothing.
    write_data : Out(lanes * element bits)
    field_en, field_half : Out(1)
    field : Out(:func:`field_layout`)
        What :class:`diastole_hw.convert.exponents.ExponentField` is to hold.
    written : Out(1)
        A pulse with the last word of a group, when its exponents are written too.
    freed, field_freed : In(1)
        Pulses: a half of a reorder memory may be written again.
    nan, inf : Out(1)
        Pulses: the tensor has one.
    saturated, underflowed : Out(range of lanes + 1)
        Elements that did in this cycle.
    """

    def __init__(self, *, numerics: Numerics, data_width: int):
        self.numerics, self.data_width = numerics, data_width
        sizes = self.geometry = Geometry(numerics=numerics, data_width=data_width)
        self.element_bits = max(sizes.element_bits)
        members = {
            "cls": In(2),
            "scale": In(8),
            "cols": In(32),
            "seed": In(32),
            "tag": In(32),
            "step": In(32),
            "restart": In(1),
            "tile": In(stream.Signature(tile_layout(sizes))),
            "squares": In(stream.Signature(squares_layout(sizes))),
            "read_en": Out(1),
            "read_at": Out(word_layout(sizes)),
            "read_data": In(32 * sizes.lanes),
            "read_done": Out(1),
            "group": Out(stream.Signature(image_group_layout())),
            "write_en": Out(1),
            "write_copy": Out(1),
            "write_at": Out(word_layout(sizes)),
            "write_data": Out(sizes.lanes * self.element_bits),
            "field_en": Out(1),
            "field_half": Out(1),
            "field": Out(field_layout(sizes)),
            "written": Out(1),
            "freed": In(1),
            "field_freed": In(1),
            "nan": Out(1),
            "inf": Out(1),
            "saturated": Out(range(sizes.lanes + 1)),
            "underflowed": Out(range(sizes.lanes + 1)),
        }
        if sizes.two_copies:
            members["row_value"] = In(8)
            members["column_values"] = In(data.ArrayLayout(unsigned(8), sizes.lanes))
        super().__init__(members)

    @property
    def _word_layout(self):
        """A word on its way; its squares' exponents and what they are folded by."""
        sizes = self.geometry
        flags = ["inside", "drawn", "last", "tile_end"]
        flags += ["copy"] * sizes.two_copies
        flags += ["find", "row_end", "last_row"] * any(sizes.finds)
        fields = {"at": word_layout(sizes)} | {flag: unsigned(1) for flag in flags}
        bytes_ = data.ArrayLayout(unsigned(8), sizes.word_chunks)
        if sizes.squares:
            fields["exponents"] = bytes_
        if sizes.squares and any(sizes.folds):
            fields["folds"] = bytes_
        return data.StructLayout(fields)

    def elaborate(self, platform):
        m = Module()
        sizes = self.geometry
        keys = {"numerics": self.numerics, "data_width": self.data_width}
        words = StreamFifo(shape=self._word_layout, depth=AHEAD)
        m.submodules.words = place(words, platform)
        m.submodules.passes = place(passes := Passes(**keys), platform)
        gather = None
        if any(sizes.finds):
            m.submodules.gather = place(gather := Gather(**keys), platform)
        index = stream.Signature(unsigned(INDEX_BITS)).create()
        draws = stream.Signature(unsigned(sizes.lanes * self.numerics.random_bits)).create()
        if any(sizes.draws):
            self._connect_draws(m, platform, index, draws, passes)

        word = Signal(self._word_layout)
        valid = Signal()
        move = Signal()
        self._feed(m, platform, passes, words, index, gather)
        m.d.comb += [
            passes.used.eq(~words.o.valid & ~valid),
            move.eq(~valid | ~word.drawn | draws.valid),
            draws.ready.eq(valid & word.drawn),
            words.o.ready.eq(move),
            self.read_en.eq(words.o.valid & move),
            self.read_at.eq(words.o.p.at),
            self.read_done.eq(self.read_en & words.o.p.tile_end),
        ]
        with m.If(move):
            m.d.sync += [valid.eq(words.o.valid), word.eq(words.o.p)]
        if gather is not None and sizes.two_copies:
            m.d.comb += [
                gather.read_en.eq(self.read_en),
                gather.read_row.eq(words.o.p.at.row),
                gather.read_word.eq(words.o.p.at.word),
            ]
        self._lanes(m, platform, word, valid & move, draws.payload, gather)
        return m

    def _connect_draws(self, m, platform, index, draws, passes):
        unit = Draws(lanes=self.geometry.lanes, random_bits=self.numerics.random_bits)
        m.submodules.draws = place(unit, platform)
        tag = self.tag
        if self.geometry.two_copies:
            tag = self.tag ^ Mux(passes.copy, SECOND_COPY_TAG, 0)
        m.d.comb += [
            unit.seed.eq(self.seed),
            unit.tag.eq(tag),
            unit.step.eq(self.step),
            unit.restart.eq(self.restart | passes.turn),
            unit.i.payload.eq(index.payload),
            unit.i.valid.eq(index.valid),
            index.ready.eq(unit.i.ready),
            draws.payload.eq(unit.o.payload),
            draws.valid.eq(unit.o.valid),
            unit.o.ready.eq(draws.ready),
        ]

    def _feed(self, m, platform, passes, words, index, gather):
        """Give out words, the indices of those that need draws, and the groups that begin."""
        sizes = self.geometry
        step = passes.o.p
        measured = self.tile.valid & self.squares.valid
        m.d.comb += [
            passes.cls.eq(self.cls),
            passes.cols.eq(self.cols),
            passes.tile.payload.eq(self.tile.payload),
            passes.tile.valid.eq(measured),
            self.tile.ready.eq(passes.tile.ready),
            self.squares.ready.eq(passes.tile.ready),
        ]
        free = Signal(range(3), init=2)  # halves of the reorder memory
        field_free = Signal(range(3), init=2)
        stochastic = by_class(m, self.cls, map(int, sizes.draws), "stochastic").bool()
        begins = Signal()
        may = Signal()
        go = Signal()
        drawn = Signal()
        took = Signal()
        m.d.comb += [
            drawn.eq(stochastic & step.inside),
            begins.eq(step.first & ~step.find),
            may.eq(passes.o.valid & (~begins | (free.any() & field_free.any()))),
            go.eq(may & (~drawn | index.ready) & (~begins | self.group.ready)),
            words.i.valid.eq(go),
            index.valid.eq(may & drawn & words.i.ready & (~begins | self.group.ready)),
            index.payload.eq(step.index),
            self.group.valid.eq(may & begins & words.i.ready & (~drawn | index.ready)),
            took.eq(go & words.i.ready),
            passes.o.ready.eq(took),
        ]
        m.d.sync += free.eq(free + self.freed - (took & begins))
        m.d.sync += field_free.eq(field_free + self.field_freed - (took & begins))
        invariant(m, platform, ~self.freed | (free != 2), "a half was freed twice")
        invariant(m, platform, ~self.field_freed | (field_free != 2), "a field was freed twice")
        group, tile = self.group.p, self.tile.p
        m.d.comb += [
            group.copy.eq(step.copy),
            group.line_end.eq(step.line_end),
            group.copy_end.eq(step.copy_end),
            group.first_row.eq(tile.first_row),
            group.first_col.eq(tile.first_col),
            group.last_row.eq(tile.last_row),
            group.last_col.eq(tile.last_col),
        ]
        word = words.i.p
        for name in ("at", "inside", "tile_end"):
            m.d.comb += word[name].eq(step[name])
        m.d.comb += [word.drawn.eq(drawn), word.last.eq(step.last & ~step.find)]
        if sizes.two_copies:
            m.d.comb += word.copy.eq(step.copy)
        if gather is not None:
            m.d.comb += [passes.found.eq(gather.done)]
            for name in ("find", "row_end", "last_row"):
                m.d.comb += word[name].eq(step[name])
        for n in range(sizes.word_chunks * sizes.squares):
            square = square_of(m, sizes, self.cls, step.at.word, n, f"square{n}")[:3]
            column = (step.at.word << exact_log2(sizes.lanes)) + n * sizes.chunk
            here = Signal(name=f"here{n}")
            m.d.comb += here.eq(column < tile.cols)
            measured = Signal(8, name=f"measured{n}")
            m.d.comb += measured.eq(Mux(here, self.squares.payload[square], 0))
            m.d.comb += word.exponents[n].eq(self._known(m, measured, f"known{n}"))
            if any(sizes.folds):
                found = measured if gather is None else gather.squares[square]
                if any(sizes.folds_at_intake) and gather is not None:
                    known = by_class(m, self.cls, map(int, sizes.folds_at_intake), f"at_intake{n}")
                    found = Mux(known.bool(), measured, found)
                m.d.comb += word.folds[n].eq(found)

    def _known(self, m, measured, name):
        """Exponent of a square of which is known what it is folded by: the tensor's, or 0."""
        sizes = self.geometry
        if not any(sizes.folds_at_intake):
            return measured
        known = by_class(m, self.cls, map(int, sizes.folds_at_intake), name).bool()
        ones = [chosen.format.scale == "one" for chosen in sizes.classes]
        one = by_class(m, self.cls, map(int, ones), f"{name}_one").bool()
        counts = measured.any() & (measured != NAN_EXPONENT)
        tensor = Mux(one, LARGEST_BYTE, self.scale)
        return Mux(known & counts, tensor, measured)

    def _lanes(self, m, platform, word, valid, draws, gather):
        """The lanes, and beside them the pulses and the place that belong to their results."""
        sizes = self.geometry
        exponents, folds = self._of_lanes(m, word, gather)
        self._write_field(m, word, valid, exponents, folds)
        lanes = []
        for n in range(sizes.lanes):
            m.submodules[f"lane{n}"] = place(
                lane := LaneQuantiser(numerics=self.numerics), platform
            )
            lanes.append(lane)
            m.d.comb += [
                lane.cls.eq(self.cls),
                lane.scale.eq(self.scale),
                lane.value.eq(Mux(word.inside, self.read_data.word_select(n, 32), 0)),
                lane.exponent.eq(exponents[n]),
                lane.random.eq(draws.word_select(n, self.numerics.random_bits)),
            ]
            if folds is not None:
                m.d.comb += lane.fold.eq(folds[n])
        late = Signal(self._late_layout)
        beside = [name for name in self._late_layout.members if name != "valid"]
        m.d.comb += [late[name].eq(word[name]) for name in beside]
        m.d.comb += late.valid.eq(valid)
        for cycle in range(lanes[0].latency):
            later = Signal(self._late_layout, name=f"late{cycle + 1}")
            m.d.sync += later.eq(late)
            late = later
        stored = Signal()
        m.d.comb += [
            stored.eq(late.valid),
            self.write_en.eq(stored),
            self.write_at.eq(late.at),
            self.write_data.eq(Cat(lane.element for lane in lanes)),
            self.written.eq(stored & late.last),
            self.nan.eq(late.valid & Cat(lane.nan for lane in lanes).any()),
            self.inf.eq(late.valid & Cat(lane.inf for lane in lanes).any()),
            self.saturated.eq(Mux(stored, sum(lane.saturated for lane in lanes), 0)),
            self.underflowed.eq(Mux(stored, sum(lane.underflowed for lane in lanes), 0)),
        ]
        if sizes.two_copies:
            m.d.comb += self.write_copy.eq(late.copy)
        if gather is not None:
            m.d.comb += [
                stored.eq(late.valid & ~late.find),
                gather.cls.eq(self.cls),
                gather.add.eq(late.valid & late.find),
                gather.row.eq(late.at.row),
                gather.word.eq(late.at.word),
                gather.row_end.eq(late.row_end),
                gather.last_row.eq(late.last_row),
                *(gather.values[n].eq(lane.top) for n, lane in enumerate(lanes)),
            ]

    @property
    def _late_layout(self):
        """What goes beside the lanes."""
        sizes = self.geometry
        flags = ["valid", "last"] + ["copy"] * sizes.two_copies
        flags += ["find", "row_end", "last_row"] * any(sizes.finds)
        fields = {flag: unsigned(1) for flag in flags}
        return data.StructLayout(fields | {"at": word_layout(sizes)})

    def _of_lanes(self, m, word, gather):
        """Exponent of every lane's unit, and what it is folded by."""
        sizes = self.geometry
        vectors = by_class(m, self.cls, map(int, sizes.vectors), "vectors").bool()

        def of_lane(n, name, squares, source):
            byte = Signal(8, name=f"{name}{n}")
            if sizes.squares:
                m.d.comb += byte.eq(word[squares][n // sizes.chunk])
            if sizes.two_copies and source is not None:
                with m.If(vectors):
                    of_vector = Mux(word.copy, source.column_values[n], source.row_value)
                    m.d.comb += byte.eq(Mux(word.inside, of_vector, 0))
            return byte

        lanes = range(sizes.lanes)
        exponents = [of_lane(n, "exponent", "exponents", self) for n in lanes]
        if not any(sizes.folds):
            return exponents, None
        return exponents, [of_lane(n, "fold", "folds", gather) for n in lanes]

    def _write_field(self, m, word, valid, exponents, folds):
        """Write the exponents of the units that a word is the first to have in its group.

        Where words are no longer than blocks, all lanes have the same square or row vector, or each
        its own column vector; where they are longer, each of its chunks has its own square.
        """
        sizes = self.geometry
        banks = field_banks(sizes)
        address = Signal(range(max(sizes.of_classes(sizes.exponent_entries))))
        first = Signal()
        whole = Signal()  # every bank has a byte of its own
        in_group = word.at.word[: exact_log2(sizes.row_words)]
        in_block = in_group[: exact_log2(sizes.block_words)]
        block_row = word.at.row[: exact_log2(sizes.block)]
        square = in_group[exact_log2(sizes.block_words) :] << exact_log2(sizes.word_chunks)
        m.d.comb += [
            address.eq(square),
            first.eq((block_row == 0) & (in_block == 0)),
            whole.eq(sizes.word_chunks > 1),
        ]
        if sizes.two_copies:
            vectors = by_class(m, self.cls, map(int, sizes.vectors), "vectors_field").bool()
            with m.If(vectors & ~word.copy):
                run, new = self._run(m, in_group, sizes.lanes, "along")
                m.d.comb += [address.eq(Cat(block_row, run)), first.eq(new)]
            with m.If(vectors & word.copy):
                row = word.at.row[: exact_log2(sizes.group_cols)]
                run, new = self._run(m, row, 1, "down")
                lane = Const(0, exact_log2(sizes.lanes))
                m.d.comb += [address.eq(Cat(lane, in_block, run)), first.eq(new), whole.eq(1)]
        bank = address[: exact_log2(banks)]
        m.d.comb += [
            self.field_en.eq(valid & first & (~word.find if any(sizes.finds) else 1)),
            self.field.row.eq(address >> exact_log2(banks)),
            self.field.enable.eq(Mux(whole, 2**banks - 1, 1 << bank)),
        ]
        with m.If(valid & word.last):
            m.d.sync += self.field_half.eq(~self.field_half)
        for n in range(banks):
            lane = n * sizes.chunk if sizes.word_chunks > 1 else n
            byte = self._lowered(m, n, exponents[lane], folds and folds[lane])
            m.d.comb += self.field.values[n].eq(byte)

    def _run(self, m, place_, unit, name):
        """Number of a vector in its group, and whether a place is the first that it has there; a
        place is ``unit`` elements."""
        sizes = self.geometry
        met = [min(sizes.side(cls), sizes.group_cols) for cls in range(3)]  # elements of a vector
        sides = [length // unit for length in met]
        run = Signal(range(max(2, sizes.group_cols // min(met))), name=f"run_{name}")
        shift = of_vectors(m, self.cls, sizes, [exact_log2(n) for n in sides], f"shift_{name}")
        mask = of_vectors(m, self.cls, sizes, [n - 1 for n in sides], f"mask_{name}")
        m.d.comb += run.eq(place_ >> shift)
        return run, (place_ & mask) == 0

    def _lowered(self, m, n, exponent, fold):
        """Stored exponent after folding: 0 for a unit of zeros, as it is where it is NaN."""
        sizes = self.geometry
        if fold is None:
            return exponent
        folds = by_class(m, self.cls, map(int, sizes.folds), f"folds{n}").bool()
        depth = by_class(m, self.cls, [c.format.depth + 1 for c in sizes.classes], f"depth{n}")
        byte = Signal(8, name=f"lowered{n}")
        m.d.comb += byte.eq(exponent)
        with m.If(folds & (exponent != NAN_EXPONENT)):
            zeros = (exponent == 0) | (fold == 0)
            m.d.comb += byte.eq(Mux(zeros, 0, exponent - depth + fold))
        return byte
