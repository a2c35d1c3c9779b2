"""Array between scratchpads and accumulators, with the skew of every port."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.array.array import Array
from diastole_hw.memory.accumulators import Accumulators, SumsReadSignature
from diastole_hw.memory.scratchpad import StationaryScratchpad, StreamScratchpad, sub_bank_of
from diastole_hw.plan.plan import Plan
from diastole_hw.ports import of_ports, per_port
from diastole_hw.schedule.tokens import (
    FREES,
    Region,
    scratch_write_layout,
    slot_layout,
    stationary_read_layout,
)


@dataclass(frozen=True, kw_only=True)
class DirectionInfo:
    """Describe a direction through the array: the number in a slot, the side of the vectors, and
    the names of the direction's members in tokens."""

    number: int
    side: str
    region: Region
    vector_addr: str  # member of a slot
    done: str  # member of a slot
    contraction: str  # member of a stationary word: blocks of the contraction that the tensor has


DIRECTION_INFO = {
    "east": DirectionInfo(
        number=0,
        side="south",
        region=Region.SOUTH,
        vector_addr="south_addr",
        done="done_east",
        contraction="cols_valid",
    ),
    "north": DirectionInfo(
        number=1,
        side="west",
        region=Region.WEST,
        vector_addr="west_addr",
        done="done_north",
        contraction="rows_valid",
    ),
}


def direction_signature(plan: Plan, direction: str) -> wiring.Signature:
    """Return the signature of the sums of a direction at the datapath.

    ``done``: the last sums of a tile are being stored, and can be read from the next cycle on.
    ``drain``: read port of the sums.
    """
    banks = plan.rows if direction == "east" else plan.cols
    vectors = plan.drain_vectors(north=direction == "north")
    return wiring.Signature({"done": Out(1), "drain": In(SumsReadSignature(plan, banks, vectors))})


