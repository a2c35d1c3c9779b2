"""Accumulate the partial sums behind one port of the array."""

from amaranth.hdl import Module, Mux, Shape, Signal, signed, unsigned
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.choice import one_hot_select
from diastole_hw.data_registers import data_register, delayed_record
from diastole_hw.memory.ram import Ram
from diastole_hw.plan.plan import Plan
from diastole_sim.spec.sizes.array_sizes import SUM_MEMORIES


def sums_layout(plan: Plan, bits: int) -> data.StructLayout:
    """Return the layout of B sums and, in a machine with poison, a bit per sum, set if the sum is
    not a number."""
    members = {"sums": data.ArrayLayout(signed(bits), plan.block)}
    return data.StructLayout(members | ({"poison": unsigned(plan.block)} if plan.poison else {}))


def read_sum(plan: Plan) -> Shape:
    """Return the shape of a sum at a drain: an integer of W bits, or the bits of a float."""
    chosen = plan.numerics.accumulator
    return signed(plan.accumulator_bits) if chosen is None else unsigned(chosen.bits)


def read_data_layout(plan: Plan) -> data.StructLayout:
    """Return the layout of B sums at a drain and, in a machine with poison, a bit per sum, set if
    the sum is not a number."""
    members = {"sums": data.ArrayLayout(read_sum(plan), plan.block)}
    return data.StructLayout(members | ({"poison": unsigned(plan.block)} if plan.poison else {}))


class PortSums(wiring.Component):
    """Add partial sums into words of B sums in one memory. Words of the second memory can be read
    meanwhile.

    A sum stays poisoned until a write overwrites the sum.

    Timing: a word is read in the cycle of its address. Its partial sums arrive in the next cycle,
    or a cycle later if memories have output registers. The word is written in the cycle after the
    arrival. ``read_data`` is valid one cycle after ``read``, and zero in all remaining cycles.

    Parameters
    ----------
    plan : Plan
        B, W, the words of a memory, and the presence of poison.
    psum_bits : int
        Bits of a partial sum.

    Members
    -------
    en, addr : In(1), In(range(plan.sum_words))
        Partial sums arrive for the word at ``addr``. The top bit of an address names the memory.
    fresh : In(1)
        Overwrite the word instead of adding.
    psums : In(sums_layout(plan, psum_bits))
        Partial sums, ``summed`` cycles after ``en``.
    read, read_addr : In(1), In(range(plan.sum_words))
        Request a word for which no partial sums are under way. While ``en`` is high without
        ``fresh``, the word must be in the memory that ``addr`` does not name. Not checked.
    read_data : Out(read_data_layout(plan))
    """

    reads = 0
    """Cycles from the address of a word to the read of the word."""

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
                "read_data": Out(read_data_layout(plan)),
            }
        )

    @property
    def summed(self) -> int:
        """Cycles from the address of a word to its partial sums."""
        return 1 + self.plan.output_register

    @property
    def written(self) -> int:
        """Cycles from the address of a word to its write."""
        return self.summed + 1

    def elaborate(self, platform):
        m = Module()
        named = Signal(data.StructLayout({"en": 1, "addr": self.addr.shape()}))
        m.d.comb += [named.en.eq(self.en), named.addr.eq(self.addr)]
        storing = named
        for number in range(1, self.written + 1):
            storing = delayed_record(m, storing, f"stage_{number}", control=("en",))
        word = sums_layout(self.plan, self.plan.accumulator_bits)
        added_to = data_register(SUM_MEMORIES)  # by memory: the addition reads from this memory
        read_data_of = Signal(SUM_MEMORIES)  # by memory: ``read_data`` comes from this memory
        stored = data_register(word)
        added = data_register(word)
        words = []
        for memory in range(SUM_MEMORIES):
            m.submodules[f"memory_{memory}"] = ram = Ram(width=word.size, depth=self.plan.tile_sums)
            words.append(ram.read_data)
            adds = Signal(name=f"adds_{memory}")
            reads = Signal(name=f"reads_{memory}")
            # A drain's request is known late in a cycle. With output registers the memory reads in
            # every cycle, whatever is addressed, and does not wait for the request. A word without
            # a request is not output.
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
            m.d.sync += [added_to[memory].eq(adds), read_data_of[memory].eq(reads)]
        m.d.comb += self.read_data.eq(one_hot_select(words, read_data_of))
        m.d["sync" if self.plan.output_register else "comb"] += stored.eq(
            one_hot_select(words, added_to)
        )
        for lane in range(self.plan.block):
            m.d.sync += added.sums[lane].eq(stored.sums[lane] + self.psums.sums[lane])
        if self.plan.poison:
            m.d.sync += added.poison.eq(stored.poison | self.psums.poison)
        return m
