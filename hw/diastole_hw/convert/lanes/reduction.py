"""What a unit's values become: their largest, or the sign of their sum."""

from dataclasses import dataclass

from amaranth.hdl import Mux, Shape, Signal, Value, signed, unsigned


@dataclass(frozen=True, kw_only=True)
class Largest:
    """The largest of unsigned values.

    ``bits``: of a value. Of every reduction ``value`` is the shape of what is reduced, ``grown``
    that of several values as one, ``result`` that of a whole unit's; nothing is 0 in all of them.
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
        """Several values, or what some have become, as one."""
        return largest(m, values, name)

    def finish(self, grown: Value) -> Value:
        """The result of a unit whose values became ``grown``."""
        return grown


@dataclass(frozen=True, kw_only=True)
class BelowZero:
    """Whether the sum of signed values is below 0, exactly.

    ``bits``: of a value. ``most``: values of a unit, a power of two.
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
        """As that of :class:`Largest`."""
        joined = Signal(self.grown, name=f"{name}_sum")
        m.d.comb += joined.eq(sum(values))
        return joined

    def finish(self, grown: Value):
        """As that of :class:`Largest`."""
        return grown[-1]


Reduction = Largest | BelowZero


def largest(m, values, name: str) -> Signal:
    """The largest of some unsigned values."""

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
