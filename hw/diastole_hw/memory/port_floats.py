"""Accumulate the partial sums behind one port of the array, and add the sums of chunks as
floats."""

from amaranth.hdl import Cat, Const, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.choice import one_hot_select
from diastole_hw.data_registers import data_register, delayed_record
from diastole_hw.memory.chunk_lane import ChunkLane, lane_latency
from diastole_hw.memory.port_sums import read_data_layout, sums_layout
from diastole_hw.memory.ram import Ram
from diastole_hw.plan.plan import Plan
from diastole_sim.spec.sizes.array_sizes import SUM_MEMORIES

READ_TO_WRITE = 3
"""Cycles from the read of a float to its write: a cycle for the read, and two cycles for the
addition."""


class PortFloats(wiring.Component):
    """Add partial sums into words of B sums of chunks, and sums of chunks into words of B floats.
    Each kind of word has two memories. Words of floats of the second memory can be read meanwhile.

    A sum stays poisoned until a write overwrites its float.

    Timing: a word is read in the cycle of its address. Its partial sums arrive in the next cycle,
    and the sums of its chunk are written in the cycle after. A float is read only where a chunk
    ends, and late: 3 cycles before the write of the float, which comes ``written`` cycles after the
    address. Two additions to a word may be 4 cycles apart. ``read_data`` is valid one cycle after
    ``read``, and zero in all remaining cycles.

    Parameters
    ----------
    plan : Plan
        B, the numbers, the words of a memory, and the presence of poison.
    psum_bits : int
        Bits of a partial sum.
    alone : bool
        Every partial sum is a chunk, and no sums of chunks are kept.

    Members
    -------
    en, addr : In(1), In(range(plan.sum_words))
        Partial sums arrive for the word at ``addr``. The top bit of an address names the memory.
    begins, ends : In(1)
        The partial sums are the first or the last of their chunk. Absent with ``alone``.
    fresh : In(1)
        The chunk is the first chunk: the end of the chunk overwrites the word.
    psums : In(sums_layout(plan, psum_bits))
        Partial sums, in the cycle after ``en``.
    read, read_addr : In(1), In(range(plan.sum_words))
        Request a word for which no partial sums are under way. If ``en`` was high without ``fresh``
        ``reads`` cycles ago, the word must be in the memory that ``addr`` did not name. Not
        checked.
    read_data : Out(read_data_layout(plan))
    inexact : Out(1)
        A rounding of the written word has lost a bit.
    """

    read_data: data.View

    def __init__(self, plan: Plan, *, psum_bits: int, alone: bool):
        self.plan, self.psum_bits, self.alone = plan, psum_bits, alone
        addr = range(plan.sum_words)
        chunk = {"begins": In(1), "ends": In(1)}
        super().__init__(
            {
                "en": In(1),
                "addr": In(addr),
                "fresh": In(1),
                "psums": In(sums_layout(plan, psum_bits)),
                "read": In(1),
                "read_addr": In(addr),
                "read_data": Out(read_data_layout(plan)),
                "inexact": Out(1),
            }
            | ({} if alone else chunk)
        )

    def _lane(self) -> ChunkLane:
        return ChunkLane(
            psum_bits=self.psum_bits,
            sum_bits=self.plan.numerics.chunk_sum_bits,
            mantissa=self.plan.accumulator.mantissa,
            alone=self.alone,
        )

    summed = 1
    """Cycles from the address of a word to its partial sums."""

    @property
    def written(self) -> int:
        """Cycles from the address of a word to its write."""
        return self.summed + lane_latency(alone=self.alone)

    @property
    def reads(self) -> int:
        """Cycles from the address of a word to the read of the float."""
        return self.written - READ_TO_WRITE

    def elaborate(self, platform):
        m = Module()
        stages = self._stages(m)
        lanes = [self._lane() for _ in range(self.plan.block)]
        for number, lane in enumerate(lanes):
            m.submodules[f"lane_{number}"] = lane
            m.d.comb += lane.psum.eq(self.psums.sums[number])
        poison = self.psums.poison if self.plan.poison else None
        if not self.alone:
            poison = self._add(m, stages, lanes, poison)
        self._add_floats(m, stages, lanes, poison)
        return m

    def _stages(self, m):
        """Return the control of the addressed words by age, 0 to ``written`` cycles."""
        layout = {"en": 1, "addr": self.addr.shape(), "fresh": 1}
        if not self.alone:
            layout |= {"begins": 1, "ends": 1}
        named = Signal(data.StructLayout(layout))
        m.d.comb += [named[name].eq(getattr(self, name)) for name in layout]
        stages = [named]
        for age in range(1, self.written + 1):
            unused = {"begins"} if age <= self.reads else {"begins", "fresh"}
            fields = {name: shape for name, shape in layout.items() if name not in unused}
            before = Signal(data.StructLayout(fields), name=f"before_stage_{age}")
            m.d.comb += [before[name].eq(stages[-1][name]) for name in fields]
            stages.append(delayed_record(m, before, f"stage_{age}", control=("en",)))
        return stages

    def _memory(self, m, name, width, *, reads, writes, shows=False):
        """Make two memories. Return the memories and the word that is read for an addition, or
        zeros.

        ``reads``, ``writes``: pairs of enable and address. ``shows``: the memories also serve
        ``read``.
        """
        rams = []
        added_to = data_register(SUM_MEMORIES, name=f"{name}_added_to")
        for memory in range(SUM_MEMORIES):
            m.submodules[f"{name}_{memory}"] = ram = Ram(width=width, depth=self.plan.tile_sums)
            rams.append(ram)
            adds = Signal(name=f"{name}_adds_{memory}")
            m.d.comb += [
                adds.eq(reads[0] & (reads[1][-1] == memory)),
                ram.write_en.eq(writes[0] & (writes[1][-1] == memory)),
                ram.write_addr.eq(writes[1][:-1]),
                ram.read_en.eq(adds),
                ram.read_addr.eq(reads[1][:-1]),
            ]
            if shows:
                drain_reads = self.read & (self.read_addr[-1] == memory)
                m.d.comb += [
                    ram.read_en.eq(adds | drain_reads),
                    ram.read_addr.eq(Mux(adds, reads[1][:-1], self.read_addr[:-1])),
                ]
            m.d.sync += added_to[memory].eq(adds)
        return rams, one_hot_select([ram.read_data for ram in rams], added_to)

    def _add(self, m, stages, lanes, poison):
        """Add partial sums into the sums of chunks. Return the poison bits of the new sums."""
        named, storing = stages[0], stages[2]
        word = sums_layout(self.plan, self.plan.numerics.chunk_sum_bits)
        rams, read = self._memory(
            m, "chunks", word.size,
            reads=(named.en & ~named.begins, named.addr), writes=(storing.en, storing.addr),
        )  # fmt: skip
        before = Signal(word, name="before")
        added = Signal(word, name="added")
        m.d.comb += before.as_value().eq(read)
        m.d.comb += [ram.write_data.eq(added.as_value()) for ram in rams]
        for number, lane in enumerate(lanes):
            m.d.comb += [
                lane.before.eq(before.sums[number]),
                added.sums[number].eq(lane.added),
            ]
        if poison is None:
            return None
        register = data_register(poison.shape(), name="added_poison")
        m.d.sync += register.eq(before.poison | poison)
        m.d.comb += added.poison.eq(register)
        return register

    def _add_floats(self, m, stages, lanes, poison):
        """Add the sums of ended chunks into floats, for requests by ``read``."""
        reading, storing = stages[self.reads], stages[self.written]
        ends = Const(1, 1) if self.alone else reading.ends
        stores = storing.en if self.alone else storing.en & storing.ends
        word = read_data_layout(self.plan)
        rams, read = self._memory(
            m, "floats", word.size, shows=True,
            reads=(reading.en & ends & ~reading.fresh, reading.addr), writes=(stores, storing.addr),
        )  # fmt: skip
        total = Signal(word, name="total")
        result = Signal(word, name="result")
        m.d.comb += total.as_value().eq(read)
        m.d.comb += [ram.write_data.eq(result.as_value()) for ram in rams]
        for number, lane in enumerate(lanes):
            m.d.comb += [
                lane.total.as_value().eq(total.sums[number]),
                result.sums[number].eq(lane.result.as_value()),
            ]
        m.d.comb += self.inexact.eq(stores & Cat(lane.inexact for lane in lanes).any())
        if poison is not None:
            self._poison(m, total, result, poison)
        self._output(m, [ram.read_data for ram in rams])

    def _poison(self, m, total, result, poison):
        """Delay the poison bits along with a float. ``poison`` comes a cycle before ``total``."""
        chunk = data_register(poison.shape(), name="chunk_poison")
        either = data_register(poison.shape(), name="either_poison")
        stored = data_register(poison.shape(), name="stored_poison")
        m.d.sync += [chunk.eq(poison), either.eq(chunk | total.poison), stored.eq(either)]
        m.d.comb += result.poison.eq(stored)

    def _output(self, m, words):
        read_data_of = Signal(SUM_MEMORIES)  # by memory: ``read_data`` comes from this memory
        memory_select = Cat(self.read_addr[-1] == memory for memory in range(SUM_MEMORIES))
        m.d.sync += read_data_of.eq(Mux(self.read, memory_select, 0))
        m.d.comb += self.read_data.as_value().eq(one_hot_select(words, read_data_of))