class Datapath(wiring.Component):
    """Run slots through the array, and keep the sums in the accumulators.

    Vectors and blocks are written into the scratchpads meanwhile. The words of a vector must have
    been written before the slot that reads the vector. No word may be overwritten before it has
    been read. Stationary words come in the order that :class:`diastole_hw.array.array.Array`
    requires. None of these rules is checked.

    Timing: with N = ``plan.read_cycles``, the vector of a slot is at south port c N + c cycles
    after the slot (at west port r, N + r). The sums are at port p of the accumulators after N +
    ``latency`` + p cycles, with the array's latency in the slot's direction. ``done`` comes after N
    + ``latency`` + P cycles, with the P ports of the direction. With floats ``done`` comes 2 cycles
    later, or 3 with sums of chunks. ``freed`` comes max(R, C) cycles after ``frees`` of the slot,
    when every bank has been read. ``inexact`` is a register behind the outputs of the array. The
    datapath takes one slot, one stationary word and one write (of each port to memory) per cycle.

    Members
    -------
    write_en, write : In(1), In(scratch_write_layout(plan))
        A word for the scratchpad of the word's ``kind``.
    write_en_1, write_1 : In(1), In(scratch_write_layout(plan))
        A word of the second port to memory, if the machine has two ports.
    write_ready_1 : Out(1)
        ``write_1`` is accepted: ``write`` is not for the same part of a bank. Combinational from
        the two words.
    slot : In(slot_layout(plan))
    stationary : In(stationary_read_layout(plan))
    freed : Out(FREES)
        Pulses: a place in the scratchpads has been read for the last time.
    inexact : Out(1)
        A sum that left the array, or a sum that was rounded to a float, has lost something, or
        might have. The flag may rise in any cycle.
    east, north : Out(direction_signature(plan, ...)), of the directions that the array has
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        super().__init__(
            per_port("write_en", In(1), plan.ports)
            | per_port("write", In(scratch_write_layout(plan)), plan.ports)
            | ({"write_ready_1": Out(1)} if plan.ports > 1 else {})
            | {
                "slot": In(slot_layout(plan)),
                "stationary": In(stationary_read_layout(plan)),
                "freed": Out(FREES),
                "inexact": Out(1),
            }
            | {name: Out(direction_signature(plan, name)) for name in plan.directions}
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        m.submodules.array = array = Array(shape=plan.shape, cols=plan.cols)
        m.submodules.stationary_scratchpad = stationary = StationaryScratchpad(plan)
        if plan.ports > 1:
            self._arbitrate_writes(m)
        self._writes(m, stationary, Region.STATIONARY)
        m.d.comb += stationary.read.eq(self.stationary)
        for port, word in zip(array.load, stationary.ports, strict=True):
            m.d.comb += port.eq(word)
        self._control(m, array)
        marks = []  # a bubble carries no mark, and slots need not be examined
        for name in plan.directions:
            self._stream(m, array, DIRECTION_INFO[name], name)
            marks += self._accumulators(m, array, DIRECTION_INFO[name], name)
            marks += [port.inexact for port in getattr(array, name)]
        m.d.sync += self.inexact.eq(Cat(*marks).any())
        return m

    def _issues(self, info):
        """Return whether the slot has a vector in this direction."""
        if len(self.plan.directions) == 1:
            return self.slot.valid
        return self.slot.valid & (self.slot.direction == info.number)

    def _arbitrate_writes(self, m):
        """Stall the second write port if the words of the two ports are for the same part of a
        bank."""
        plan, first, second = self.plan, self.write, self.write_1
        same = [
            self.write_en,
            first.kind == second.kind,
            first.bank == second.bank,
            sub_bank_of(plan, first.word) == sub_bank_of(plan, second.word),
        ]
        m.d.comb += self.write_ready_1.eq(~Cat(same).all())

    def _writes(self, m, pad, region):
        """Connect the write ports of one scratchpad."""
        accepted = [self.write_en]
        if self.plan.ports > 1:
            accepted.append(self.write_en_1 & self.write_ready_1)
        writes, inner = (of_ports(each, "write", self.plan.ports) for each in (self, pad))
        for number, enabled in enumerate(accepted):
            self._write(m, inner[number], writes[number], enabled, region)

    def _write(self, m, inner, write, enabled, region):
        """Connect one write port of a scratchpad."""
        m.d.comb += [
            inner.en.eq(enabled & (write.kind == region)),
            inner.bank.eq(write.bank),
            inner.word.eq(write.word),
        ]
        for vector, came in zip(inner.vectors, write.vectors, strict=True):
            for name in vector.shape().members:
                if name == "deficit_east":  # of a stationary block
                    value = came.deficit
                elif name == "poison" and region != Region.STATIONARY:  # one bit for all elements
                    value = came.poison.any()
                else:
                    value = came[name]
                m.d.comb += vector[name].eq(value)

    def _stream(self, m, array, info, direction):
        """Make the scratchpad from which the vectors of a direction stream."""
        m.submodules[f"{info.side}_scratchpad"] = pad = StreamScratchpad(self.plan, side=info.side)
        self._writes(m, pad, info.region)
        m.d.comb += [
            pad.read_en.eq(self._issues(info)),
            pad.read_addr.eq(self.slot[info.vector_addr]),
        ]
        if self.plan.poison:
            m.d.comb += pad.read_banks.eq(self._contraction(m, info, direction))
        for port, vector in zip(getattr(array, info.side), pad.ports, strict=True):
            m.d.comb += port.eq(vector)

    def _contraction(self, m, info, direction):
        """Return how many blocks of the contraction the active pass has. The number came with the
        stationary words of the pass."""
        contraction_blocks = self.stationary[info.contraction]
        loaded = Signal(contraction_blocks.shape(), name=f"{direction}_loaded")
        active = Signal(contraction_blocks.shape(), name=f"{direction}_active")
        with m.If(self.stationary.valid):
            m.d.sync += loaded.eq(contraction_blocks)
        with m.If(self.slot.swap):
            m.d.sync += active.eq(loaded)
        return active

    def _control(self, m, array):
        """Delay direction and swap by the skew of each row, and ``freed`` until the last bank is
        read."""
        plan = self.plan
        direction, swap = self.slot.direction, self.slot.swap
        for row in range(1 - plan.read_cycles, plan.rows):
            stage = row if row >= 0 else "reads"
            direction_next = Signal(name=f"direction_{stage}")
            swap_next = Signal(name=f"swap_{stage}")
            m.d.sync += [direction_next.eq(direction), swap_next.eq(swap)]
            direction, swap = direction_next, swap_next
            if row < 0:
                continue
            m.d.comb += [
                array.control[row].direction.eq(direction.replicate(plan.shape.direction_copies)),
                array.control[row].swap.eq(swap),
            ]
        freed = self.slot.frees
        for number in range(max(plan.rows, plan.cols)):
            delayed = Signal(FREES, name=f"freed_{number}")
            m.d.sync += delayed.eq(freed)
            freed = delayed
        m.d.comb += self.freed.eq(freed)

    def _accumulators(self, m, array, info, direction):
        """Make the accumulators behind the output ports of a direction. Return the signals that
        mark losses."""
        slot, outer, outputs = self.slot, getattr(self, direction), getattr(array, direction)
        latency = array.east_latency if direction == "east" else array.north_latency
        m.submodules[f"{direction}_accumulators"] = sums = Accumulators(
            self.plan,
            banks=len(outputs),
            psum_bits=array.psum_bits,
            latency=self.plan.read_cycles + latency,
            drained=self.plan.drain_vectors(north=direction == "north"),
            slices=self.plan.overwriting_slices(north=direction == "north"),
        )
        wiring.connect(m, wiring.flipped(outer.drain), sums.drain)
        m.d.comb += [
            sums.sum_en.eq(self._issues(info)),
            sums.sum_addr.eq(slot.sum_addr),
            sums.fresh.eq(slot.fresh),
            sums.sum_done.eq(slot[info.done]),
            outer.done.eq(sums.done),
        ]
        for psums, output in zip(sums.psums, outputs, strict=True):
            for name in psums.shape().members:
                m.d.comb += psums[name].eq(output[name])
        if not self.plan.floats:
            return []
        if sums.slices > 1:
            m.d.comb += [sums.begins.eq(slot.begins), sums.ends.eq(slot.ends)]
        return [sums.inexact]
