"""The running sums behind one port of the array."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Shape, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import exact_log2

from diastole_hw.memory.ram import Ram
from diastole_hw.place import place
from diastole_hw.plan.plan import SUM_UNITS, Plan
from diastole_hw.registers import data_register, delayed_record


def sums_layout(plan: Plan, bits: int) -> data.StructLayout:
    """B sums; in a machine that has it, a bit for each that is not a number."""
    members = {"sums": data.ArrayLayout(signed(bits), plan.block)}
    return data.StructLayout(members | ({"poison": unsigned(plan.block)} if plan.poison else {}))


def shown_sum(plan: Plan) -> Shape:
    """A sum as a drain reads it: an integer of W bits, or the bits of a float."""
    chosen = plan.numerics.accumulator
    return signed(plan.accumulator_bits) if chosen is None else unsigned(chosen.bits)


def shown_layout(plan: Plan) -> data.StructLayout:
    """B of them; in a machine that has it, a bit for each that is not a number."""
    members = {"sums": data.ArrayLayout(shown_sum(plan), plan.block)}
    return data.StructLayout(members | ({"poison": unsigned(plan.block)} if plan.poison else {}))


def the_one_of(values, chosen):
    """Of several values the one that is ``chosen``, by a bit for each; 0 if none is."""
    gated = (Mux(bit, value, 0) for value, bit in zip(values, chosen, strict=True))
    return reduce(or_, gated)


class PortSums(wiring.Component):
    """Add partial sums into words of B sums, in a memory for each unit; read others meanwhile.

    A sum stays poisoned until it is overwritten.

    Timing: a word that is named in a cycle is read in it; its partial sums are there in the next
    one, and the word is written in the one after that. ``shown`` is there one cycle after ``read``,
    and zeros in all other cycles.

    Parameters
    ----------
    plan : Plan
        B, W, the words of a unit, and whether there is poison.
    psum_bits : int
        Of a partial sum.

    Members
    -------
    en, addr : In(1), In(range(plan.sum_words))
        Partial sums come for a word. The two top bits of an address name the unit.
    fresh : In(1)
        Overwrite the word instead of adding to it.
    psums : In(sums_layout(plan, psum_bits))
        In the next cycle.
    read, read_addr : In(1), In(range(plan.sum_words))
        A word of another unit is wanted; not checked.
    shown : Out(shown_layout(plan))
    """

    written = 2
    """Cycles from a word's name to its write."""

    def __init__(self, plan: Plan, *, psum_bits: int):
        self.plan, self.psum_bits = plan, psum_bits
        addr = range(plan.sum_words)
        super().__init__(
            {
                "en": In(1),
                "addr": In(addr),
                "fresh": In(1),
                "psums": In(sums_layout(plan, psum_bits)),
                "read": In(1),
                "read_addr": In(addr),
                "shown": Out(shown_layout(plan)),
            }
        )

    def elaborate(self, platform):
        m = Module()
        named = Signal(data.StructLayout({"en": 1, "addr": self.addr.shape()}))
        m.d.comb += [named.en.eq(self.en), named.addr.eq(self.addr)]
        adding = delayed_record(m, named, "adding", control=("en",))
        storing = delayed_record(m, adding, "storing", control=("en",))
        word = sums_layout(self.plan, self.plan.accumulator_bits)
        within = exact_log2(self.plan.unit_words)
        rams = []
        added_to = []  # by unit: the word that is added to is of it
        for unit in range(SUM_UNITS):
            ram = Ram(width=word.size, depth=self.plan.unit_words)
            m.submodules[f"unit_{unit}"] = place(ram, platform)
            rams.append(ram)
            mine = Signal(name=f"mine_{unit}")
            m.d.comb += [
                mine.eq(self.en & ~self.fresh & (self.addr[within:] == unit)),
                ram.read_en.eq(mine | (self.read & (self.read_addr[within:] == unit))),
                ram.read_addr.eq(Mux(mine, self.addr[:within], self.read_addr[:within])),
                ram.write_en.eq(storing.en & (storing.addr[within:] == unit)),
                ram.write_addr.eq(storing.addr[:within]),
            ]
            added_to.append(data_register(name=f"added_to_{unit}"))
            m.d.sync += added_to[-1].eq(mine)
        stored = Signal(word)
        added = data_register(word)
        words = [ram.read_data for ram in rams]
        m.d.comb += stored.eq(the_one_of(words, added_to))
        for lane in range(self.plan.block):
            m.d.sync += added.sums[lane].eq(stored.sums[lane] + self.psums.sums[lane])
        if self.plan.poison:
            m.d.sync += added.poison.eq(stored.poison | self.psums.poison)
        m.d.comb += [ram.write_data.eq(added) for ram in rams]
        shown_of = Signal(SUM_UNITS)  # by unit: the word shown is of it
        wanted = Cat(self.read_addr[within:] == unit for unit in range(SUM_UNITS))
        m.d.sync += shown_of.eq(Mux(self.read, wanted, 0))
        m.d.comb += self.shown.eq(the_one_of(words, shown_of))
        return m
