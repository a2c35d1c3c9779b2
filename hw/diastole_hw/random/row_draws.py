"""Draw random bits by shift registers that start anew in every row of a tensor."""

from amaranth.hdl import Assert, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_output, data_register
from diastole_hw.memory.ram import Ram
from diastole_hw.random.lane_states import LaneStates, state_layout
from diastole_hw.random.threefry import Threefry
from diastole_hw.stream.credit import Credit
from diastole_hw.stream.fifo import StreamFifo
from diastole_sim.spec.lfsr import START_BITS
from diastole_sim.spec.require import require_int
from diastole_sim.spec.sizes.draws import STARTS_AHEAD, row_hash_cycles

_HASH_WORD_BITS = 32


def row_place_layout(rows: int) -> data.StructLayout:
    """Return the layout of a word's place.

    ``row``: number of the row in the memory. ``begins``: the word is the first of its row of the
    tensor. ``odd``: the first column of the word is odd.
    """
    return data.StructLayout({"row": range(rows), "begins": unsigned(1), "odd": unsigned(1)})


class StartStates(wiring.Component):
    """Compute the start states of a tensor's rows, one after the other, ahead of their use.

    Row n has the register 1 + floor(u (2^k - 1) / 2^31) of k bits. u is the low 31 bits of the
    first word (for the second copy: of the second word) of the Threefry-2x32-20 hash of counter (n,
    step) under key (seed, tag). The bit above u tells which elements are ``exchanged`` first.

    Timing: a state every :func:`row_hash_cycles` cycles, the first state 17 cycles after ``start``
    at the earliest. At most ``STARTS_AHEAD`` states wait.

    Parameters
    ----------
    lanes : int
        Elements of a word, which determine the rate (1 to 16).
    state_bits, pairs
        Parameters of :class:`LaneStates`.
    copies : int
        1 or 2.

    Members
    -------
    start : In(1)
        A pulse: a tensor begins. All states of the previous tensor must have been taken.
    height, seed, tag, step : In(32)
        Rows of the tensor, and the arguments of its draws. Stable until all states are taken.
    o : Out(stream of array of copies :func:`state_layout`)
    """

    def __init__(self, *, lanes: int, state_bits: int, pairs: bool, copies: int):
        self.lanes, self.state_bits, self.pairs = lanes, state_bits, pairs
        self.copies = require_int("copies", copies, 1, 2)
        states = data.ArrayLayout(state_layout(state_bits, pairs), copies)
        super().__init__(
            {
                "start": In(1),
                "height": In(32),
                "seed": In(32),
                "tag": In(32),
                "step": In(32),
                "o": Out(stream.Signature(states)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        m.submodules.hash = unit = Threefry(cycles=row_hash_cycles(self.lanes))
        m.submodules.states = states = StreamFifo(shape=self.o.p.shape(), depth=STARTS_AHEAD)
        m.submodules.requested = requested = Credit(most=STARTS_AHEAD)
        row = data_register(32)
        requesting = Signal()
        m.d.comb += [
            unit.key_low.eq(self.seed),
            unit.key_high.eq(self.tag),
            unit.high.eq(self.step),
            unit.i.payload.eq(row),
            unit.i.valid.eq(requesting & ~requested.full),
            states.i.valid.eq(unit.done),
            requested.take.eq(unit.i.valid & unit.i.ready),
            requested.give.eq(self.o.valid & self.o.ready),
        ]
        with m.If(requested.take):
            m.d.sync += [row.eq(row + 1), requesting.eq(row + 1 != self.height)]
        with m.If(self.start):
            m.d.sync += [row.eq(0), requesting.eq(1)]
        for copy in range(self.copies):
            word = unit.hash.word_select(copy, _HASH_WORD_BITS)
            u = word[:START_BITS]
            spread = Signal(START_BITS + self.state_bits, name=f"spread{copy}")
            m.d.comb += spread.eq((u << self.state_bits) - u)
            state = states.i.p[copy]
            m.d.comb += state.register.eq(spread[START_BITS:] + 1)
            if self.pairs:
                m.d.comb += state.exchanged.eq(word[START_BITS])
        m.d.comb += [
            self.o.payload.eq(states.o.payload),
            self.o.valid.eq(states.o.valid),
            states.o.ready.eq(self.o.ready),
        ]
        m.d.sync += Assert(~states.i.valid | states.i.ready, "no room for a row's state")
        idle = ~requesting & requested.empty
        m.d.sync += Assert(~self.start | idle, "a tensor begins with rows left")
        return m


class RowDraws(wiring.Component):
    """Draw the random bits of ``lanes`` consecutive elements of a row, for words of rows in any
    order, as a function of their place only.

    A row's state is the state of the column after its last word. The state waits in a memory for
    ``rows`` rows, and advances only when a word of the row is accepted. The first word of a row
    takes the next state of :class:`StartStates`: rows of the tensor begin in ascending order.

    Timing: a word is output 2 cycles after it is accepted, one word per cycle. A word that begins a
    row waits for its start state. ``o`` is registered.

    Parameters
    ----------
    lanes, random_bits, state_bits, pairs
        Parameters of :class:`LaneStates`.
    copies : int
        Copies for which every element draws (1 or 2).
    rows : int
        Rows that are under way side by side (1 to 512).

    Members
    -------
    i : In(stream of :func:`row_place_layout`)
    start, height, seed, tag, step
        Inputs of :class:`StartStates`.
    o : Out(stream of array of copies unsigned(lanes * random_bits))
        Draw of element n of the word at bit ``n * random_bits``, for each copy.

    ValueError if out of range.
    """

    def __init__(
        self,
        *,
        lanes: int,
        random_bits: int,
        state_bits: int,
        pairs: bool,
        copies: int,
        rows: int,
    ):
        self.lanes, self.random_bits, self.pairs = lanes, random_bits, pairs
        self.state_bits = state_bits
        self.copies = require_int("copies", copies, 1, 2)
        self.rows = require_int("rows", rows, 1, 512)
        words = data.ArrayLayout(unsigned(lanes * random_bits), copies)
        super().__init__(
            {
                "i": In(stream.Signature(row_place_layout(rows))),
                "start": In(1),
                "height": In(32),
                "seed": In(32),
                "tag": In(32),
                "step": In(32),
                "o": Out(stream.Signature(words)),
            }
        )

    @property
    def _states_layout(self):
        """Layout of the state of a row, by copy."""
        return data.ArrayLayout(state_layout(self.state_bits, self.pairs), self.copies)

    def elaborate(self, platform):
        m = Module()
        states = self._states_layout
        m.submodules.starts = starts = StartStates(
            lanes=self.lanes, state_bits=self.state_bits, pairs=self.pairs, copies=self.copies
        )
        m.submodules.memory = memory = Ram(width=states.size, depth=max(2, self.rows))
        valid = Signal()
        word = data_register(self.i.p.shape())
        move = Signal()
        space = Signal()  # free place for the draws of a word
        m.d.comb += [
            starts.start.eq(self.start),
            starts.height.eq(self.height),
            starts.seed.eq(self.seed),
            starts.tag.eq(self.tag),
            starts.step.eq(self.step),
            space.eq(self.o.ready | ~self.o.valid),
            move.eq(valid & space & (~word.begins | starts.o.valid)),
            starts.o.ready.eq(valid & space & word.begins),
            self.i.ready.eq(~valid | move),
            memory.read_en.eq(self.i.valid & self.i.ready),
            memory.read_addr.eq(self.i.p.row),
        ]
        # First cycle: accept a word and read the state of its row.
        with m.If(self.i.ready):
            m.d.sync += [valid.eq(self.i.valid), word.eq(self.i.p)]
        state, after = Signal(states), Signal(states)
        self._advance(m, word, move, state, after, starts.o.payload, memory)
        # Second cycle: register the draws of all lanes.
        drawn = data_output(m, self.o.payload, "drawn")
        with m.If(space):
            m.d.sync += self.o.valid.eq(move)
        for copy in range(self.copies):
            m.submodules[f"lanes{copy}"] = unit = LaneStates(
                lanes=self.lanes,
                random_bits=self.random_bits,
                state_bits=self.state_bits,
                pairs=self.pairs,
            )
            m.d.comb += [
                unit.state.eq(state[copy]),
                unit.odd.eq(word.odd),
                after[copy].eq(unit.after),
            ]
            with m.If(space):
                m.d.sync += drawn[copy].eq(unit.draws)
        return m

    def _advance(self, m, word, move, state, after, start, memory):
        """Compute the state of the current word, and store the state after the word."""
        last = data_register(self._states_layout, name="last")  # after the previous word
        last_row = data_register(len(word.row), name="last_row")
        goes_on = Signal()  # the stored state is too young to be read
        m.d.comb += goes_on.eq(word.row == last_row)
        m.d.comb += state.eq(Mux(goes_on, last, memory.read_data))
        m.d.comb += [
            memory.write_en.eq(move),
            memory.write_addr.eq(word.row),
            memory.write_data.eq(after),
        ]
        with m.If(word.begins):
            m.d.comb += state.eq(start)
        with m.If(move):
            m.d.sync += [last.eq(after), last_row.eq(word.row)]
