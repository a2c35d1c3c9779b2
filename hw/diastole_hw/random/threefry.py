"""Threefry-2x32 hashes: a pipeline of as many rounds as the rate asks for."""

from amaranth.hdl import Array, Cat, Const, Module, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.registers import data_output, data_register
from diastole_sim.spec.check import require_int

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
_ROUNDS = 2  # of a phase; the key is added after every second one
_PHASES = 10
_MOST_CYCLES = 5

counter_layout = data.StructLayout({"low": unsigned(32), "high": unsigned(32)})


class Threefry(wiring.Component):
    """Threefry-2x32 with 20 rounds: a keyed bijection of 64-bit counters, used as random bits.

    ``o = threefry2x32_20(key=(key_low, key_high), counter=(i.low, i.high))``, with the first output
    word in the low 32 bits. A stage makes two rounds a cycle, ``cycles`` times; then the next
    stage goes on.

    Timing: a counter taken in cycle t gives a result from cycle t + 11; one result per ``cycles``
    cycles. ``o`` is registered. ``i.ready`` is high when the first stage is idle or passes on what
    it has in this cycle; it does not depend on ``i.valid``, and is combinational from ``o.ready``.

    Parameters
    ----------
    cycles : int
        From one result to the next (1 to 5).

    Members
    -------
    i : In(stream of {"low": unsigned(32), "high": unsigned(32)})
        The counter: first and second word.
    key_low, key_high : In(32)
        First and second key word. Must not change while a result is under way; not checked.
    o : Out(stream of unsigned(64))
        Results in the order of the counters.

    ValueError if out of range. Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3,
    SC'11 (Random123).
    """

    def __init__(self, *, cycles: int):
        require_int("cycles", cycles, 1, _MOST_CYCLES)
        self.cycles = cycles
        super().__init__(
            {
                "i": In(stream.Signature(counter_layout)),
                "key_low": In(32),
                "key_high": In(32),
                "o": Out(stream.Signature(unsigned(64))),
            }
        )

    def elaborate(self, platform):
        m = Module()
        starts = range(0, _PHASES, self.cycles)
        stages = [range(start, min(start + self.cycles, _PHASES)) for start in starts]
        valid = self.i.valid
        words = (self.i.p.low + self.key_low)[:32], (self.i.p.high + self.key_high)[:32]
        ready = self.i.ready
        for number, phases in enumerate(stages):
            next_ready = Signal(name=f"ready{number + 1}")
            valid, words = self._stage(m, number, phases, valid, words, ready, next_ready)
            ready = next_ready
        hashed = data_output(m, self.o.payload, "hashed")
        m.d.comb += ready.eq(self.o.ready | ~self.o.valid)
        with m.If(ready):
            m.d.sync += [self.o.valid.eq(valid), hashed.eq(Cat(words))]
        return m

    def _stage(self, m, number, phases, valid, words, ready, next_ready):
        """Take two words, make the rounds of some phases, a phase per cycle; whether this cycle
        ends the last of them, and what it makes of the words."""
        low = data_register(32, name=f"low{number}")
        high = data_register(32, name=f"high{number}")
        busy = Signal(name=f"busy{number}")
        phase = data_register(range(max(2, len(phases))), name=f"phase{number}")
        last = Signal(name=f"last{number}")
        mixed = self._rounds(m, number, phases, phase, low, high)
        m.d.comb += last.eq(busy & (phase == len(phases) - 1))
        m.d.comb += ready.eq(~busy | (last & next_ready))
        with m.If(busy & ~last):
            m.d.sync += [low.eq(mixed[0]), high.eq(mixed[1]), phase.eq(phase + 1)]
        with m.If(ready):
            m.d.sync += [low.eq(words[0]), high.eq(words[1]), busy.eq(valid), phase.eq(0)]
        return last, mixed

    def _rounds(self, m, number, phases, phase, low, high):
        """Two rounds, and behind an odd phase the key that is added then."""

        def of_phase(values, name):
            """What the phase at hand has, of ``values`` by phase."""
            if len({str(value) for value in values}) == 1:
                return values[0]
            chosen = Signal(32, name=f"stage{number}_{name}")
            m.d.comb += chosen.eq(Array(values)[phase])
            return chosen

        for step in range(_ROUNDS):
            by = [ROTATIONS[(_ROUNDS * n + step) % len(ROTATIONS)] for n in phases]
            turned = {k: Cat(high[32 - k :], high[: 32 - k]) for k in by}
            total = Signal(32, name=f"stage{number}_round{step}_low")
            mixed = Signal(32, name=f"stage{number}_round{step}_high")
            m.d.comb += total.eq(low + high)
            m.d.comb += mixed.eq(of_phase([turned[k] for k in by], f"turned{step}") ^ total)
            low, high = total, mixed
        keys = (self.key_low, self.key_high, PARITY ^ self.key_low ^ self.key_high)
        injections = [(n + 1) // 2 if n % 2 else 0 for n in phases]
        if not any(injections):
            return low, high
        firsts = [keys[n % 3] if n else Const(0, 32) for n in injections]
        seconds = [(keys[(n + 1) % 3] + n)[:32] if n else Const(0, 32) for n in injections]
        mixed_low = Signal(32, name=f"mixed{number}_low")
        mixed_high = Signal(32, name=f"mixed{number}_high")
        m.d.comb += [
            mixed_low.eq(low + of_phase(firsts, "first_key")),
            mixed_high.eq(high + of_phase(seconds, "second_key")),
        ]
        return mixed_low, mixed_high
