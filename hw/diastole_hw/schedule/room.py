"""Where tiles of sums stand behind a port, and whether there is room for the next one."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.plan.plan import Plan
from diastole_sim.spec.sizes.array_sizes import TILES_OF_SUMS


def place_of_sums(plan: Plan, number, whole, word):
    """The address behind a port of a tile's ``word``. ``number``: of the tile, modulo
    ``TILES_OF_SUMS``. Its top bit is the memory: tiles take both in turn, those that are not
    ``whole`` one half after the other."""
    within = exact_log2(plan.tile_sums)
    half = word[within - 1] | (number[1] & ~whole)
    return Cat(word[: within - 1], half, number[0])


class SumRoom(wiring.Component):
    """Count tiles of sums, which are taken and given back in order, each ``whole`` or not.

    In the memory that a tile goes to is the last tile but one, and in its half, if both are not
    whole, the last but three. ``take`` while not ``free`` and ``give`` while none is taken are not
    allowed, and not checked.

    Timing: ``free`` is combinational from ``whole``; what is taken and given back counts from the
    next cycle on.

    Members
    -------
    whole : In(1)
        A tile that would be begun takes a whole memory.
    take : In(1)
        It is begun.
    give : In(1)
        The oldest tile has been read.
    free : Out(1)
        There is room for the tile.
    taken : Out(range(TILES_OF_SUMS + 1))
    """

    def __init__(self):
        super().__init__(
            {
                "whole": In(1),
                "take": In(1),
                "give": In(1),
                "free": Out(1),
                "taken": Out(range(TILES_OF_SUMS + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        halves = Signal(2)  # bit k: the last tile but k is not whole
        most = Mux(halves[1] & ~self.whole, TILES_OF_SUMS, TILES_OF_SUMS // 2)
        m.d.comb += self.free.eq(self.taken < most)
        m.d.sync += self.taken.eq(self.taken + self.take - self.give)
        with m.If(self.take):
            m.d.sync += halves.eq(Cat(~self.whole, halves[0]))
        return m
