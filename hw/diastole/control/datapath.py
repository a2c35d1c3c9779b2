"""The array between its scratchpads and its accumulators, with the skew of every port in place."""

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole.array.array import Array
from diastole.control.descriptors import Region
from diastole.control.execute import held_read_layout, slot_layout
from diastole.control.fill import scratch_write_layout
from diastole.emit.place import place
from diastole.memory.accumulators import Accumulators, sums_layout
from diastole.memory.scratchpad import HeldScratchpad, StreamScratchpad
from diastole.plan import Plan

DIRECTIONS = ("east", "north")


class Datapath(wiring.Component):
    """Slots in, sums in the accumulators out.

    Timing: a slot's addresses in cycle q; its vector is at south port c in q + 1 + c (west port r
    in q + 1 + r); ``east_done``, ``north_done`` when the last sums of a tile are stored;
    ``released`` when the last vector of a chunk has been read from every bank.
    """

    def __init__(self, plan: Plan):
        self.plan = plan
        members = {
            "write_en": In(1),
            "write": In(scratch_write_layout(plan)),
            "slot": In(slot_layout(plan)),
            "held": In(held_read_layout(plan)),
            "released": Out(1),
            "inexact": Out(1),
        }
        for name, banks in self._directions(plan):
            members |= {
                f"{name}_done": Out(1),
                f"{name}_drain_en": In(1),
                f"{name}_drain_port": In(range(max(banks, 2))),
                f"{name}_drain_addr": In(range(2 * plan.half_words)),
                f"{name}_drain_data": Out(sums_layout(plan, plan.accumulator_bits)),
            }
        super().__init__(members)

    @staticmethod
    def _directions(plan: Plan):
        banks = (("east", plan.rows), ("north", plan.cols))
        return banks if plan.in_place else banks[:1]

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        self._array = array = Array(
            rows=plan.rows,
            cols=plan.cols,
            block=plan.block,
            south_bits=plan.south_bits,
            west_bits=plan.west_bits,
            held_bits=plan.held_bits,
            sum_bits=plan.sum_bits,
            fraction=plan.fraction,
            in_place=plan.in_place,
        )
        m.submodules.array = place(array, platform)
        self._scratchpads(m, platform, array)
        self._control(m, array)
        marks = []  # a bubble carries none, so no slot has to be looked at
        for name, banks in self._directions(plan):
            self._accumulators(m, platform, array, name, banks)
            marks += [port.inexact for port in getattr(array, name)]
        m.d.sync += self.inexact.eq(Cat(*marks).any())
        return m

    def _scratchpads(self, m, platform, array):
        plan, write = self.plan, self.write
        south = StreamScratchpad(
            plan, banks=plan.cols, bits=plan.south_bits, words=2 * plan.half_words
        )
        pads = {Region.SOUTH: south, Region.HELD: HeldScratchpad(plan)}
        names = {Region.SOUTH: "south", Region.HELD: "held", Region.WEST: "west"}
        if plan.in_place:
            pads[Region.WEST] = StreamScratchpad(
                plan, banks=plan.rows, bits=plan.west_bits, words=2 * plan.half_words
            )
        for kind, pad in pads.items():
            m.submodules[f"{names[kind]}_scratchpad"] = place(pad, platform)
            deficits = [write.deficit, write.nonzero]
            if kind == Region.HELD and plan.in_place:
                deficits.insert(1, write.deficit_north)
            m.d.comb += [
                pad.write_en.eq(self.write_en & (write.kind == kind)),
                pad.write_bank.eq(write.bank),
                pad.write_addr.eq(write.addr),
                pad.write_elements.eq(write.elements),
                pad.write_deficit.eq(Cat(*deficits)),
            ]
        m.d.comb += [
            south.read_en.eq(self.slot.valid & ~self.slot.direction),
            south.read_addr.eq(self.slot.south_addr),
            pads[Region.HELD].read.eq(self.held),
        ]
        for port, vector in zip(array.south, south.ports, strict=False):
            m.d.comb += port.eq(vector)
        for port, word in zip(array.load, pads[Region.HELD].ports, strict=False):
            m.d.comb += port.eq(word)
        if plan.in_place:
            west = pads[Region.WEST]
            m.d.comb += [
                west.read_en.eq(self.slot.valid & self.slot.direction),
                west.read_addr.eq(self.slot.west_addr),
            ]
            for port, vector in zip(array.west, west.ports, strict=False):
                m.d.comb += port.eq(vector)

    def _control(self, m, array):
        """Direction and swap enter every row with its skew; a release waits for the last bank."""
        plan = self.plan
        direction, swap = self.slot.direction, self.slot.swap
        for row in range(plan.rows):
            direction_next = Signal(name=f"direction_{row}")
            swap_next = Signal(name=f"swap_{row}")
            m.d.sync += [direction_next.eq(direction), swap_next.eq(swap)]
            direction, swap = direction_next, swap_next
            m.d.comb += [
                array.control[row].direction.eq(direction),
                array.control[row].swap.eq(swap),
            ]
        released = self.slot.release
        for number in range(max(plan.rows, plan.cols)):
            delayed = Signal(name=f"release_{number}")
            m.d.sync += delayed.eq(released)
            released = delayed
        m.d.comb += self.released.eq(released)

    def _accumulators(self, m, platform, array, name, banks):
        plan, slot = self.plan, self.slot
        outputs = getattr(array, name)
        latency = array.east_latency if name == "east" else array.north_latency
        sums = Accumulators(
            plan,
            banks=banks,
            psum_bits=array.psum_bits,
            latency=1 + latency,  # from the slot's addresses to the partial sums of port 0
        )
        m.submodules[f"{name}_accumulators"] = place(sums, platform)
        mine = slot.valid & (slot.direction == DIRECTIONS.index(name))
        m.d.comb += [
            sums.sum_en.eq(mine),
            sums.sum_addr.eq(slot.sum_addr),
            sums.fresh.eq(slot.fresh),
            sums.sum_done.eq(getattr(slot, f"done_{name}")),
            getattr(self, f"{name}_done").eq(sums.done),
            sums.drain_en.eq(getattr(self, f"{name}_drain_en")),
            sums.drain_port.eq(getattr(self, f"{name}_drain_port")),
            sums.drain_addr.eq(getattr(self, f"{name}_drain_addr")),
            getattr(self, f"{name}_drain_data").eq(sums.drain_data),
        ]
        for port in range(banks):
            m.d.comb += sums.psums[port].eq(outputs[port].sums)
