"""Monitor the precision: how much magnitudes of 4 bits would improve on magnitudes of 2 bits."""

from functools import reduce
from operator import add

from amaranth.hdl import Module, Mux, Signal, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.convert.lanes.quantise import MONITORED
from diastole_sim.spec.require import require_int


class Monitor(wiring.Component):
    """Sum the monitor outputs of the lanes over all elements
    (:class:`diastole_hw.convert.lanes.quantise.LaneQuantiser`): num = sum |k4 - 4 k2|, den = sum
    k2.

    Timing: a word per cycle; a sum includes the word 2 cycles later. A sum that does not fit stays
    all ones.

    Parameters
    ----------
    lanes : int
        Elements of a word (1 to 16).
    bits : int
        Bits of a sum (6 to 64).

    Members
    -------
    clear : In(1)
        A pulse: the sums are 0 in the next cycle, whatever words came in this cycle and the cycle
        before.
    en : In(1)
        A word is valid; lanes outside the tensor must be zeros.
    differs, narrow : In(array of lanes unsigned(2))
    num, den : Out(bits)

    Source: Zhang, McDanel, Kung: FAST, HPCA 2022. ValueError if a parameter is out of range.
    """

    def __init__(self, *, lanes: int, bits: int = 32):
        self.lanes = require_int("lanes", lanes, 1, 16)
        self.bits = require_int("bits", bits, 6, 64)
        words = dict.fromkeys(MONITORED, In(data.ArrayLayout(unsigned(2), lanes)))
        sums = dict.fromkeys(("num", "den"), Out(bits))
        super().__init__({"clear": In(1), "en": In(1)} | words | sums)

    def elaborate(self, platform):
        m = Module()
        for of_elements, counter in ((self.differs, self.num), (self.narrow, self.den)):
            of_word = Signal(range(3 * self.lanes + 1), name=f"{counter.name}_of_word")
            more = Signal(self.bits + 1, name=f"more_{counter.name}")
            m.d.comb += more.eq(counter + of_word)
            m.d.sync += [
                of_word.eq(Mux(self.en, reduce(add, of_elements), 0)),
                counter.eq(more[:-1] | more[-1].replicate(self.bits)),
            ]
            with m.If(self.clear):
                m.d.sync += [of_word.eq(0), counter.eq(0)]
        return m
