"""The array between its scratchpads and its accumulators, with the skew of every port in place."""

from dataclasses import dataclass

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.array.array import Array
from diastole_hw.memory.accumulators import Accumulators, SumsReadSignature
from diastole_hw.memory.scratchpad import HeldScratchpad, StreamScratchpad, sub_bank_of
from diastole_hw.plan.plan import Plan
from diastole_hw.ports import of_ports, per_port
from diastole_hw.schedule.tokens import (
    FREES,
    Region,
    held_read_layout,
    scratch_write_layout,
    slot_layout,
)


@dataclass(frozen=True, kw_only=True)
class Way:
    """A direction through the array: its number in a slot, the side its vectors come from, and
    what tokens call what is its own."""

    number: int
    side: str
    region: Region
    vector_addr: str  # of a slot
    done: str  # of a slot
    contraction: str  # of a held word: blocks of the contraction that the tensor has


WAYS = {
    "east": Way(
        number=0,
        side="south",
        region=Region.SOUTH,
        vector_addr="south_addr",
        done="done_east",
        contraction="cols_valid",
    ),
    "north": Way(
        number=1,
        side="west",
        region=Region.WEST,
        vector_addr="west_addr",
        done="done_north",
        contraction="rows_valid",
    ),
}


def way_signature(plan: Plan, direction: str) -> wiring.Signature:
    """The sums of a direction, as the datapath has them.

    ``done``: the last sums of a tile are being stored, and can be read from the next cycle on.
    ``drain``: how they are read.
    """
    banks = plan.rows if direction == "east" else plan.cols
    vectors = plan.drain_vectors(north=direction == "north")
    return wiring.Signature({"done": Out(1), "drain": In(SumsReadSignature(plan, banks, vectors))})


class Datapath(wiring.Component):
    """Slots in, sums in the accumulators out.

    Vectors and blocks are written beside. A vector's words must have been written before the slot
    that reads them, and none that is still to be read is written; a held word comes in the
    order that :class:`diastole_hw.array.array.Array` asks for. Neither is checked.

    Timing: with N = ``plan.read_cycles``, a slot's vector is at south port c N + c cycles after it
    (at west port r, N + r), its sums at the accumulators' port p after N + ``latency`` + p, the
    array's latency in the slot's direction; ``done`` comes after N + ``latency`` + the ports of the
    direction. ``freed`` comes max(R, C) cycles after the slot's ``frees``, when every bank has been
    read.
    ``inexact`` is a register behind the array's outputs. One slot, one held word and one write (of
    each port to memory) per cycle.

    Members
    -------
    write_en, write : In(1), In(scratch_write_layout(plan))
        A word for the scratchpad of its ``kind``.
    write_en_1, write_1 : In(1), In(scratch_write_layout(plan))
        Likewise, where there is a second port to memory.
    write_ready_1 : Out(1)
        It is taken: ``write`` is not for the same part of a bank. Combinational from both.
    slot : In(slot_layout(plan))
    held : In(held_read_layout(plan))
    freed : Out(FREES)
        Pulses: such a place has been read for the last time.
    inexact : Out(1)
        A sum that left the array has lost something, or might have, or one that a float was
        rounded to; in any cycle.
    east, north : Out(way_signature(plan, ...)), of the directions that the array has
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        super().__init__(
            per_port("write_en", In(1), plan.ports)
            | per_port("write", In(scratch_write_layout(plan)), plan.ports)
            | ({"write_ready_1": Out(1)} if plan.ports > 1 else {})
            | {
                "slot": In(slot_layout(plan)),
                "held": In(held_read_layout(plan)),
                "freed": Out(FREES),
                "inexact": Out(1),
            }
            | {name: Out(way_signature(plan, name)) for name in plan.directions}
        )

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        m.submodules.array = array = Array(shape=plan.shape, cols=plan.cols)
        m.submodules.held_scratchpad = held = HeldScratchpad(plan)
        if plan.ports > 1:
            self._agree(m)
        self._writes(m, held, Region.HELD)
        m.d.comb += held.read.eq(self.held)
        for port, word in zip(array.load, held.ports, strict=True):
            m.d.comb += port.eq(word)
        self._control(m, array)
        marks = []  # a bubble carries none, so no slot has to be looked at
        for name in plan.directions:
            self._stream(m, array, WAYS[name], name)
            marks += self._accumulators(m, array, WAYS[name], name)
            marks += [port.inexact for port in getattr(array, name)]
        m.d.sync += self.inexact.eq(Cat(*marks).any())
        return m

    def _issues(self, way):
        """Whether the slot has a vector in this direction."""
        if len(self.plan.directions) == 1:
            return self.slot.valid
        return self.slot.valid & (self.slot.direction == way.number)

    def _agree(self, m):
        """The second port waits where both have a word for one part of a bank."""
        plan, first, second = self.plan, self.write, self.write_1
        same = [
            self.write_en,
            first.kind == second.kind,
            first.bank == second.bank,
            sub_bank_of(plan, first.word) == sub_bank_of(plan, second.word),
        ]
        m.d.comb += self.write_ready_1.eq(~Cat(same).all())

    def _writes(self, m, pad, region):
        """The write ports of one scratchpad."""
        taken = [self.write_en]
        if self.plan.ports > 1:
            taken.append(self.write_en_1 & self.write_ready_1)
        writes, inner = (of_ports(each, "write", self.plan.ports) for each in (self, pad))
        for number, enabled in enumerate(taken):
            self._write(m, inner[number], writes[number], enabled, region)

    def _write(self, m, inner, write, enabled, region):
        """One of them."""
        m.d.comb += [
            inner.en.eq(enabled & (write.kind == region)),
            inner.bank.eq(write.bank),
            inner.word.eq(write.word),
        ]
        for vector, came in zip(inner.vectors, write.vectors, strict=True):
            for name in vector.shape().members:
                if name == "deficit_east":  # of a held block
                    value = came.deficit
                elif name == "poison" and region != Region.HELD:  # one bit for all elements
                    value = came.poison.any()
                else:
                    value = came[name]
                m.d.comb += vector[name].eq(value)

    def _stream(self, m, array, way, direction):
        """The side from which the vectors of a direction come."""
        m.submodules[f"{way.side}_scratchpad"] = pad = StreamScratchpad(self.plan, side=way.side)
        self._writes(m, pad, way.region)
        m.d.comb += [
            pad.read_en.eq(self._issues(way)),
            pad.read_addr.eq(self.slot[way.vector_addr]),
        ]
        if self.plan.poison:
            m.d.comb += pad.read_banks.eq(self._contraction(m, way, direction))
        for port, vector in zip(getattr(array, way.side), pad.ports, strict=True):
            m.d.comb += port.eq(vector)

    def _contraction(self, m, way, direction):
        """Blocks of the contraction that the pass at work has: its held words told it."""
        told = self.held[way.contraction]
        loaded = Signal(told.shape(), name=f"{direction}_loaded")
        active = Signal(told.shape(), name=f"{direction}_active")
        with m.If(self.held.valid):
            m.d.sync += loaded.eq(told)
        with m.If(self.slot.swap):
            m.d.sync += active.eq(loaded)
        return active

    def _control(self, m, array):
        """Direction and swap enter every row with its skew; a release waits for the last bank."""
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

    def _accumulators(self, m, array, way, direction):
        """Behind the ports at which the sums of a direction leave; returns what marks losses."""
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
            sums.sum_en.eq(self._issues(way)),
            sums.sum_addr.eq(slot.sum_addr),
            sums.fresh.eq(slot.fresh),
            sums.sum_done.eq(slot[way.done]),
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
