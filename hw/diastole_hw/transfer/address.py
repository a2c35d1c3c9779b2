"""Compute addresses: a base plus a number of pitches, then step after step."""

from amaranth.hdl import Assert, Cat, Const, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.data_registers import data_output, data_register
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.require import require_int


def whole_beats(address: Value, beat_bytes: int) -> Value:
    """Return ``address``, which is aligned to beats, with constants for the bits within a beat. A
    register that is assigned only from this function needs no flip-flops for the constant bits."""
    low = exact_log2(beat_bytes)
    return Value.cast(Cat(Const(0, low), address[low:]))


class AddressGenerator(wiring.Component):
    """Compute ``base`` + ``count`` * ``pitch`` modulo 2^40, by shifts and additions.

    Timing: ``ready`` is high from k + 1 cycles after ``start`` on, where k is the number of
    significant bits of ``count``. ``address`` is a register.

    Parameters
    ----------
    count_bits : int
        Bits of ``count``, 1 to 40.
    step_bits : int
        Bits of ``step``, 0 to 40. With 0 bits there are no steps: ``next`` and ``step`` are absent.
    beat_bytes : int
        Divisor of ``base``, ``pitch`` and ``step``, a power of two; not checked.
    quick : bool
        True if ``ready`` is a register, set from a comparison of ``count`` with 0 at ``start``. The
        timing of ``ready`` does not change.

    Members
    -------
    start : In(1)
        Abort any computation and begin.
    base, pitch : In(40)
    count : In(count_bits)
        Sampled in the cycle of ``start``, as are ``base`` and ``pitch``.
    next : In(1)
        Add ``step``; allowed only when ``ready``.
    step : In(step_bits)
    ready : Out(1)
    address : Out(40)
        Valid while ``ready``.

    ValueError if a parameter is out of range.
    """

    def __init__(
        self, *, count_bits: int, step_bits: int = 0, beat_bytes: int = 1, quick: bool = False
    ):
        self.beat_bytes, self.quick = beat_bytes, quick
        self.count_bits = require_int("count_bits", count_bits, 1, ADDRESS_BITS)
        self.step_bits = require_int("step_bits", step_bits, 0, ADDRESS_BITS)
        members = {
            "start": In(1),
            "base": In(ADDRESS_BITS),
            "pitch": In(ADDRESS_BITS),
            "count": In(count_bits),
            "ready": Out(1),
            "address": Out(ADDRESS_BITS),
        }
        super().__init__(members | ({"next": In(1), "step": In(step_bits)} if step_bits else {}))

    def elaborate(self, platform):
        m = Module()
        left = Signal(self.count_bits)
        none = Signal(init=1)  # no bit of the count is left
        if self.quick:
            with m.If(self.start):
                m.d.sync += none.eq(self.count == 0)
            with m.Else():
                m.d.sync += none.eq(~left[1:].any())
        else:
            m.d.comb += none.eq(~left.any())
        m.d.comb += self.ready.eq(none)
        term = data_register(ADDRESS_BITS)
        address = data_output(m, self.address, "stored")
        further = term & left[0].replicate(ADDRESS_BITS)
        if self.step_bits:
            m.d.sync += Assert(~self.next | none, "a step before the address is known")
            further |= self.step & self.next.replicate(self.step_bits)

        def whole(value):
            return whole_beats(value, self.beat_bytes)

        with m.If(self.start):
            m.d.sync += [
                left.eq(self.count),
                term.eq(whole(self.pitch)),
                address.eq(whole(self.base)),
            ]
        with m.Else():
            m.d.sync += [
                left.eq(left >> 1),
                term.eq(whole(term << 1)),
                address.eq(whole(address + further)),
            ]
        return m
