"""Hash counters by Threefry-2x32, in a pipeline with as many rounds as the throughput requires."""

from typing import NamedTuple

from amaranth.hdl import Array, Assert, Cat, Module, Mux, Signal, Value, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.data_registers import data_register
from diastole_sim.spec.require import require_choice

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
_QUAD = 4  # rounds between two additions of keys
_AT_ONCE = 2  # steps of a cycle


class _Step(NamedTuple):
    """Step of a hash: a round, with the rotation by pass, or an addition of keys, with the number
    by pass."""

    keys: bool
    by_pass: tuple[int, ...]


def _steps(first: int, quads: int, passes: int) -> list[_Step]:
    """Return the steps of ``quads`` quads, each four rounds and an addition of keys. The first quad
    of pass p has the number ``first`` + p ``quads``."""
    steps = []
    for quad in range(quads):
        numbers = [first + quad + pass_number * quads for pass_number in range(passes)]
        for n in range(_QUAD):
            rotations = (ROTATIONS[(_QUAD * number + n) % len(ROTATIONS)] for number in numbers)
            steps.append(_Step(False, tuple(rotations)))
        steps.append(_Step(True, tuple(number + 1 for number in numbers)))
    return steps


def _stages(steps: list[_Step]) -> list[list[_Step]]:
    return [steps[n : n + _AT_ONCE] for n in range(0, len(steps), _AT_ONCE)]


class _Shape(NamedTuple):
    """Shape of the pipeline of five quads: ``once`` quads in a row, then a ring of ``quads`` quads,
    which a hash passes ``passes`` times."""

    once: int
    quads: int
    passes: int

    @property
    def row(self) -> list[list[_Step]]:
        """Stages of the quads in a row. The first round is computed where a counter enters."""
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
    """Return the latency of a unit with a result every ``cycles`` cycles."""
    return _SHAPES[cycles].latency


