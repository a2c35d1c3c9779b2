"""One Threefry-2x32 hash, four rounds per cycle."""

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
_PHASES = 5  # of four rounds and one key injection each

counter_layout = data.StructLayout({"low": unsigned(32), "high": unsigned(32)})


class Threefry(wiring.Component):
    """Threefry-2x32 with 20 rounds: a keyed bijection of 64-bit counters, used as random bits.

    ``o = threefry2x32_20(key=(key_low, key_high), counter=(i.low, i.high))``, with the first output
    word in the low 32 bits.

    Timing: a counter taken in cycle t gives a result from cycle t + 6; one result per 5 cycles.
    ``o`` is registered. ``i.ready`` is high when the rounds are idle or end in this cycle into a
    free output register; it does not depend on ``i.valid``.

    Members
    -------
    i : In(stream of {"low": unsigned(32), "high": unsigned(32)})
        The counter: first and second word.
    key_low, key_high : In(32)
        First and second key word. Must not change while a result is under way; not checked.
    o : Out(stream of unsigned(64))
        Results in the order of the counters.

    Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC'11 (Random123).
    """

    def __init__(self):
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
        low = Signal(32)
        high = Signal(32)
        busy = Signal()
        phase = Signal(range(_PHASES))
        keys = (self.key_low, self.key_high, PARITY ^ self.key_low ^ self.key_high)

        next_low, next_high = low, high
        for n in range(4):
            first, second = (
                Cat(next_high[32 - ROTATIONS[k] :], next_high[: 32 - ROTATIONS[k]])
                for k in (n, n + 4)
            )
            total = (next_low + next_high)[:32]
            round_low = Signal(32, name=f"round{n}_low")
            round_high = Signal(32, name=f"round{n}_high")
            m.d.comb += round_low.eq(total)
            m.d.comb += round_high.eq(Mux(phase[0], second, first) ^ total)
            next_low, next_high = round_low, round_high
        key_first = Array(keys[(n + 1) % 3] for n in range(_PHASES))[phase]
        key_second = Array(keys[(n + 2) % 3] for n in range(_PHASES))[phase]
        mixed_low = Signal(32)
        mixed_high = Signal(32)
        m.d.comb += mixed_low.eq(next_low + key_first)
        m.d.comb += mixed_high.eq(next_high + key_second + phase + Const(1))

        with m.If(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        last = Signal()
        move = Signal()
        m.d.comb += last.eq(busy & (phase == _PHASES - 1))
        m.d.comb += move.eq(~last | self.o.ready | ~self.o.valid)
        m.d.comb += self.i.ready.eq(~busy | (last & move))
        with m.If(busy & move):
            m.d.sync += [low.eq(mixed_low), high.eq(mixed_high), phase.eq(phase + 1)]
        with m.If(last & move):
            m.d.sync += self.o.payload.eq(Cat(mixed_low, mixed_high))
            m.d.sync += self.o.valid.eq(1)
            m.d.sync += busy.eq(0)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += low.eq(self.i.p.low + self.key_low)
            m.d.sync += high.eq(self.i.p.high + self.key_high)
            m.d.sync += [busy.eq(1), phase.eq(0)]
        return m
