"""The machine's counters: what a command cost, and what it waited for."""

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole.control.dispatch import EVENTS
from diastole_sim.program.registers import BY_NAME

STALLS = ("stall_load", "stall_store", "stall_accumulator", "stall_turn")
COUNTERS = ("cycles", "convert_cycles", "read_beats", "write_beats", *STALLS)
COUNTERS += ("saturated", "underflowed")


class Counters(wiring.Component):
    """Count events until ``clear``; each counter is as wide as its register, and wraps.

    ``amax`` is that of the tensor converted last. Beats and stalls count while a product command
    runs only. Timing: one cycle late.
    """

    def __init__(self):
        super().__init__(
            {"events": In(EVENTS), "read_moved": In(1), "write_moved": In(1), "clear": In(1)}
            | {name: Out(BY_NAME[name].bits) for name in (*COUNTERS, "amax")}
        )

    def elaborate(self, platform):
        m = Module()
        events, running = self.events, self.events.multiplying
        happened = {
            "cycles": running,
            "convert_cycles": events.converting,
            "read_beats": running & self.read_moved,
            "write_beats": running & self.write_moved,
            "saturated": events.saturated,
            "underflowed": events.underflowed,
        } | {name: running & events[name] for name in STALLS}
        for name, amount in happened.items():
            counter = getattr(self, name)
            m.d.sync += counter.eq(counter + amount)
            with m.If(self.clear):
                m.d.sync += counter.eq(0)
        with m.If(events.converted):
            m.d.sync += self.amax.eq(events.amax)
        with m.If(self.clear):
            m.d.sync += self.amax.eq(0)
        return m
