"""Threefry-2x32 hashes: a pipeline of as many rounds as the rate asks for."""

from typing import NamedTuple

from amaranth.hdl import Array, Assert, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_sim.spec.require import require_choice

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
_QUAD = 4  # rounds, then keys are added
_AT_ONCE = 2  # steps of a cycle


class _Step(NamedTuple):
    """A round, of which each pass has its rotation, or the addition of keys, its number by pass."""

    keys: bool
    by_pass: tuple[int, ...]


def _steps(first: int, quads: int, passes: int) -> list[_Step]:
    """Of some quads, the first one of pass p being number ``first`` + p ``quads``."""
    steps = []
    for quad in range(quads):
        numbers = [first + quad + turn * quads for turn in range(passes)]
        for n in range(_QUAD):
            turns = (ROTATIONS[(_QUAD * number + n) % len(ROTATIONS)] for number in numbers)
            steps.append(_Step(False, tuple(turns)))
        steps.append(_Step(True, tuple(number + 1 for number in numbers)))
    return steps


def _stages(steps: list[_Step]) -> list[list[_Step]]:
    return [steps[n : n + _AT_ONCE] for n in range(0, len(steps), _AT_ONCE)]


class _Shape(NamedTuple):
    """Of five quads so many once, one behind the other; then a ring of ``quads``, which a hash
    passes ``passes`` times."""

    once: int
    quads: int
    passes: int

    @property
    def row(self) -> list[list[_Step]]:
        """Stages of the quads in a row. The first round is made where a counter enters."""
        return _stages(_steps(0, self.once, 1)[1:])

    @property
    def ring(self) -> list[list[_Step]]:
        return _stages(_steps(self.once, self.quads, self.passes))

    @property
    def latency(self) -> int:
        """Cycles from a counter to its result."""
        return len(self.row) + len(self.ring) * self.passes


_SHAPES = {1: _Shape(5, 0, 0), 2: _Shape(1, 2, 2), 4: _Shape(1, 1, 4), 5: _Shape(0, 1, 5)}


def hash_latency(cycles: int) -> int:
    """Of a unit that gives a result in so many cycles."""
    return _SHAPES[cycles].latency


