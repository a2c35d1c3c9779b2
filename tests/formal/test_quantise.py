"""The rounding unit: every binary32 number, against the definition of each rule."""

import itertools

import pytest
from amaranth.hdl import Array, Assert, Assume, Const, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In

from diastole_hw.convert.lanes import quantise
from diastole_hw.convert.lanes.quantise import LaneQuantiser
from formal.prove import prove, refute
from support.classes import make_numerics

ASSERTIONS = 6
RANDOM = 2  # random bits
FORMATS = ("bfp3", "mxfp4_e2m1")
PLACES = 24 + RANDOM + 3  # no bit of a number that is shifted further right matters


def units(kind):
    """The values of the codes, in units of the smallest, and what would come after the largest."""
    values = []
    for code in range(kind.max_code + 2):
        field, low = divmod(code, 2 ** (kind.precision - 1)) if kind.depth else (0, code)
        values.append(low if field == 0 else (low + 2 ** (kind.precision - 1)) << (field - 1))
    return values


class QuantiseSpec(wiring.Component):
    """Class 0 of the unit, from two cycles ago.

    Assumes, as the unit does where there is no tensor scale, that no finite number is above its
    group's exponent. A code stands for one of :func:`units`, times ``unit = 2^place``;
    significands, those and ``unit`` are integers.
    """

    value: In(32)
    exponent: In(8)
    random: In(RANDOM)
    blank: In(1)

    def __init__(self, unit, rule: str, name: str = "bfp3"):
        self.rule = rule
        rules = (rule, "nearest", "nearest")
        numerics = make_numerics(*(name,) * 3, rounding=rules, random_bits=RANDOM)
        self.kind = numerics.x.format
        self.dut = unit(numerics=numerics)
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.dut = dut = self.dut
        given = (dut.value, dut.exponent, dut.random, dut.blank)
        mine = (self.value, self.exponent, self.random, self.blank)
        m.d.comb += [port.eq(value) for port, value in zip(given, mine, strict=True)]
        counts = Signal.like(self.value)
        m.d.comb += counts.eq(Mux(self.blank, 0, self.value))
        now = (counts, self.exponent, self.random)
        for age in range(1, dut.latency + 1):
            then = [Signal.like(signal, name=f"ago{age}_{signal.name}") for signal in now]
            m.d.sync += [old.eq(new) for old, new in zip(then, now, strict=True)]
            now = then
        running = Signal(range(dut.latency + 1))
        with m.If(running != dut.latency):
            m.d.sync += running.eq(running + 1)
        with m.If(running == dut.latency):
            self._judge(m, *now)
        return m

    def _judge(self, m, value, exponent, random):
        dut, kind = self.dut, self.kind
        field, fraction, sign = value[23:31], value[:23], value[31]
        normal = field.any() & (field != 255)
        finite = Signal()
        m.d.comb += finite.eq(normal & exponent.any())
        m.d.comb += Assume(~finite | (field <= exponent))
        nan = (field == 255) & fraction.any()
        m.d.comb += Assert(dut.nan == nan, "nan flag")
        m.d.comb += Assert(dut.inf == ((field == 255) & ~fraction.any()), "inf flag")
        code, negative = dut.element[: kind.magnitude_bits], dut.element[kind.magnitude_bits]
        signed = ~nan if kind.signed_zero else code.any()
        m.d.comb += Assert(negative == (sign & signed), "sign")
        m.d.comb += Assert(dut.underflowed == (normal & (code == 0)), "underflow")
        with m.If(~finite):
            full = (field == 255) & ~fraction.any() & exponent.any()
            nothing = (code == Mux(full, kind.max_code, 0)) & ~dut.saturated
            m.d.comb += Assert(nothing, "subnormal, NaN, Inf, or number of an empty group")
        with m.Else():
            significand = fraction | (1 << 23)
            distance = Signal(8)
            m.d.comb += distance.eq(exponent - field)
            good = self._rule(m, significand, distance, random, code)
            m.d.comb += Assert(good, "not rounded by the rule")

    def _rule(self, m, significand, distance, random, code):
        kind, saturated = self.kind, self.dut.saturated
        first = 24 - kind.precision  # place of an element's last bit in the top binade
        place = Signal(range(PLACES + 1))
        if self.rule == "nearest":
            lowest = first - kind.depth  # and where the group's exponent is the number's
            far = distance > PLACES - lowest
            m.d.comb += place.eq(Mux(far, PLACES, distance + lowest))
            values = units(kind)
            below, above = (
                Signal(range(4 * values[-1]), name=name) for name in ("below", "above")
            )  # twice the borders to the neighbours
            sums = [0] + [a + b for a, b in itertools.pairwise(values)]
            m.d.comb += [below.eq(Array(sums)[code]), above.eq(Array(sums[1:])[code])]
            twice = significand << 1
            at_zero = code == 0
            inside = (at_zero | (twice > (below << place))) & (twice < (above << place))
            borders = (twice == (above << place)) | ((twice == (below << place)) & ~at_zero)
            beyond = (code == kind.max_code) & (twice >= (above << place))
            return Mux(saturated, beyond, inside | (borders & ~code[0]))
        depth = Signal(range(kind.depth + 1))
        m.d.comb += depth.eq(Mux(distance > kind.depth, kind.depth, distance))
        far = distance - depth > PLACES - first
        m.d.comb += place.eq(Mux(far, PLACES, distance - depth + first))
        scaled = Signal(24 + RANDOM + 1)  # with one bit more than the random ones
        m.d.comb += scaled.eq((significand << (RANDOM + 1)) >> place)
        exact = (scaled << place) == (significand << (RANDOM + 1))
        rounded = {
            "stochastic-a": (scaled >> 1) + random,
            "stochastic-b": (scaled + (random << 1) + 1) >> 1,
            "stochastic-c": (scaled >> 1) + (scaled[0] & (~exact | scaled[1])) + random,
        }[self.rule]
        whole = Signal(kind.magnitude_bits + 2)
        m.d.comb += whole.eq((rounded >> RANDOM) + ((kind.depth - depth) << (kind.precision - 1)))
        top = kind.max_code
        return Mux(whole > top, (code == top) & saturated, (code == whole) & ~saturated)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("rule", ["nearest", "stochastic-a", "stochastic-b", "stochastic-c"])
