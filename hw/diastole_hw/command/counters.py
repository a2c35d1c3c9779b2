"""Count events of the machine: the cost of commands, and the causes of waiting."""

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
"""Width of a memory word: a half of a register, or a whole register."""
MAX_BEATS = 3
"""Largest number of beats per cycle, over all ports."""


class Counters(wiring.Component):
    """Count events until ``clear``. A counter is as wide as its register, and wraps.

    Only beats of products count, and only while a product command runs.

    The counters are words of a memory, visited in turn. Events since the last visit of a counter
    are *pending* in a small register. A visit reads the word and takes the pending count. In the
    next cycle it writes the sum of the word, the pending count and the carry of the preceding word.

    Timing: ``word`` of ``at`` is valid with ``word_valid``. ``word_valid`` is high within a round
    of cycles: as many as there are words, rounded up to a power of two. After ``clear``,
    ``word_valid`` is high within a round and as many further cycles as there are words. The word
    lacks the events of the cycle of ``word_valid`` and of the two cycles before; the second word of
    a register lacks the events of another cycle. ``amax`` and the improvements show a tensor from
    the cycle after ``converted`` on. All are 0 after ``clear``, regardless of events in or before
    the cycle of ``clear``.

    Parameters
    ----------
    planes : bool
        True for a machine with the format ``fast``, which has a precision monitor.
    elements : int
        Largest number of elements that saturate, or underflow, in a cycle (1 to 255).

    Members
    -------
    events : In(events_layout(planes=planes, elements=elements))
    clear : In(1)
        Pulse: set everything to 0.
    requested : In(1)
        Request for a word; must stay stable, with ``at``, until ``word_valid``.
    at : In(range(END // 4))
        Number of a word in the table of registers, in a register of ``COUNTED``.
    word_valid : Out(1)
    word : Out(32)
    amax : Out(BY_NAME["amax"].bits)
    improvement_num, improvement_den : Out(32)
        Values of the last converted tensor, 0 after ``clear``; the improvements exist with
        ``planes``.

    ValueError if ``elements`` is out of range.
    """

    def __init__(self, *, planes: bool = False, elements: int):
        self.planes = planes
        self.elements = require_int("elements", elements, 1, 255)
        self.latest = ("amax", *IMPROVEMENTS) if planes else ("amax",)
        layout = events_layout(planes=planes, elements=elements)
        super().__init__(
            {"events": In(layout), "clear": In(1), "requested": In(1), "at": In(range(END // 4))}
            | {"word_valid": Out(1), "word": Out(WORD_BITS)}
            | {name: Out(BY_NAME[name].bits) for name in self.latest}
        )

    @property
    def _words(self) -> list[tuple[str, int]]:
        """Words of the memory: the name of a register, and the number of a word in the register."""
        present = registers_of(planes=self.planes)
        counted = [register for register in present if register.name in COUNTED]
        return [(each.name, n) for each in counted for n in range(each.words)]

    def elaborate(self, platform):
        m = Module()
        words = self._words
        m.submodules.ram = ram = Ram(width=WORD_BITS, depth=1 << bits_for(len(words) - 1))
        following = data_register(range(ram.depth))  # the word that is read
        visited = data_register(range(ram.depth))  # the word that is written, read 1 cycle before
        restarts = Signal(init=1)
        clearing = data_register()  # memory words are undefined or older than ``clear``
        carry = data_register()  # from the preceding word
        total = Signal(WORD_BITS + 1)
        here = [Signal(name=f"visits_{name}_{n}") for name, n in words]
        reads = [Signal(name=f"reads_{name}_{n}") for name, n in words]
        m.d.comb += [flag.eq(visited == number) for number, flag in enumerate(here)]
        m.d.comb += [flag.eq(following == number) for number, flag in enumerate(reads)]
        goes_on = Cat(here[number - 1] for number, (_, n) in enumerate(words) if n).any()
        first = {name: flag for (name, n), flag in zip(words, reads, strict=True) if n == 0}
        pending = reduce(or_, self._pending(m, restarts, first, ram.depth))
        amount = data_register(len(pending), name="amount")  # to be added to the visited word
        m.d.comb += [
            ram.read_en.eq(1),
            ram.read_addr.eq(following),
            total.eq(Mux(clearing, 0, ram.read_data) + (amount | carry)),
            ram.write_en.eq(~restarts),
            ram.write_addr.eq(visited),
            ram.write_data.eq(total),
            self.word.eq(total),
            self.word_valid.eq(self.requested & ~clearing & ~restarts & self._is_requested(here)),
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

    def _is_requested(self, here):
        """Return whether the visited word is the requested word."""
        numbers = [BY_NAME[name].offset // 4 + n for name, n in self._words]
        number = reduce(or_, (Mux(flag, n, 0) for flag, n in zip(here, numbers, strict=True)))
        return self.at == number

    def _pending(self, m, restarts, reads, depth):
        """Count the events between two visits. Yield the pending count of every counter, 0 unless
        the counter is read: at most one value is not 0. ``reads``: by counter, whether its first
        word is read."""
        for name, (amount, most) in self._happened().items():
            step = data_register(len(Value.cast(amount)), name=f"{name}_step")
            pending = data_register(range(most * depth + 1), name=f"{name}_pending")
            m.d.sync += step.eq(amount)
            m.d.sync += pending.eq(Mux(reads[name], 0, pending) + step)
            with m.If(restarts):
                m.d.sync += pending.eq(0)
            yield Mux(reads[name], pending, 0)

    def _happened(self):
        """Return for every counter the number of its events in this cycle, and the largest possible
        number."""
        events, running = self.events, self.events.multiplying
        counted = {
            "cycles_total": events.running,
            "cycles": running,
            "convert_cycles": events.converting,
        } | self._waits()
        return {name: (amount, 1) for name, amount in counted.items()} | {
            "read_beats": (Mux(running, events.read, 0), MAX_BEATS),
            "write_beats": (Mux(running, events.written, 0), MAX_BEATS),
            "saturated": (events.saturated, self.elements),
            "underflowed": (events.underflowed, self.elements),
        }

    def _waits(self):
        """Return the counters of slots and of wait causes, with their events. While a command runs,
        a cycle counts in exactly 1 counter: busy slots, or the first wait cause that holds."""
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
