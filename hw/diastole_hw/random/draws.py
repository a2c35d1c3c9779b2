"""Draw random bits for consecutive tensor elements, from any first element, in several rows at a
time."""

from amaranth.hdl import Array, Assert, Cat, Const, Module, Mux, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.data_registers import data_output, data_register
from diastole_hw.memory.distributed_ram import DistributedRam
from diastole_hw.random.threefry import Threefry, hash_latency
from diastole_hw.stream.credit import Credit
from diastole_hw.stream.fifo import StreamFifo
from diastole_sim.spec.command import SECOND_COPY_TAG
from diastole_sim.spec.require import require_choice, require_int
from diastole_sim.spec.rounding import DRAW_BITS, SHARED_DRAW_BITS
from diastole_sim.spec.sizes.draws import DRAWS_PER_HASH, HASH_NUMBERS, HASHES_AHEAD, words_ahead

INDEX_BITS = 34  # index / 4 is the 32-bit counter
_SLOW = 4  # cycles per result of a hash unit, at most
_GROUPS_HERE = 2  # groups that wait for a word, if no word waits to be accepted
_GROUPS_OF_RINGS = 4  # the same, if results of a hash unit come in bursts


def place_layout(rows: int) -> data.StructLayout:
    """Return the layout of a word's place.

    ``index``: index of the first element, row * columns + column of the unpadded tensor. ``row``:
    number of the row, among the rows that are drawn side by side. ``goes_on``: the previous word of
    the row had the elements directly before.
    """
    return data.StructLayout({"index": INDEX_BITS, "row": range(rows), "goes_on": 1})


