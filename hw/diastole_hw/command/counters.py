"""The machine's counters: what a command cost, and what it waited for."""

from functools import reduce
from operator import or_

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import bits_for

from diastole_hw.command.dispatch import IMPROVEMENTS, events_layout
from diastole_hw.data_registers import data_register
from diastole_hw.memory.ram import Ram
from diastole_sim.spec.registers import (
    BY_NAME,
    COUNTED,
    END,
    WAIT_REGISTERS,
    registers_of,
)
from diastole_sim.spec.require import require_int

WORD_BITS = 32
"""Of a word of the memory: half a register, or one."""
MOST_BEATS = 3
"""In a cycle, over all ports."""


class Counters(wiring.Component):
    """Count events until ``clear``; each counter is as wide as its register, and wraps.

    Beats are those of products, and count only while a product command runs.

    The counters are words of a memory, which are visited in turn. What has happened since its last
    visit is *pending*: so much is taken when a word is read, and added to it in the next cycle,
    with what the word before has carried.

    Timing: ``word`` of ``at`` comes with ``known``, from the cycle after ``asked`` on within as
    many cycles as there are words, or twice as many after ``clear``. It has all events but those of
    two cycles before ``known`` and of that cycle; the second word of a register lacks those of one
    cycle more. ``amax`` and what is like it show a tensor in the
    cycle after it. All are 0 after ``clear``, whatever happened with it or before.

    Parameters
    ----------
    planes : bool
        Of a machine with the format ``fast``, which has a precision monitor.
    elements : int
        Most that saturate, or underflow, in a cycle (1 to 255).

    Members
    -------
    events : In(events_layout(planes=planes, elements=elements))
    clear : In(1)
        A pulse: everything back to 0.
    asked : In(1)
        Must hold, with ``at``, until ``known``.
    at : In(range(END // 4))
        Number of a word in the table of registers: of one of ``COUNTED``.
    known : Out(1)
    word : Out(32)
    amax : Out(BY_NAME["amax"].bits)
    improvement_num, improvement_den : Out(32)
        Of the tensor converted last, 0 after ``clear``; the latter two with ``planes``.

    ValueError if ``elements`` is out of range.
    """

    def __init__(self, *, planes: bool = False, elements: int):
        self.planes = planes
        self.elements = require_int("elements", elements, 1, 255)
        self.latest = ("amax", *IMPROVEMENTS) if planes else ("amax",)
        layout = events_layout(planes=planes, elements=elements)
        super().__init__(
            {"events": In(layout), "clear": In(1), "asked": In(1), "at": In(range(END // 4))}
            | {"known": Out(1), "word": Out(WORD_BITS)}
            | {name: Out(BY_NAME[name].bits) for name in self.latest}
        )

    @property
    def _words(self) -> list[tuple[str, int]]:
        """What the memory holds: the name of a register, and which word of it."""
        present = registers_of(planes=self.planes)
        counted = [register for register in present if register.name in COUNTED]
        return [(each.name, n) for each in counted for n in range(each.words)]

    def elaborate(self, platform):
        m = Module()
        words = self._words
        m.submodules.ram = ram = Ram(width=WORD_BITS, depth=1 << bits_for(len(words) - 1))
        following = data_register(range(ram.depth))  # the word that is read
        visited = data_register(range(ram.depth))  # that which is written, read a cycle before
        restarts = Signal(init=1)
        clearing = data_register()  # words are undefined, or of before ``clear``
        carry = data_register()  # of the word before, into this one
        total = Signal(WORD_BITS + 1)
        here = [Signal(name=f"visits_{name}_{n}") for name, n in words]
        reads = [Signal(name=f"reads_{name}_{n}") for name, n in words]
        m.d.comb += [flag.eq(visited == number) for number, flag in enumerate(here)]
        m.d.comb += [flag.eq(following == number) for number, flag in enumerate(reads)]
        goes_on = Cat(here[number - 1] for number, (_, n) in enumerate(words) if n).any()
        first = {name: flag for (name, n), flag in zip(words, reads, strict=True) if n == 0}
        pending = reduce(or_, self._pending(m, restarts, first, ram.depth))
        amount = data_register(len(pending), name="amount")  # to be added
        m.d.comb += [
            ram.read_en.eq(1),
            ram.read_addr.eq(following),
            total.eq(Mux(clearing, 0, ram.read_data) + (amount | carry)),
            ram.write_en.eq(~restarts),
            ram.write_addr.eq(visited),
            ram.write_data.eq(total),
            self.word.eq(total),
            self.known.eq(self.asked & ~clearing & ~restarts & self._asked(here)),
        ]
        m.d.sync += [
            restarts.eq(self.clear),
            following.eq(following + 1),
            visited.eq(following),
            carry.eq(total[-1] & goes_on),
            amount.eq(pending),
        ]
        with m.If(following == ram.depth - 1):
            m.d.sync += clearing.eq(0)
        with m.If(restarts):
            m.d.sync += [following.eq(0), visited.eq(ram.depth - 1), clearing.eq(1)]
            m.d.sync += [amount.eq(0), carry.eq(0)]
        self._show_latest(m)
        return m

    def _asked(self, here):
        """Whether it is the word at hand that is asked for."""
        numbers = [BY_NAME[name].offset // 4 + n for name, n in self._words]
        number = reduce(or_, (Mux(flag, n, 0) for flag, n in zip(here, numbers, strict=True)))
        return self.at == number

    def _pending(self, m, restarts, reads, depth):
        """Count what happens between two visits; gives what the counter that is read has pending,
        as values of which at most one is not 0. ``reads``: by counter, whether its first is."""
        for name, (amount, most) in self._happened().items():
            step = data_register(len(Value.cast(amount)), name=f"{name}_step")
            pending = data_register(range(most * depth + 1), name=f"{name}_pending")
            m.d.sync += step.eq(amount)
            m.d.sync += pending.eq(Mux(reads[name], 0, pending) + step)
            with m.If(restarts):
                m.d.sync += pending.eq(0)
            yield Mux(reads[name], pending, 0)

    def _happened(self):
        """By counter, how often its events happen in this cycle, and at most."""
        events, running = self.events, self.events.multiplying
        counted = {
            "cycles_total": events.running,
            "cycles": running,
            "convert_cycles": events.converting,
        } | self._waits()
        return {name: (amount, 1) for name, amount in counted.items()} | {
            "read_beats": (Mux(running, events.read, 0), MOST_BEATS),
            "write_beats": (Mux(running, events.written, 0), MOST_BEATS),
            "saturated": (events.saturated, self.elements),
            "underflowed": (events.underflowed, self.elements),
        }

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

    def _show_latest(self, m):
        events = self.events
        for name in self.latest:
            value = getattr(self, name)
            with m.If(events.converted):
                m.d.sync += value.eq(events[name])
            with m.If(self.clear):
                m.d.sync += value.eq(0)
