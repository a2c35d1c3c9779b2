"""Random draws of consecutive tensor elements, starting at any element, several rows at a time."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.place import place
from diastole_hw.random.threefry import Threefry
from diastole_hw.registers import data_output, data_register
from diastole_hw.stream.fifo import StreamFifo
from diastole_sim.spec.check import require_choice, require_int
from diastole_sim.spec.command import SECOND_COPY_TAG
from diastole_sim.spec.rounding import DRAW_BITS, SHARED_DRAW_BITS

INDEX_BITS = 34  # a quarter of the index is the 32-bit counter
_DRAWS_PER_HASH = 4
AHEAD = 16  # words whose draws are under way


def place_layout(rows: int) -> data.StructLayout:
    """Where a word lies. ``index``: of its first element, row * columns + column of the unpadded
    tensor. ``row``: which of the rows that are drawn side by side. ``goes_on``: the word before it
    in that row had the elements before it."""
    return data.StructLayout({"index": INDEX_BITS, "row": range(rows), "goes_on": 1})


class Draws(wiring.Component):
    """Hand out the random bits of ``lanes`` consecutive elements; a function of their index only.

    Element ``index`` draws the top ``random_bits`` of the 16 bits at ``16 * (index & 3)`` of the
    Threefry-2x32-20 hash of counter ``(index >> 2, step)`` under key ``(seed, tag)``. A second copy
    takes the top ones of the low byte of the same 16, or, where that has too few, of the hash under
    another tag. What was drawn before, and how long anybody waited, changes nothing.

    max(1, lanes / 4) hash units, as many again for a second copy with a tag of its own, give
    aligned groups of draws, in the order in which the words need them. Of every row the last group
    is kept, so a row that goes on computes every hash once, whatever its alignment.

    Timing: ``AHEAD`` words are taken ahead of their draws, which come 13 cycles later at the
    soonest. Of rows that go on, in any order, one word per cycle in the long run. ``o`` is
    registered.

    Parameters
    ----------
    lanes : int
        Draws per index (a power of two, 1 to 16).
    random_bits : int
        Bits per draw (1 to 16).
    copies : int
        For which every element draws (1 or 2).
    rows : int
        That are drawn side by side (1 to 32).

    Members
    -------
    i : In(stream of :func:`place_layout`)
        The first word of a row does not go on; not checked.
    seed, tag, step : In(32)
        Must not change while a word is on its way, nor while rows go on; not checked.
    o : Out(stream of array of copies unsigned(lanes * random_bits))
        Of each copy the draw of element ``index + n`` (modulo 2^34) at bit ``n * random_bits``.

    ValueError if out of range.
    """

    def __init__(self, *, lanes: int, random_bits: int, copies: int, rows: int):
        require_choice("lanes", lanes, (1, 2, 4, 8, 16))
        require_int("random_bits", random_bits, 1, DRAW_BITS)
        self.copies = require_int("copies", copies, 1, 2)
        self.rows = require_int("rows", rows, 1, 32)
        self.lanes, self.random_bits = lanes, random_bits
        self.tags = copies if random_bits > SHARED_DRAW_BITS else 1
        self.group = max(_DRAWS_PER_HASH, lanes)  # draws of one round of hashes, aligned
        words = data.ArrayLayout(unsigned(lanes * random_bits), copies)
        super().__init__(
            {
                "i": In(stream.Signature(place_layout(rows))),
                "seed": In(32),
                "tag": In(32),
                "step": In(32),
                "o": Out(stream.Signature(words)),
            }
        )

    @property
    def _cut_layout(self):
        """How to cut a word: how many new groups to take first, from where, in one or in both, and
        in which row."""
        fields = {"groups": range(3), "offset": range(self.group), "both": 1}
        return data.StructLayout(fields | {"row": range(self.rows)})

    def elaborate(self, platform):
        m = Module()
        cuts = StreamFifo(shape=self._cut_layout, depth=AHEAD)
        m.submodules.cuts = place(cuts, platform)
        hash_in, hash_out = self._hashes(m, platform)
        numbers = StreamFifo(shape=hash_in.payload.shape(), depth=2)  # whose ready is a register's
        m.submodules.numbers = place(numbers, platform)
        wiring.connect(m, numbers.o, wiring.flipped(hash_in))
        self._plan(m, cuts.i, numbers.i)
        self._cut(m, cuts.o, hash_out)
        return m

    def _hashes(self, m, platform):
        """Lockstep hash units; streams of a group's number and of its draws, tag by tag."""
        units = self.group // _DRAWS_PER_HASH
        cycles = max(1, _DRAWS_PER_HASH // self.lanes)  # in which words use up what a unit gives
        number = stream.Signature(unsigned(INDEX_BITS - exact_log2(self.group))).create()
        draws = stream.Signature(self._groups_layout).create()
        hashes = []
        for n in range(units * self.tags):
            m.submodules[f"hash{n}"] = place(unit := Threefry(cycles=cycles), platform)
            hashes.append(unit)
            m.d.comb += [
                unit.key_low.eq(self.seed),
                unit.key_high.eq(self.tag ^ (SECOND_COPY_TAG if n >= units else 0)),
                unit.i.p.low.eq(Cat(Const(n % units, exact_log2(units)), number.payload)),
                unit.i.p.high.eq(self.step),
            ]
        # The units run in lockstep: they take and give together, so the first speaks for all.
        m.d.comb += number.ready.eq(hashes[0].i.ready)
        m.d.comb += draws.valid.eq(hashes[0].o.valid)
        for copy in range(self.copies):
            own = copy < self.tags  # the copy has a tag of its own
            top = DRAW_BITS if own else SHARED_DRAW_BITS
            hashed = Cat(unit.o.payload for unit in hashes[copy * own * units :][:units])
            drawn = (hashed.word_select(n, DRAW_BITS) for n in range(self.group))
            drawn = Cat(draw[top - self.random_bits : top] for draw in drawn)
            m.d.comb += draws.payload[copy].eq(drawn)
        for unit in hashes:
            m.d.comb += unit.i.valid.eq(number.valid)
            m.d.comb += unit.o.ready.eq(draws.ready)
        return number, draws

    @property
    def _groups_layout(self):
        """Of each copy the draws of a group."""
        return data.ArrayLayout(unsigned(self.group * self.random_bits), self.copies)

    def _plan(self, m, cuts, groups):
        """Ask for the groups that a word needs, but not for the one in which its row goes on."""
        shift = exact_log2(self.group)
        place_ = self.i.p
        first = place_.index[shift:]
        end = (place_.index + (self.lanes - 1))[shift:INDEX_BITS]
        offset = place_.index[:shift]
        asked_first = Signal()
        need_first = Signal()
        need_end = Signal()
        m.d.comb += [
            need_first.eq(~asked_first & ~(place_.goes_on & offset.any())),
            need_end.eq(first != end),
            groups.payload.eq(Mux(need_first, first, end)),
            groups.valid.eq(self.i.valid & cuts.ready & (need_first | need_end)),
            cuts.p.groups.eq((need_first | asked_first) + need_end),
            cuts.p.offset.eq(offset),
            cuts.p.both.eq(need_end),
            cuts.p.row.eq(place_.row),
        ]
        with m.If(need_first & need_end):  # two groups: stay for the second
            with m.If(groups.valid & groups.ready):
                m.d.sync += asked_first.eq(1)
        with m.Else():
            enough = groups.ready | ~(need_first | need_end)
            m.d.comb += self.i.ready.eq(cuts.ready & enough)
            m.d.comb += cuts.valid.eq(self.i.valid & enough)
            with m.If(self.i.valid & self.i.ready):
                m.d.sync += asked_first.eq(0)

    def _cut(self, m, cuts, groups):
        """Take as many groups as planned, and cut the word out of the last one or two."""
        kept = Array(data_register(self._groups_layout, name=f"kept{n}") for n in range(self.rows))
        previous = Signal(self._groups_layout)
        latest = Signal(self._groups_layout)
        first = Signal()  # a group has come, of the two that the word takes
        alone = Signal()  # the next group is not the word's last
        move = Signal()
        m.d.comb += [
            previous.eq(kept[cuts.p.row]),
            alone.eq((cuts.p.groups == 2) & ~first),
            move.eq(self.o.ready | ~self.o.valid),
            latest.eq(Mux(cuts.p.groups == 0, previous, groups.payload)),
            groups.ready.eq(cuts.valid & (cuts.p.groups != 0) & (alone | move)),
            cuts.ready.eq(move & ~alone & (groups.valid | (cuts.p.groups == 0))),
        ]
        with m.If(groups.valid & groups.ready):
            m.d.sync += [kept[cuts.p.row].eq(groups.payload), first.eq(alone)]
        with m.If(move):
            m.d.sync += self.o.valid.eq(cuts.valid & cuts.ready)
        bits = self.random_bits
        shown = data_output(m, self.o.payload, "shown")
        for copy in range(self.copies):
            window = Mux(cuts.p.both, Cat(previous[copy], latest[copy]), latest[copy])
            draws = Array(window[n * bits : (n + self.lanes) * bits] for n in range(self.group))
            with m.If(move):
                m.d.sync += shown[copy].eq(draws[cuts.p.offset])
