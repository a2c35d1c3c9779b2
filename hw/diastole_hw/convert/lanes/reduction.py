"""Reduce the values of a unit: to the largest value, or to the sign of the sum."""

from dataclasses import dataclass

from amaranth.hdl import Mux, Shape, Signal, Value, signed, unsigned


@dataclass(frozen=True, kw_only=True)
class Largest:
    """Reduce unsigned values to the largest value.

    ``bits``: bits of a value. Every reduction has three shapes: ``value`` of a single value,
    ``grown`` of several joined values, and ``result`` of a whole unit. In all three shapes 0 is
    neutral: it stands for no value.
    """

    bits: int

    @property
    def value(self) -> Shape:
        return unsigned(self.bits)

    @property
    def grown(self) -> Shape:
        return unsigned(self.bits)

    @property
    def result(self) -> Shape:
        return unsigned(self.bits)

    def join(self, m, values, name: str) -> Signal:
        """Return several values, or joined values, as a single joined value."""
        return largest(m, values, name)

    def finish(self, grown: Value) -> Value:
        """Return the result of a unit. ``grown``: values of the unit, joined by :meth:`join`."""
        return grown


@dataclass(frozen=True, kw_only=True)
class BelowZero:
    """Reduce signed values to 1 if their exact sum is below 0.

    ``bits``: bits of a value. ``most``: most values of a unit, a power of two.
    """

    bits: int
    most: int

    @property
    def value(self) -> Shape:
        return signed(self.bits)

    @property
    def grown(self) -> Shape:
        return signed(self.bits + (self.most - 1).bit_length())

    @property
    def result(self) -> Shape:
        return unsigned(1)

    def join(self, m, values, name: str) -> Signal:
        """Return the sum of several values, as :meth:`Largest.join`."""
        joined = Signal(self.grown, name=f"{name}_sum")
        m.d.comb += joined.eq(sum(values))
        return joined

    def finish(self, grown: Value):
        """Return the sign of the sum of a unit, as :meth:`Largest.finish`."""
        return grown[-1]


Reduction = Largest | BelowZero


def largest(m, values, name: str) -> Signal:
    """Return the largest of several unsigned values, by a maximum tree."""

    def named(value, number):
        signal = Signal(len(Value.cast(value)), name=f"{name}_{number}")
        m.d.comb += signal.eq(value)
        return signal

    values = [named(value, n) for n, value in enumerate(values)]
    count = len(values)
    while len(values) > 1:
        pairs = zip(values[::2], values[1::2], strict=False)
        rest = values[len(values) // 2 * 2 :]
        larger = [named(Mux(a > b, a, b), count + n) for n, (a, b) in enumerate(pairs)]
        count += len(larger)
        values = larger + rest
    return values[0]
