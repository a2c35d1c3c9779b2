"""The rounding unit: every binary32 number, against the definition of each rule."""

import pytest
from amaranth.hdl import Assert, Assume, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from diastole.convert import quantise
from diastole.convert.quantise import LaneQuantiser
from formal.prove import prove, refute

ASSERTIONS = 5
BITS, RANDOM = 3, 2  # of a magnitude, and random ones
TOP = 2**BITS - 1
WIDE = 24 + RANDOM + 3  # no bit of a number that is shifted further right matters


class QuantiseSpec(wiring.Component):
    """Class 0 of the unit, from two cycles ago.

    Assumes, as the unit does, that no finite number is above its block's largest exponent. A
    magnitude stands for ``magnitude * unit``; significands and ``unit = 2^place`` are integers.
    """

    value: In(32)
    exponent: In(8)
    random: In(RANDOM)

    def __init__(self, unit, rule: str):
        self.rule = rule
        rules = (rule, "nearest", "nearest")
        self.dut = unit(mantissa_bits=(BITS,) * 3, rounding=rules, random_bits=RANDOM)
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        now = (self.value, self.exponent, self.random)
        m.d.comb += [dut.value.eq(now[0]), dut.exponent.eq(now[1]), dut.random.eq(now[2])]
        for age in (1, 2):
            then = [Signal.like(signal, name=f"ago{age}_{signal.name}") for signal in now]
            m.d.sync += [old.eq(new) for old, new in zip(then, now, strict=True)]
            now = then
        running = Signal(range(3))
        with m.If(running != 2):
            m.d.sync += running.eq(running + 1)
        with m.If(running == 2):
            self._judge(m, *now)
        return m

    def _judge(self, m, value, exponent, random):
        dut = self.dut
        field, fraction, sign = value[23:31], value[:23], value[31]
        finite = Signal()
        m.d.comb += finite.eq(field.any() & (field != 255) & exponent.any())
        m.d.comb += Assume(~finite | (field <= exponent))
        m.d.comb += Assert(dut.nan == ((field == 255) & fraction.any()), "nan flag")
        m.d.comb += Assert(dut.inf == ((field == 255) & ~fraction.any()), "inf flag")
        magnitude, negative = dut.element[:BITS], dut.element[BITS]
        m.d.comb += Assert(negative == (sign & magnitude.any()), "sign")
        with m.If(~finite):
            full = (field == 255) & ~fraction.any() & exponent.any()
            nothing = (magnitude == Mux(full, TOP, 0)) & ~dut.saturated
            m.d.comb += Assert(nothing, "subnormal, NaN, Inf, or number of an empty block")
        with m.Else():
            significand = fraction | (1 << 23)
            distance = Signal(8)
            place = Signal(range(WIDE + 1))
            m.d.comb += distance.eq(exponent - field)
            far = distance > WIDE - 24 + BITS
            m.d.comb += place.eq(Mux(far, WIDE, distance + 24 - BITS))
            good = self._rule(m, significand, place, random)
            m.d.comb += Assert(good, "not rounded by the rule")

    def _rule(self, m, significand, place, random):
        magnitude, saturated = self.dut.element[:BITS], self.dut.saturated
        if self.rule == "nearest":
            twice, unit = significand << 1, Const(1) << place
            above = (magnitude << (place + 1)) + unit  # twice the border to the next magnitude
            below = (magnitude << (place + 1)) - unit
            even = ~magnitude[0]
            inside = (twice > below) & (twice < above)
            tie = ((twice == above) | (twice == below)) & even
            beyond = (magnitude == TOP) & (twice >= above)
            return Mux(saturated, beyond, inside | tie)
        scaled = Signal(24 + RANDOM + 1)  # with one bit more than the random ones
        m.d.comb += scaled.eq((significand << (RANDOM + 1)) >> place)
        exact = (scaled << place) == (significand << (RANDOM + 1))
        rounded = {
            "stochastic-a": (scaled >> 1) + random,
            "stochastic-b": (scaled + (random << 1) + 1) >> 1,
            "stochastic-c": (scaled >> 1) + (scaled[0] & (~exact | scaled[1])) + random,
        }[self.rule]
        whole = Signal(BITS + 2)
        m.d.comb += whole.eq(rounded >> RANDOM)
        return Mux(whole > TOP, (magnitude == TOP) & saturated, (magnitude == whole) & ~saturated)


@pytest.mark.parametrize("rule", ["nearest", "stochastic-a", "stochastic-b", "stochastic-c"])
def test_rule(rule):
    prove(QuantiseSpec(LaneQuantiser, rule), assertions=ASSERTIONS)


BROKEN_RULES = {
    "nearest": lambda kept, random, fraction, sticky, lowest: fraction[-1],  # ties upward
    "stochastic-a": lambda kept, random, fraction, sticky, lowest: (fraction + (random << 1) + 1)[
        RANDOM + 1
    ],  # B
    "stochastic-b": lambda kept, random, fraction, sticky, lowest: (kept + random)[RANDOM],  # A
    "stochastic-c": lambda kept, random, fraction, sticky, lowest: (kept + fraction[0] + random)[
        RANDOM
    ],  # ties upward before the random bits
}


@pytest.mark.parametrize("rule", BROKEN_RULES)
def test_broken_rule_is_refuted(rule, monkeypatch):
    def round_up(_rule, lowest, fraction, sticky, random, random_bits):
        return BROKEN_RULES[rule](fraction[1:], random, fraction, sticky, lowest)

    monkeypatch.setattr(quantise, "round_up", round_up)
    refute(QuantiseSpec(LaneQuantiser, rule), assertions=ASSERTIONS)


class Forgets(LaneQuantiser):
    """Forgets one of its duties."""

    def elaborate(self, platform):
        m = super().elaborate(platform)
        self.forget(m)
        return m


class ForgetsSaturation(Forgets):
    def forget(self, m):
        m.d.sync += self.saturated.eq(0)


class ForgetsNan(Forgets):
    def forget(self, m):
        m.d.sync += self.nan.eq(0)


class ForgetsInf(Forgets):
    def forget(self, m):
        m.d.sync += self.inf.eq(0)


class GivesZeroASign(Forgets):
    def forget(self, m):
        sign = Signal()
        m.d.sync += [sign.eq(self.value[31]), self.element[BITS].eq(sign)]


class KeepsSubnormals(LaneQuantiser):
    """Takes a number with exponent field 0 for one with a leading one."""

    def _align(self, m, fixed, sticky, width):
        super()._align(m, fixed, sticky, width)
        with m.If(~self.value[23:31].any() & (self.exponent == 1)):
            m.d.sync += fixed.eq(1 << (width - 2))


class ForgetsWhatIsFarBelow(LaneQuantiser):
    def _align(self, m, fixed, sticky, width):
        super()._align(m, fixed, sticky, width)
        m.d.sync += sticky.eq(0)
        m.d.sync += fixed[: width - BITS - RANDOM - 1].eq(0)


@pytest.mark.parametrize(
    "broken",
    [
        ForgetsSaturation,
        ForgetsNan,
        ForgetsInf,
        GivesZeroASign,
        KeepsSubnormals,
        ForgetsWhatIsFarBelow,
    ],
)
def test_broken_unit_is_refuted(broken):
    refute(QuantiseSpec(broken, "nearest"), assertions=ASSERTIONS)