class Threefry(wiring.Component):
    """Hash counters by Threefry-2x32 with 20 rounds: a keyed bijection of 64-bit counters, used as
    random bits.

    ``hash = threefry2x32_20(key=(key_low, key_high), counter=(i, high))``, with the first output
    word in the low 32 bits.

    A stage computes two rounds in a cycle, or a round and an addition of keys. At most two carry
    chains follow each other. If results are not needed in every cycle, most stages form a ring. A
    hash passes the ring several times, and further hashes pass between its passes.

    Timing: one result per ``cycles`` cycles in the long run. As many counters may follow each other
    as the ring has stages. A counter accepted in cycle t gives its result in cycle t +
    :attr:`latency`, combinational from registers, and nothing delays the result. ``i.ready``
    depends on registers only.

    Parameters
    ----------
    cycles : int
        Cycles from one result to the next, in the mean (1, 2, 4 or 5).

    Members
    -------
    i : In(stream of unsigned(32))
        First word of the counter.
    high, key_low, key_high : In(32)
        Second word of the counter; first and second key word. Stable from the cycle before a
        counter is accepted to its result. Not checked.
    done : Out(1)
        A result is valid.
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
        """True if ``i.ready`` is ever low."""
        return self.shape.passes > 1

    @property
    def latency(self) -> int:
        """Cycles from a counter to its result."""
        return self.shape.latency

    def elaborate(self, platform):
        m = Module()
        entered = Signal()
        m.d.comb += entered.eq(self.i.valid & self.i.ready)
        valid, words = self._enter(m, entered)
        for number, stage in enumerate(self.shape.row):
            if number:
                valid, words = self._delayed(m, f"once{number}", valid, words)
            words = self._make(m, f"once{number}", stage, words, None, None)
        if self.shape.passes:
            valid, words = self._pass(m, valid, words)
        self._admit(m, entered)
        m.d.comb += [self.done.eq(valid), self.hash.eq(Cat(words))]
        return m

    def _admit(self, m, entered):
        """Delay a new counter that would meet a hash of the ring at the entry."""
        apart, again = len(self.shape.ring), self.shape.passes - 1
        if not self.waits:
            m.d.comb += self.i.ready.eq(1)
            return
        since = Signal(apart * again)  # bit n: a counter entered n + 1 cycles ago
        m.d.sync += since.eq(Cat(entered, since))
        meets = Cat(since[apart * (n + 1) - 1] for n in range(again))
        m.d.comb += self.i.ready.eq(~meets.any())

    @property
    def _keys(self):
        return self.key_low, self.key_high, PARITY ^ self.key_low ^ self.key_high

    def _enter(self, m, entered):
        """Add the first keys and, in front of a row of quads, compute the first round. The sum of
        the round is the counter plus a value common to all counters."""
        high = data_register(32, name="second_word")
        high_sum = (self.high + self.key_high)[:32]
        m.d.sync += high.eq(high_sum)
        if not self.shape.once:
            return entered, ((self.i.payload + self.key_low)[:32], high)
        common = data_register(32, name="common")
        m.d.sync += common.eq(high_sum + self.key_low)
        low = Signal(32, name="first_low")
        m.d.comb += low.eq(self.i.payload + common)
        return self._delayed(m, "entered", entered, (low, low ^ high.rotate_left(ROTATIONS[0])))

    def _delayed(self, m, name, valid, words):
        """Return ``valid`` and ``words`` a cycle later."""
        registers = tuple(data_register(32, name=f"{name}_{word}") for word in ("low", "high"))
        valid_next = Signal(name=f"{name}_valid")
        m.d.sync += valid_next.eq(valid)
        m.d.sync += [register.eq(word) for register, word in zip(registers, words, strict=True)]
        return valid_next, registers

    def _pass(self, m, valid, words):
        """Run new hashes and returning hashes through the ring. Return whether a hash leaves the
        ring, and its words."""
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
            valid, here = self._delayed(m, f"ring{place}", valid, here)
            here = self._make(m, f"ring{place}", stage, here, following, before)
        m.d.comb += [
            ends.eq(valid & (following == last)),
            again.eq(valid & (following != last)),
            number.eq(following + 1),
            *(old.eq(word) for old, word in zip(round_, here, strict=True)),
        ]
        return ends, here

    def _make(self, m, name, stage, words, pass_number, previous_pass):
        """Return two words after the steps of a stage in the pass ``pass_number``.
        ``previous_pass`` is the same pass number, known a cycle earlier."""
        low, high = words
        for number, step in enumerate(stage):
            made = tuple(Signal(32, name=f"{name}_{number}_{word}") for word in ("low", "high"))
            if step.keys:
                low_key = _by_pass([self._keys[n % 3] for n in step.by_pass], pass_number)
                high_keys = [self._keys[(n + 1) % 3] for n in step.by_pass]
                counts = [Value.cast(n) for n in step.by_pass]
                if pass_number is None and number:
                    high_key = (high_keys[0] + counts[0])[:32]
                else:  # known a cycle earlier
                    high_key = data_register(32, name=f"{name}_key")
                    m.d.sync += high_key.eq(
                        _by_pass(high_keys, previous_pass) + _by_pass(counts, previous_pass)
                    )
                m.d.comb += [made[0].eq(low + low_key), made[1].eq(high + high_key)]
            else:
                rotated = [high.rotate_left(by) for by in step.by_pass]
                m.d.comb += made[0].eq(low + high)
                m.d.comb += made[1].eq(_by_pass(rotated, pass_number) ^ made[0])
            low, high = made
        return low, high


def _by_pass(values, pass_number):
    """Return the entry of ``values`` for the pass ``pass_number``."""
    if len({str(value) for value in values}) == 1:
        return values[0]
    if all(str(value) == str(values[n % 2]) for n, value in enumerate(values)):
        return Mux(pass_number[0], values[1], values[0])
    return Array(values)[pass_number]
