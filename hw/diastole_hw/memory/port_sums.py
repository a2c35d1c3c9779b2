"""The running sums behind one port of the array."""

from amaranth.hdl import Module, Mux, Shape, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.choice import the_one_of
from diastole_hw.data_registers import data_register, delayed_record
from diastole_hw.memory.ram import Ram
from diastole_hw.plan.plan import Plan
from diastole_sim.spec.sizes.array_sizes import SUM_MEMORIES


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


class PortSums(wiring.Component):
    """Add partial sums into words of B sums in one memory; read those of the other one meanwhile.

    A sum stays poisoned until it is overwritten.

    Timing: a word that is named in a cycle is read in it; its partial sums are there in the next
    one, or the one after that where memories have a register behind them, and the word is written
    in the cycle after they are there. ``shown`` is there one cycle after ``read``, and zeros in all
    other cycles.

    Parameters
    ----------
    plan : Plan
        B, W, the words of a memory, and whether there is poison.
    psum_bits : int
        Of a partial sum.

    Members
    -------
    en, addr : In(1), In(range(plan.sum_words))
        Partial sums come for a word. The top bit of an address names the memory.
    fresh : In(1)
        Overwrite the word instead of adding to it.
    psums : In(sums_layout(plan, psum_bits))
        ``summed`` cycles later.
    read, read_addr : In(1), In(range(plan.sum_words))
        A word is wanted, which no partial sums are on the way to; it is of the other memory where
        ``en`` is high without ``fresh``. Not checked.
    shown : Out(shown_layout(plan))
    """

    reads = 0
    """Cycles from a word's name to its read."""

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

    @property
    def summed(self) -> int:
        """Likewise, to its partial sums."""
        return 1 + self.plan.output_register

    @property
    def written(self) -> int:
        """And to its write."""
        return self.summed + 1

    def elaborate(self, platform):
        m = Module()
        named = Signal(data.StructLayout({"en": 1, "addr": self.addr.shape()}))
        m.d.comb += [named.en.eq(self.en), named.addr.eq(self.addr)]
        storing = named
        for number in range(1, self.written + 1):
            storing = delayed_record(m, storing, f"stage_{number}", control=("en",))
        word = sums_layout(self.plan, self.plan.accumulator_bits)
        added_to = data_register(SUM_MEMORIES)  # by memory: the word that is added to is of it
        shown_of = Signal(SUM_MEMORIES)  # likewise, the word shown
        stored = data_register(word)
        added = data_register(word)
        words = []
        for memory in range(SUM_MEMORIES):
            m.submodules[f"memory_{memory}"] = ram = Ram(width=word.size, depth=self.plan.tile_sums)
            words.append(ram.read_data)
            adds = Signal(name=f"adds_{memory}")
            reads = Signal(name=f"reads_{memory}")
            # What a drain wants is known late in a cycle. An address is not waited for by that, and
            # what it gives to nobody is not shown: a fast machine reads whatever is named.
            quick = self.plan.output_register
            m.d.comb += [
                adds.eq(self.en & ~self.fresh & (self.addr[-1] == memory)),
                reads.eq(self.read & (self.read_addr[-1] == memory)),
                ram.read_en.eq(1 if quick else adds | reads),
                ram.read_addr.eq(Mux(adds, self.addr[:-1], self.read_addr[:-1])),
                ram.write_en.eq(storing.en & (storing.addr[-1] == memory)),
                ram.write_addr.eq(storing.addr[:-1]),
                ram.write_data.eq(added),
            ]
            m.d.sync += [added_to[memory].eq(adds), shown_of[memory].eq(reads)]
        m.d.comb += self.shown.eq(the_one_of(words, shown_of))
        m.d["sync" if self.plan.output_register else "comb"] += stored.eq(
            the_one_of(words, added_to)
        )
        for lane in range(self.plan.block):
            m.d.sync += added.sums[lane].eq(stored.sums[lane] + self.psums.sums[lane])
        if self.plan.poison:
            m.d.sync += added.poison.eq(stored.poison | self.psums.poison)
        return m
