"""Second pass over a group: from the buffer through the lanes to the reorder memory."""

from amaranth.hdl import Array, Cat, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole.convert.geometry import Geometry
from diastole.convert.intake import measured_layout
from diastole.convert.quantise import LaneQuantiser, check_classes
from diastole.emit.place import place
from diastole.random.draws import INDEX_BITS, Draws
from diastole.stream.fifo import StreamFifo
from diastole_sim.rounding import is_stochastic

_LANE_LATENCY = 2  # cycles


class QuantiseStage(wiring.Component):
    """Quantise the groups in the buffer, row by row, a word per cycle.

    The draws of a word are asked for up to 4 + 12 / lanes words ahead, and only for words that lie
    in the tensor. Elements outside get zeros whatever the draw.

    Timing: one word per cycle, with stochastic rounding as fast as :class:`Draws` allows. A group
    begins when it is measured and a half of the reorder memory is free.

    Parameters
    ----------
    block, data_width : int
        Block side and bits of a beat, as in :class:`Geometry`.
    mantissa_bits, rounding, random_bits
        As in :class:`LaneQuantiser`.

    Members
    -------
    cls : In(2)
    cols, seed, tag, step : In(32)
        Of the tensor; must hold until its last group is written, as must ``cls``.
    restart : In(1)
        A pulse before the first group of a tensor.
    i : In(stream of :func:`measured_layout`)
    read_en : Out(1)
    read_addr : Out(range of 2 * group words)
    read_data : In(32 * lanes)
        One cycle after ``read_en``, held until the next.
    read_done : Out(1)
        A pulse: the half read last may be written again.
    write_en : Out(1)
    write_addr : Out(range of 2 * group words)
    write_data : Out(lanes * element bits)
    written : Out(1)
        A pulse with the last word of a group.
    freed : In(1)
        A pulse: a half of the reorder memory may be written again.
    nan, inf : Out(1)
        Pulses: the tensor has one.
    saturated : Out(range of lanes + 1)
        Elements that saturated in this cycle.
    """

    def __init__(self, *, block, data_width, mantissa_bits, rounding, random_bits):
        check_classes(mantissa_bits, rounding, random_bits)
        self.block, self.data_width = block, data_width
        sizes = self.geometry = Geometry(block=block, data_width=data_width)
        self.mantissa_bits, self.rounding = tuple(mantissa_bits), tuple(rounding)
        self.random_bits = random_bits
        self.element_bits = max(mantissa_bits) + 1
        address = range(2 * sizes.group_words)
        super().__init__(
            {
                "cls": In(2),
                "cols": In(32),
                "seed": In(32),
                "tag": In(32),
                "step": In(32),
                "restart": In(1),
                "i": In(stream.Signature(measured_layout(block))),
                "read_en": Out(1),
                "read_addr": Out(address),
                "read_data": In(32 * sizes.lanes),
                "read_done": Out(1),
                "write_en": Out(1),
                "write_addr": Out(address),
                "write_data": Out(sizes.lanes * self.element_bits),
                "written": Out(1),
                "freed": In(1),
                "nan": Out(1),
                "inf": Out(1),
                "saturated": Out(range(sizes.lanes + 1)),
            }
        )

    @property
    def _word_layout(self):
        """A word on its way: its address, its blocks' exponents, whether it waits for draws."""
        sizes = self.geometry
        return data.StructLayout(
            {
                "addr": range(2 * sizes.group_words),
                "exponents": data.ArrayLayout(unsigned(8), sizes.word_chunks),
                "drawn": 1,
                "last": 1,
            }
        )

    def elaborate(self, platform):
        m = Module()
        sizes = self.geometry
        words = StreamFifo(shape=self._word_layout, depth=4 + 12 // sizes.lanes)
        m.submodules.words = place(words, platform)
        index = stream.Signature(unsigned(INDEX_BITS)).create()
        draws = stream.Signature(unsigned(sizes.lanes * self.random_bits)).create()
        if any(is_stochastic(rule) for rule in self.rounding):
            self._connect_draws(m, platform, index, draws)
        self._walk(m, words.i, index)

        word = Signal(self._word_layout)
        valid = Signal()
        move = Signal()
        m.d.comb += move.eq(~valid | ~word.drawn | draws.valid)
        m.d.comb += draws.ready.eq(valid & word.drawn)
        m.d.comb += words.o.ready.eq(move)
        m.d.comb += self.read_en.eq(words.o.valid & move)
        m.d.comb += self.read_addr.eq(words.o.p.addr)
        m.d.comb += self.read_done.eq(self.read_en & words.o.p.last)
        with m.If(move):
            m.d.sync += [valid.eq(words.o.valid), word.eq(words.o.p)]
        self._lanes(m, platform, word, valid & move, draws.payload)
        return m

    def _connect_draws(self, m, platform, index, draws):
        unit = Draws(lanes=self.geometry.lanes, random_bits=self.random_bits)
        m.submodules.draws = place(unit, platform)
        m.d.comb += [
            unit.seed.eq(self.seed),
            unit.tag.eq(self.tag),
            unit.step.eq(self.step),
            unit.restart.eq(self.restart),
            unit.i.payload.eq(index.payload),
            unit.i.valid.eq(index.valid),
            index.ready.eq(unit.i.ready),
            draws.payload.eq(unit.o.payload),
            draws.valid.eq(unit.o.valid),
            unit.o.ready.eq(draws.ready),
        ]

    def _walk(self, m, words, index):
        """Give out the words of a group, and the indices of those that need draws."""
        sizes = self.geometry
        group = self.i.p.group
        row = Signal(range(sizes.block))
        word = Signal(range(sizes.row_words))
        half = Signal()
        offset = Signal(INDEX_BITS)  # of the row's first element from the group's
        free = Signal(range(3), init=2)  # halves of the reorder memory
        first = (row == 0) & (word == 0)
        last = (row == sizes.block - 1) & (word == sizes.row_words - 1)
        column = word << exact_log2(sizes.lanes)
        stochastic = Array(is_stochastic(rule) for rule in self.rounding)[self.cls]
        drawn = stochastic & (row < group.rows) & (column < group.cols)
        go = self.i.valid & (~first | free.any())
        took = Signal()
        m.d.comb += [
            words.valid.eq(go & (~drawn | index.ready)),
            index.valid.eq(go & drawn & words.ready),
            index.payload.eq(group.index + offset + column),
            took.eq(words.valid & words.ready),
            self.i.ready.eq(took & last),
            words.p.addr.eq(Cat(word, row, half)),
            words.p.drawn.eq(drawn),
            words.p.last.eq(last),
        ]
        first_block = (word >> exact_log2(sizes.block_words)) << exact_log2(sizes.word_chunks)
        for n in range(sizes.word_chunks):
            m.d.comb += words.p.exponents[n].eq(self.i.p.exponents[(first_block | n)[:3]])
        m.d.sync += free.eq(free + self.freed - (took & first))
        with m.If(took):
            m.d.sync += word.eq(word + 1)
            with m.If(word == sizes.row_words - 1):
                m.d.sync += [word.eq(0), row.eq(row + 1), offset.eq(offset + self.cols)]
            with m.If(last):
                m.d.sync += [row.eq(0), offset.eq(0), half.eq(~half)]

    def _lanes(self, m, platform, word, valid, draws):
        """The lanes, and beside them the address and the pulses that belong to their results."""
        sizes = self.geometry
        lanes = []
        for n in range(sizes.lanes):
            lane = LaneQuantiser(
                mantissa_bits=self.mantissa_bits,
                rounding=self.rounding,
                random_bits=self.random_bits,
            )
            m.submodules[f"lane{n}"] = place(lane, platform)
            lanes.append(lane)
            m.d.comb += [
                lane.cls.eq(self.cls),
                lane.value.eq(self.read_data.word_select(n, 32)),
                lane.exponent.eq(word.exponents[n // sizes.chunk]),
                lane.random.eq(draws.word_select(n, self.random_bits)),
            ]
        last, addr = word.last, word.addr
        for n in range(_LANE_LATENCY):
            late_valid = Signal(name=f"valid{n + 1}")
            late_last = Signal(name=f"last{n + 1}")
            late_addr = Signal.like(self.write_addr, name=f"addr{n + 1}")
            m.d.sync += late_valid.eq(valid)
            m.d.sync += late_last.eq(last)
            m.d.sync += late_addr.eq(addr)
            valid, last, addr = late_valid, late_last, late_addr
        m.d.comb += [
            self.write_en.eq(valid),
            self.write_addr.eq(addr),
            self.write_data.eq(Cat(lane.element for lane in lanes)),
            self.written.eq(valid & last),
            self.nan.eq(valid & Cat(lane.nan for lane in lanes).any()),
            self.inf.eq(valid & Cat(lane.inf for lane in lanes).any()),
            self.saturated.eq(Mux(valid, sum(lane.saturated for lane in lanes), 0)),
        ]
