"""Numbers of other kinds, against plain Python."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.vector.narrow import (
    bf16_of,
    byte_of,
    counts_as_zero,
    from_integer,
    from_label,
    not_finite,
    rounds_to_infinity,
)
from support.bench import run
from support.vector_streams import LABELS, SPECIALS, bits_of, float_of


class Narrow(wiring.Component):
    """All of them, side by side."""

    number: In(32)
    bf16: Out(16)
    u8: Out(8)
    zero: Out(1)
    odd: Out(1)
    grows: Out(1)
    label: Out(32)
    byte: Out(32)

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [
            self.bf16.eq(bf16_of(m, self.number, "a")),
            self.u8.eq(byte_of(m, self.number, "a")),
            self.zero.eq(counts_as_zero(self.number)),
            self.odd.eq(not_finite(self.number)),
            self.grows.eq(rounds_to_infinity(self.number)),
            self.label.eq(from_label(m, self.number, "label")),
            self.byte.eq(from_integer(m, self.number[:8], "byte")),
        ]
        return m


def each(numbers, check):
    """``check`` of what each of them becomes."""
    dut = Narrow()

    async def bench(ctx):
        for number in numbers:
            ctx.set(dut.number, number)
            check(ctx, dut, number)

    run(dut, bench)


def every_kind(rng):
    """Every sign and exponent, with fractions at the edges of what is rounded; special ones."""
    yield from SPECIALS
    for top in range(512):
        for _ in range(12):
            high, low = rng.choice((0, 127, rng.getrandbits(7))), rng.choice(LOW)
            yield top << 23 | high << 16 | (rng.getrandbits(16) if low is None else low)
    for half in range(1024):  # numbers that are half-way between bytes, and those beside them
        middle = bits_of(half / 2)
        yield from (middle, max(middle - 1, 0), middle + 1)


LOW = (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, None)


def test_to_narrow_kinds(rng):
    def check(ctx, dut, bits):
        number = float_of(bits)
        exponent, nan = bits >> 23 & 255, number != number
        assert ctx.get(dut.zero) == (exponent == 0), hex(bits)
        assert ctx.get(dut.odd) == (exponent == 255), hex(bits)
        byte = 0 if nan else round(min(max(number, 0.0), 255.0))
        assert ctx.get(dut.u8) == byte, hex(bits)
        whole, rest = divmod(bits, 2**16)
        half = whole + (rest > 2**15 or (rest == 2**15 and whole % 2))
        half = 0x7FC0 if nan else bits >> 31 << 15 if exponent == 0 else half
        assert ctx.get(dut.bf16) == half, hex(bits)
        if exponent != 255:
            assert ctx.get(dut.grows) == (half & 0x7FFF == 0x7F80), hex(bits)

    each(every_kind(rng), check)


def test_from_integers(rng):
    labels = [*range(256), *LABELS, *(1 << k for k in range(32))]
    labels += [rng.getrandbits(rng.randrange(1, 33)) for _ in range(2000)]

    def check(ctx, dut, label):
        assert ctx.get(dut.label) == bits_of(label if label <= 2**24 else -1), label
        assert ctx.get(dut.byte) == bits_of(label % 256), label

    each(labels, check)
