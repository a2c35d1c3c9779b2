"""Place tiles of sums behind a port, and tell whether there is free space for the next tile."""

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.plan.plan import Plan
from diastole_sim.spec.sizes.array_sizes import TILES_OF_SUMS


def place_of_sums(plan: Plan, number, whole, word):
    """Return the address, behind a port, of a ``word`` of a tile. ``number``: number of the tile
    modulo ``TILES_OF_SUMS``. The top bit selects the memory: tiles use both memories alternately.
    Tiles that are not ``whole`` use the halves of a memory alternately."""
    within = exact_log2(plan.tile_sums)
    half = word[within - 1] | (number[1] & ~whole)
    return Cat(word[: within - 1], half, number[0])


class SumPlaces(wiring.Component):
    """Count tiles of sums, which are allocated and freed in order, and are ``whole`` or not.

    A tile shares its memory with the last tile but one. If neither is whole, it shares its half
    with the last tile but three. Not allowed, and not checked: ``take`` while not ``free``, and
    ``give`` while no tile is allocated.

    Timing: ``free`` is combinational from ``whole``; ``take`` and ``give`` count from the next
    cycle on.

    Members
    -------
    whole : In(1)
        The next tile takes a whole memory.
    take : In(1)
        The next tile is begun.
    give : In(1)
        The oldest tile has been read.
    free : Out(1)
        There is space for the next tile.
    used : Out(range(TILES_OF_SUMS + 1))
    """

    def __init__(self):
        super().__init__(
            {
                "whole": In(1),
                "take": In(1),
                "give": In(1),
                "free": Out(1),
                "used": Out(range(TILES_OF_SUMS + 1)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        halves = Signal(2)  # bit k: the last tile but k is not whole
        most = Mux(halves[1] & ~self.whole, TILES_OF_SUMS, TILES_OF_SUMS // 2)
        m.d.comb += self.free.eq(self.used < most)
        m.d.sync += self.used.eq(self.used + self.take - self.give)
        with m.If(self.take):
            m.d.sync += halves.eq(Cat(~self.whole, halves[0]))
        return m