@pytest.mark.sampled(2)
def test_rule(rule, name):
    prove(QuantiseSpec(LaneQuantiser, rule, name), assertions=ASSERTIONS)


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
    def rounds_up(_rule, lowest, fraction, sticky, random, random_bits):
        return BROKEN_RULES[rule](fraction[1:], random, fraction, sticky, lowest)

    monkeypatch.setattr(quantise, "rounds_up", rounds_up)
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
        above = self.numerics.x.format.magnitude_bits
        m.d.sync += [sign.eq(self.value[31]), self.element[above].eq(sign)]


class KeepsSubnormals(LaneQuantiser):
    """Takes a number with exponent field 0 for one with a leading one."""

    def _read(self, m, depth):
        operand = super()._read(m, depth)
        field = self.value[23:31]
        return operand | {"finite": (field != 0xFF) & (field.any() | (self.exponent == 1))}


class ForgetsWhatIsFarBelow(LaneQuantiser):
    def _align(self, m, operand, depth):
        aligned = super()._align(m, operand, depth)
        fixed = aligned["fixed"]
        kept = Signal(len(fixed))
        low = len(fixed) - self._precision - RANDOM - 1
        m.d.comb += kept.eq(fixed >> low << low)
        return aligned | {"fixed": kept, "sticky": Const(0, 1)}


class ForgetsUnderflow(Forgets):
    def forget(self, m):
        m.d.sync += self.underflowed.eq(0)


@pytest.mark.parametrize(
    "broken",
    [
        ForgetsSaturation,
        ForgetsNan,
        ForgetsInf,
        ForgetsUnderflow,
        GivesZeroASign,
        KeepsSubnormals,
        ForgetsWhatIsFarBelow,
    ],
)
@pytest.mark.sampled(2)
def test_broken_unit_is_refuted(broken):
    refute(QuantiseSpec(broken, "nearest"), assertions=ASSERTIONS)