class Threefry(wiring.Component):
    """Threefry-2x32 with 20 rounds: a keyed bijection of 64-bit counters, used as random bits.

    ``hash = threefry2x32_20(key=(key_low, key_high), counter=(i, high))``, with the first output
    word in the low 32 bits.

    A stage makes two rounds in a cycle, or one and an addition of keys: no more than two carries
    follow each other. Where results are not wanted every cycle, most stages stand in a ring, which
    a hash passes several times, and others between its passes.

    Timing: one result per ``cycles`` cycles in the long run; as many counters may follow each other
    as the ring has stages. A counter taken in cycle t gives its result in cycle t +
    :attr:`latency`, combinational from registers; nothing holds it up. ``i.ready`` depends on
    registers only.

    Parameters
    ----------
    cycles : int
        From one result to the next, in the mean (1, 2, 4 or 5).

    Members
    -------
    i : In(stream of unsigned(32))
        First word of the counter.
    high, key_low, key_high : In(32)
        Second word of the counter; first and second key word. Must not change from the cycle before
        a counter is taken to its result; not checked.
    done : Out(1)
        There is a result.
    hash : Out(64)
        Results in the order of the counters.

    ValueError if out of range. Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3,
    SC'11 (Random123).
    """

    i: stream.Interface

    def __init__(self, *, cycles: int):
        require_choice("cycles", cycles, tuple(_SHAPES))
        self.cycles, self.shape = cycles, _SHAPES[cycles]
        super().__init__(
            {
                "i": In(stream.Signature(unsigned(32))),
                "high": In(32),
                "key_low": In(32),
                "key_high": In(32),
                "done": Out(1),
                "hash": Out(64),
            }
        )

    @property
    def waits(self) -> bool:
        """Whether ``i.ready`` is ever low."""
        return self.shape.passes > 1

    @property
    def latency(self) -> int:
        """Cycles."""
        return self.shape.latency

    def elaborate(self, platform):
        m = Module()
        entered = Signal()
        m.d.comb += entered.eq(self.i.valid & self.i.ready)
        valid, words = self._enter(m, entered)
        for number, stage in enumerate(self.shape.row):
            if number:
                valid, words = self._kept(m, f"once{number}", valid, words)
            words = self._make(m, f"once{number}", stage, words, None, None)
        if self.shape.passes:
            valid, words = self._pass(m, valid, words)
        self._admit(m, entered)
        m.d.comb += [self.done.eq(valid), self.hash.eq(Cat(words))]
        return m

    def _admit(self, m, entered):
        """No counter enters when one that is in the ring would meet it."""
        apart, again = len(self.shape.ring), self.shape.passes - 1
        if not self.waits:
            m.d.comb += self.i.ready.eq(1)
            return
        since = Signal(apart * again)  # bit n: one entered n + 1 cycles ago
        m.d.sync += since.eq(Cat(entered, since))
        meets = Cat(since[apart * (n + 1) - 1] for n in range(again))
        m.d.comb += self.i.ready.eq(~meets.any())

    @property
    def _keys(self):
        return self.key_low, self.key_high, PARITY ^ self.key_low ^ self.key_high

    def _enter(self, m, entered):
        """The first keys are added, and, in front of a quad, the first round is made, whose sum is
        that of the counter and of what all counters have in common."""
        high = data_register(32, name="second_word")
        high_sum = (self.high + self.key_high)[:32]
        m.d.sync += high.eq(high_sum)
        if not self.shape.once:
            return entered, ((self.i.payload + self.key_low)[:32], high)
        common = data_register(32, name="common")
        m.d.sync += common.eq(high_sum + self.key_low)
        low = Signal(32, name="first_low")
        m.d.comb += low.eq(self.i.payload + common)
        return self._kept(m, "entered", entered, (low, low ^ high.rotate_left(ROTATIONS[0])))

    def _kept(self, m, name, valid, words):
        """What is a cycle old."""
        kept = tuple(data_register(32, name=f"{name}_{word}") for word in ("low", "high"))
        there = Signal(name=f"{name}_valid")
        m.d.sync += there.eq(valid)
        m.d.sync += [register.eq(word) for register, word in zip(kept, words, strict=True)]
        return there, kept

    def _pass(self, m, valid, words):
        """What enters the ring, or comes round again; whether a hash leaves it, and which."""
        last = self.shape.passes - 1
        ends, again = Signal(), Signal()
        round_ = tuple(Signal(32, name=f"again_{word}") for word in ("low", "high"))
        number = Signal(range(self.shape.passes), name="number_again")
        m.d.sync += Assert(~valid | ~again, "a hash meets another")
        chosen = tuple(Mux(again, old, new) for old, new in zip(round_, words, strict=True))
        here, following, valid = chosen, Mux(again, number, 0), valid | again
        for place, stage in enumerate(self.shape.ring):
            before = following
            following = data_register(range(self.shape.passes), name=f"pass{place}")
            m.d.sync += following.eq(before)
            valid, here = self._kept(m, f"ring{place}", valid, here)
            here = self._make(m, f"ring{place}", stage, here, following, before)
        m.d.comb += [
            ends.eq(valid & (following == last)),
            again.eq(valid & (following != last)),
            number.eq(following + 1),
            *(old.eq(word) for old, word in zip(round_, here, strict=True)),
        ]
        return ends, here

    def _make(self, m, name, stage, words, turn, turn_before):
        """What the steps of a stage make of two words, in the pass ``turn``, which was
        ``turn_before`` known a cycle ago."""
        low, high = words
        for number, step in enumerate(stage):
            made = tuple(Signal(32, name=f"{name}_{number}_{word}") for word in ("low", "high"))
            if step.keys:
                low_key = _by_pass([self._keys[n % 3] for n in step.by_pass], turn)
                high_keys = [self._keys[(n + 1) % 3] for n in step.by_pass]
                counts = [Value.cast(n) for n in step.by_pass]
                if turn is None and number:
                    high_key = (high_keys[0] + counts[0])[:32]
                else:  # known a cycle ago
                    high_key = data_register(32, name=f"{name}_key")
                    m.d.sync += high_key.eq(
                        _by_pass(high_keys, turn_before) + _by_pass(counts, turn_before)
                    )
                m.d.comb += [made[0].eq(low + low_key), made[1].eq(high + high_key)]
            else:
                turned = [high.rotate_left(by) for by in step.by_pass]
                m.d.comb += made[0].eq(low + high)
                m.d.comb += made[1].eq(_by_pass(turned, turn) ^ made[0])
            low, high = made
        return low, high


def _by_pass(values, turn):
    """What the pass at hand has, of ``values`` by pass."""
    if len({str(value) for value in values}) == 1:
        return values[0]
    if all(str(value) == str(values[n % 2]) for n, value in enumerate(values)):
        return Mux(turn[0], values[1], values[0])
    return Array(values)[turn]
