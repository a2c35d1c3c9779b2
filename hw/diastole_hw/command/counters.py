"""The machine's counters: what a command cost, and what it waited for."""

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.command.dispatch import IMPROVEMENTS, events_layout
from diastole_sim.spec.registers import BY_NAME, STALL_REGISTERS, WAIT_REGISTERS

COUNTERS = ("cycles_total", "cycles", "convert_cycles", "read_beats", "write_beats")
COUNTERS += (*STALL_REGISTERS.values(), "saturated", "underflowed")
ELEMENTS = ("saturated", "underflowed")
"""Counted when a conversion is done, all at once."""
WAITS = ("busy_slots", *WAIT_REGISTERS.values())
"""Of machines with a vector unit."""


class Counters(wiring.Component):
    """Count events until ``clear``; each counter is as wide as its register, and wraps.

    Beats are those of products; they and stalls count only while a product command runs.

    Timing: a counter of cycles or of beats shows an event 2 cycles after it, so that nothing that
    tells of events reaches a sum in the same cycle; one of elements, and what is of the latest
    tensor, in the cycle after it. All are 0 in the cycle after ``clear``, whatever happened with it
    or before.

    Parameters
    ----------
    planes, vector : bool
        Of a machine with the format ``fast``, which has a precision monitor, or with a vector unit,
        which counts what its array waits for.

    Members
    -------
    events : In(events_layout(planes=planes, vector=vector))
    clear : In(1)
        A pulse: everything back to 0.
    cycles : Out(BY_NAME["cycles"].bits)
        And likewise every other name of ``COUNTERS``, as wide as its register.
    amax : Out(BY_NAME["amax"].bits)
    improvement_num, improvement_den : Out(32)
        Of the tensor converted last, 0 after ``clear``; the latter two with ``planes``.
    busy_slots, wait_vector : Out(64)
        And likewise every other name of ``WAITS``, with ``vector``: of the cycles of ``running``,
        each in one of them, so that they add up to ``cycles_total``.
    """

    def __init__(self, *, planes: bool = False, vector: bool = False):
        self.planes, self.vector = planes, vector
        self.latest = ("amax", *IMPROVEMENTS) if planes else ("amax",)
        counted = (*COUNTERS, *WAITS) if vector else COUNTERS
        super().__init__(
            {"events": In(events_layout(planes=planes, vector=vector)), "clear": In(1)}
            | {name: Out(BY_NAME[name].bits) for name in (*counted, *self.latest)}
        )

    def elaborate(self, platform):
        m = Module()
        events, running = self.events, self.events.multiplying
        happened = {
            "cycles_total": events.running,
            "cycles": running,
            "convert_cycles": events.converting,
            "read_beats": Mux(running, events.read, 0),
            "write_beats": Mux(running, events.written, 0),
            "saturated": events.saturated,
            "underflowed": events.underflowed,
        } | {name: running & events.stalls[cause] for cause, name in STALL_REGISTERS.items()}
        if self.vector:
            happened |= self._waits()
        for name, amount in happened.items():
            counter = getattr(self, name)
            if name not in ELEMENTS:
                step = Signal(len(Value.cast(amount)), name=f"{name}_step")
                m.d.sync += step.eq(Mux(self.clear, 0, amount))
                amount = step
            m.d.sync += counter.eq(Mux(self.clear, 0, counter + amount))
        for name in self.latest:
            value = getattr(self, name)
            with m.If(events.converted):
                m.d.sync += value.eq(events[name])
            with m.If(self.clear):
                m.d.sync += value.eq(0)
        return m

    def _waits(self):
        """The counter of a cycle in which something runs: a slot, or the first cause that holds."""
        events = self.events
        happened = {"busy_slots": events.running & events.busy_slot}
        left = events.running & ~events.busy_slot
        *causes, rest = WAIT_REGISTERS
        for cause in causes:
            happened[WAIT_REGISTERS[cause]] = left & events.waits[cause]
            left = left & ~events.waits[cause]
        return happened | {WAIT_REGISTERS[rest]: left}
