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
SIDES = {"east": ("south", Region.SOUTH), "north": ("west", Region.WEST)}
"""By direction: where its vectors come from."""


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
        for name in plan.directions:
            members |= {
                f"{name}_done": Out(1),
                f"{name}_drain_en": In(1),
                f"{name}_drain_port": In(range(max(self._banks(name), 2))),
                f"{name}_drain_addr": In(range(2 * plan.half_words)),
                f"{name}_drain_data": Out(sums_layout(plan, plan.accumulator_bits)),
            }
        super().__init__(members)

    def _banks(self, direction: str) -> int:
        return self.plan.rows if direction == "east" else self.plan.cols

    def _issues(self, direction: str):
        """Whether the slot has a vector in this direction."""
        if len(self.plan.directions) == 1:
            return self.slot.valid
        return self.slot.valid & (self.slot.direction == DIRECTIONS.index(direction))

    def elaborate(self, platform):
        m = Module()
        plan = self.plan
        array = Array(shape=plan.shape, cols=plan.cols)
        m.submodules.array = place(array, platform)
        held = HeldScratchpad(plan)
        m.submodules.held_scratchpad = place(held, platform)
        self._write(m, held, Region.HELD, held.deficits)
        m.d.comb += held.read.eq(self.held)
        for port, word in zip(array.load, held.ports, strict=True):
            m.d.comb += port.eq(word)
        self._control(m, array)
        marks = []  # a bubble carries none, so no slot has to be looked at
        for name in plan.directions:
            self._stream(m, platform, array, name)
            self._accumulators(m, platform, array, name)
            marks += [port.inexact for port in getattr(array, name)]
        m.d.sync += self.inexact.eq(Cat(*marks).any())
        return m

    def _write(self, m, pad, kind, deficits):
        """The write port of one scratchpad."""
        plan, write = self.plan, self.write
        m.d.comb += [
            pad.write_en.eq(self.write_en & (write.kind == kind)),
            pad.write_bank.eq(write.bank),
            pad.write_addr.eq(write.addr),
            pad.write_elements.eq(write.elements),
            pad.write_nonzero.eq(write.nonzero),
        ]
        for name in deficits:
            source = write.deficit_north if name == "deficit_north" else write.deficit
            m.d.comb += getattr(pad, f"write_{name}").eq(source)
        if plan.significands:
            m.d.comb += pad.write_significand.eq(write.significand)
        if plan.shape.extents:
            m.d.comb += pad.write_extent.eq(write.extent)
        if plan.poison:
            mask = write.poison if kind == Region.HELD else write.poison.any()
            m.d.comb += pad.write_poison.eq(mask)

    def _stream(self, m, platform, array, direction):
        """The side from which the vectors of a direction come."""
        plan = self.plan
        side, kind = SIDES[direction]
        pad = StreamScratchpad(plan, side=side)
        m.submodules[f"{side}_scratchpad"] = place(pad, platform)
        self._write(m, pad, kind, ("deficit",))
        m.d.comb += [
            pad.read_en.eq(self._issues(direction)),
            pad.read_addr.eq(getattr(self.slot, f"{side}_addr")),
        ]
        if plan.poison:
            m.d.comb += pad.read_banks.eq(self._contraction(m, direction))
        for port, vector in zip(getattr(array, side), pad.ports, strict=True):
            m.d.comb += port.eq(vector)

    def _contraction(self, m, direction):
        """Blocks of the contraction that the pass at work has: its held words told it."""
        member = "cols_valid" if direction == "east" else "rows_valid"
        told = getattr(self.held, member)
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

    def _accumulators(self, m, platform, array, name):
        plan, slot, banks = self.plan, self.slot, self._banks(name)
        outputs = getattr(array, name)
        latency = array.east_latency if name == "east" else array.north_latency
        sums = Accumulators(
            plan,
            banks=banks,
            psum_bits=array.psum_bits,
            latency=1 + latency,  # from the slot's addresses to the partial sums of port 0
        )
        m.submodules[f"{name}_accumulators"] = place(sums, platform)
        m.d.comb += [
            sums.sum_en.eq(self._issues(name)),
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
            m.d.comb += sums.psums[port].sums.eq(outputs[port].sums)
            if plan.poison:
                m.d.comb += sums.psums[port].poison.eq(outputs[port].poison)