class Draws(wiring.Component):
    """Draw the random bits of ``lanes`` consecutive elements, as a function of their index only.

    Element ``index`` draws the top ``random_bits`` of the 16 bits at ``16 * (index & 3)`` of the
    Threefry-2x32-20 hash of counter ``(index >> 2, step)`` under key ``(seed, tag)``. A second copy
    draws the top bits of the low byte of the same 16 bits. If the byte has too few bits, the second
    copy draws from the hash under another tag. Earlier draws and waits change no draw.

    max(1, lanes / 4) hash units compute aligned groups of draws, in the order in which the words
    need the groups. A second copy with a tag of its own has as many units again. The last group of
    every row is kept, and a row that goes on computes every hash once, whatever its alignment.

    Timing: :func:`words_ahead` words are accepted ahead of their draws, which come :attr:`latency`
    cycles later at the earliest. Rows that go on, in any order, give one word per cycle in the long
    run. ``o`` is registered.

    Parameters
    ----------
    lanes : int
        Elements of a word, with a draw each (a power of two, 1 to 16).
    random_bits : int
        Bits per draw (1 to 16).
    copies : int
        Copies for which every element draws (1 or 2).
    rows : int
        Rows that are drawn side by side (1 to 32).
    reader_never_stalls : bool
        The reader of ``o`` never waits: ``o.ready`` is high in every cycle in which ``o.valid`` is
        high. Then few groups wait, because groups are cut at the rate of their requests.
    hashes_ahead : int
        Most hashes of a unit that are requested and not yet used (2 to 16).

    Members
    -------
    i : In(stream of :func:`place_layout`)
        The first word of a row does not go on. Not checked.
    seed, tag, step : In(32)
        Stable from the cycle in which a row's first word is accepted to the last draw. Not checked.
    o : Out(stream of array of copies unsigned(lanes * random_bits))
        Draw of element ``index + n`` (modulo 2^34) at bit ``n * random_bits``, for each copy.

    ValueError if out of range.
    """

    def __init__(
        self,
        *,
        lanes: int,
        random_bits: int,
        copies: int,
        rows: int,
        reader_never_stalls: bool = False,
        hashes_ahead: int = HASHES_AHEAD,
    ):
        require_choice("lanes", lanes, (1, 2, 4, 8, 16))
        require_int("random_bits", random_bits, 1, DRAW_BITS)
        self.copies = require_int("copies", copies, 1, 2)
        self.rows = require_int("rows", rows, 1, 32)
        self.hashes_ahead = require_int("hashes_ahead", hashes_ahead, 2, HASHES_AHEAD)
        self.lanes, self.random_bits, self.reader_never_stalls = (
            lanes,
            random_bits,
            reader_never_stalls,
        )
        self.tags = copies if random_bits > SHARED_DRAW_BITS else 1
        self.group = max(DRAWS_PER_HASH, lanes)  # draws of all hash units at once, aligned
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
    def _planned_layout(self):
        """Layout of the plan for a word's cut: ``first`` if the first element needs a new group,
        the offset of the element in its group, and the row."""
        fields = {"first": 1, "offset": range(self.group), "row": range(self.rows)}
        return data.StructLayout(fields)

    @property
    def _cut_layout(self):
        """Layout of the cut of a word: the number of new groups to take first, the offset and the
        row of the first element, and ``both`` if the word lies in two groups."""
        fields = {"groups": range(3), "both": 1} if self._straddles else {"groups": range(2)}
        return data.StructLayout(fields | {"offset": range(self.group), "row": range(self.rows)})

    def _goes_over(self, offset):
        """Return whether a word ends in the group behind the group of its first element."""
        return (offset + (self.lanes - 1))[len(offset) :].any()

    @property
    def _straddles(self) -> bool:
        """True if a word may lie in two groups."""
        return self.lanes > 1

    @property
    def _hash_cycles(self) -> int:
        """Cycles in which words use up a result of a hash unit."""
        return max(1, DRAWS_PER_HASH // self.lanes)

    @property
    def _waiting_groups(self) -> int:
        """Number of groups that may wait for words."""
        if not self.reader_never_stalls:
            return self.hashes_ahead
        return _GROUPS_HERE if self._hash_cycles == 1 else _GROUPS_OF_RINGS

    @property
    def latency(self) -> int:
        """Cycles from a word to its draws."""
        return hash_latency(self._hash_cycles) + 2 + (self._hash_cycles < _SLOW)

    def elaborate(self, platform):
        m = Module()
        m.submodules.cuts = cuts = StreamFifo(
            shape=self._planned_layout,
            depth=words_ahead(self.lanes),
            quick=True,
            stable_output=True,
        )
        m.submodules.requested = requested = Credit(most=self.hashes_ahead)
        groups = StreamFifo(
            shape=self._groups_layout, depth=self._waiting_groups, stable_output=True
        )
        m.submodules.groups = groups
        drawn = Signal(self._groups_layout)
        numbers, done = self._hashes(m, drawn)
        cut_groups = stream.Signature(self._groups_layout).create()  # to the cut of words
        m.d.comb += [
            cut_groups.valid.eq(groups.o.valid),
            cut_groups.payload.eq(groups.o.payload),
            groups.o.ready.eq(cut_groups.ready),
            groups.i.payload.eq(drawn),
            groups.i.valid.eq(done),
            requested.take.eq(numbers.valid & numbers.ready),
            requested.give.eq(cut_groups.valid & cut_groups.ready),
        ]
        if self._hash_cycles == _SLOW:  # a slow unit's results come early enough in their cycle
            with m.If(~groups.o.valid):
                m.d.comb += [cut_groups.valid.eq(done), cut_groups.payload.eq(drawn)]
                m.d.comb += groups.i.valid.eq(done & ~cut_groups.ready)
        m.d.sync += Assert(~groups.i.valid | groups.i.ready, "no room for a group")
        if self.reader_never_stalls:
            accepted = ~self.o.valid | self.o.ready
            m.d.sync += Assert(accepted, "a word waits whose taker said that none does")
        self._plan(m, cuts.i, numbers, requested.full)
        self._cut(m, cuts.o, cut_groups)
        return m

    def _hashes(self, m, drawn):
        """Make hash units that run in step. Return a stream for the numbers of groups, and whether
        ``drawn`` has the draws of a group."""
        units = self.group // DRAWS_PER_HASH
        hashes = []
        for n in range(units * self.tags):
            m.submodules[f"hash{n}"] = unit = Threefry(cycles=self._hash_cycles)
            hashes.append(unit)
        first = hashes[0]
        numbers, requesting, number = self._numbers(m, first)
        low = Signal(32 - exact_log2(units))
        m.d.comb += low.eq(number.first + number.following)
        for n, unit in enumerate(hashes):
            m.d.comb += [
                unit.key_low.eq(self.seed),
                unit.key_high.eq(self.tag ^ (SECOND_COPY_TAG if n >= units else 0)),
                unit.high.eq(self.step),
                unit.i.payload.eq(Cat(Const(n % units, exact_log2(units)), low)),
                unit.i.valid.eq(requesting),
            ]
        for copy in range(self.copies):
            own = copy < self.tags  # the copy has a tag of its own
            top = DRAW_BITS if own else SHARED_DRAW_BITS
            hashed = Cat(unit.hash for unit in hashes[copy * own * units :][:units])
            draws = (hashed.word_select(n, DRAW_BITS) for n in range(self.group))
            m.d.comb += drawn[copy].eq(Cat(draw[top - self.random_bits : top] for draw in draws))
        return numbers, first.done

    def _numbers(self, m, unit):
        """Return a stream for the numbers of groups and, a cycle later, whether a group is
        requested, and its number. If ``unit`` cannot accept a number every cycle, numbers wait in a
        queue, and the unit does not wait for numbers."""
        layout = data.StructLayout({"first": INDEX_BITS - exact_log2(self.group), "following": 1})
        if unit.waits:
            m.submodules.numbers = queue = StreamFifo(
                shape=layout, depth=HASH_NUMBERS, stable_output=True
            )
            m.d.comb += queue.o.ready.eq(unit.i.ready)
            return queue.i, queue.o.valid, queue.o.p
        numbers = stream.Signature(layout).create()
        requesting = Signal()
        number = data_register(layout, name="number")
        m.d.comb += numbers.ready.eq(1)
        m.d.sync += [requesting.eq(numbers.valid), number.eq(numbers.p)]
        return numbers, requesting, number

    @property
    def _groups_layout(self):
        """Layout of the draws of a group, by copy."""
        return data.ArrayLayout(unsigned(self.group * self.random_bits), self.copies)

    def _plan(self, m, cuts, groups, full):
        """Request the groups that a word needs, except for the group that the row has already, if
        the row goes on. Request no group while the largest number of groups is under way."""
        shift = exact_log2(self.group)
        place_ = self.i.p
        offset = place_.index[:shift]
        requested_first = Signal()
        need_first = Signal()
        need_end = Signal()
        may = Signal()
        m.d.comb += [
            need_first.eq(~requested_first & ~(place_.goes_on & offset.any())),
            need_end.eq(self._goes_over(offset)),
            may.eq(groups.ready & ~full),
            groups.p.first.eq(place_.index[shift:]),
            groups.p.following.eq(~need_first),
            groups.valid.eq(self.i.valid & cuts.ready & ~full & (need_first | need_end)),
            cuts.p.first.eq(need_first | requested_first),
            cuts.p.offset.eq(offset),
            cuts.p.row.eq(place_.row),
        ]
        with m.If(need_first & need_end):  # two groups: stay for the second
            with m.If(groups.valid & groups.ready):
                m.d.sync += requested_first.eq(1)
        with m.Else():
            enough = may | ~(need_first | need_end)
            m.d.comb += self.i.ready.eq(cuts.ready & enough)
            m.d.comb += cuts.valid.eq(self.i.valid & enough)
            with m.If(self.i.valid & self.i.ready):
                m.d.sync += requested_first.eq(0)

    def _cut(self, m, cuts, groups):
        """Take as many groups as planned, and cut the word from the last group or the last two
        groups. The group in which the row of the word goes on is read a cycle before."""
        cut = data_register(self._cut_layout, name="cut")
        full = Signal()  # ``cut`` has a word
        previous = data_register(self._groups_layout, name="previous")
        latest = Signal(self._groups_layout)
        first = Signal()  # the first of two groups of the word has come
        alone = Signal()  # the next group is not the word's last
        move, took, leaves, load = Signal(), Signal(), Signal(), Signal()
        # A word leaves when its groups have come and the output register is free.
        m.d.comb += [
            alone.eq((cut.groups == 2) & ~first if self._straddles else 0),
            move.eq(self.o.ready | ~self.o.valid),
            latest.eq(Mux(cut.groups == 0, previous, groups.payload)),
            groups.ready.eq(full & (cut.groups != 0) & (alone | move)),
            took.eq(groups.valid & groups.ready),
            leaves.eq(full & move & ~alone & (groups.valid | (cut.groups == 0))),
            cuts.ready.eq(~full | leaves),
            load.eq(cuts.valid & cuts.ready),
        ]
        # Take the plan of the next word.
        with m.If(cuts.ready):
            over = self._goes_over(cuts.p.offset)
            m.d.sync += [full.eq(cuts.valid), cut.groups.eq(cuts.p.first + over)]
            m.d.sync += [cut.offset.eq(cuts.p.offset), cut.row.eq(cuts.p.row)]
            if self._straddles:
                m.d.sync += cut.both.eq(over)
        # Keep the group for the next word of the row.
        with m.If(took):
            m.d.sync += first.eq(alone)
        with m.If(took & (alone | (self.rows == 1))):
            m.d.sync += previous.eq(groups.payload)
        if self.rows > 1:
            old = self._last_groups(m, took, cut.row, groups.payload, cuts.p.row)
            with m.If(load):
                m.d.sync += previous.eq(old)
        # Cut the word into the output register.
        with m.If(move):
            m.d.sync += self.o.valid.eq(leaves)
        bits = self.random_bits
        shown = data_output(m, self.o.payload, "shown")
        for copy in range(self.copies):
            window = latest[copy]
            if self._straddles:
                window = Mux(cut.both, Cat(previous[copy], latest[copy]), latest[copy])
            draws = Array(window[n * bits : (n + self.lanes) * bits] for n in range(self.group))
            with m.If(move):
                m.d.sync += shown[copy].eq(draws[cut.offset])

    def _last_groups(self, m, took, row, group, row_after):
        """Store the last group of every row. Return the group of the row ``row_after``."""
        width = Value.cast(group).shape().width
        m.submodules.last_groups = last_groups = DistributedRam(width=width, depth=self.rows)
        m.d.comb += [
            last_groups.write_en.eq(took),
            last_groups.write_addr.eq(row),
            last_groups.write_data.eq(group),
            last_groups.read_addr.eq(row_after),
        ]
        return Mux(took & (row == row_after), group, last_groups.read_data)
