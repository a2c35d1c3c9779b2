"""The deficit shifter: the nearest integer of the window, ties upward, added without loss."""

import pytest
from amaranth.hdl import Assert, Const, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from diastole_hw.cell.align import AlignAdd
from formal.prove import prove, refute

ASSERTIONS = 2


class AlignSpec(wiring.Component):
    """What was added, times the place of its last bit, is at most half such a place off.

    With V the block sum in the window's unit and q what was added, rounding V / 2^shift to nearest,
    ties upward, means -2^shift <= 2 (V - q 2^shift) < 2^shift.
    """

    def __init__(self, dut: AlignAdd):
        self.dut = dut
        inputs = ("block_sum", "shift", "psum")
        super().__init__({name: In(getattr(dut, name).shape()) for name in inputs})

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        m.d.comb += [
            dut.block_sum.eq(self.block_sum),
            dut.shift.eq(self.shift),
            dut.psum.eq(self.psum),
        ]
        added = Signal(signed(dut.psum_bits))
        m.d.comb += added.eq(dut.total - self.psum)
        twice_error = (self.block_sum << (dut.fraction + 1)) - (added << (self.shift + 1))
        place = Const(1) << self.shift
        nearest = (twice_error >= -place) & (twice_error < place)
        m.d.comb += Assert(nearest, "not the nearest, or a tie not upward")
        with m.If(self.shift >= dut.sum_bits + dut.fraction):
            m.d.comb += Assert(dut.total == self.psum, "something is left of a lost block sum")
        return m


def align(unit=AlignAdd, *, sum_bits=5, fraction=3, psum_bits=9):
    return AlignSpec(unit(sum_bits=sum_bits, fraction=fraction, psum_bits=psum_bits))


@pytest.mark.parametrize(
    "sizes", [(5, 0, 5), (5, 3, 9), (7, 5, 12)], ids=["no fraction", "narrow", "wide"]
)
def test_shifter(sizes):
    prove(
        align(**dict(zip(("sum_bits", "fraction", "psum_bits"), sizes, strict=True))), assertions=2
    )


class Truncates(AlignAdd):
    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.total.eq(self.psum + ((self.block_sum << self.fraction) >> self.shift))
        return m


class DropsSign(AlignAdd):
    def elaborate(self, platform):
        m = Module()
        bits = self.sum_bits + self.fraction
        value = (self.block_sum << self.fraction).as_unsigned()[:bits]
        rounding = ((value << 1) >> self.shift)[0]
        m.d.comb += self.total.eq(self.psum + (value >> self.shift) + rounding)
        return m


class TiesDownward(AlignAdd):
    def elaborate(self, platform):
        m = Module()
        value = (self.block_sum << self.fraction) << 1
        window = value >> self.shift
        exact = (window << self.shift) == value
        m.d.comb += self.total.eq(self.psum + (window >> 1) + (window[0] & ~exact))
        return m


class ShiftsOnce(AlignAdd):
    """Never shifts by more than half of its range."""

    def elaborate(self, platform):
        m = Module()
        shift = self.shift[:-1]
        value = ((self.block_sum << self.fraction) << 1) >> shift
        m.d.comb += self.total.eq(self.psum + ((value + 1) >> 1))
        return m


@pytest.mark.parametrize("broken", [Truncates, DropsSign, TiesDownward, ShiftsOnce])
def test_broken_shifter_is_refuted(broken):
    refute(align(broken), assertions=ASSERTIONS)
