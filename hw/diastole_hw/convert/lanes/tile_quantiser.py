"""Quantise the tiles in the buffer by the lanes, for both copies at once."""

from amaranth.hdl import Assert, Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.convert.by_class import by_class
from diastole_hw.convert.image.copy_port import CopySignature
from diastole_hw.convert.lanes.field_word import FieldWord
from diastole_hw.convert.lanes.passes import Passes
from diastole_hw.convert.lanes.quantise import MONITORED, LaneQuantiser
from diastole_hw.convert.lanes.scale import LARGEST_BYTE
from diastole_hw.convert.lanes.trials import Trials
from diastole_hw.convert.lanes.unit_reduction import square_of, squares_layout
from diastole_hw.convert.tile_layouts import tile_layout, word_layout
from diastole_hw.data_registers import data_register, delayed_record
from diastole_hw.random.kinds import draw_unit, word_place_layout
from diastole_hw.stream.fifo import StreamFifo
from diastole_sim.spec.formats import NAN_EXPONENT
from diastole_sim.spec.numerics import CLASS_NAMES
from diastole_sim.spec.sizes.converter_sizes import ConverterSizes
from diastole_sim.spec.sizes.draws import words_ahead

_PLACES = 2  # places of words that wait for the unit of random bits


class TileQuantiser(wiring.Component):
    """Quantise the tiles in the buffer, in the order of :class:`Passes`, a word per cycle for all
    copies.

    If a class has two scales to choose from (:attr:`ConverterSizes.tries_scales`), the words of the
    first pass go through :class:`Trials`. The words of the second pass are stored with the scales
    found.

    The random bits of a word are requested up to :func:`words_ahead` words ahead. If random bits
    come from a register per row, only words inside the tensor request random bits. Else words
    outside the tensor request random bits too, and get zeros whatever the random bits are.

    Timing: 1 word per cycle, with stochastic rounding too, and some cycles between the passes of a
    class with several passes. A group, and a strip, begins when its memories have free space.

    Parameters
    ----------
    sizes : ConverterSizes

    Members
    -------
    cls : In(2)
    scale : In(8)
    cols, seed, tag, step : In(32)
        Parameters of the tensor; must hold until the last group is written.
    start : In(1)
    rows : In(32)
        A pulse before the first tile of a tensor, and the rows of the tensor, which must hold as
        ``cols``. Present only if random bits come from a register per row.
    tile : In(stream of :func:`tile_layout`)
    squares : In(stream of :func:`squares_layout`)
        A tile and, as soon as they are measured, the exponents of the squares of its pieces.
    read_en : Out(1)
    read_at : Out(:func:`word_layout`)
    read_data : In(32 * lanes)
    row_value : In(measured_bits)
    column_values : In(array of lanes unsigned(measured_bits))
        Reads of a word from the buffer, and of the exponents of its vectors from
        :class:`diastole_hw.convert.lanes.unit_reduction.UnitReduction`. Data come 1 cycle after
        ``read_en`` and hold until the next. The exponents of vectors are present only with vectors.
    read_done : Out(1)
        A pulse: the tile read last is not needed any more.
    first, second : Out(:class:`CopySignature`)
        Ports of the first copy and, with vectors, of the second copy.
    write_at : Out(:func:`word_layout`)
        Place of the words written; ``half`` is meaningless.
    nan, inf : Out(1)
        Pulses: the tensor has a NaN, an Inf, or a finite number that counts as NaN or Inf by the
        class's specification.
    saturated, underflowed : Out(range of copies * lanes + 1)
        Numbers of elements that saturated, underflowed in this cycle, over all copies.
    planes : In(2)
        Number of planes of a copy, less 1; must hold as ``cls``. ``planes`` and the following
        members are present only if a class has the format ``fast``.
    monitor_en : Out(1)
    differs, narrow : Out(array of lanes unsigned(2))
        A word of the first copy, as input of :class:`diastole_hw.convert.lanes.monitor.Monitor`.
    """

    def __init__(self, sizes: ConverterSizes):
        self.sizes = sizes
        members = {
            "cls": In(2),
            "scale": In(8),
            "cols": In(32),
            "seed": In(32),
            "tag": In(32),
            "step": In(32),
            "tile": In(stream.Signature(tile_layout(sizes))),
            "squares": In(stream.Signature(squares_layout(sizes))),
            "read_en": Out(1),
            "read_at": Out(word_layout(sizes)),
            "read_data": In(32 * sizes.lanes),
            "read_done": Out(1),
            "first": Out(CopySignature(sizes, 0)),
            "write_at": Out(word_layout(sizes)),
            "nan": Out(1),
            "inf": Out(1),
            "saturated": Out(range(self._copies * sizes.lanes + 1)),
            "underflowed": Out(range(self._copies * sizes.lanes + 1)),
        }
        members |= {"planes": In(2 if sizes.planar else 0)}
        if sizes.planar:
            words = data.ArrayLayout(unsigned(2), sizes.lanes)
            members |= {"monitor_en": Out(1)} | dict.fromkeys(MONITORED, Out(words))
        if self.sizes.numerics.draws_by_rows:
            members["start"] = In(1)
            members["rows"] = In(32)
        if sizes.two_copies:
            members["second"] = Out(CopySignature(sizes, 1))
            members["row_value"] = In(sizes.measured_bits)
            measured = data.ArrayLayout(unsigned(sizes.measured_bits), sizes.lanes)
            members["column_values"] = In(measured)
        super().__init__(members)

    @property
    def _copies(self) -> int:
        """Largest number of copies of a tensor."""
        return 1 + self.sizes.two_copies

    @property
    def _ports(self) -> list:
        """Ports of the copies."""
        return [self.first, self.second] if self.sizes.two_copies else [self.first]

    @property
    def _word_flags(self) -> dict:
        """Flags that accompany a word through the lanes."""
        sizes = self.sizes
        flags = ["last", "strip_last"][: self._copies]
        flags += ["find", "row_end", "last_row"] * any(sizes.tries_scales)
        return {flag: unsigned(1) for flag in flags}

    @property
    def _word_layout(self):
        """Layout of a word before the lanes, with the exponents and folds of its squares."""
        sizes = self.sizes
        flags = {flag: unsigned(1) for flag in ("inside", "drawn", "tile_end")}
        fields = {"at": word_layout(sizes)} | flags | self._word_flags
        if sizes.squares:
            measured = unsigned(sizes.measured_bits)
            fields["exponents"] = data.ArrayLayout(measured, sizes.word_chunks)
        if sizes.squares and any(sizes.folds):
            fields["folds"] = data.ArrayLayout(unsigned(8), sizes.word_chunks)
        return data.StructLayout(fields)

    def elaborate(self, platform):
        m = Module()
        sizes = self.sizes
        words = StreamFifo(shape=self._word_layout, depth=words_ahead(sizes.lanes), quick=True)
        m.submodules.words = words
        m.submodules.passes = passes = Passes(sizes)
        trials = None
        if any(sizes.tries_scales):
            m.submodules.trials = trials = Trials(sizes)
        of_copy = unsigned(sizes.lanes * self.sizes.numerics.random_bits)
        index = stream.Signature(word_place_layout(self.sizes.numerics, **self._drawn)).create()
        draws = stream.Signature(data.ArrayLayout(of_copy, sizes.drawn_copies)).create()
        if any(sizes.draws):
            self._connect_draws(m, index, draws)

        # A word waits in the queue, is read from the buffer, and enters the lanes with its random
        # bits from the register `word`.
        word = data_register(self._word_layout)
        valid = Signal()
        move = Signal()
        self._stream_words(m, passes, words, index, trials)
        self._begin(m, passes, words, index)
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
        self._quantise(m, word, valid & move, draws.payload, trials)
        if trials is not None:
            self._try(m, words.o.p.at, word, valid & move, trials)
        return m

    @property
    def _drawn(self) -> dict:
        """Parameters of the unit of random bits: sizes of the order of words."""
        sizes = self.sizes
        return {"block": sizes.block, "rows": sizes.max_tile_rows}

    def _connect_draws(self, m, index, draws):
        sizes = self.sizes
        # Random bits wait for a word only if earlier words need none: the words of a trial.
        reader_never_stalls = not any(sizes.tries_scales)
        kinds = {
            "lanes": sizes.lanes,
            "copies": sizes.drawn_copies,
            "reader_never_stalls": reader_never_stalls,
        }
        m.submodules.draws = unit = draw_unit(self.sizes.numerics, **kinds, **self._drawn)
        # The unit's `ready` depends on the place, but a word goes to all its targets or to none:
        # a queue separates the two.
        m.submodules.places = places = StreamFifo(shape=index.p.shape(), depth=_PLACES)
        wiring.connect(m, index, places.i)
        wiring.connect(m, places.o, unit.i)
        m.d.comb += [
            unit.seed.eq(self.seed),
            unit.tag.eq(self.tag),
            unit.step.eq(self.step),
            draws.payload.eq(unit.o.payload),
            draws.valid.eq(unit.o.valid),
            unit.o.ready.eq(draws.ready),
        ]
        if self.sizes.numerics.draws_by_rows:
            drawn = by_class(m, self.cls, map(int, sizes.draws), "begins_drawn").bool()
            m.d.comb += [unit.start.eq(self.start & drawn), unit.height.eq(self.rows)]

    def _stream_words(self, m, passes, words, index, trials):
        """Add the exponents, folds and flags that the lanes need to the words of the passes."""
        sizes = self.sizes
        step = passes.o.p
        m.d.comb += [
            passes.cls.eq(self.cls),
            passes.cols.eq(self.cols),
            passes.tile.payload.eq(self.tile.payload),
            passes.tile.valid.eq(self.tile.valid & self.squares.valid),
            self.tile.ready.eq(passes.tile.ready),
            self.squares.ready.eq(passes.o.valid & passes.o.ready & step.piece_end),
        ]
        self._request(m, index, step)
        stochastic = by_class(m, self.cls, map(int, sizes.draws), "stochastic").bool()
        word = words.i.p
        drawn = stochastic & step.inside if self.sizes.numerics.draws_by_rows else stochastic
        if trials is not None:
            drawn &= ~step.find
            m.d.comb += passes.trials_done.eq(trials.done)
        m.d.comb += word.drawn.eq(drawn)
        for name in ("at", "inside", "tile_end", *self._word_flags):
            m.d.comb += word[name].eq(step[name])
        m.d.comb += word.last.eq(step.last & ~step.find)
        for n in range(sizes.word_chunks * sizes.squares):
            square = square_of(m, sizes, self.cls, step.at.word, n, f"square{n}")
            column = (step.at.word << exact_log2(sizes.lanes)) + n * sizes.chunk
            here = Signal(name=f"here{n}")
            m.d.comb += here.eq(column < self.tile.p.cols)
            measured = Signal(sizes.measured_bits, name=f"measured{n}")
            m.d.comb += measured.eq(Mux(here, self.squares.payload[square], 0))
            if trials is not None:
                selected = trials.squares[square] & ~step.find
                measured = Cat(measured[:8], Mux(selected, measured[:8], measured[8:]))
            m.d.comb += word.exponents[n].eq(self._square_exponent(m, measured, f"folds{n}"))
            if any(sizes.folds):
                m.d.comb += word.folds[n].eq(measured)

    def _request(self, m, index, step):
        """Describe the place of a word to the unit of random bits."""
        place_of_word = {
            "index": step.index,
            "row": step.at.row,
            "goes_on": step.at.word != 0,
            "odd": step.at.word & 1,
        }
        if self.sizes.numerics.draws_by_rows:
            place_of_word["begins"] = self.tile.p.first_col & (step.at.word == 0)
        m.d.comb += [index.p[name].eq(place_of_word[name]) for name in index.p.shape().members]

    def _begin(self, m, passes, words, index):
        """Let a word go on together with its request for random bits, if needed, and with the group
        and the strip that the word begins. The word waits until all have free space."""
        step, tile = passes.o.p, self.tile.p
        begins = [step.first & ~step.find, step.strip_first][: self._copies]
        space = Signal()
        took = Signal()
        halves = [
            self._free_half(m, port, took & begin, f"{'second' if copy else 'first'}")
            for copy, (port, begin) in enumerate(zip(self._ports, begins, strict=True))
        ]
        m.d.comb += space.eq(
            Cat(~begin | half for begin, half in zip(begins, halves, strict=True)).all()
        )
        # Targets of a word, and whether the word goes to the target.
        targets = [(words.i, Const(1)), (index, words.i.p.drawn)]
        targets += [(p.group, begin) for p, begin in zip(self._ports, begins, strict=True)]
        for target, selected in targets:
            others = [~w | t.ready for t, w in targets if t is not target]
            m.d.comb += target.valid.eq(passes.o.valid & space & selected & Cat(others).all())
        m.d.comb += took.eq(words.i.valid & words.i.ready)
        m.d.comb += passes.o.ready.eq(took)
        for port in self._ports:
            for edge in ("first_row", "first_col", "last_row", "last_col"):
                m.d.comb += port.group.p[edge].eq(tile[edge])
        group = self.first.group.p
        m.d.comb += [group.line_end.eq(step.line_end), group.copy_end.eq(step.copy_end)]
        if self.sizes.two_copies:
            strip = self.second.group.p
            m.d.comb += [strip.copy.eq(1), strip.line_end.eq(1), strip.copy_end.eq(step.strip_end)]

    def _free_half(self, m, port, begins, name):
        """Return whether half of the double buffers of a copy, for elements and exponents, is
        free."""
        free = Signal(range(3), init=2, name=f"{name}_free")
        field_free = Signal(range(3), init=2, name=f"{name}_field_free")
        m.d.sync += free.eq(free + port.freed - begins)
        m.d.sync += field_free.eq(field_free + port.field_freed - begins)
        m.d.sync += Assert(~port.freed | (free != 2), "a half was freed twice")
        m.d.sync += Assert(~port.field_freed | (field_free != 2), "a field was freed twice")
        return free.any() & field_free.any()

    def _square_exponent(self, m, measured, name):
        """Return the exponent of a square. If the class folds, the exponent is the tensor's, but a
        square of zeros or no number keeps its byte."""
        sizes = self.sizes
        if not any(sizes.folds):
            return measured
        folds = by_class(m, self.cls, map(int, sizes.folds), name).bool()
        ones = [chosen.format.scale == "one" for chosen in sizes.classes]
        one = by_class(m, self.cls, map(int, ones), f"{name}_one").bool()
        counts = measured.any() & (measured != NAN_EXPONENT)
        tensor = Mux(one, LARGEST_BYTE, self.scale)
        return Mux(folds & counts, tensor, measured)

    def _try(self, m, next_at, word, valid, trials):
        """Pass the words of the first pass to the trials. ``next_at``: place of the word that is
        read next."""
        m.d.comb += [
            trials.cls.eq(self.cls),
            trials.scale.eq(self.scale),
            trials.word.add.eq(valid & word.find),
            *(trials.word[name].eq(word[name]) for name in ("at", "row_end", "last_row")),
            trials.values.eq(self.read_data),
        ]
        if self.sizes.two_copies:
            m.d.comb += [trials.read_en.eq(self.read_en), trials.read_at.eq(next_at)]

    def _quantise(self, m, word, valid, draws, trials):
        """Connect the lanes, and delay the pulses and the place of a word to the cycle of the
        results."""
        sizes = self.sizes
        vectors = by_class(m, self.cls, map(int, sizes.vectors), "vectors").bool()
        used = [1, vectors][: self._copies]  # the tensor has the copy
        sets = []
        for copy, port in enumerate(self._ports):
            exponents, folds = self._of_units(m, copy, word, vectors, trials)
            self._write_field(m, copy, word, valid & used[copy], exponents, folds)
            random = draws[copy] if copy < sizes.drawn_copies else Const(0, len(draws[0]))
            lanes = self._lanes(m, copy, word, exponents, folds, random)
            m.d.comb += port.write_data.eq(Cat(lane.element for lane in lanes))
            sets.append(lanes)
        layout = data.StructLayout({"valid": 1, "at": word_layout(sizes)} | self._word_flags)
        late = Signal(layout)
        m.d.comb += [late[name].eq(word[name]) for name in ("at", *self._word_flags)]
        m.d.comb += late.valid.eq(valid)
        for cycle in range(sets[0][0].latency):
            late = delayed_record(m, late, f"late{cycle + 1}", control=("valid",))
        stored = Signal()
        m.d.comb += stored.eq(late.valid & ~late.find if any(sizes.tries_scales) else late.valid)
        lasts = ("last", "strip_last")[: self._copies]
        for port, there, last in zip(self._ports, used, lasts, strict=True):
            m.d.comb += [port.write_en.eq(stored & there), port.filled.eq(stored & late[last])]
        m.d.comb += [
            self.write_at.eq(late.at),
            self.nan.eq(self._is_special(m, late.valid, sets[0], "nan")),
            self.inf.eq(self._is_special(m, late.valid, sets[0], "inf")),
            *self._monitor(stored, sets[0]),
            self.saturated.eq(self._count(stored, vectors, sets, "saturated")),
            self.underflowed.eq(self._count(stored, vectors, sets, "underflowed")),
        ]

    def _is_special(self, m, valid, lanes, name):
        """Return whether a word has a NaN, or an Inf; a finite number that is too large may
        count."""
        seen = valid & Cat(getattr(lane, name) for lane in lanes).any()
        kind = {"nan": "nan", "inf": "ieee"}[name]
        counts = [
            self.sizes.numerics.flags_overflow(each)
            and self.sizes.numerics.tensor_class(each).format.specials == kind
            for each in CLASS_NAMES
        ]
        if not any(counts):
            return seen
        of_class = by_class(m, self.cls, map(int, counts), f"overflow_is_{name}")
        return seen | (of_class.bool() & self.saturated.any())

    def _monitor(self, stored, lanes):
        """Return the connections to the monitor. Lanes outside the tensor are zeros and add
        nothing."""
        if not self.sizes.planar:
            return []
        return [self.monitor_en.eq(stored)] + [
            value.eq(getattr(lane, name))
            for name in MONITORED
            for value, lane in zip(getattr(self, name), lanes, strict=True)
        ]

    def _count(self, stored, vectors, sets, name):
        """Return the number of elements of a word, over all copies, with the lane output
        ``name``."""
        counts = [sum(getattr(lane, name) for lane in lanes) for lanes in sets]
        first = Mux(stored, counts[0], 0)
        return first + Mux(stored & vectors, counts[1], 0) if len(counts) > 1 else first

    def _lanes(self, m, copy, word, exponents, folds, random):
        """Return the lanes of a copy."""
        lanes = []
        for n in range(self.sizes.lanes):
            monitored = self.sizes.planar and not copy
            lane = LaneQuantiser(numerics=self.sizes.numerics, monitored=monitored)
            m.submodules[f"lane{n}_t" if copy else f"lane{n}"] = lane
            lanes.append(lane)
            bits = self.sizes.numerics.random_bits
            value = self.read_data.word_select(n, 32)
            if self.sizes.numerics.rounding_kind == "data":
                drawn = value[:bits]
            else:
                drawn = random.word_select(n, bits)
            m.d.comb += [
                lane.cls.eq(self.cls),
                lane.planes.eq(self.planes),
                lane.scale.eq(self.scale),
                lane.value.eq(value),
                lane.blank.eq(~word.inside),
                lane.exponent.eq(exponents[n]),
                lane.fold.eq(folds[n]),
                lane.random.eq(drawn),
            ]
        return lanes

    def _of_units(self, m, copy, word, vectors, trials):
        """Return the exponent and the fold of the unit of every lane. With two scales to choose
        from, the exponent is the scale found, and the trials get both scales."""
        sizes = self.sizes

        def of_square(n, name, bits):
            of_copy = sizes.squares and not copy
            return word[name][n // sizes.chunk] if of_copy else Const(0, bits)

        exponents = []
        for n in range(sizes.lanes):
            bits = sizes.measured_bits
            measured = Signal(bits, name=f"exponent{n}_t" if copy else f"exponent{n}")
            m.d.comb += measured.eq(of_square(n, "exponents", bits))
            four = Const(0)
            if sizes.two_copies:
                with m.If(vectors):
                    of_vector = self.column_values[n] if copy else self.row_value
                    m.d.comb += measured.eq(Mux(word.inside, of_vector, 0))
                if trials is not None:
                    four = vectors & (trials.column_values[n] if copy else trials.row_value)
            if trials is not None:
                m.d.comb += (trials.measured_t if copy else trials.measured)[n].eq(measured)
                measured = Mux(four, measured[:8], measured[8:])
            exponents.append(measured)
        folds = any(sizes.folds)  # only squares, which are blocks, have folds
        return exponents, [
            of_square(n, "folds", 8) if folds else Const(0, 8) for n in range(sizes.lanes)
        ]

    def _write_field(self, m, copy, word, valid, exponents, folds):
        """Write the exponents of the units that a word is the first to have in its group."""
        sizes, port = self.sizes, self._ports[copy]
        unit = FieldWord(sizes, copy=copy)
        m.submodules["field_t" if copy else "field"] = unit
        m.d.comb += [
            unit.cls.eq(self.cls),
            unit.at.eq(word.at),
            *(unit.exponents[n].eq(byte) for n, byte in enumerate(exponents)),
            *(unit.folds[n].eq(byte) for n, byte in enumerate(folds)),
            port.field_en.eq(valid & unit.first & (~word.find if any(sizes.tries_scales) else 1)),
            port.field.eq(unit.o),
        ]
        with m.If(valid & (word.strip_last if copy else word.last)):
            m.d.sync += port.field_half.eq(~port.field_half)
