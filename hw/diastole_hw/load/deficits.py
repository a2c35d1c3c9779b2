"""Compute the deficit of a vector, a shift of the vector's sums, and further marks from the group's
scale."""

from amaranth.hdl import Cat, Module, Mux, Signal, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.memory.maxima import scale_exponent
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.tokens import PLANE
from diastole_sim.spec.formats import (
    NAN_EXPONENT,
    NVFP4,
    PLANE_BITS,
    SCALE_SIGNIFICAND_BITS,
    SIGNIFICAND_FRACTION,
)


def scale_significand(code):
    """Return the significand of a group's E4M3 scale."""
    normal = code[SIGNIFICAND_FRACTION:] != 0
    return Cat(code[:SIGNIFICAND_FRACTION], normal)


class Deficits(wiring.Component):
    """Compute the marks of a vector that follow from the scale of its group.

    A deficit is the exponent of the maximum less the exponent of the scale, and 2 more for each
    plane above the vector's plane, at most SW + F. A group of zeros, or a group whose scale is NaN,
    has deficit 0 and ``nonzero`` 0. The deficit is undefined if the maximum is less than the
    exponent.

    Timing: combinational.

    Parameters
    ----------
    plan : Plan

    Members
    -------
    scale : In(8)
        Scale as stored.
    maximum, maximum_north : In(8), In(8)
        Maximum of the vector's row or column of blocks. For a block of stationary lanes,
        ``maximum`` is for the east and ``maximum_north`` for the north (if the machine has the
        direction).
    plane : In(PLANE)
        Number of the vector's plane, in machines with several planes.
    deficit, deficit_north : Out(plan.deficit_bits), Out(plan.deficit_bits)
        Deficits by ``maximum`` and by ``maximum_north``.
    nonzero : Out(1)
    significand : Out(SCALE_SIGNIFICAND_BITS)
        Significand of the scale, in machines whose scales have a significand.
    poison : Out(1)
        The scale is NaN, in machines where NaN poisons.
    """

    scale: Signal
    maximum: Signal
    deficit: Signal
    nonzero: Signal

    def __init__(self, plan: Plan):
        self.plan = plan
        deficit = Out(unsigned(plan.deficit_bits))
        members = {"scale": In(8), "maximum": In(8), "deficit": deficit, "nonzero": Out(1)}
        if plan.north:
            members |= {"maximum_north": In(8), "deficit_north": deficit}
        if plan.planar:
            members["plane"] = In(PLANE)
        if plan.significands:
            members["significand"] = Out(SCALE_SIGNIFICAND_BITS)
        if plan.poison:
            members["poison"] = Out(1)
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        nan = NVFP4.nan_byte if plan.significands else NAN_EXPONENT
        m.d.comb += self.nonzero.eq((self.scale != 0) & (self.scale != nan))
        self._distance(m, "own", self.maximum, self.deficit)
        if plan.north:
            self._distance(m, "north", self.maximum_north, self.deficit_north)
        if plan.significands:
            m.d.comb += self.significand.eq(scale_significand(self.scale))
        if plan.poison:
            m.d.comb += self.poison.eq(self.scale == nan)
        return m

    def _distance(self, m, name, maximum, deficit):
        plan = self.plan
        most = plan.sum_bits + plan.fraction
        distance = scale_exponent(plan, maximum) - scale_exponent(plan, self.scale)
        difference = Signal(signed(10 if plan.planar else 9), name=f"{name}_difference")
        if plan.planar:
            distance += self.plane[: plan.plane_bits] * PLANE_BITS
        m.d.comb += difference.eq(distance)
        with m.If(self.nonzero):
            m.d.comb += deficit.eq(Mux(difference > most, most, difference))
